"""Rules held against the texts of releases, on small trees."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from vllm_tables import command
from vllm_tables.automaton import Automaton
from vllm_tables.fit import fit, fit_text
from vllm_tables.phrases import HOLE
from vllm_tables.texts import Reader, Text, texts_of_source

OLD = """
    def check(heads, size, log_it):
        '''The number of heads must be divisible by the size: a docstring says nothing.'''
        if heads % size:
            raise ValueError(f"Total number of attention heads ({heads}) must be divisible"
                             f" by tensor parallel size ({size}).")
        logger.warning("Possibly too large swap space. %s", heads)
        assert size, "The old engine needs a size. " + hint(size)
"""
NEW = """
    def check(heads, size):
        if heads % size:
            msg = "Number of query heads {} is no multiple of TP size {}.".format(heads, size)
            raise ValueError(msg)
        if size > 8:
            raise RuntimeError("A size of %d is more than this machine has" % size)
        logger.error("Failed to load the plugin %s", heads)
"""

RULE = """
schema = 1
id = "{id}"
cause = "{id}"
status = "test"
references = ["https://example.org/"]
{rest}
[text.en]
title = "t"
cause = "c"
{texts}
[text.zh]
title = "t"
cause = "c"
{texts}
"""
SIGNAL = "[[signal]]\nregex = '{}'\n"
HEADS = r"number of attention heads \((?P<n>\d+)\) must be divisible by"
FIX = '[[fix]]\nid = "less"\nsafety = "safe"\n'


def plant(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


def rule(name: str, *signals: str, fixes: str = "", texts: str = "") -> str:
    return RULE.format(id=name, rest="".join(map(SIGNAL.format, signals)) + fixes, texts=texts)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    plant(tmp_path / "trees", {"0.9.1/vllm/config.py": OLD, "0.9.2/vllm/config.py": OLD})
    plant(
        tmp_path / "trees", {"0.10.0/vllm/config/model.py": NEW, "0.10.0/vllm/lora/x.py": OLD.replace("heads", "ranks")}
    )
    (tmp_path / "rules" / "tp").mkdir(parents=True)
    return tmp_path


def write_rule(place: Path, text: str) -> None:
    name = text.partition('id = "tp.')[2].partition('"')[0]
    (place / "rules" / "tp" / f"{name}.toml").write_text(text, encoding="utf-8")


def output(place: Path, capsys: pytest.CaptureFixture[str], mode: str, *more: str) -> str:
    versions = ("0.9.1", "0.9.2", "0.10.0")
    assert command.main([mode, *versions, "--trees", str(place / "trees"), "--rules", str(place / "rules"), *more]) == 0
    return capsys.readouterr().out


def test_texts_of_a_file() -> None:
    assert list(texts_of_source(textwrap.dedent(OLD), "a.py")) == [
        Text(
            "ValueError",
            f"Total number of attention heads ({HOLE}) must be divisible by tensor parallel size ({HOLE}).",
            "a.py:5",
        ),
        Text("log.warning", f"Possibly too large swap space. {HOLE}", "a.py:7"),
        Text("AssertionError", f"The old engine needs a size. {HOLE}", "a.py:8"),
    ]
    assert [(text.kind, text.words) for text in texts_of_source(textwrap.dedent(NEW), "a.py")] == [
        ("ValueError", f"Number of query heads {HOLE} is no multiple of TP size {HOLE}."),
        ("RuntimeError", f"A size of {HOLE} is more than this machine has"),
        ("log.error", f"Failed to load the plugin {HOLE}"),
    ]


def test_texts_by_what_carries_them() -> None:
    source = """
        import warnings

        def load(name, parser, self):
            msg = f"Cannot load {name}, try another"
            hint = "This is no good"
            hint += " for the size that was asked for"
            self.logger.warning(msg)
            if name:
                raise OSError(f"{msg}: {hint}") from None
            parser.error("one of the models is missing")
            warnings.warn(hint)
            raise RuntimeError("The scheme is not supported for ", f"the current GPU. Minimum: {name}. ")
            raise name
    """
    found = {text.words.replace(HOLE, "_"): text.kind for text in texts_of_source(textwrap.dedent(source), "a.py")}
    assert found == {
        "Cannot load _, try another": "OSError",
        "This is no good": "OSError",
        " for the size that was asked for": "OSError",
        "Cannot load _, try another: This is no good_": "OSError",
        "one of the models is missing": "parser.error",
        "'The scheme is not supported for ', 'the current GPU. Minimum: _. '": "RuntimeError",
        "The scheme is not supported for ": "RuntimeError",
        "the current GPU. Minimum: _. ": "RuntimeError",
    }


def test_texts_that_are_put_together() -> None:
    source = """
        LONG_WAIT = "No block found. " + "Somebody hangs."

        def report(size, reqs, fast):
            parts = ["Running: %d reqs", "Waiting: %d reqs", size]
            if reqs:
                parts.append("Preempted: %d reqs")
            logger.info(", ".join(parts), reqs)
            text = f"{size} GiB of the memory"
            raise ValueError("Too large swap space. " + text)

        def wait(self, size):
            hint = "Try one thing" if size else "Try the other"
            either = "this one way"
            either = "that other way"
            reason = " or ".join(["too many", "too large"])
            logger.warning(f"{LONG_WAIT} {size!r} {either} {hint} {reason}")
    """
    found = {text.words.replace(HOLE, "_"): text.kind for text in texts_of_source(textwrap.dedent(source), "a.py")}
    assert found["No block found. Somebody hangs."] == ""
    assert found["Running: _ reqs, Waiting: _ reqs, _, _"] == "log.info"
    assert found["Preempted: _ reqs"] == ""
    assert found["Too large swap space. _ GiB of the memory"] == "ValueError"
    assert found["No block found. Somebody hangs. _ _ _ too many or too large"] == "log.warning"


def test_texts_are_kept_and_what_is_broken_is_read_again(tmp_path: Path) -> None:
    plant(tmp_path, {"1.0/vllm/a.py": OLD})
    texts = Reader(tmp_path).texts("1.0")
    plant(tmp_path, {"1.0/vllm/a.py": NEW})
    assert Reader(tmp_path).texts("1.0") == texts
    (tmp_path / "1.0.texts.json").write_text("{", encoding="utf-8")
    assert Reader(tmp_path).texts("1.0") != texts


@pytest.mark.parametrize(
    ("regex", "words", "share"),
    [
        (r"heads \(\d+\) must", f"heads ({HOLE}) must be", 1.0),
        (r"heads \(\d+\) must", "heads (none) must be", 0.0),
        (r"heads (?:must|should) be", f"{HOLE} heads should be even", 1.0),
        (r"method awq is not", f"The method {HOLE} is not", 14 / 17),  # the hole may be "awq"
        (r"Error: a{3,}b*c?[^x-z]\s", "Error: aaaabbq ", 1.0),
        (r"(?!not )here(?<=re)(?:, |\. )(.)\1!", "here. ab!", 1.0),
        (r"[^\d\W]{9} \S", "underscore_ x", 1.0),
    ],
)
def test_fit(regex: str, words: str, share: float) -> None:
    assert fit(Automaton(regex), words).share == share


@pytest.mark.parametrize(
    ("regex", "kind", "good"),
    [
        (r"ValueError: The size is too small\b", "ValueError", True),
        (r"TypeError: The size is too small\b", "log.warning", False),
        (r"^The size is too small\.$", "log.warning", True),
        (r"^size is too small\.$", "log.warning", False),
        (r"The size is too small$", "log.warning", False),
        (r"^ValueError: Something", "ValueError", False),  # the name alone proves nothing
        (r": error: argument (?P<flag>--[\w-]+): The size is too small", "ArgumentTypeError", True),
        (r": error: The size is too small", "parser.error", True),
        (r"is too \w+", "", True),
        (r"is too big", "", False),
    ],
)
def test_fit_of_a_text_in_its_frame(regex: str, kind: str, good: bool) -> None:
    assert fit_text(Automaton(regex), Text(kind, "The size is too small.", "a.py:1")).good is good


def test_signals(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rule(place, rule("tp.heads", HEADS, "NCCL WARN Cuda failure"))
    write_rule(place, rule("tp.size", r"A size of \d+ is more than this", "The old engine needs a size"))
    assert output(place, capsys, "signals", "--release", "0.10.0").splitlines() == [
        f"{'tp.heads':<40} 0.9.1     0.9.2      {HEADS}",
        f"{'tp.heads':<40} not vLLM's           NCCL WARN Cuda failure",
        f"{'tp.size':<40} 0.10.0    0.10.0     A size of \\d+ is more than this",
        f"{'tp.size':<40} 0.9.1     0.10.0     The old engine needs a size",
        "",
        "rules whose wording is gone in 0.10.0:",
        f"{'tp.heads':<40} last in 0.9.2",
    ]


def test_nothing_is_gone_in_the_first_release(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rule(place, rule("tp.heads", HEADS))
    assert output(place, capsys, "signals", "--release", "0.9.1").endswith("gone in 0.9.1:\nnone\n")


def test_errors(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rule(place, rule("tp.size", r"A size of \d+ is more than this"))
    printed = output(place, capsys, "errors")
    assert [line.split(maxsplit=2) for line in printed.splitlines()] == [
        ["vllm/config/model.py:4", "ValueError", "Number of query heads {} is no multiple of TP size {}."],
        ["vllm/config/model.py:8", "log.error", "Failed to load the plugin {}"],
    ]
    assert "attention heads" in output(place, capsys, "errors", "--release", "0.9.2")


def test_fixes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # --kernel-config came later than 0.10, VLLM_USE_V1 was still read then, VLLM_ENGINE_READY_TIMEOUT_S not yet.
    flags = f'{FIX}changes = {{ flags = {{ "--kernel-config" = "x" }} }}\n'
    env = f'{FIX}changes = {{ env = {{ VLLM_USE_V1 = "0", VLLM_ENGINE_READY_TIMEOUT_S = "9" }} }}\n'
    later = f'{FIX}when = [{{ fact = "vllm.version", op = "version", value = ">=0.10" }}]\n'
    later += 'changes = { flags = { "--enforce-eager" = true } }\n'
    text = 'fix.less = "f"'
    write_rule(place, rule("tp.flags", HEADS, fixes=flags, texts=text))
    write_rule(place, rule("tp.env", HEADS, fixes=env, texts=text))
    write_rule(place, rule("tp.later", "somebody else says so", fixes=later, texts=text))
    assert output(place, capsys, "fixes").splitlines() == [
        "rules none of whose fixes can be used, in releases that have their wording:",
        f"{'tp.env':<40} 0.9.1-0.9.2",
        f"{'tp.flags':<40} 0.9.1-0.9.2",
        f"{'tp.later':<40} 0.9.1-0.9.2",
        "",
        "variables set in releases that do not read them:",
        f"{'tp.env':<40} less             VLLM_ENGINE_READY_TIMEOUT_S          0.9.1-0.9.2",
    ]


def test_a_tree_that_is_missing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["signals", "0.1.0", "--trees", str(place / "trees"), "--rules", str(place / "rules")])
    assert "0.1.0" in capsys.readouterr().err
