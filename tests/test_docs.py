"""Pages that are generated, and the commands that the README names, are true."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import click
import pytest

from tests.cases import ROOT
from tests.test_house import ORDER, level
from vdoctor.cli import main_group

DOCS = sorted((ROOT / "docs").glob("*.md"))


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{path.name}" for path in DOCS),
    "docs/recipes/README.md",
]
OUTPUTS = [
    page for page in PAGES if "<!-- output" in (ROOT / page).read_text(encoding="utf-8") and page != "CONTRIBUTING.md"
]


def tool(name: str) -> ModuleType:
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # Data classes look their module up there.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    stale = [path.name for path, text in tool("write_docs").pages().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "make docs"


def test_table_of_accuracy_is_current() -> None:
    accuracy = tool("accuracy")
    assert accuracy.page() == accuracy.PAGE.read_text(encoding="utf-8"), "make docs"


@pytest.mark.parametrize("page", OUTPUTS)
def test_shown_outputs_are_what_the_commands_print(page: str) -> None:
    blocks = tool("shown").blocks((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        assert block.current, f"$ {block.command}\n{block.printed}\nmake docs"


def test_readme_shows_the_five_most_used_commands() -> None:
    commands = re.findall(r"<!-- output.* -->\n```\n\$ vdoctor (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert commands == ["analyze", "watch", "confirm", "check", "estimate"]


def test_stale_output_is_told() -> None:
    shown = tool("shown")
    (block,) = shown.blocks("<!-- output -->\n```\n$ echo 12.5 s, 3 GPUs\n12.4 s, 3 GPUs\n```\n")
    assert block.current  # times may differ
    (block,) = shown.blocks("<!-- output -->\n```\n$ echo 12.5 s, 3 GPUs\n12.4 s, 4 GPUs\n```\n")
    assert not block.current


def test_picture_shows_what_the_command_prints_and_loads_nothing() -> None:
    shown = tool("shown")
    svg = shown.PICTURE.read_text(encoding="utf-8")
    assert shown.words(svg) == shown.words(shown.picture()), "make docs"
    assert "oom.kv-too-small" in shown.words(svg)
    tree = ElementTree.fromstring(svg)
    links = [value for node in tree.iter() for name, value in node.attrib.items() if name.endswith(("href", "src"))]
    assert [link for link in links if not link.startswith("#")] == []
    assert "@font-face" not in svg and "@import" not in svg


def test_contributing_lists_the_rooms_in_the_order_that_is_asserted() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("| room | holds |")[1].split("\n\n")[0]
    told = [name.removesuffix("/").removesuffix(".py") for name in re.findall(r"`(\w+(?:/|\.py))`(?=.*\|.*\|)", table)]
    rows = [room for row in ORDER for room in row if room != "__main__"]
    assert sorted(told) == sorted(rows)
    assert [level(room) for room in told] == sorted(level(room) for room in told)


@pytest.mark.parametrize("page", PAGES)
def test_options_named_in_documents_exist(page: str) -> None:
    """Every `vdoctor COMMAND --option` in a document is one that the command has."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for line in re.findall(r"vdoctor ([a-z]+(?: [a-z]+)?[^`|\n#]*)", text):
        words = line.split()
        command: click.Command = main_group
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        if command is main_group:
            continue
        known = {name for parameter in command.params for name in parameter.opts}
        for word in words:
            if word == "--":
                break
            if word.startswith("--") and word not in ("--help",):
                assert word.partition("=")[0] in known, (page, line)


def anchors(path: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", PAGES)
def test_links_between_documents_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), (name, target)
        if anchor:
            assert anchor in anchors(there), (name, target, anchor)


def test_every_page_can_be_found_from_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    assert [path.name for path in DOCS if path.name != "README.md" and f"({path.name})" not in index] == []
