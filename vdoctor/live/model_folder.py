"""A model where it lies: a folder, an entry of the Hugging Face cache, or a config.json alone. Nothing is downloaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdoctor.budget.config import ModelConfig, parse_config
from vdoctor.budget.tensors import Tensor, header_length, parse_header
from vdoctor.errors import FileFault, UserError

_INDEX = "model.safetensors.index.json"
_LFS = b"version https://git-lfs"
_MAX_JSON = 200_000_000
#: Mistral's own format lies beside the other one; vLLM reads the other one by default.
_SECOND_COPY = "consolidated"
_BIN = ("*.bin", "*.pt", "*.pth")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the files: what, what next; `file` is one that is missing."""

    what: str
    hint: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What is known of a model from its files.

    `tensors`: all of them, from the headers; None when they cannot be listed. `size`: bytes of the weights as files,
    or as the index says; None when nothing is there. `problems`: what would keep vLLM from loading it.
    """

    where: str
    config: ModelConfig
    tensors: tuple[Tensor, ...] | None
    size: int | None
    shards: int
    problems: tuple[Problem, ...] = ()


def find_model(name: str, environ: Mapping[str, str], revision: str | None = None) -> Path | None:
    """The folder of a model given as a path or as a repository id; None for an id that is not in the cache."""
    try:
        path = Path(name).expanduser()
        folder, file = path.is_dir(), path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        # Too long, a zero byte, a folder that may not be entered, ~somebody who is not known here.
        raise UserError(f"{name[:100]}: {_reason(error)}", "give a model folder that can be read") from None
    if folder:
        return path
    if file:
        if path.name == "config.json":
            return path.parent
        raise UserError(f"{name}: a file; vdoctor reads model folders", f"vdoctor estimate {path.parent}")
    if name.startswith(("/", "./", "../", "~")) or name.count("/") > 1:
        raise UserError(f"{name}: no such model folder", "check the path; a repository id reads as owner/name")
    return _cached(name, environ, revision)


def cache_root(environ: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps models: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME or ~/.cache below huggingface."""
    if given := environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(given).expanduser()
    if home := environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def _cached(name: str, environ: Mapping[str, str], revision: str | None) -> Path | None:
    """The snapshot that a reference names, or the only one there is."""
    entry = cache_root(environ) / ("models--" + name.replace("/", "--"))
    try:
        if revision and (entry / "snapshots" / revision).is_dir():
            return entry / "snapshots" / revision
        reference = entry / "refs" / (revision or "main")
        if reference.is_file():
            commit = reference.read_text(encoding="utf-8", errors="replace")[:100].strip()
            if commit and "/" not in commit and (entry / "snapshots" / commit).is_dir():
                return entry / "snapshots" / commit
        found = [path for path in (entry / "snapshots").iterdir() if path.is_dir()]
    except (OSError, ValueError):
        return None
    return found[0] if len(found) == 1 and revision is None else None


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """What the headers of the weight files say; fields as in ModelFiles."""

    tensors: tuple[Tensor, ...] | None
    size: int | None
    shards: int
    problems: tuple[Problem, ...] = ()
    missing: str | None = None


def read_model(folder: Path, name: str = "") -> ModelFiles:
    """Read the configuration and the headers of a model's files; UserError for what cannot be read or lies."""
    config = parse_config(config_data(folder), str(folder / "config.json"))
    weights = read_weights(folder)
    return ModelFiles(name or str(folder), config, weights.tensors, weights.size, weights.shards, weights.problems)


def config_data(folder: Path) -> Any:
    """What config.json holds; UserError when it cannot be read."""
    return _with_quantization(_json(folder / "config.json", _no_config(folder)), folder)


def read_weights(folder: Path) -> WeightFiles:
    """Read the headers of all weight files, without their data; FileFault for the first that is no such file.

    `missing` is the first file that the index names and that is not there.
    """
    names, expected, problems, stated = _shard_names(folder)
    tensors: dict[str, Tensor] = {}
    size = 0
    for shard in names:
        path = folder / shard
        size += _size_of(path)
        for tensor in _read_header(path):
            tensors.setdefault(tensor.name, tensor)
    if not problems:
        problems = _unlisted(folder, tensors)
    if not tensors:
        size = stated or sum(
            path.stat().st_size for pattern in _BIN for path in folder.glob(pattern) if _is_plain(path)
        )
    complete = bool(tensors) and len(names) == expected
    return WeightFiles(
        tensors=tuple(tensors.values()) if complete else None,
        size=(max(stated or 0, size) or None) if not complete else size,
        shards=len(names),
        problems=tuple(problems),
        missing=next((one.file for one in problems if one.file), None),
    )


def _with_quantization(data: Any, folder: Path) -> Any:
    """ModelOpt wrote the quantisation into a file of its own."""
    beside = folder / "hf_quant_config.json"
    if isinstance(data, dict) and "quantization_config" not in data and _is_plain(beside):
        return {**data, "quantization_config": {"quant_method": "modelopt", "modelopt": _json(beside)}}
    return data


