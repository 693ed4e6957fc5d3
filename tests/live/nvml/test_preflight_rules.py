"""Every rule that shall foretell a fault: `check` finds it before the start, on a machine and a model made so."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.budget.checkpoints import LARGE, write_model
from tests.live.nvml.conftest import Play
from tests.processes import ROOT, VDOCTOR, run
from vdoctor.store import load_rules

GIB = 1 << 30
ONE = f"gpu 0 NVIDIA-A GPU-aaaa {80 * GIB}\nused 0 {GIB}\n"
TWO = ONE + f"gpu 1 NVIDIA-A GPU-bbbb {80 * GIB}\nused 1 {30 * GIB}\n"
FREE = "".join(f"gpu {at} NVIDIA-A GPU-{at}{at} {80 * GIB}\nused {at} 0\n" for at in range(2))
HALF = ("--gpu-memory-utilization", "0.5")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n"

#: Rules that no test can make true on every machine, with the reason. Their examples prove them on the facts.
EXCEPTIONS = {"dist.shm-too-small": "needs a /dev/shm of 64 MiB", "dist.p2p-blocked": "needs GPUs behind an IOMMU"}


def config(**changes: Any) -> Callable[[Path], None]:
    """Other values in config.json; None takes a key out."""

    def apply(model: Path) -> None:
        data = json.loads((model / "config.json").read_text()) | changes
        (model / "config.json").write_text(json.dumps({key: value for key, value in data.items() if value is not None}))

    return apply


def weights(data: bytes) -> Callable[[Path], None]:
    """The weight file holds this instead."""

    def apply(model: Path) -> None:
        (model / "model.safetensors").write_bytes(data)

    return apply


def cut(model: Path) -> None:
    """Half a weight file."""
    os.truncate(model / "model.safetensors", (model / "model.safetensors").stat().st_size // 2)


def without(*names: str) -> Callable[[Path], None]:
    """Files that are not there."""

    def apply(model: Path) -> None:
        for name in names:
            (model / name).unlink()

    return apply


def without_a_shard(model: Path) -> None:
    """The index names three files, two are there."""
    (model / "model.safetensors").unlink()
    write_model(model, shards=3)
    (model / "model-00002-of-00003.safetensors").unlink()


def large(model: Path) -> None:
    """70 B parameters, in holes."""
    (model / "model.safetensors").unlink()
    write_model(model, LARGE, shards=4)


def no_compiler(home: Path, env: dict[str, str]) -> None:
    """A PATH without any."""
    env["PATH"] = str(home / "bin")


def compat(home: Path, env: dict[str, str]) -> None:
    """A compat library in front of the driver's."""
    for name in ("cuda/compat", "driver"):
        (home / name).mkdir(parents=True)
        (home / name / "libcuda.so.1").write_text(name)
    env["LD_LIBRARY_PATH"] = f"{home / 'cuda/compat'}:{home / 'driver'}:{env.get('LD_LIBRARY_PATH', '')}"


def other_torch(home: Path, env: dict[str, str]) -> None:
    """vLLM was built for another torch."""
    with (home / "site" / "vllm-0.32.0.dist-info" / "METADATA").open("a") as file:
        file.write("Requires-Dist: torch==2.9.0\n")


def no_headers(home: Path, env: dict[str, str]) -> None:
    """An interpreter whose folder of headers is empty."""
    python = home / "bin" / "python-bare"
    patch = "import sys, sysconfig; sysconfig.get_paths = lambda *a: {}; exec(sys.argv[1])"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{patch}" "$2"\n')
    python.chmod(0o755)
    (home / "bin" / "vllm").write_text(f"#!{python}\n")


def torch_for(cuda: str) -> Callable[[Path, dict[str, str]], None]:
    """A torch that was built for this CUDA."""

    def apply(home: Path, env: dict[str, str]) -> None:
        (home / "site" / "torch" / "version.py").write_text(f"cuda: Optional[str] = '{cuda}'\n")

    return apply


def older(version: str) -> Callable[[Path, dict[str, str]], None]:
    """Another release of vLLM."""

    def apply(home: Path, env: dict[str, str]) -> None:
        info = next((home / "site").glob("vllm-*"))
        text = (info / "METADATA").read_text().splitlines()
        (info / "METADATA").write_text("\n".join([*text[:2], f"Version: {version}", ""]))

    return apply


