"""The model of the launch: what its configuration says, and whether its files could be loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdoctor.budget.blueprint import blueprint
from vdoctor.budget.config import ModelConfig, parse_config, rope_of
from vdoctor.budget.weights import Part, parts_of
from vdoctor.errors import FileFault, UserError
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import last_values
from vdoctor.live.model_folder import WeightFiles, config_data, find_model, read_weights
from vdoctor.live.probe.finding import Seen
from vdoctor.model import Launch

#: Formats whose files are those that read_weights knows; "dummy" and the rest need none of them.
_FORMATS = ("auto", "safetensors", "hf")
_YES = ("1", "true", "yes", "on")
#: A tokenizer of any kind has a file with one of these in its name; byte-level ones need none.
_TOKENIZER = ("token", "vocab", "merges", "spiece", "sentencepiece", "tekken", "bpe", ".spm", "unigram")
_LENGTHS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len", "n_ctx",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelLook:
    """The model as far as it is there. `raw` is config.json; `config` its numbers, None when they cannot be counted."""

    name: str
    folder: Path | None
    raw: Mapping[str, Any]
    config: ModelConfig | None
    weights: WeightFiles | None

    @property
    def parts(self) -> tuple[Part, ...] | int | None:
        """What the estimate counts: tensors, else what the configuration says of them, else the bytes of the files."""
        if self.weights is not None and self.weights.tensors is not None:
            return parts_of(self.weights.tensors)
        laid_out = blueprint(self.config) if self.config is not None else None
        return laid_out or (self.weights.size if self.weights is not None else None)


def model(
    launch: Launch, env: Mapping[str, str], options: OptionTable, name: str, table: Callable[[], Mapping[str, Any]]
) -> Seen:
    """Facts about the model; `table` gives configurations of well-known ones, for a model that is not on this disk."""
    seen = Seen()
    flags = last_values(launch, options)
    try:
        folder = find_model(name, env, flags.get("--revision"))
    except UserError as error:
        seen.miss("model", error.what)
        return seen
    if folder is None:
        _elsewhere(seen, name, env, table())
        return seen
    seen.add("model.path", str(folder), "argv")
    _local(seen, name, folder, flags)
    return seen


def known(name: str, table: Callable[[], Mapping[str, Any]]) -> Seen:
    """Facts about a well-known model that a container loads: what lies on this machine's disk says nothing about it."""
    seen = Seen()
    _of_table(seen, name, table())
    return seen


