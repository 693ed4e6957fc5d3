"""Whether model, command and the vLLM that will run them suit each other."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import Version

from vdoctor.budget.config import ModelConfig
from vdoctor.launch.options import OptionTable, parse_version
from vdoctor.launch.values import last_values
from vdoctor.live.probe.finding import Seen
from vdoctor.live.probe.model import ModelLook, longest
from vdoctor.model import FactValue, Launch

#: Endings that vLLM turns into nothing else; classifiers and embedding models are adapted (models/adapters.py).
_PLAIN = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
#: Names of one kind of checkpoint; vLLM changes between the names of a row by itself.
_FAMILIES = (
    ("awq", "awq_marlin", "auto_awq"),
    ("gptq", "gptq_marlin", "auto_gptq", "gptq_bitblas", "marlin"),
    ("fp8",),
    ("compressed-tensors",),
)
#: Methods that read a description beside the weights and cannot quantise by themselves.
_DESCRIBED = ("awq", "awq_marlin", "gptq", "gptq_marlin")
_DESCRIPTIONS = ("quantize_config.json", "quant_config.json", "hf_quant_config.json")
#: Options that put ranks on other nodes or in other commands.
_ELSEWHERE = frozenset(
    (
        *("--nnodes", "--node-rank", "--distributed-executor-backend", "--data-parallel-size-local", "--config"),
        *(
            "--data-parallel-backend",
            "--data-parallel-rank",
            "--data-parallel-hybrid-lb",
            "--data-parallel-external-lb",
        ),
        *("--data-parallel-address", "--data-parallel-start-rank", "--headless"),
    )
)
#: Dense families whose MLP is cut along intermediate_size by divide() (vllm/distributed/utils.py).
#: Families whose experts are cut along moe_intermediate_size, and parts of an MLP that may be left unquantised.
_ROUTED = ("qwen3_moe", "deepseek_v3", "kimi_k2")
_MLP = ("mlp", "experts", "gate_proj", "up_proj", "down_proj", "gate_up_proj")
_DENSE = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3")


def suits(seen: Seen, launch: Launch, options: OptionTable, facts: Mapping[str, FactValue]) -> Seen:
    """Facts that need model and environment together; `facts` are those known so far."""
    found = Seen()
    flags = last_values(launch, options)
    answer = seen.things.get("target")
    if isinstance(answer, Mapping):
        _parsers(found, flags, answer)
    if not _ELSEWHERE & flags.keys():
        _world(found, flags, facts)
    look = seen.things.get("model")
    if isinstance(look, ModelLook):
        if isinstance(answer, Mapping) and not {"--hf-overrides", "--config", "--model-impl"} & flags.keys():
            _architecture(found, look, flags, answer)
        _quantization(found, look, flags)
        if (
            look.config is not None
            and "model.derived_max_len" in facts
            and not _before(facts.get("vllm.version"), "0.30")
        ):
            exact = "vllm.version" in facts
            source = f"probe:{look.folder / 'config.json'}" if look.folder else "table"
            found.add("model.derived_max_len", longest(look.config, stretches=not exact), source)
        if look.config is not None:
            _cuts(found, look.config, look.raw, facts)
            if not {"--enable-expert-parallel", "--data-parallel-size", "--hf-overrides"} & flags.keys():
                _blocks(found, look.config, look.raw, facts)
    return found


def _world(found: Seen, flags: Mapping[str, str], facts: Mapping[str, FactValue]) -> None:
    """Ranks on this node: the product of the three sizes, each of which must be a plain number."""
    product = 1
    for flag in ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"):
        value = flags.get(flag, "1")
        if not value.isdecimal() or not 1 <= int(value) <= 4096:
            return
        product *= int(value)
    found.add("tp.world", product, "argv")
    if "--tensor-parallel-size" not in flags:
        found.add("tp.size", 1, "default")


def _strings(value: object) -> frozenset[str]:
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, Sequence) else frozenset()


def _parsers(found: Seen, flags: Mapping[str, str], answer: Mapping[str, Any]) -> None:
    """Names of parsers against those that this vLLM registers; a plugin may bring any."""
    for flag, kind, best in (
        ("--tool-call-parser", "tool", "hermes"),
        ("--reasoning-parser", "reasoning", "deepseek_r1"),
    ):
        key, plugin, fact = f"{kind}_parsers", f"--{kind}-parser-plugin", f"api.{kind}_parser_unknown"
        names, asked = _strings(answer.get(key)), flags.get(flag)
        # Without the best-known name the source was not read right.
        if not asked or best not in names or plugin in flags or answer.get("plugins") != []:
            continue
        if "api.parser" in found.facts:
            # The facts name one parser; the other is told when this one is mended.
            break
        found.add(fact, asked not in names, "probe:vllm")
        if asked not in names:
            found.add("api.parser", asked, "argv")
            found.add("api.parsers", ", ".join(_nearest_first(asked, names)), "probe:vllm")
    missing = "--enable-auto-tool-choice" in flags and not {"--tool-call-parser", "--config"} & flags.keys()
    found.add("api.tool_parser_missing", missing, "argv")


def _nearest_first(asked: str, names: frozenset[str]) -> list[str]:
    """What may have been meant stands first, the rest in order of the alphabet."""
    near = difflib.get_close_matches(asked, sorted(names), n=3)
    return near + sorted(names - set(near))


def _architecture(found: Seen, look: ModelLook, flags: Mapping[str, str], answer: Mapping[str, Any]) -> None:
    """Known to the registry of this vLLM, or to transformers, whose classes vLLM takes for what it lacks."""
    types, classes = _strings(answer.get("model_types")), _strings(answer.get("architectures"))
    if not types or not classes or answer.get("plugins") != []:
        return
    kind, raw = look.raw.get("model_type"), look.raw
    auto = raw.get("auto_map")
    own_code = isinstance(auto, Mapping) and "AutoConfig" in auto
    strange = isinstance(kind, str) and bool(kind) and kind not in types and not _is_own(raw, classes)
    source = f"probe:{look.folder}" if look.folder else "table"
    found.add("model.needs_code", strange and own_code and "--trust-remote-code" not in flags, source)
    found.add("model.type_unknown", strange and not own_code, source)
    names = raw.get("architectures")
    listed = [one for one in names if isinstance(one, str)] if isinstance(names, list) else []
    if not listed or auto or strange:
        return
    known = classes | _strings(answer.get("transformers_classes"))
    lost = all(one not in known and one.endswith(_PLAIN) for one in listed)
    found.add("model.architecture_unknown", lost, source)


def _is_own(raw: Mapping[str, Any], classes: frozenset[str]) -> bool:
    """Some models are known by their architecture before transformers is asked for the type."""
    names = raw.get("architectures")
    return isinstance(names, list) and any(isinstance(one, str) and one in classes for one in names)


def _quantization(found: Seen, look: ModelLook, flags: Mapping[str, str]) -> None:
    if look.config is None or look.folder is None or "--hf-overrides" in flags:
        return
    asked, have = flags.get("--quantization"), look.config.quantization
    if not asked:
        if have and have != "unknown" and "--config" not in flags:
            found.add("model.quantization", have, f"probe:{look.folder / 'config.json'}")
        return
    families = [next((row for row in _FAMILIES if name in row), None) for name in (asked, have or "")]
    if have:
        apart = None not in families and families[0] != families[1]
        found.add("quant.conflict", apart, f"probe:{look.folder / 'config.json'}")
    described = bool(have) or any((look.folder / name).is_file() for name in _DESCRIPTIONS)
    found.add("quant.not_in_checkpoint", asked in _DESCRIBED and not described, f"probe:{look.folder}")


def _cuts(found: Seen, config: ModelConfig, raw: Mapping[str, Any], facts: Mapping[str, FactValue]) -> None:
    """What tensor parallelism divides: KV heads, the MLP, groups of quantised weights."""
    tp = facts.get("tp.size")
    if not isinstance(tp, int) or tp < 2 or not config.heads or config.heads % tp:
        return
    inner = config.text.get("intermediate_size")
    inner = inner if isinstance(inner, int) and config.type in _DENSE and config.experts == 0 else None
    kv_heads = config.kv_heads
    uneven = kv_heads if kv_heads > tp and kv_heads % tp else kv_heads if kv_heads <= tp and tp % kv_heads else None
    if uneven is None and inner is not None and inner % tp:
        uneven = inner
    found.add("tp.uneven", uneven is not None, "derived")
    if uneven is not None:
        found.add("tp.dividend", uneven, "probe:config.json")
        found.add("tp.divisor", tp, "argv")
    elif inner is not None and (group := _group_size(raw)) and _before(facts.get("vllm.version"), "0.28"):
        found.add("quant.cut", (inner // tp) % group != 0, "derived")
        if (inner // tp) % group:
            found.add("quant.partition", inner // tp, "derived")
            found.add("quant.tile", group, "probe:config.json")


def _blocks(found: Seen, config: ModelConfig, raw: Mapping[str, Any], facts: Mapping[str, FactValue]) -> None:
    """Weights in fp8 blocks that tensor parallelism would cut (validate_fp8_block_shape and create_weights of
    Fp8MoEMethod in vllm/model_executor/layers/quantization, read in 0.14 to 0.26; 0.29 may refine the scales instead)."""
    tp, version, section = facts.get("tp.size"), facts.get("vllm.version"), raw.get("quantization_config")
    if not isinstance(tp, int) or tp < 2 or not isinstance(section, Mapping) or section.get("quant_method") != "fp8":
        return
    sizes, kept = section.get("weight_block_size"), section.get("modules_to_not_convert") or ()
    if not _before(version, "0.29") or _before(version, "0.14") or not isinstance(sizes, list) or not sizes:
        return
    if not isinstance(kept, Sequence) or any(str(one).rpartition(".")[2] in _MLP for one in kept):
        return
    routed = config.type in _ROUTED and config.experts
    inner = config.text.get("moe_intermediate_size" if routed else "intermediate_size")
    # Of a dense MLP gate and up may be cut anywhere, down may not.
    tile = sizes[0] if routed else sizes[-1]
    if not isinstance(inner, int) or not isinstance(tile, int) or tile < 2 or inner % tp:
        return
    if not routed and (config.type not in _DENSE or config.experts):
        return
    found.add("quant.block_cut", (inner // tp) % tile != 0, "derived")
    if (inner // tp) % tile:
        found.add("quant.partition", inner // tp, "derived")
        found.add("quant.tile", tile, "probe:config.json")


def _group_size(raw: Mapping[str, Any]) -> int | None:
    """Of AWQ and plain GPTQ checkpoints; GPTQ in activation order has its groups anywhere."""
    section = raw.get("quantization_config")
    if (
        not isinstance(section, Mapping)
        or section.get("quant_method") not in ("awq", "gptq")
        or section.get("desc_act")
    ):
        return None
    group = section.get("group_size")
    return group if isinstance(group, int) and group > 1 else None


def _before(version: FactValue | None, limit: str) -> bool:
    release = parse_version(str(version or ""))
    return release is not None and release < Version(limit)
