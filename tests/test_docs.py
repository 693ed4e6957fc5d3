"""Pages that are generated, and the commands that the README names, are true."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import click
import pytest

from tests.cases import ROOT
from vdoctor.cli import main_group


def tool(name: str) -> ModuleType:
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    stale = [path.name for path, text in tool("write_docs").pages().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "make docs"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_options_named_in_documents_exist(page: str) -> None:
    """Every `vdoctor COMMAND --option` in a document is one that the command has."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for line in re.findall(r"vdoctor ([a-z]+(?: [a-z]+)?[^`|\n]*)", text):
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


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert Path(page.parent, target).exists(), (page.name, target)