def _elsewhere(seen: Seen, name: str, env: Mapping[str, str], table: Mapping[str, Any]) -> None:
    """A repository that is not in the cache: offline mode is a fault, and a well-known one has known numbers."""
    if not any(env.get(key) for key in ("VLLM_USE_MODELSCOPE", "S3_ENDPOINT_URL")) and ":" not in name:
        offline = [key for key in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE") if env.get(key, "").lower() in _YES]
        seen.add("hub.offline", bool(offline), "environment")
        seen.add("hub.cached", False, "probe:cache")
    if not _of_table(seen, name, table):
        seen.miss("model", f"{name} is not on this disk")


def _of_table(seen: Seen, name: str, table: Mapping[str, Any]) -> bool:
    key = next((one for one in table if one.lower() == name.lower()), None)
    if key is None:
        return False
    config = parse_config(table[key], key)
    _numbers(seen, config, "table")
    seen.things["model"] = ModelLook(name, None, config.raw, config, None)
    return True


def _local(seen: Seen, name: str, folder: Path, flags: Mapping[str, str]) -> None:
    if not (folder / "config.json").exists() and (folder / "params.json").exists():
        seen.miss("model", f"{folder}: Mistral's own format is not read")
        return
    faults: list[FileFault] = []
    raw: Mapping[str, Any] = {}
    config = weights = None
    try:
        data = config_data(folder)
        raw = data if isinstance(data, dict) else {}
        config = _counted(raw, folder)
    except FileFault as fault:
        faults.append(fault)
    except UserError as error:
        seen.miss("model", error.what)
    else:
        faults += _config_faults(raw, folder)
        faults += _tokenizer_faults(folder, flags)
        if flags.get("--load-format", "auto") in _FORMATS and "--config" not in flags:
            weights = _weights(seen, folder, faults)
    seen.add("model.faults", tuple(dict.fromkeys(fault.kind for fault in faults)), f"probe:{folder}")
    for one in faults:
        if one.kind in ("pointer", "cut-off", "bad-header", "empty"):
            seen.add("model.bad_file", one.file, f"probe:{folder}")
        elif one.kind in ("bad-json", "missing-shards"):
            seen.add("model.file", one.file, f"probe:{folder}")
    source = f"probe:{folder / 'config.json'}"
    if config is not None:
        _numbers(seen, config, source, length="--hf-overrides" not in flags)
    elif raw:
        _names(seen, raw, source)
    seen.things["model"] = ModelLook(name, folder, raw, config, weights)


def _counted(raw: Mapping[str, Any], folder: Path) -> ModelConfig | None:
    """None for a configuration that only vLLM's own code can read: no fault of the model."""
    try:
        return parse_config(raw, str(folder / "config.json"))
    except UserError:
        return None


def _weights(seen: Seen, folder: Path, faults: list[FileFault]) -> WeightFiles | None:
    try:
        weights = read_weights(folder)
    except FileFault as fault:
        faults.append(fault)
        return None
    except UserError as error:
        seen.miss("weights", error.what)
        return None
    others = any(any(folder.glob(pattern)) for pattern in ("*.gguf", "*.bin", "*.pt", "*.pth"))
    if weights.missing is not None:
        place = str(folder / weights.missing)
        faults.append(FileFault(f"{place}: not there", "finish the download", "missing-shards", place))
    elif not weights.size and not others:
        faults.append(FileFault(f"{folder}: no weights", "finish the download", "no-weights", str(folder)))
    return weights


def _config_faults(raw: Mapping[str, Any], folder: Path) -> list[FileFault]:
    # A model's own code may bring the type; vLLM knows some models by their architecture alone.
    told = any(raw.get(key) for key in ("model_type", "auto_map", "architectures", "speculators_config"))
    where = str(folder / "config.json")
    return [] if told else [FileFault(f"{where}: no model_type", "take it from the base model", "no-type", where)]


def _tokenizer_faults(folder: Path, flags: Mapping[str, str]) -> list[FileFault]:
    if any(flag in flags for flag in ("--tokenizer", "--skip-tokenizer-init", "--tokenizer-mode", "--config")):
        return []
    if any(mark in path.name.lower() for path in folder.iterdir() for mark in _TOKENIZER):
        return []
    where = str(folder)
    return [FileFault(f"{where}: no tokenizer", "copy it from the base model", "no-tokenizer", where)]


def _names(seen: Seen, raw: Mapping[str, Any], source: str) -> None:
    kind, architectures = raw.get("model_type"), raw.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    seen.add("model.type", kind if isinstance(kind, str) else None, source)
    seen.add("model.architecture", first if isinstance(first, str) else None, source)


def _numbers(seen: Seen, config: ModelConfig, source: str, *, length: bool = True) -> None:
    _names(seen, config.raw, source)
    if config.heads:
        seen.add("model.heads", config.heads, source)
        seen.add("model.kv_heads", config.kv_heads or None, source)
    seen.add("model.checkpoint_quantization", config.quantization or "", source)
    if length and any(isinstance(config.text.get(key), int) for key in _LENGTHS):
        seen.add("model.derived_max_len", longest(config), source)


def longest(config: ModelConfig, *, stretches: bool = True) -> int:
    """The most that any release allows: model_max_length stretches it, and releases that stretch YaRN multiply its
    original length (vllm/config/model.py: _get_and_verify_max_len)."""
    rope = rope_of(config.text)
    kind, factor = str(rope.get("rope_type") or rope.get("type") or ""), rope.get("factor")
    original, own = rope.get("original_max_position_embeddings"), config.text.get("model_max_length")
    stretched = 0
    if stretches and "yarn" in kind and isinstance(factor, int | float) and 1 <= factor <= 10_000:
        stretched = int((original if isinstance(original, int) else config.max_len) * factor)
    # LongRoPE starts short unless a length is asked for; up to the declared one it may be.
    declared = [value for key in _LENGTHS if isinstance(value := config.text.get(key), int)]
    return max(config.max_len, stretched, min(declared, default=0), own if isinstance(own, int) else 0)
