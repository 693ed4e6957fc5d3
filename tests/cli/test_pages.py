"""Help as a page: every option under a heading, examples that the program takes, statuses that are true."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cases import FIXTURES
from tests.processes import VDOCTOR, marked, run
from vdoctor.cli import main_group
from vdoctor.cli.page_texts import EXAMPLES, GROUPS, HEADINGS, SHORT, STATUS
from vdoctor.cli.pages import Page, heading_of

FAILED = FIXTURES / "tp/heads-vllm-0.23.0/log.txt"
HEALTHY = FIXTURES / "healthy/vllm-0.32.0-warm/log.txt"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its words."""
    for name, one in main_group.commands.items():
        yield name, one
        if isinstance(one, click.Group):
            yield from ((f"{name} {inner}", command) for inner, command in one.commands.items())


COMMANDS = dict(commands())
LEAVES = {name: one for name, one in COMMANDS.items() if not isinstance(one, click.Group)}


def page(name: str, width: int = 80) -> str:
    context = click.Context(main_group, info_name="vdoctor", terminal_width=width)
    for word in name.split():
        assert isinstance(context.command, click.Group)
        context = click.Context(
            context.command.commands[word], info_name=word, parent=context, terminal_width=width,
            help_option_names=["-h", "--help"],
        )  # fmt: skip
    return context.command.get_help(context)


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_stands_under_one_heading(name: str) -> None:
    assert isinstance(LEAVES[name], Page)
    text = page(name)
    options = [one for one in LEAVES[name].params if isinstance(one, click.Option)]
    assert [one.opts for one in options if heading_of(one) == "Options"] == []
    shown = re.findall(r"^  ((?:-\w, )?--[\w-]+)", text, re.MULTILINE)
    assert len(shown) == len(set(shown)) == len(options) + 1  # and --help


def test_tables_name_only_what_is_there() -> None:
    options = {option for one in LEAVES.values() for parameter in one.params for option in parameter.opts}
    named = [option for names in HEADINGS.values() for option in names]
    assert set(named) <= options
    assert len(named) == len(set(named))
    assert {*EXAMPLES, *STATUS} <= {*COMMANDS, ""}
    assert {name for names in GROUPS.values() for name in names} <= {name.split()[-1] for name in COMMANDS}
    assert set(SHORT) <= set(COMMANDS)


def test_every_command_is_listed_once_with_a_whole_sentence() -> None:
    text = page("")
    for name in main_group.commands:
        assert len(re.findall(rf"^  {name} ", text, re.MULTILINE)) == 1
    assert not re.search(r"\w\.\.\.$", text, re.MULTILINE)


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_examples_are_whole_lines(name: str, width: int) -> None:
    lines = [line.split("  # ")[0].strip() for line in page(name, width).splitlines()]
    for example, _ in EXAMPLES.get(name, ()):
        assert example in lines


@pytest.mark.parametrize("line", [line for table in EXAMPLES.values() for line, _ in table])
def test_examples_are_taken_by_the_program(line: str) -> None:
    """Names and values of options, and the number of words; what MODEL and SESSION are is the reader's matter."""
    words = shlex.split(re.sub(r"source <\((.*)\)", r"\1", line).split("| source")[0].split("|")[-1])
    assert words.pop(0) == "vdoctor"
    context = main_group.make_context("vdoctor", words)
    command: click.Command = main_group
    rest = words
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
    command.make_context(name or "", rest)


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["analyze", str(HEALTHY)], 0),
        (["analyze", str(FAILED)], 1),
        (["analyze", "/nothing/here"], 2),
        (["estimate", "Qwen/Qwen3-8B", "--gpu-memory", "80"], 0),
        (["estimate", "Qwen/Qwen3-8B", "--gpu-memory", "12"], 1),
        (["estimate", "no/such-model"], 2),
        (["compare", str(HEALTHY), str(HEALTHY)], 0),
        (["compare", "/nothing", "/here"], 2),
        (["check", "--no-such-option"], 2),
        (["confirm", "/nothing"], 2),
        (["watch", "-q", "--no-session", "--", "sh", "-c", "exit 9"], 9),
        (["watch", "-q", "--no-session", "--", "sh", "-c", "kill -TERM $$"], 143),
        (["watch", "-q", "--no-session", "--", "/nothing/here"], 127),
        (["watch", "-q", "--no-session", "--", "/etc"], 126),
        (["watch", "--no-such-option"], 125),
        (["watch", "-q", "--follow", str(HEALTHY), "--after-ready", "0.1", "--no-session"], 0),
    ],
)  # fmt: skip
def test_statuses_are_those_of_the_page(argv: list[str], status: int, tmp_path: Path) -> None:
    with marked() as mark:
        done = run([*VDOCTOR, *argv], env=mark.env, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    told = {number.strip() for numbers, _ in STATUS[argv[0]] for number in numbers.split(",")}
    assert str(status) in told or "N" in told
