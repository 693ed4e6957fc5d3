"""The status line of `watch`: phase, elapsed time, memory."""

from __future__ import annotations

from vdoctor.model import Bar, Sample

_GIB = 1 << 30


def status_line(step: str | None, elapsed: float, sample: Sample | None, bar: Bar | None, width: int) -> str:
    """`vdoctor  75 s  weight_load.read 61 % (11/18)  GPU0 13.2/23.6 GiB`, cut to `width` columns."""
    parts = [f"vdoctor {elapsed:5.0f} s", step or "launch"]
    if bar is not None and bar.total and bar.done < bar.total:
        parts[-1] += f" {100 * bar.done // bar.total} % ({bar.done}/{bar.total})"
    parts += memory(sample)
    return "  ".join(parts)[: max(width - 1, 10)]


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
