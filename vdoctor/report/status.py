"""The status line of `watch`: phase, elapsed time, memory."""

from __future__ import annotations

from vdoctor.model import Bar, Motion, Sample
from vdoctor.report.motion import motion_line

_GIB = 1 << 30


def status_line(
    step: str | None,
    elapsed: float,
    sample: Sample | None,
    bar: Bar | None,
    width: int,
    motion: Motion | None = None,
    lang: str = "en",
) -> str:
    """`vdoctor  75 s  weight_load.read 61 % (11/18)  GPU0 13.2/23.6 GiB`, cut to `width` columns.

    Where the motion is known it is told in place of the bar.
    """
    if motion is not None:
        parts = [f"vdoctor {elapsed:5.0f} s", step or "launch", motion_line(motion, lang), *memory(sample)]
        return cut("  ".join(parts), max(width - 1, 10))
    parts = [f"vdoctor {elapsed:5.0f} s", step or "launch"]
    if bar is not None and bar.total and bar.done < bar.total:
        parts[-1] += f" {100 * bar.done // bar.total} % ({bar.done}/{bar.total})"
    parts += memory(sample)
    return "  ".join(parts)[: max(width - 1, 10)]


def cut(text: str, columns: int) -> str:
    """The text in at most so many columns; a Chinese character takes two."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= columns else set_cell_size(text, columns)


def memory(sample: Sample | None) -> list[str]:
    """GPU memory of up to four GPUs, else the resident memory of the process tree."""
    if sample is None:
        return []
    gpus = [g for g in sample.gpus if g.memory_used is not None and g.memory_total]
    if gpus:
        shown = [
            f"GPU{g.index} {(g.memory_used or 0) / _GIB:.1f}/{(g.memory_total or 0) / _GIB:.1f} GiB" for g in gpus[:4]
        ]
        return shown + ([f"+{len(gpus) - 4} GPUs"] if len(gpus) > 4 else [])
    if sample.host is not None:
        return [
            f"RAM {sample.host.rss / _GIB:.1f} GiB in {sample.host.processes} process{'' if sample.host.processes == 1 else 'es'}"
        ]
    return []
