"""The file of `vllm serve --config`, read where the command names one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vdoctor.launch.config import configured, path
from vdoctor.launch.options import OptionTable
from vdoctor.model import Launch

_MOST = 1 << 20


def with_config(launch: Launch, options: OptionTable, version: str | None, missed: Callable[[str], None]) -> Launch:
    """The launch with the file's settings known. `missed` is told why the file cannot be read; a file inside a container
    is none of this machine's."""
    file = path(launch, options, version)
    if file is None:
        return launch
    if launch.container:
        missed(f"{file}: the file of --config is inside the container")
        return launch
    place = Path(file)
    try:
        # A pipe would be emptied for vLLM, or waited for.
        if not place.is_file():
            missed(f"{file}: the file of --config is not there" if not place.exists() else f"{file}: not a plain file")
            return launch
        if place.stat().st_size > _MOST:
            missed(f"{file}: larger than any file of --config")
            return launch
        text = place.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        missed(f"{file}: cannot be read: {reason or 'no such path'}")
        return launch
    return configured(launch, text, options, version)
