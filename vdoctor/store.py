"""The edge that reads rules: the ones shipped with the package, and --rules folders.

Checking and compiling all rule files takes longer than most diagnoses. The result is kept as data:
built into the wheel, or, for a source checkout, in the user's cache under the files' sizes and times.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from vdoctor import __version__
from vdoctor.errors import UserError
from vdoctor.intake.inputs import small_text
from vdoctor.intake.patterns import remember, required_literals
from vdoctor.rulebase.index import FORMAT, from_data, to_data
from vdoctor.rulebase.schema import RuleBase

_INDEX = "index.json"
#: The longest shipped rule has some 20 KiB.
MAX_RULE = 1 << 20


def shipped_rules() -> Path:
    """The folder of the shipped rules: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "_rules"
    return inside if inside.is_dir() else package.parent / "rules"


def rule_files(folder: Path) -> Iterator[tuple[str, str]]:
    """(place, text) of every rule file below `folder`. Raises UserError when it cannot be read."""
    for path in _paths(folder):
        yield str(path), small_text(path, MAX_RULE)


def load_rules(folders: Sequence[Path] = (), *, full: bool = False) -> RuleBase:
    """All shipped rules and those of `folders`; with `full`, their examples too.

    Raises RuleError with every fault found.
    """
    shipped = shipped_rules()
    if not full:
        ready = _built_in(shipped) or _cached(shipped)
        if ready is not None:
            return _merged(ready, folders)
    from vdoctor.rulebase.loader import load

    base = load(rule_files(shipped))
    if not full:
        _keep(shipped, base)
    return _merged(base, folders)


def write_index(folder: Path) -> None:
    """Check the rules of `folder` and write their index into it (when a wheel is built)."""
    from vdoctor.rulebase.loader import load

    _write(folder / _INDEX, load(rule_files(folder)))


def _merged(base: RuleBase, folders: Sequence[Path]) -> RuleBase:
    if not folders:
        return base
    from vdoctor.rulebase.loader import load, merge

    return merge(base, load(file for folder in folders for file in rule_files(folder)))


def _paths(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of rules", "give a folder with FAMILY/NAME.toml files")
    # A whole rule base, or one family of it.
    return sorted(folder.glob("*/*.toml")) or sorted(folder.glob("*.toml"))


def _built_in(folder: Path) -> RuleBase | None:
    return _read(folder / _INDEX)


def _cached(folder: Path) -> RuleBase | None:
    return _read(_cache_file(folder))


def _cache_file(folder: Path) -> Path:
    """Named after what the rule files look like from outside: any edit gives another name."""
    # Only a checkout needs them: a wheel brings its index.
    import hashlib

    import platformdirs

    mark = hashlib.sha256(f"{__version__} {FORMAT} {folder}".encode())
    for path in _paths(folder):
        info = path.stat()
        mark.update(f"{path.name} {info.st_size} {info.st_mtime_ns}\n".encode())
    name = f"rules-{mark.hexdigest()[:20]}.json"
    return Path(platformdirs.user_cache_dir("vdoctor", appauthor=False)) / name


def _read(path: Path) -> RuleBase | None:
    try:
        # Tens of thousands of objects that stay: looking for garbage among them doubles the time.
        gc.disable()
        data = json.loads(path.read_bytes())
        if data["format"] != FORMAT:
            return None
        remember(data["literals"])
        return from_data(data["rules"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    finally:
        gc.enable()


def _keep(folder: Path, base: RuleBase) -> None:
    """A cache that cannot be written costs time, nothing else."""
    with contextlib.suppress(OSError):
        path = _cache_file(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in sorted(path.parent.glob("rules-*.json"), key=lambda p: p.stat().st_mtime)[:-5]:
            old.unlink(missing_ok=True)
        _write(path, base)


def _literals() -> dict[str, list[str]]:
    """The literals of vdoctor's own patterns: to parse these on each run takes longer than to read a ticket."""
    from vdoctor.facts import log, ticket
    from vdoctor.startup.markers import MARKERS

    own = (*(marker.pattern for marker in MARKERS), *log.patterns(), *ticket.patterns())
    return {pattern: sorted(required_literals(pattern)) for pattern in own}


def _write(path: Path, base: RuleBase) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    data = {"format": FORMAT, "literals": _literals(), "rules": to_data(base)}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
