#!/usr/bin/env python3
"""Write vdoctor/data/models.json: the configurations of well-known models, reduced to what memory depends on.

    $ python3 tools/model_table.py --fetch      # download the wheel that holds the configurations, then write
    $ python3 tools/model_table.py WHEEL        # from a wheel that is there
    $ python3 tools/model_table.py WHEEL --check

The configurations are the config.json files of the models as they lie in the wheel of `aiconfigurator-core`
(Apache-2.0, github.com/ai-dynamo/aiconfigurator), one file a model. A model is written only when vdoctor can lay out its whole
checkpoint; nothing is filled in by hand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vdoctor.budget.blueprint import blueprint  # noqa: E402
from vdoctor.budget.config import parse_config  # noqa: E402
from vdoctor.errors import UserError  # noqa: E402

TARGET = ROOT / "vdoctor" / "data" / "models.json"
PACKAGE = "aiconfigurator-core==0.12.0"
KEYS = (
    "architectures", "attention_bias", "dtype", "first_k_dense_replace", "head_dim", "hidden_size", "intermediate_size",
    "kv_lora_rank", "layer_types", "max_position_embeddings", "model_type", "moe_intermediate_size",
    "n_routed_experts", "n_shared_experts", "num_attention_heads", "num_experts", "num_experts_per_tok",
    "num_hidden_layers", "num_key_value_heads", "num_local_experts", "partial_rotary_factor", "q_lora_rank",
    "qk_nope_head_dim", "qk_rope_head_dim", "rope_parameters", "rope_scaling", "rope_theta", "sliding_window",
    "tie_word_embeddings", "torch_dtype", "use_sliding_window", "v_head_dim", "vocab_size",
)  # fmt: skip
#: Repositories of the same architecture and sizes as one in the wheel, under other names.
SAME = {
    "meta-llama/Meta-Llama-3.1-8B": ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct",
                                     "meta-llama/Meta-Llama-3.1-8B-Instruct"),
    "meta-llama/Meta-Llama-3.1-70B": ("meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-70B-Instruct",
                                      "meta-llama/Meta-Llama-3.1-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"),
    "mistralai/Mixtral-8x7B-v0.1": ("mistralai/Mixtral-8x7B-Instruct-v0.1",),
}  # fmt: skip


def fetch(folder: Path) -> Path:
    """Download the wheel with pip; nothing of it is run."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
            str(folder),
            PACKAGE,
        ],
        check=True,
    )
    return next(folder.glob("*.whl"))


def reduced(config: dict[str, Any]) -> dict[str, Any]:
    """The keys that count; of a quantisation what its name and blocks are."""
    small = {key: config[key] for key in KEYS if config.get(key) is not None}
    quantization = config.get("quantization_config")
    if isinstance(quantization, dict):
        small["quantization_config"] = {
            key: quantization[key] for key in ("quant_method", "weight_block_size") if key in quantization
        }
    return small


def table(wheel: Path) -> dict[str, Any]:
    """Name to configuration, for every model that can be laid out."""
    models: dict[str, Any] = {}
    with zipfile.ZipFile(wheel) as archive:
        paths = archive.namelist()
        for path in sorted(paths):
            stem = path.rpartition("/")[2]
            if "/model_configs/" not in path or not stem.endswith("_config.json") or "_hf_quant" in stem:
                continue
            if path.replace("_config.json", "_hf_quant_config.json") in paths:
                continue  # quantised in a way that config.json does not tell
            name = stem.removesuffix("_config.json").replace("--", "/", 1)
            small = reduced(json.loads(archive.read(path)))
            if countable(small, name):
                models[name] = small
    for original, others in SAME.items():
        models |= {other: models[original] for other in others if original in models}
    return models


def countable(config: dict[str, Any], name: str) -> bool:
    """Whether its checkpoint is known from the configuration alone, with scales of blocks if it is fp8."""
    quantization = config.get("quantization_config", {})
    if quantization.get("quant_method") == "fp8" and not quantization.get("weight_block_size"):
        return False
    try:
        return blueprint(parse_config(config, name)) is not None
    except UserError:
        return False


def main() -> int:
    """Returns 1 when --check finds another table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--fetch", action="store_true", help="download the wheel first")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = fetch(Path(folder)) if args.fetch or args.wheel is None else args.wheel
        models = table(wheel)
    text = json.dumps({"source": PACKAGE, "models": models}, indent=1, sort_keys=True) + "\n"
    if args.check:
        return 0 if TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"{len(models)} models")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
