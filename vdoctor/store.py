"""The edge that reads rule files: the ones shipped with the package, and --rules folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from vdoctor.errors import UserError
from vdoctor.rulebase.loader import load
from vdoctor.rulebase.schema import RuleBase


def shipped_rules() -> Path:
    """The folder of the shipped rules: inside the installed package, or beside it in a checkout."""
    package = Path(str(resources.files("vdoctor")))
    inside = package / "_rules"
    return inside if inside.is_dir() else package.parent / "rules"


def rule_files(folder: Path) -> Iterator[tuple[str, str]]:
    """(place, text) of every rule file below `folder`. Raises UserError when it cannot be read."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of rules", "give a folder with FAMILY/NAME.toml files")
    for path in sorted(folder.glob("*/*.toml")):
        try:
            yield str(path), path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read: {error}") from None


def load_rules(folders: Sequence[Path] = ()) -> RuleBase:
    """All shipped rules and those of `folders`. Raises RuleError with every fault found."""
    files = list(rule_files(shipped_rules()))
    for folder in folders:
        files += rule_files(folder)
    return load(files)
