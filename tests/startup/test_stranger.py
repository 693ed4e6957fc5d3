from __future__ import annotations

import pytest

from vdoctor.intake.reader import EventReader
from vdoctor.model import Line
from vdoctor.startup.stranger import Stranger


def look(text: str) -> Stranger:
    stranger = Stranger()
    for event in EventReader().read(Line(no, line) for no, line in enumerate(text.splitlines(), 1)):
        stranger.feed(event)
    return stranger


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "SGLang",
            "[2025-07-02 15:32:50] server_args=ServerArgs(model_path='x')\n[2025-07-02 15:32:50 TP0] Init torch distributed begin.\n"
            '  File "/opt/sglang/srt/server.py", line 3, in launch\nImportError: sglang: no kernels, try vllm',
        ),
        ("llama.cpp", "ggml_cuda_init: found 1 CUDA devices:\nllama_model_load: error loading model: tensor not found"),
        ("Ollama", 'time=2025-07-02T15:32:50.786Z level=INFO source=routes.go:1187 msg="Listening on 127.0.0.1:11434"'),
        (
            "Text Generation Inference",
            "2025-07-02T15:32:50.786405Z  INFO text_generation_launcher: Args { model_id: x }",
        ),
        (
            "TensorRT-LLM",
            "[TensorRT-LLM] TensorRT-LLM version: 0.10.0\n[07/02/2025-15:32:50] [TRT-LLM] [I] Loading engine",
        ),
        (
            "Triton Inference Server",
            'I0702 15:32:50.786405 1 model_lifecycle.cc:462] "loading: ensemble:1"\ntritonserver: ready',
        ),
        ("LMDeploy", "2025-07-02 15:32:50,786 - lmdeploy - INFO - async_engine.py:260\n[TM][INFO] LlamaTritonModel"),
        (
            "nginx",
            '10.0.0.1 - - [02/Jul/2025:15:32:50 +0000] "GET /vllm/v1/models HTTP/1.1" 502 157 "-" "curl/8.5.0"\n' * 3,
        ),
        (
            "a client of an OpenAI-compatible server",
            "2026-03-01 10:00:00.222 | ERROR | open_webui.routers.openai:post:812 - Cannot connect to host vllm:8000 ssl:default",
        ),
        (
            "a training run",
            "***** Running training *****\n  Num examples = 900\nTraceback (most recent call last):\n"
            '  File "/x/site-packages/transformers/trainer.py", line 2, in train\n'
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.",
        ),
        (
            "a Python program",
            'Traceback (most recent call last):\n  File "train.py", line 1, in main\n    fit()\nValueError: x',
        ),
        (
            "a kernel log",
            "[    0.000000] Linux version 6.1.0\n[12345.678901] NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.",
        ),
        ("a kernel log", "[Wed Jul  2 15:32:50 2025] NVRM: Xid (PCI:0000:07:00): 79"),
        (
            "a pip installation",
            "Collecting vllm==0.9.0\n  Downloading vllm-0.9.0-cp38-abi3-manylinux1_x86_64.whl (394.9 MB)\nCollecting torch==2.7.0",
        ),
        (
            "nvidia-smi",
            "+------+\n| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\n|   0  NVIDIA A100  On |",
        ),
        (
            None,
            "Events:\n  Warning  FailedScheduling  2m  default-scheduler  0/3 nodes are available: 3 Insufficient gpu.",
        ),
        (None, 'Exception in thread "main" java.lang.NullPointerException\n\tat com.x.Main.main(Main.java:3)'),
        (None, "panic: runtime error: index out of range [1]\ngoroutine 1 [running]:\nmain.main()"),
        (None, "2025-07-02 15:32:50.786 UTC [1] LOG:  database system is ready to accept connections"),
        (None, "1:M 02 Jul 2025 15:32:50.786 * Ready to accept connections tcp"),
        (None, "{'loss': 1.2345, 'grad_norm': 0.5, 'epoch': 0.1}\n 10%|█         | 100/1000 [00:10<01:30, 10.00it/s]"),
        (None, "#  Rank  0 Group  0 Pid   1 on gpu01 device  0 [0x07] NVIDIA A100\n# Avg bus bandwidth    : 123.4"),
        (None, ' * Running on http://127.0.0.1:5000\n127.0.0.1 - - [02/Jul/2025 15:32:50] "GET / HTTP/1.1" 200 -'),
        (None, "INFO:     Started server process [1]\nINFO:     Application startup complete."),
        (None, "Dear all,\nplease find the minutes attached.\nBest regards"),
        (None, "a,b,c\n1,2,3\n4,5,6"),
        (None, "total 8\ndrwxr-xr-x 2 root root 4096 Jul  2 15:32 ."),
        (None, "<html><body><h1>502 Bad Gateway</h1></body></html>"),
        (None, ""),
    ],
)
def test_knows_what_is_not_vllm(kind: str | None, text: str) -> None:
    stranger = look(text)
    assert not stranger.is_vllm
    assert stranger.guess() == kind


@pytest.mark.parametrize(
    "text",
    [
        "INFO 08-30 12:34:56 llm_engine.py:184] Initializing an LLM engine (v0.5.5)",
        "(EngineCore_DP0 pid=7) something",
        "DEBUG 12-01 02:03:04 [v1/worker/gpu_worker.py:12] x",
        "INFO 12-01 02:03:04 [loggers.py:127] Avg prompt throughput: 0.0 tokens/s",
        "$ vllm serve facebook/opt-125m",
        "vllm: error: unrecognized arguments: --foo",
        '  File "/usr/lib/python3/site-packages/vllm/entrypoints/cli/main.py", line 7, in main',
        "export VLLM_USE_V1=0",
        "my vllm hangs",
    ],
)
def test_one_sure_line_is_enough(text: str) -> None:
    assert look(text).is_vllm


def test_a_ticket_that_compares_with_another_engine_is_still_about_vllm() -> None:
    assert look(
        "It works with sglang and with llama-server.\n$ vllm serve m\nTraceback (most recent call last):"
    ).is_vllm


def test_a_stack_of_torch_below_vllm_is_vllm() -> None:
    frames = "".join(f'  File "/site-packages/torch/nn/modules/{n}.py", line 1, in f\n    f()\n' for n in range(30))
    assert look(
        f'Traceback (most recent call last):\n  File "/site-packages/vllm/v1/worker/gpu_worker.py", line 1, in f\n{frames}'
    ).is_vllm


@pytest.mark.parametrize(
    ("text", "near"),
    [
        # an excerpt of what stands below vLLM need not name it
        ("gpu01:12:34 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-abc", True),
        ("[12345.678901] NVRM: Xid (PCI:0000:07:00): 79", True),
        ("[Errno 28] No space left on device", True),
        # another product: its troubles are its own
        (
            '10.0.0.1 - - [02/Jul/2025:15:32:50 +0000] "GET / HTTP/1.1" 502 157 "-" "curl/8.5.0"\nNo space left on device',
            False,
        ),
        ("Collecting requests\n[Errno 28] No space left on device", False),
        ("Collecting torch==2.7.0\n[Errno 28] No space left on device", True),
    ],
)
def test_whether_errors_of_a_text_can_be_vllms(text: str, near: bool) -> None:
    assert look(text).is_near is near
