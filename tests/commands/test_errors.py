"""Errors of users in both languages: what, where, what next; on standard error, and nothing else."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.conftest import Cli

CHINESE = re.compile(r"[\u4e00-\u9fff]")


def _prepare(folder: Path) -> None:
    (folder / "empty.log").touch()
    (folder / "picture.log").write_bytes(bytes(range(256)) * 40)
    (folder / "cut.zip").write_bytes(b"PK\x03\x04" + b"x" * 50)
    with zipfile.ZipFile(folder / "none.zip", "w") as archive:
        archive.writestr("a.png", "x")
    (folder / "log.txt").write_text("x\n")
    (folder / "rules" / "fam").mkdir(parents=True)
    (folder / "rules" / "fam" / "a.toml").write_text("x=")
    (folder / "folder").mkdir()


ERRORS: dict[str, Callable[[Path], list[str]]] = {
    "file is missing": lambda f: ["analyze", f"{f}/none.log"],
    "empty": lambda f: ["analyze", f"{f}/empty.log"],
    "binary": lambda f: ["analyze", f"{f}/picture.log"],
    "device": lambda f: ["analyze", "/dev/null"],
    "folder without logs": lambda f: ["analyze", f"{f}/folder"],
    "broken archive": lambda f: ["analyze", f"{f}/cut.zip"],
    "archive without logs": lambda f: ["analyze", f"{f}/none.zip"],
    "no rules": lambda f: ["analyze", f"{f}/log.txt", "--rules", f"{f}/nothing"],
    "bad rules": lambda f: ["analyze", f"{f}/log.txt", "--rules", f"{f}/rules"],
    "GPU log of two": lambda f: ["analyze", f"{f}/log.txt", f"{f}/log.txt", "--gpu-log", f"{f}/log.txt"],
    "no GPU log": lambda f: ["analyze", f"{f}/log.txt", "--gpu-log", f"{f}/log.txt"],
    "no session": lambda f: ["bundle", f"{f}/folder"],
    "nothing to confirm": lambda f: ["confirm", f"{f}/folder"],
    "output": lambda f: ["compare", f"{f}/log.txt", f"{f}/log.txt", "--output", f"{f}/no/out"],
    "option": lambda f: ["analyze", "--fromat", "text"],
    "value": lambda f: ["analyze", f"{f}/log.txt", "--format", "pdf"],
    "argument": lambda f: ["bundle"],
    "command": lambda f: ["analyse"],
    "process": lambda f: ["watch", "--pid", "999999999"],
    "no command": lambda f: ["watch"],
    "rule id": lambda f: ["explain", "no.such-rule"],
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("how", ["option", "locale", "english"])
def test_error_is_told_in_the_language(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    _prepare(tmp_path)
    words = ERRORS[name](tmp_path)
    if how == "locale":
        monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    elif how == "option":
        if name == "command":
            pytest.skip("a command that is none has no options")
        words = [words[0], "--lang", "zh", *words[1:]]
    answer = cli(*words)
    assert answer.status == (125 if words[0] == "watch" else 2)
    assert answer.out == ""
    lines = [line for line in answer.err.splitlines() if line.strip()]
    assert lines
    for line in lines:
        if how == "english":
            assert not CHINESE.search(line), line
        elif not line.startswith("  vdoctor "):
            assert CHINESE.search(line), line


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_control_sequences_in_a_name_never_reach_the_terminal(cli: Cli, tmp_path: Path, lang: str) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e.log"
    (tmp_path / evil).touch()
    os.mkfifo(tmp_path / f"p{evil}")
    for words in (
        ["analyze", f"{tmp_path}/{evil}"],
        ["analyze", f"{tmp_path}/x{evil}"],
        ["watch", "--follow", f"{tmp_path}/p{evil}"],
        ["bundle", f"{tmp_path}/{evil}"],
        ["analyze", f"--{evil}"],
        ["analyze", "--format", evil],
        [evil],
    ):
        answer = cli(*words, *(["--lang", lang] if words[0] in ("analyze", "watch", "bundle") else []))
        assert answer.status in (2, 125)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", answer.out + answer.err)
