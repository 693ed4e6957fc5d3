"""What is wrong with a command before it runs: options, values and variables against the tables of its release."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vdoctor.launch.options import Option, OptionTable
from vdoctor.launch.values import given
from vdoctor.model import Fact, Launch

#: Options whose value is a whole number in every release (vllm/engine/arg_utils.py); vLLM reads 16k and 16K, too.
_WHOLE = (
    *("--tensor-parallel-size", "--pipeline-parallel-size", "--max-num-seqs", "--max-num-batched-tokens", "--port"),
    *("--data-parallel-size", "--max-logprobs", "--seed", "--max-model-len"),
)
#: Smallest and, where there is one, largest number that every release takes (Field(ge=...) in vllm/config; sockets). From
#: 0.14 -1 asks for the longest length that fits, -1 log probabilities are all of them.
_BOUNDS: dict[str, tuple[int, int | None]] = {
    "--tensor-parallel-size": (1, None),
    "--pipeline-parallel-size": (1, None),
    "--data-parallel-size": (1, None),
    "--max-num-seqs": (1, None),
    "--max-num-batched-tokens": (1, None),
    "--max-model-len": (-1, None),
    "--port": (0, 65535),
}
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?[kmgtKMGT]?\Z")
#: What Kubernetes sets in every pod beside a Service named vllm.
_SERVICE = re.compile(r"VLLM_(?:SERVICE_(?:HOST|PORT)|PORT_\d{1,5}_)")
_SHARE = "--gpu-memory-utilization"


def option_facts(launch: Launch, options: OptionTable, version: str | None) -> dict[str, Fact]:
    """`args.unknown`, `args.bad` with `args.value` and `args.choices`: the first fault of each kind, in the order of the command.

    Without a version only what no known release has is unknown.
    """
    # Asked and found in order, unless something below says otherwise.
    facts = {name: Fact(False, "argv") for name in ("launch.eager", "args.not_a_number", "args.not_a_share")}
    unknown: list[str] = []
    every = list(given(launch, options, version))
    last = {one.name: one for one in every}
    for one in every:
        if one.key or one.value == "":
            # Keys (--compilation-config.mode) belong to their option.
            continue
        option = options.lookup(one.written, version, allow_abbrev=True)
        if option is not None and option.name == "--enforce-eager":
            facts["launch.eager"] = Fact(one.on, "argv")
        if option is None and options.exists(one.written, version) is False:
            unknown.append(one.written)
        elif option is not None and one.value is not None and "args.bad" not in facts:
            if option.name == _SHARE and last[one.name] is not one:
                # argparse refuses what is no choice or no number wherever it stands; a share is judged in the end.
                continue
            facts |= _value_facts(option, one.value)
    if unknown:
        facts["args.unknown"] = Fact(" ".join(unknown), "argv")
    return facts


def _value_facts(option: Option, value: str) -> dict[str, Fact]:
    bad = {"args.bad": Fact(option.name, "argv"), "args.value": Fact(value, "argv")}
    if option.choices is not None and option.kind == "value" and value not in option.choices:
        return bad | {"args.choices": Fact(", ".join(option.choices), "table")}
    if option.name in _WHOLE and not _NUMBER.match(value) and value != "auto":
        return bad | {"args.not_a_number": Fact(True, "argv")}
    if (bounds := _beyond(option.name, value)) is not None:
        return bad | {"args.bounds": Fact(bounds, "table")}
    if option.name == _SHARE and not _is_share(value):
        return bad | {"args.not_a_share": Fact(True, "argv")}
    return {}


def _beyond(name: str, value: str) -> str | None:
    """The numbers that the option takes, when this is none of them. What is no plain whole number is not judged here."""
    if name not in _BOUNDS or not re.fullmatch(r"-?\d{1,18}", value):
        return None
    low, high = _BOUNDS[name]
    if low <= int(value) and (high is None or int(value) <= high):
        return None
    return f"{low}-{high}" if high is not None else f">= {low}"


def _is_share(value: str) -> bool:
    try:
        return 0.0 < float(value) <= 1.0
    except ValueError:
        return False


def variable_facts(env: Mapping[str, str], known: Sequence[str]) -> dict[str, Fact]:
    """`env.unknown` and `env.nearest`: a VLLM_ variable that no release has, and the one it may stand for."""
    names = set(known)
    strange = sorted(
        name for name in env if name.startswith("VLLM_") and name not in names and not _SERVICE.match(name)
    )
    if not strange:
        return {}
    from rapidfuzz import fuzz, process

    # Below 85 begin false friends such as VLLM_USE_V1 and VLLM_USE_V2_MODEL_RUNNER.
    near = process.extractOne(strange[0], known, scorer=fuzz.ratio, score_cutoff=85)
    facts = {"env.unknown": Fact(tuple(strange), "environment")}
    return facts | ({"env.nearest": Fact(near[0], "table")} if near else {})
