"""GPU models and their compute capability, as vLLM prints it (7.5 is 75).

Source: NVIDIA's list of CUDA GPUs, https://developer.nvidia.com/cuda-gpus, and of legacy ones,
https://developer.nvidia.com/cuda-legacy-gpus.
"""

from __future__ import annotations

import functools
import re

#: compute capability -> models, "#" stands for any digit. The longest model in a name wins, and of two
#: of one length the one without "#".
_MODELS: dict[int, str] = {
    37: "K80",
    52: "M4, M40, M60, GTX TITAN X, GTX 9##",
    53: "Tegra X1",
    60: "P100, GP100",
    61: "P4, P6, P40, P1000, P2000, P2200, P4000, P5000, P6000, GTX 10##, TITAN Xp, TITAN X (Pascal)",
    62: "Tegra X2",
    70: "V100, V100S, V100D, V100X, V100DX, GV100, TITAN V",
    72: "Xavier",
    75: "T4, T4G, T400, T500, T600, T1000, T1200, T2000, GTX 16##, RTX 20##, TITAN RTX, Quadro RTX ####",
    80: "A100, A100D, A100X, A800, A800D, AX800, A30, A30X",
    86: "A2, A10, A10G, A10M, A16, A40, A400, A500, A1000, A2000, A3000, A4000, A4500, A5000, A5500, A6000, RTX 2050, RTX 30##",
    87: "Orin",
    89: "L2, L4, L20, L40, L40G, L40S, RTX 40##, RTX ### Ada, RTX #### Ada, RTX 4000 SFF Ada, Ada Generation",
    90: "H100, H100L, H100XM, H20, H200, H200X, H800, GH200",
    100: "B100, B200, GB200",
    103: "B300, GB300",
    110: "Thor",
    120: "RTX 50##, RTX PRO, Blackwell",
    121: "GB10, DGX Spark",
}
#: Turing cards are called "Quadro RTX 5000", Ada cards "RTX 5000 Ada Generation". The bare name means
#: the former; where it was cut ("NVIDIA RTX 6000...") it may be either.
_TURING = "RTX 3000, RTX 4000, RTX 5000, RTX 6000, RTX 8000"
_OTHER_MAKERS = re.compile(r"\bAMD\b|Radeon|Instinct|Intel|Gaudi|Ascend", re.IGNORECASE)
_CUT = "..."


def capability(name: str) -> int | None:
    """Compute capability of a GPU by its name; None for one that is not in the list.

    >>> capability("NVIDIA A100-SXM4-80GB MIG 3g.40gb")
    80
    >>> capability("NVIDIA RTX 6000 Ada Generation"), capability("Quadro RTX 6000")
    (89, 75)
    """
    if _OTHER_MAKERS.search(name):
        return None
    keys, pattern = _table()
    # Each place of the name gives its longest model; the longest of these is the most telling one.
    found = max(pattern.finditer(name), key=lambda match: len(match[0]), default=None)
    if found is None or found.lastindex is None:
        return None
    key, value = keys[found.lastindex - 1]
    return None if name.endswith(_CUT) and key in _names(_TURING) else value


@functools.cache
def _table() -> tuple[list[tuple[str, int]], re.Pattern[str]]:
    """The models, the most telling first, and a pattern with one group for each."""
    keys = [(name, value) for value, names in _MODELS.items() for name in _names(names)]
    keys += [(name, 75) for name in _names(_TURING)]
    keys.sort(key=lambda entry: (-len(entry[0]), entry[0].count("#")))
    groups = "|".join("(" + re.escape(name).replace(r"\#", "[0-9]") + ")" for name, _ in keys)
    return keys, re.compile(rf"(?<![0-9A-Za-z])(?:{groups})(?![0-9A-Za-z])", re.IGNORECASE)


def _names(text: str) -> list[str]:
    return text.split(", ")
