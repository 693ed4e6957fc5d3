"""vdoctor confirm on a real vLLM: the change that it proves, and that it proves no more than that."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.processes import Mark, default_signals, marked
from tests.vllm.watched import RealVllm, foreseen, free_port, server_environment

pytestmark = pytest.mark.vllm

SHORT = ("--max-model-len", "512")
# Where compilation is not the point.
EAGER = (*SHORT, "--enforce-eager")
# Where more than the model's 1024 positions are wanted; each length would be compiled anew.
LONG = ("--hf-overrides", '{"max_position_embeddings": 400000}', "--max-num-seqs", "4", "--enforce-eager")
#: GiB of KV cache (VLLM_CPU_KVCACHE_SPACE) over the bytes of a token: 4 layers, 4 heads of 64, keys and values, bf16.
TOKENS_THAT_FIT = (1 << 30) // (4 * 4 * 64 * 2 * 2)
TIMEOUT_S = 1800.0
COMPILER = re.compile(r"(?:^|-)(?:gcc|g\+\+|cc|c\+\+|cpp|clang|clang\+\+|c89|c99)(?:-[\d.]+)?$")


class Case(NamedTuple):
    """A launch that fails, and the proof that is expected."""

    options: Sequence[str]
    check: Callable[[dict[str, Any]], bool]
    finding: str
    confirm: Sequence[str] = ("--confirm", "auto")
    env: Mapping[str, str] = {}
    at_most: int = 2
    # What the overrides make of the model `check` does not know.
    foreseen: bool = True


def changes(report: dict[str, Any]) -> dict[str, Any]:
    """What the proven launch sets."""
    trial = report["trials"][report["proof"]["trial"]]
    found: dict[str, Any] = trial["changes"]
    return found


def exactly(flags: Mapping[str, Any], env: Mapping[str, Any] | None = None) -> Callable[[dict[str, Any]], bool]:
    """The proof sets these, and nothing else."""

    def check(report: dict[str, Any]) -> bool:
        found = changes(report)
        return bool(found["flags"] == dict(flags) and found["env"] == dict(env or {}) and not found["container"])

    return check


def size_that_divides_the_heads(report: dict[str, Any]) -> bool:
    """One of the sizes that four heads can be dealt to, and no other change than what that size needs."""
    found = changes(report)
    size = found["flags"].get("--tensor-parallel-size")
    return set(found["flags"]) == {"--tensor-parallel-size"} and str(size) in {"1", "2", "4"}


def longest(report: dict[str, Any]) -> bool:
    """The length is within 2 % of what fits."""
    flags = changes(report)["flags"]
    length = int(flags["--max-model-len"])
    return set(flags) == {"--max-model-len"} and TOKENS_THAT_FIT * 0.98 <= length <= TOKENS_THAT_FIT


def longest_without_metrics(report: dict[str, Any]) -> bool:
    """Both faults are mended, and nothing else is touched."""
    flags = dict(changes(report)["flags"])
    length = int(flags.pop("--max-model-len", 0))
    only = flags == {"--enable-metrics": None} and not changes(report)["env"]
    return only and TOKENS_THAT_FIT * 0.98 <= length <= TOKENS_THAT_FIT


CASES = {
    "unknown-flag": Case((*EAGER, "--enable-metrics"), exactly({"--enable-metrics": None}), "args.unknown-flag"),
    "heads": Case(
        (*EAGER, "--tensor-parallel-size", "3"),
        size_that_divides_the_heads,
        "tp.heads-not-divisible",
        at_most=6,
    ),
    "too-long": Case(
        ("--max-model-len", "4096", "--enforce-eager"),
        exactly({"--max-model-len": "1024"}),
        "model.max-len-exceeds-config",
    ),
    "awq": Case((*EAGER, "--quantization", "awq"), exactly({"--quantization": None}), "quant.not-quantized"),
    "kv": Case(
        (*LONG, "--max-model-len", "300000"),
        longest,
        "oom.kv-too-small",
        ("--confirm", "auto", "--fix", "shorter"),
        at_most=4,
        foreseen=False,
    ),
    "two-faults": Case(
        (*LONG, "--max-model-len", "300000", "--enable-metrics"),
        longest_without_metrics,
        "args.unknown-flag",
        ("--confirm", "auto", "--fix", "drop", "--fix", "shorter"),
        at_most=6,
    ),
}


class Bench:
    """Runs vdoctor with a real vLLM."""

    def __init__(self, real: RealVllm, mark: Mark, folder: Path) -> None:
        self.real = real
        self.mark = mark
        self.folder = folder
        self.env = server_environment(real, mark.value) | {
            name: text for name, text in mark.env.items() if "MARK" in name
        }
        self.env |= {"LANG": "C.UTF-8", "TMPDIR": str(folder)}

    def vdoctor(self, *arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "vdoctor", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.env | dict(env),
            timeout=TIMEOUT_S,
            preexec_fn=default_signals,
        )

    def failing(self, options: Sequence[str], port: int, env: Mapping[str, str], told: Sequence[str]) -> Path:
        """The session of a start that fails; `told`: what `check` says before it."""
        session = self.folder / "session"
        command = [self.real.vllm, "serve", self.real.model, "--host", "127.0.0.1", "--port", str(port), *options]
        assert foreseen(self.real, command, env) == [*told]
        done = self.vdoctor("watch", "-q", "--session", str(session), "--", *command, env=env)
        assert done.returncode not in (0, 125, 126, 127), done.stdout[-3000:].decode() + done.stderr[-3000:].decode()
        return session

    def confirm(self, session: Path, *options: str, env: Mapping[str, str]) -> tuple[int, dict[str, Any], str]:
        done = self.vdoctor("confirm", str(session), "--lang", "en", "--format", "json", *options, env=env)
        assert self.mark.left() == []
        told = done.stderr.decode()
        assert done.stdout, told
        return done.returncode, json.loads(done.stdout), told


@pytest.fixture
def bench(real: RealVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    with marked() as mark:
        yield Bench(real, mark, tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_change_is_proven(bench: Bench, name: str) -> None:
    case = CASES[name]
    session = bench.failing(case.options, free_port(), case.env, [case.finding] if case.foreseen else [])
    status, report, told = bench.confirm(session, *case.confirm, env=case.env)
    shown = told + json.dumps(report["trials"], indent=1)
    assert report["findings"][0]["id"] == case.finding, shown
    assert status == 0, shown
    assert case.check(report), shown
    assert report["findings"][0]["confidence"] == "confirmed", shown
    assert len(report["trials"]) <= case.at_most, shown


def test_port_that_is_taken_is_left_and_another_one_taken_only_with_auto(bench: Bench) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        session = bench.failing(EAGER, port, {}, ["api.port-in-use"])
        status, report, told = bench.confirm(session, env={})
        assert (status, report["trials"]) == (1, []), told
        assert report["findings"][0]["id"] == "api.port-in-use"
        status, report, told = bench.confirm(session, "--confirm", "auto", env={})
        assert status == 0, told
        assert set(changes(report)["flags"]) == {"--port"}
        socket.create_connection(("127.0.0.1", port)).close()


def test_without_a_compiler_no_compilation_is_the_answer_and_is_named_as_the_price(
    bench: Bench, tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not COMPILER.search(program.name) and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    env = {
        "PATH": str(tools),
        "VLLM_CACHE_ROOT": str(tmp_path / "cold"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
    session = bench.failing(SHORT, free_port(), env, ["env.host-compiler-missing"])
    status, report, told = bench.confirm(session, "--confirm", "auto", env=env)
    assert status == 0, told
    assert report["findings"][0]["id"] == "env.host-compiler-missing", told
    assert exactly({"--enforce-eager": True})(report), told
    assert any("torch.compile" in text for text in report["proof"]["price"])


def test_broken_file_in_the_compile_cache_is_set_aside_and_nothing_is_deleted(bench: Bench, tmp_path: Path) -> None:
    """vLLM 0.32 compiles anew what it cannot load; a file where it wants a folder stops it."""
    cache = tmp_path / "cache"
    shutil.copytree(bench.real.cache, cache)
    broken = [path for path in cache.glob("torch_compile_cache/torch_aot_compile/*/inductor_cache") if path.is_dir()]
    assert broken, "the cache of the other tests is empty"
    for path in broken:
        path.rename(path.with_name("moved"))
        path.write_bytes(b"cut off")
    before = sorted(str(path) for path in cache.rglob("*"))
    env = {"VLLM_CACHE_ROOT": str(cache)}
    session = bench.failing(SHORT, free_port(), env, [])
    mine = {**env, "XDG_CACHE_HOME": str(tmp_path / "mine")}
    # The second trial leaves the vLLM cache where it is and fails as before; that nothing else is needed, fast tests show.
    status, report, told = bench.confirm(session, "--confirm", "ask", "--max-trials", "2", env=mine)
    assert status == 0, told
    fresh = Path(changes(report)["env"]["VLLM_CACHE_ROOT"])
    assert fresh == tmp_path / "mine" / "vllm-fresh"
    assert (fresh.stat().st_mode & 0o777, any(fresh.iterdir())) == (0o700, True)
    assert report["findings"][0]["id"].startswith("compile."), told
    assert "VLLM_CACHE_ROOT" in changes(report)["env"], told
    assert set(changes(report)["env"]) <= {"VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}, told
    assert [trial["verdict"] for trial in report["trials"]] == ["confirmed", "same failure"], told
    assert changes(report)["flags"] == {}
    assert sorted(str(path) for path in cache.rglob("*")) == before
    assert all(path.read_bytes() == b"cut off" for path in broken)
