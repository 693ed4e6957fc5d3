"""Model folders as they are found on disks: whole, half downloaded, pointers, other formats."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.budget.checkpoints import LARGE, LLAMA, header, llama_tensors, write_model, write_shard
from vdoctor.errors import UserError
from vdoctor.live.model_folder import find_model, read_model

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def test_whole_model(tmp_path: Path) -> None:
    one = read_model(write_model(tmp_path / "m"))
    many = read_model(write_model(tmp_path / "n", shards=3))
    assert one.tensors is not None and many.tensors is not None
    assert {tensor.name for tensor in one.tensors} == set(llama_tensors(LLAMA))
    assert sorted(one.tensors) == sorted(many.tensors)
    assert (one.shards, many.shards, one.problems, many.problems) == (1, 3, (), ())


def test_a_download_that_stopped(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=3)
    whole = read_model(folder).size
    (folder / "model-00002-of-00003.safetensors").unlink()
    files = read_model(folder)
    assert files.tensors is None and files.size is not None and whole is not None
    assert files.size == json.loads((folder / "model.safetensors.index.json").read_text())["metadata"]["total_size"]
    assert [problem.what for problem in files.problems] == [
        "missing: 1 of 3 weight files, first model-00002-of-00003.safetensors"
    ]


def test_index_of_another_revision(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=2)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    index["weight_map"]["model.extra.weight"] = "model-00001-of-00002.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model.extra.weight" in read_model(folder).problems[0].what


def test_second_copy_in_another_format_is_left_out(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    write_shard(folder / "consolidated.safetensors", header({"other": ("F32", (8,))}))
    tensors = read_model(folder).tensors
    assert tensors is not None and "other" not in {tensor.name for tensor in tensors}


def test_only_pickles(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"0" * 1000)
    files = read_model(folder)
    assert (files.tensors, files.size) == (None, 1000)


def test_modelopt_writes_the_quantisation_beside(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    assert read_model(folder).config.quantization == "modelopt"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.json", "{", "broken JSON"),
        ("config.json", "", "broken JSON"),
        ("config.json", "[" * 100_000, "broken JSON"),
        ("config.json", POINTER, "Git LFS pointer"),
        ("config.json", "[1]", "not a JSON object"),
        ("model.safetensors", POINTER, "Git LFS pointer"),
        ("model.safetensors", "", "too short"),
        ("model.safetensors", "<html>not found</html>", "header"),
        ("model.safetensors.index.json", "{}", "no weight_map"),
        ("model.safetensors.index.json", '{"weight_map": {"a": 3}}', "no weight_map"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "../../etc/passwd"}}', "outside the model folder"),
        ("model.safetensors.index.json", "nothing", "broken JSON"),
    ],
)
def test_files_that_are_broken(tmp_path: Path, name: str, content: str, says: str) -> None:
    folder = write_model(tmp_path / "m")
    (folder / name).write_text(content)
    with pytest.raises(UserError, match=says):
        read_model(folder)


def test_config_that_is_no_text(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="broken JSON"):
        read_model(folder)


def test_truncated_weights(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    weights = folder / "model.safetensors"
    with weights.open("r+b") as file:
        file.truncate(weights.stat().st_size // 2)
    with pytest.raises(UserError, match="the file has room for"):
        read_model(folder)


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("model-q4.gguf", "GGUF"),
        ("adapter_config.json", "an adapter"),
        ("model_index.json", "diffusion"),
        ("readme.md", "not a model folder"),
    ],
)
def test_other_folders(tmp_path: Path, file: str, says: str) -> None:
    (tmp_path / file).write_text("{}")
    with pytest.raises(UserError, match=says):
        read_model(tmp_path)


def test_entry_of_the_hub_cache(tmp_path: Path) -> None:
    environ = {"HF_HOME": str(tmp_path)}
    entry = tmp_path / "hub" / "models--owner--name"
    write_model(entry / "snapshots" / "aaa")
    assert find_model("owner/name", environ) == entry / "snapshots" / "aaa"
    write_model(entry / "snapshots" / "bbb")
    assert find_model("owner/name", environ) is None  # which of the two?
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text("bbb\n")
    assert find_model("owner/name", environ) == entry / "snapshots" / "bbb"
    assert find_model("owner/name", environ, revision="aaa") == entry / "snapshots" / "aaa"
    (entry / "refs" / "main").write_text("../../..")
    assert find_model("owner/name", environ) is None
    assert find_model("owner/other", environ) is None


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "a/b/c"])
def test_paths_that_are_not_there(name: str) -> None:
    with pytest.raises(UserError, match="no such model folder"):
        find_model(name, {})


def test_a_large_checkpoint_is_read_by_its_headers_alone(tmp_path: Path) -> None:
    """140 GB in 60 files, all holes. The bound is generous; tools/bench_estimate.py measures."""
    folder = tmp_path / "m"
    write_model(folder, LARGE, shards=60)
    start = time.monotonic()
    files = read_model(folder)
    assert time.monotonic() - start < 20
    assert files.size is not None and files.size > 140e9
