"""A folder for a compile cache that is set aside: the user's own, empty, and still there tomorrow.

Rules name `~/.cache/vllm-fresh`. A trial gets a folder in its place that holds nothing yet: an old one of that name may
be as stale as the cache that it is to replace.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from vdoctor.model import Change
from vdoctor.relaunch.steps import Step

#: What rules and the ladder say.
FRESH = "~/.cache/vllm-fresh"
_NAME = "vllm-fresh"
_MOST = 1000


def folder(env: Mapping[str, str], used: Iterable[Change] = ()) -> str:
    """The folder for all trials of a session, absolute: the one that its earlier trials `used`, else one that is empty."""
    cache = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or "~").expanduser() / ".cache")
    stem = str(cache.absolute() / _NAME)
    for change in used:
        for value in change.env.values():
            if value is not None and value.startswith(stem):
                return str(Path(value) if Path(value).name.startswith(_NAME) else Path(value).parent)
    names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, _MOST))
    return next((name for name in names if _is_empty(Path(name))), stem)


def with_folder(step: Step, to: str) -> Step:
    """The step with this folder for FRESH, in its texts, too."""
    if not any(_is_fresh(value) for value in step.change.env.values()):
        return step
    env = {name: value.replace(FRESH, to, 1) if value else value for name, value in step.change.env.items()}
    return replace(
        step,
        change=replace(step.change, env=env),
        title={lang: text.replace(FRESH, to) for lang, text in step.title.items()},
    )


def prepare(change: Change) -> None:
    """Make the folder, for nobody but the user, when a trial is about to use it. What cannot be made is for the server
    to complain about."""
    for value in change.env.values():
        path = Path(value or "")
        for place in (path, path.parent):
            if place.name.startswith(_NAME) and place.is_absolute():
                with contextlib.suppress(OSError):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.mkdir(mode=0o700)


def tidy(to: str) -> None:
    """Take the folder away again where no trial put anything into it."""
    with contextlib.suppress(OSError):
        Path(to).rmdir()


def _is_fresh(value: str | None) -> bool:
    return value is not None and (value == FRESH or value.startswith(FRESH + "/"))


def _is_empty(path: Path) -> bool:
    """Not there, or an empty folder of ours that nobody else may write to."""
    try:
        found = path.lstat()
        mine = found.st_uid == os.getuid() and not found.st_mode & 0o022 and path.is_dir() and not path.is_symlink()
        return mine and not any(path.iterdir())
    except FileNotFoundError:
        return True
    except OSError:
        return False