def stranger(home: Path, env: dict[str, str]) -> None:
    """A user that is not in passwd."""
    env["VDOCTOR_TEST_UID"] = "54321"
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        env.pop(name, None)


def cache_on(option: str) -> Callable[[Path, dict[str, str]], None]:
    """vLLM's cache on a file system that is mounted so; where there is none, the test cannot be made."""

    def apply(home: Path, env: dict[str, str]) -> None:
        if option == "ro" and os.geteuid():
            (home / "locked").mkdir(mode=0o500)
            env["VLLM_CACHE_ROOT"] = str(home / "locked" / "vllm")
            return
        mounts = [part.mountpoint for part in psutil.disk_partitions(all=True) if option in part.opts.split(",")]
        place = next((one for one in mounts if Path(one).is_dir() and os.access(one, os.X_OK)), None)
        if place is None:
            pytest.skip(f"no file system is mounted {option}")
        env["VLLM_CACHE_ROOT"] = str(Path(place) / "vllm")

    return apply


@dataclass(frozen=True)
class Scene:
    """A machine, a model and a launch. `gpus`: None is a CPU build without a driver, "" a CUDA build without one."""

    words: Sequence[str] = ()
    model: Callable[[Path], None] = lambda model: None
    machine: Callable[[Path, dict[str, str]], None] = lambda home, env: None
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: str | None = None
    name: str = "model"


AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
BLOCKS = {
    "model_type": "qwen3_moe",
    "num_experts": 4,
    "moe_intermediate_size": 1536,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
SCENES: dict[str, Scene] = {
    "args.invalid-number": Scene(("--max-num-seqs", "many")),
    "args.number-out-of-range": Scene(("--max-num-seqs", "0")),
    "args.memory-fraction": Scene(("--gpu-memory-utilization", "90")),
    "args.invalid-choice": Scene(("--dtype", "fp64")),
    "args.unknown-flag": Scene(("--enable-metrics",)),
    "args.config-file": Scene(("--config", "no/such.yaml")),
    "args.variable-misspelt": Scene(env={"VLLM_ATTENTION_BACKND": "x"}),
    "args.port-variable": Scene(env={"VLLM_PORT": "tcp://10.0.0.1:80"}),
    "api.template-missing": Scene(("--chat-template", "no/such.jinja")),
    "api.tool-parser-missing": Scene(("--enable-auto-tool-choice",)),
    "api.tool-parser-unknown": Scene(("--enable-auto-tool-choice", "--tool-call-parser", "hermess")),
    "api.reasoning-parser-unknown": Scene(("--reasoning-parser", "deep")),
    "model.not-found-local": Scene(name="none"),
    "model.not-found-directory": Scene(model=without("config.json")),
    "model.not-found-weights": Scene(model=without("model.safetensors")),
    "model.tokenizer-missing": Scene(model=without("tokenizer.json")),
    "model.corrupt-truncated": Scene(model=cut),
    "model.corrupt-header": Scene(model=weights(b"\xff" * 64)),
    "model.corrupt-pointer": Scene(model=weights(POINTER)),
    "model.corrupt-empty": Scene(model=weights(b"")),
    "model.corrupt-shards-missing": Scene(model=without_a_shard),
    "model.bad-json": Scene(model=lambda model: (model / "config.json").write_text("{") and None),
    "model.no-model-type": Scene(model=config(model_type=None, architectures=None)),
    "model.type-unknown": Scene(model=config(model_type="hyper9", architectures=["Hyper9ForCausalLM"])),
    "model.arch-unsupported": Scene(model=config(architectures=["Hyper9ForCausalLM"])),
    "model.remote-code": Scene(
        model=config(model_type="hyper9", architectures=["H9"], auto_map={"AutoConfig": "c.C"})
    ),
    "model.max-len-exceeds-config": Scene(("--max-model-len", "9000")),
    "model.hub-offline": Scene(name="org/none", env={"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": "/none"}),
    "proc.uid-unknown": Scene(machine=stranger),
    "oom.kv-too-small": Scene(("--kv-cache-memory-bytes", "1M"), env={"VLLM_CPU_KVCACHE_SPACE": "0"}),
    # A process that runs already holds some of it.
    "oom.host-ram-cpu-backend": Scene(("--gpu-memory-utilization", "1.0"), env={"VLLM_CPU_KVCACHE_SPACE": "0"}),
    # The file system of processes has no room.
    "oom.disk-full": Scene(env={"TMPDIR": "/proc"}),
    "compile.noexec-cache": Scene(machine=cache_on("noexec")),
    "proc.permission": Scene(machine=cache_on("ro")),
    "env.host-compiler-missing": Scene(machine=no_compiler),
    "quant.flag-differs": Scene(("--quantization", "gptq"), config(**AWQ)),
    "quant.not-quantized": Scene(("--quantization", "awq")),
    "quant.group-size": Scene(("-tp", "8"), config(**AWQ), older("0.11.0+cpu")),
    "quant.fp8-block": Scene(("-tp", "8"), config(**BLOCKS), older("0.26.0+cpu")),
    "tp.heads-preflight": Scene(("-tp", "3")),
    "tp.dimension-not-divisible": Scene(("-tp", "8"), config(intermediate_size=500)),
    "env.libcuda-missing": Scene(gpus=""),
    "env.abi-torch-symbol": Scene(HALF, machine=other_torch, gpus=ONE),
    "env.python-headers-missing": Scene(HALF, machine=no_headers, gpus=ONE),
    "env.driver-too-old": Scene(HALF, machine=torch_for("13.0"), gpus=ONE),
    "env.cuda-compat-shadowing": Scene(HALF, machine=compat, gpus=ONE),
    "env.no-cuda-gpus": Scene(gpus="init 0\n"),
    "env.visible-devices-empty": Scene(env={"CUDA_VISIBLE_DEVICES": ""}, gpus=ONE),
    "env.visible-devices-index": Scene(HALF, env={"CUDA_VISIBLE_DEVICES": "0,7"}, gpus=ONE),
    "env.gpu-too-old": Scene(HALF, env={"FAKE_CC": "60"}, gpus=ONE),
    "env.bf16-asked-for": Scene((*HALF, "--dtype", "bfloat16"), env={"FAKE_CC": "75"}, gpus=ONE),
    "env.fabric-preflight": Scene(HALF, env={"FAKE_FABRIC": "2"}, gpus=TWO),
    "quant.awq-needs-cc75": Scene(HALF, config(**AWQ), env={"FAKE_CC": "70"}, gpus=ONE),
    "quant.fp8-needs-cc75": Scene(
        HALF, config(quantization_config={"quant_method": "fp8"}), env={"FAKE_CC": "70"}, gpus=ONE
    ),
    "tp.exceeds-gpus": Scene((*HALF, "-tp", "4"), gpus=TWO),
    "tp.world-preflight": Scene((*HALF, "-tp", "2", "-pp", "2"), gpus=TWO),
    "oom.gpu-busy": Scene(gpus=TWO),
    "oom.weights-preflight": Scene((), large, gpus=ONE),
    "oom.kv-none-preflight": Scene(("-tp", "2", "--gpu-memory-utilization", "0.8"), large, gpus=FREE),
    "oom.kv-too-small-preflight": Scene(("-tp", "2", "--gpu-memory-utilization", "0.95"), large, gpus=FREE),
}  # fmt: skip


def test_every_rule_has_a_scene() -> None:
    """One that is added without, fails here: `api.port-in-use` has its own test below."""
    rules = {rule.id for rule in load_rules([]).rules if rule.preflight}
    assert {*SCENES, *EXCEPTIONS, "api.port-in-use"} == rules


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An installed vLLM as far as `check` reads it: metadata, registry of models, tables of parsers; a model beside it."""
    site = tmp_path / "site"
    files = {
        "vllm-0.32.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n",
        "torch-2.13.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n",
        "torch/version.py": "cuda: Optional[str] = '12.8'\n",
        "vllm/model_executor/models/registry.py": "_TEXT_MODELS = {'LlamaForCausalLM': ('llama', 'LlamaForCausalLM')}\n",
        "vllm/tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {\n    "hermes": ("a", "b"),\n}\n',
        "vllm/reasoning/__init__.py": '_REASONING_PARSERS_TO_REGISTER = {\n    "deepseek_r1": ("a", "b"),\n}\n',
        "vllm/transformers_utils/config.py": "_CONFIG_REGISTRY = dict(\n    own='Own',\n)\n",
        "transformers/models/auto/auto_mappings.py": 'X = ["llama", "qwen3"]\n',
        "transformers/models/auto/modeling_auto.py": 'X = ["LlamaForCausalLM"]\n',
    }
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    (write_model(tmp_path / "model") / "tokenizer.json").write_text("{}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vllm").write_text(f"#!{sys.executable}\n")
    (tmp_path / "bin" / "vllm").chmod(0o755)
    return tmp_path


def found(home: Path, scene: Scene, play: Play, words: Sequence[str] = ("--port", "0")) -> set[str]:
    env = play(scene.gpus) if scene.gpus else {**play("")}
    if not scene.gpus:
        env.pop("LD_LIBRARY_PATH"), env.pop("FAKE_NVML")
    if scene.gpus is None:
        older("0.32.0+cpu")(home, env)
    env |= {"PYTHONPATH": f"{ROOT}:{home / 'site'}", "VLLM_CPU_KVCACHE_SPACE": "1", **scene.env}
    model = home / "model"
    scene.model(model)
    scene.machine(home, env)
    name = scene.name if "/" in scene.name else str(home / scene.name)
    argv = [str(home / "bin" / "vllm"), "serve", name, *words, *scene.words]
    start = VDOCTOR
    if uid := env.pop("VDOCTOR_TEST_UID", None):
        # Not run as somebody else: that needs rights, and files that he may read.
        code = (
            f"import os, sys; os.getuid = lambda: {uid}; from vdoctor.cli import main; sys.argv[0] = 'vdoctor'; main()"
        )
        start = (sys.executable, "-c", code)
    done = run([*start, "check", "--format", "json", "--", *argv], env=env)
    assert done.returncode in (0, 1), done.stderr
    return {finding["rule"] for finding in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize("rule", SCENES)
def test_check_finds_it_before_the_start(rule: str, home: Path, play: Play) -> None:
    assert rule in found(home, SCENES[rule], play)


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        (("--gpu-memory-utilization", "90"), {"args.memory-fraction"}),
        ((*HALF, "-dp", "3"), {"tp.world-preflight"}),
        ((*HALF, "-dp", "2"), set()),
        ((*HALF, "-dp", "3", "--data-parallel-size-local", "2"), set()),
        ((*HALF, "--port", "70000"), {"args.number-out-of-range"}),
    ],
)
def test_one_fault_gives_one_finding(words: Sequence[str], rules: set[str], home: Path, play: Play) -> None:
    assert found(home, Scene(words, gpus=FREE), play) == rules


def test_weights_that_are_too_large_are_told_whatever_the_cache_is(home: Path, play: Play) -> None:
    """MLA leaves the size of its blocks to the backend; weights of 627 GiB fill a card all the same."""
    assert "oom.weights-preflight" in found(home, Scene(HALF, name="deepseek-ai/DeepSeek-R1", gpus=ONE), play)


@pytest.mark.parametrize("gpus", [None, ONE])
def test_a_healthy_start_gives_none(gpus: str | None, home: Path, play: Play) -> None:
    assert found(home, Scene(HALF, gpus=gpus), play) == set()


def test_a_port_that_is_taken(home: Path, play: Play) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        assert "api.port-in-use" in found(home, Scene(), play, ("--port", str(taken.getsockname()[1])))


def test_port_0_is_any_that_is_free(home: Path, play: Play) -> None:
    """Whoever holds the default port is no hindrance."""
    with socket.socket() as default:
        default.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # another server has it: as good
            default.bind(("", 8000))
            default.listen()
        assert "api.port-in-use" not in found(home, Scene(), play)


def test_compilers_are_there() -> None:
    """The scenes rest on it."""
    assert shutil.which("gcc") or shutil.which("cc")
