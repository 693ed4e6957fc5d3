"""Model folders made of real files: configurations and safetensors headers, with or without the data behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vdoctor.budget.tensors import BITS

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
#: The sizes of a model of 70 billion weights.
LARGE: dict[str, Any] = LLAMA | {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "vocab_size": 128256,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}


def header(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> bytes:
    """A true header: tensors one behind the other."""
    entries, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = BITS[dtype] // 8
        for one in shape:
            size *= one
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return json.dumps(entries).encode()


def data_size(head: bytes) -> int:
    """Bytes of data that a header promises."""
    return max((entry["data_offsets"][1] for entry in json.loads(head).values()), default=0)


def write_shard(path: Path, head: bytes, size: int | None = None) -> None:
    """A file with this header, and data as holes: it takes no room on the disk."""
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + (data_size(head) if size is None else size))


def llama_tensors(config: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """What transformers saves for a Llama."""
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    key = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {"model.embed_tokens.weight": ("BF16", (vocab, hidden))}
    shapes = {
        "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (key, hidden), "self_attn.v_proj": (key, hidden),
        "self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner), "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
    }  # fmt: skip
    for layer in range(config["num_hidden_layers"]):
        tensors |= {f"model.layers.{layer}.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
    return tensors | {"model.norm.weight": ("BF16", (hidden,)), "lm_head.weight": ("BF16", (vocab, hidden))}


def write_model(folder: Path, config: Mapping[str, Any] = LLAMA, shards: int = 1) -> Path:
    """A whole model folder, with an index when there are several files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = llama_tensors(config)
    if shards == 1:
        write_shard(folder / "model.safetensors", header(tensors))
        return folder
    names = list(tensors)
    weight_map: dict[str, str] = {}
    total = 0
    for number in range(shards):
        mine = {name: tensors[name] for name in names[number::shards]}
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        head = header(mine)
        write_shard(folder / file, head)
        weight_map |= dict.fromkeys(mine, file)
        total += data_size(head)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
