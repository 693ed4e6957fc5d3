"""Sessions made for tests: a GPU that runs out of memory, with everything private in its log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.report.planted import LOOKALIKES, SECRETS
from vdoctor.model import Change, Trial
from vdoctor.relaunch.book import Book

GIB = 1 << 30
_WORKER = "(Worker_TP1 pid=21) {level} 12-01 00:00:{second:02} [multiproc_executor.py:671] {text}"
#: Markup and control sequences that must be seen as text.
MARKUP = "<script>document.title='owned'</script> [red]markup[/red] **bold** \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202ebidi @octocat #1 </pre><img src=x onerror=alert(1)>"


def start(second: float, text: str, level: str = "INFO") -> tuple[float, str]:
    return second, _WORKER.format(level=level, second=int(second), text=text)


def oom_log(extra: Iterable[str] = ()) -> list[tuple[float, str]]:
    """When each line arrives, and the line: a start that dies while CUDA graphs are captured."""
    return [
        (3, "(APIServer pid=11) INFO 12-01 00:00:03 [api_server.py:1] vLLM API server version 0.11.0"),
        (5, "(EngineCore_DP0 pid=12) INFO 12-01 00:00:05 [core.py:9] Initializing a V1 LLM engine (v0.11.0) with config: model='Qwen/Qwen3-32B', tensor_parallel_size=2"),
        start(9, "Starting to load model Qwen/Qwen3-32B..."),
        *((9.5, line) for line in extra),
        start(38, "Model loading took 30.6 GiB and 28.9 seconds"),
        start(41, "Available KV cache memory: 38.20 GiB"),
        start(41, "GPU KV cache size: 312,448 tokens"),
        start(42, "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  10%|#         | 7/67 [00:01<00:10,  5.5it/s]"),
        start(50, "Traceback (most recent call last):", "ERROR"),
        start(50, '  File "/home/mariselle/v/lib/python3.11/site-packages/vllm/v1/worker/gpu_model_runner.py", line 3101, in capture_model', "ERROR"),
        start(50, f"    {MARKUP}", "ERROR"),
        start(50, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 1 has a total capacity of 79.10 GiB of which 512.00 MiB is free.", "ERROR"),
        (51, "(EngineCore_DP0 pid=12) ERROR 12-01 00:00:51 [core.py:708] EngineCore failed to start."),
        (52, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
    ]  # fmt: skip


def write_session(folder: Path, lines: list[tuple[float, str]], command: list[str], env: dict[str, str]) -> Path:
    """A session folder: log, arrival times, samples of two GPUs, the end."""
    folder.mkdir(parents=True)
    data = [(t, (line + "\n").encode()) for t, line in lines]
    entries = [(t, {"log": len(part)}) for t, part in data]
    for half in range(106):
        t = half * 0.5
        used = [GIB * min(78, 1 + round(t * 1.5) + index) for index in (0, 1)]
        gpus = [
            {"index": at, "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-8d2f9a10-1111-2222-3333-444455556666", "memory_total": 79 * GIB, "memory_used": one}
            for at, one in enumerate(used)
        ]  # fmt: skip
        entries.append((t, {"gpus": gpus, "host": {"processes": 4, "rss": int(GIB * (1 + t / 4)), "cpu_seconds": t}}))
    entries.sort(key=lambda entry: entry[0])
    entries.append((53, {"exit": {"status": 1, "signal": None, "asked": None}}))
    (folder / "samples.jsonl").write_text("".join(json.dumps({"t": t, **entry}) + "\n" for t, entry in entries))
    (folder / "log.txt").write_bytes(b"".join(part for _, part in data))
    session = {"schema": "vdoctor.session/1", "command": command, "env": env, "facts": {}}
    (folder / "session.json").write_text(json.dumps(session))
    (folder / "case.json").write_text(json.dumps({"id": "oom.graph-capture", "note": "host gpu-node-42"}))
    return folder


def oom_session(folder: Path) -> Path:
    """The session without anything private but a user's name."""
    return write_session(folder, oom_log(), ["vllm", "serve", "Qwen/Qwen3-32B", "-tp", "2"], {})


def planted_session(folder: Path) -> Path:
    """The session with all planted secrets and look-alikes in its log, its command and its environment."""
    extra = [line for _, text in (*SECRETS, *LOOKALIKES) for line in text.split("\n")]
    command = [
        "vllm",
        "serve",
        "/mnt/nfs/acme-secret/llm-v7",
        "--api-key",
        "my-server-key-1",
        "second-key-2",
        "--host",
        "gpu-node-42",
    ]
    env = {"HF_TOKEN": SECRETS[0][0], "WANDB_API_KEY": "local5a8b2c91e0f3d4", "NCCL_DEBUG": "INFO"}
    return write_session(folder, oom_log(extra), command, env)


def tried_session(folder: Path) -> Path:
    """The planted session with two trials that `confirm` recorded: one failed, one worked; secrets in both."""
    planted_session(folder)
    serve = ["vllm", "serve", "acme-corp/secret-7b", "--api-key", "my-server-key-1"]
    for number, verdict in enumerate(("same failure", "confirmed"), 1):
        words = [*serve, "--max-num-seqs", str(64 // number)]
        extra = [line for _, text in SECRETS for line in text.split("\n")]
        trial_folder = folder / "trials" / f"{number:03}"
        write_session(trial_folder, oom_log(extra), words, {"HF_TOKEN": SECRETS[0][0]})
        change = Change(
            {"--max-num-seqs": str(64 // number), "--served-model-name": "fraud-scorer"},
            {"HF_TOKEN": SECRETS[0][0]},
            {},
        )
        trial = Trial(
            "fewer-seqs", change, " ".join(words), verdict, 41.5, "oom.graph-capture" if number == 1 else None, "graph_capture.capture",
            True, {"en": "host gpu-node-42 held more", "zh": "主机 gpu-node-42"}, f"trials/{number:03}", 30.5, 1.25,
        )  # type: ignore[arg-type]  # fmt: skip
        Book(folder).add(words, trial)
    return folder