def _no(folder: Path, what: str, hint: str) -> FileFault:
    return FileFault(what, hint, "no-config", str(folder / "config.json"))


def _no_config(folder: Path) -> UserError:
    if any(folder.glob("*.gguf")):
        return _no(
            folder,
            f"{folder}: GGUF files only",
            "vdoctor reads config.json and safetensors; give the folder of the original model",
        )
    if any(folder.glob("adapter_config.json")):
        return _no(folder, f"{folder}: an adapter, not a model", "give the base model: adapter_config.json names it")
    if any(folder.glob("model_index.json")):
        return _no(folder, f"{folder}: a diffusion pipeline", "vdoctor counts language models")
    return _no(
        folder,
        f"{folder}: not a model folder, config.json is not there",
        "give the folder that holds config.json and the weights",
    )


def _json(path: Path, missing: UserError | None = None) -> Any:
    """A JSON file; UserError says what is wrong with it."""
    try:
        if path.stat().st_size > _MAX_JSON or not path.is_file():
            raise UserError(f"{path}: not a JSON file of a model", "take the file from the model again")
        data = path.read_bytes()
    except FileNotFoundError:
        raise missing or UserError(f"{path}: no such file", "take the file from the model again") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {_reason(error)}", "vdoctor must be able to read the model") from None
    if data.startswith(_LFS):
        what = f"{path}: a Git LFS pointer, the file itself was not fetched"
        raise FileFault(what, f"git -C {path.parent} lfs pull", "bad-json", str(path))
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:80] if isinstance(error, json.JSONDecodeError) else "cannot be decoded"
        what = f"{path}: broken JSON: {reason}"
        raise FileFault(what, "take the file from the model again", "bad-json", str(path)) from None


def _is_plain(path: Path) -> bool:
    """Whether a file can be opened without waiting: no pipe, no folder, no loop of links."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _size_of(path: Path) -> int:
    """Bytes of a weight file; FileFault for what is none."""
    try:
        if path.is_file():
            return path.stat().st_size
        path.stat()
        reason = "not a plain file"
    except (OSError, ValueError) as error:
        reason = _reason(error)
    raise FileFault(f"{path}: {reason}", "take the file from the model again", "bad-header", str(path))


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)[:100]


def _shard_names(folder: Path) -> tuple[list[str], int, list[Problem], int | None]:
    """Weight files to read, how many there should be, problems, and the size that the index states."""
    index = folder / _INDEX
    if not _is_plain(index):
        names = sorted(path.name for path in folder.glob("*.safetensors"))
        plain = [name for name in names if not name.startswith(_SECOND_COPY)]
        return plain or names, len(plain or names), [], None
    data = _json(index)
    shards = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(shards, dict) or not all(isinstance(one, str) for one in shards.values()):
        raise UserError(f"{index}: no weight_map", "take the file from the model again")
    names = sorted(set(shards.values()))
    if any("/" in name or "\\" in name or name.startswith(".") for name in names):
        raise UserError(f"{index}: names files outside the model folder", "take the file from the model again")
    metadata = data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    stated = int(total) if isinstance(total, int | float) and 0 < total < 1 << 60 else None
    there = [name for name in names if _is_plain(folder / name)]
    problems = []
    if len(there) < len(names):
        gone = [name for name in names if name not in there]
        problems.append(
            Problem(
                f"missing: {len(gone)} of {len(names)} weight files, first {gone[0]}",
                "finish the download of the model",
                gone[0],
            )
        )
    return there, len(names), problems, stated


def _read_header(path: Path) -> list[Tensor]:
    """The tensors of one file, from its first bytes alone."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = file.read(8)
            if first and _LFS.startswith(first):
                what = f"{path}: a Git LFS pointer, the file itself was not fetched"
                raise FileFault(what, f"git -C {path.parent} lfs pull", "pointer", str(path))
            header = file.read(header_length(first, size, str(path)))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "vdoctor must be able to read the model") from None
    tensors = parse_header(header, size, str(path))
    held, room = sum(tensor.bytes for tensor in tensors), size - 8 - len(header)
    if held < room:
        # safetensors refuses a file with anything behind or between its tensors (tensor.rs: MetadataIncompleteBuffer).
        what = f"{path}: tensors of {held} bytes in a file with room for {room}"
        raise FileFault(what, "the file is damaged: download it again", "cut-off", str(path))
    return tensors


def _unlisted(folder: Path, tensors: Mapping[str, Tensor]) -> list[Problem]:
    """Tensors that the index promises and no file holds."""
    index = folder / _INDEX
    if not tensors or not _is_plain(index):
        return []
    names = _json(index).get("weight_map", {})
    lost = next((name for name in names if name not in tensors), None)
    if lost is None:
        return []
    return [Problem(f"the index names {lost[:80]}, no file holds it", "take index and weight files from one revision")]
