"""The largest value of an option that works: between one that was seen to work and one that was seen to fail. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import value
from vdoctor.model import Fact, Launch

#: A length is good enough within this share of the limit.
TOLERANCE = 0.02
#: All trials of one option together, the one that worked first included.
MAX_TRIALS = 4
_BLOCK = 16
# vLLM takes "16k" for 16000 and "16K" for 16384.
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kK])")
_KILO, _KIBI = 1000, 1024


@dataclass(frozen=True, slots=True)
class Scale:
    """How the values of an option are spaced, and what is taken for the value in force where nobody set one."""

    kind: str  # "fine": any number; "powers": powers of two; "share": hundredths below 1
    default: float | None = None
    fact: str | None = None  # names the value in force


#: Options of which more is better. The defaults are the largest that vLLM takes by itself (vllm/config, 0.9 to 0.33).
SCALES: Mapping[str, Scale] = {
    "--max-model-len": Scale("fine", None, "model.max_len"),
    "--max-num-seqs": Scale("powers", 1024, "seqs.max"),
    "--max-num-batched-tokens": Scale("powers", 8192),
    "--max-cudagraph-capture-size": Scale("powers", 512),
    "--cuda-graph-sizes": Scale("powers", 512),
    "--gpu-memory-utilization": Scale("share", None, "mem.utilization"),
}


def number(text: object) -> float | None:
    """`8192`, `0.9`, `16k`; None for anything else, `auto` included."""
    human = _HUMAN.fullmatch(str(text))
    try:
        found = float(human[1]) * (_KILO if human[2] == "k" else _KIBI) if human else float(str(text))
    except ValueError:
        return None
    return found if math.isfinite(found) and found > 0 else None


def ceiling(
    flag: str, launch: Launch, facts: Mapping[str, Fact], options: OptionTable, version: str | None
) -> float | None:
    """The value with which the unchanged launch failed: given, told by the log, or the default."""
    scale = SCALES[flag]
    given = number(value(launch, flag, options, version))
    if given is not None:
        return given
    fact = facts.get(scale.fact) if scale.fact else None
    told = number(fact.value) if fact is not None else None
    return told if told is not None else scale.default


def next_value(flag: str, good: float, bad: float, hints: Iterable[float] = ()) -> str | None:
    """The value to try between `good` (works) and `bad` (fails); None when they are near enough.

    `hints`: limits that logs gave. Where one lies near `good`, a step beyond the tolerance proves it or shows that
    there is more; else the gap is halved.
    """
    kind = SCALES[flag].kind
    if kind == "fine":
        return _fine(good, bad, list(hints))
    if kind == "powers":
        low, high = math.log2(good), math.log2(bad)
        powers = [power for power in range(math.ceil(low - 1e-9), math.ceil(high)) if low + 1e-9 < power < high - 1e-9]
        return str(2 ** powers[len(powers) // 2]) if powers else None
    steps = round((bad - good) * 100)
    return f"{good + (steps // 2) / 100:.2f}" if steps >= 2 else None


def _fine(good: float, bad: float, hints: list[float]) -> str | None:
    if bad <= good * (1 + TOLERANCE):
        return None
    above = [hint for hint in hints if good * (1 + TOLERANCE) < hint < bad]
    # The limit of which a fix's round number was made lies less than one round number further.
    near = [
        hint + _rounding(hint) for hint in hints if hint <= good * (1 + TOLERANCE) and good < hint + _rounding(hint)
    ]
    if above:
        wanted = min(above)
    elif near and max(near) > good * (1 + TOLERANCE):
        wanted = (good + max(near)) / 2
    elif near:
        wanted = good * (1 + TOLERANCE)
    else:
        wanted = math.sqrt(good * bad)
    blocks = math.floor(wanted / _BLOCK) * _BLOCK
    if not good < blocks < bad:
        blocks = math.floor(wanted)
    return str(blocks) if good < blocks < bad else None


def _rounding(length: float) -> int:
    """What `kv.fit_len` is rounded down to (vdoctor/facts/derive.py)."""
    return 256 if length >= 4096 else _BLOCK
