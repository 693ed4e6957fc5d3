"""The model that `vdoctor estimate` is asked about, wherever it is."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from vdoctor.budget.blueprint import blueprint
from vdoctor.budget.config import ModelConfig, has_towers, parse_config
from vdoctor.budget.weights import Part, parts_of
from vdoctor.errors import UserError
from vdoctor.live.model_folder import find_model, read_model


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, read: its configuration, the parts of its checkpoint (or its size), where it is from."""

    name: str
    config: ModelConfig
    parts: tuple[Part, ...] | int
    source: str
    doubts: tuple[tuple[str, dict[str, object]], ...] = ()
    problems: tuple[str, ...] = ()


def load_subject(name: str, environ: Mapping[str, str], online: bool = False) -> Subject:
    """A model by path, from the Hugging Face cache, from the hub (`online`), or from the table of known models. UserError
    says where to look."""
    folder = find_model(name, environ)
    if folder is None:
        return _of_hub(name, environ) if online else _known_model(name)
    files = read_model(folder, name)
    problems = tuple(f"{problem.what} ({problem.hint})" for problem in files.problems)
    if files.tensors is not None:
        return Subject(name, files.config, parts_of(files.tensors), str(folder), problems=problems)
    laid_out = blueprint(files.config)
    if laid_out is not None:
        return Subject(name, files.config, laid_out, str(folder), _laid_out(files.config), problems)
    if files.size:
        return Subject(name, files.config, files.size, str(folder), (("by_size", {}),), problems)
    raise UserError(
        f"{folder}: no weights, and model type {files.config.type or '?'} cannot be laid out without them",
        "finish the download of the model",
    )


def _laid_out(config: ModelConfig) -> tuple[tuple[str, dict[str, object]], ...]:
    """What to say where the configuration alone tells the weights: it lays out the language model, no encoder."""
    doubts: tuple[tuple[str, dict[str, object]], ...] = (("by_config", {}),)
    return doubts if not has_towers(config) else (*doubts, ("towers_weights", {}))


def _of_hub(name: str, environ: Mapping[str, str]) -> Subject:
    from vdoctor.live.hub import fetch_model

    found = fetch_model(name, environ)
    doubts: list[tuple[str, dict[str, object]]] = [("online", {"model": name, "endpoint": found.endpoint})]
    if found.tensors is not None:
        return Subject(name, found.config, parts_of(found.tensors), "hub", tuple(doubts))
    laid_out = blueprint(found.config)
    if laid_out is not None:
        return Subject(name, found.config, laid_out, "hub", (*doubts, *_laid_out(found.config)))
    if found.size:
        return Subject(name, found.config, found.size, "hub", (*doubts, ("by_size", {})))
    raise UserError(f"{name}: the repository has no safetensors files", "download the model and give its folder")


def _known_model(name: str) -> Subject:
    models = known_models()
    key = next((one for one in models if one.lower() == name.lower()), None)
    if key is None:
        near = difflib.get_close_matches(name, models, n=3, cutoff=0.5)
        hint = f"vdoctor knows {', '.join(near)}; " if near else ""
        raise UserError(
            f"{name}: not on this disk, not in the Hugging Face cache, not in the table",
            f"{hint}download it, give the path of a folder with its config.json, or ask the hub with --online",
        )
    config = parse_config(models[key], key)
    laid_out = blueprint(config)
    assert laid_out is not None, key
    return Subject(key, config, laid_out, "table", (("table", {"model": key}),))


def known_models() -> dict[str, Any]:
    """Configurations that are installed with vdoctor (tools/model_table.py)."""
    data = json.loads(resources.files("vdoctor.data").joinpath("models.json").read_text(encoding="utf-8"))
    models: dict[str, Any] = data["models"]
    return models
