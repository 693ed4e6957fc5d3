"""Is this the output of a vLLM server at all, and if not, of what?"""

from __future__ import annotations

import re

from vdoctor.model import Event

# The bare word also stands in logs of proxies, installers and of engines that borrow from vLLM.
_MENTION = re.compile(r"vllm", re.IGNORECASE)
_SURE = re.compile(
    r"EngineCore|LLMEngine|VLLM_[A-Z]|VllmWorker|\bvLLM (?:API server|is using|server)|\bvllm serve\b|\bvllm: error"
    r"|(?<!\s/)\bvllm[./](?:entrypoints|engine|v1|worker|executor|model_executor|distributed|config|utils|platforms)\b"
)
# The file names of vLLM's own records are proof enough in excerpts without the word.
_RECORD_FILES = frozenset(
    [
        "api_server.py",
        "llm_engine.py",
        "core.py",
        "gpu_model_runner.py",
        "gpu_worker.py",
        "multiproc_executor.py",
        "model_runner.py",
        "worker.py",
        "parallel_state.py",
        "kv_cache_utils.py",
        "loggers.py",
        "weight_utils.py",
        "metrics.py",
        "scheduler.py",
        "shm_broadcast.py",
        "pynccl.py",
        "launcher.py",
        "async_llm_engine.py",
    ]
)
#: Stands on all that vLLM stands on, and runs out of the same memory in the same words.
_TRAINING = "a training run"
_OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("SGLang", re.compile(r"sglang|sgl_kernel", re.IGNORECASE)),
    ("llama.cpp", re.compile(r"llama_model_load|llama_context|ggml_|llama-server")),
    ("Ollama", re.compile(r"\bollama\b|source=routes\.go|source=sched\.go")),
    (
        "Text Generation Inference",
        re.compile(r"text_generation_launcher|text-generation-launcher|text_generation_router"),
    ),
    ("TensorRT-LLM", re.compile(r"\[TensorRT-LLM\]|tensorrt_llm")),
    ("Triton Inference Server", re.compile(r"tritonserver|\] .{0,200}model_lifecycle\.cc")),
    ("LMDeploy", re.compile(r"lmdeploy|\[TM\]\[")),
    ("a Django or Flask application", re.compile(r"\bdjango\b|\bflask\b|\bwerkzeug\b")),
    (
        _TRAINING,
        re.compile(
            r"\*{5} Running training \*{5}|[/\\](?:transformers[/\\]trainer|lightning[/\\]\S{0,80}trainer|deepspeed[/\\]runtime[/\\]engine)\.py"
        ),
    ),
    (
        "a client of an OpenAI-compatible server",
        re.compile(
            r"\bopen_webui\b|\blitellm\b|[/\\]openai[/\\]_base_client\.py|\bopenai\.API(?:Connection|Timeout)Error"
        ),
    ),
    ("nginx", re.compile(r"nginx|\" \d{3} \d+ \"(?:https?://|-\")")),
    ("a Python program", re.compile(r"^Traceback \(most recent call last\):|^\s+File \".*\", line \d+")),
    ("a kernel log", re.compile(r"^\[(?:\s*\d+\.\d{6}|\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")),
    (
        "a pip installation",
        re.compile(r"^\s*(?:Collecting|Downloading|Requirement already satisfied:|Using cached) \S+"),
    ),
    ("nvidia-smi", re.compile(r"\| NVIDIA-SMI \d")),
)


# An excerpt of what stands below vLLM (NCCL, torch, the kernel) need not name it. Elsewhere "Permission
# denied" or "No space left on device" is about something else.
_NEAR = re.compile(
    r"cuda|nccl|nvidia|nvrm|torch|\btriton|\bgpus?\b|safetensors|hugging ?face|transformers|flashinfer|\bray\b|raylet"
    r"|gloo|tensor|\bllms?\b|/dev/shm|ptxas|nvcc|\bhsa|hip(?:blas|cc)|\bmodel\b",
    re.IGNORECASE,
)

#: Whose logs may mention vLLM more than once and still are not its own.
_RIVALS = frozenset(name for name, _ in _OTHERS) - {"a Python program", "a kernel log", "nvidia-smi"}


class Stranger:
    """Counts signs of vLLM and of others."""

    def __init__(self) -> None:
        self._sure = False
        self._near = False
        self._mentions = 0
        self._votes: dict[str, int] = {}

    @property
    def is_sure(self) -> bool:
        """Nothing that comes can change the answer any more."""
        return self._sure

    @property
    def is_vllm(self) -> bool:
        """Its own records or modules were seen, or it is named oftener than anything else shows."""
        others = max((votes for name, votes in self._votes.items() if name in _RIVALS), default=0)
        return self._sure or self._mentions > others

    @property
    def is_near(self) -> bool:
        """Errors in this text may be vLLM's: it, or something that it stands on, is spoken of, or nothing
        speaks for another product."""
        near = self._near and _TRAINING not in self._votes
        return near or self.is_vllm or not self._votes.keys() & _RIVALS

    def feed(self, event: Event) -> None:
        """Take the next event."""
        if self._sure:
            return
        if _MENTION.search(event.shown):
            self._mentions += 1
        if (event.source or "").rsplit("/", 1)[-1] in _RECORD_FILES or _SURE.search(event.shown):
            self._sure = True
            return
        self._near = self._near or bool(_NEAR.search(event.shown))
        for name, pattern in _OTHERS:
            if pattern.search(event.shown):
                self._votes[name] = self._votes.get(name, 0) + 1

    def guess(self) -> str | None:
        """What the text looks like; None when nothing speaks for anything."""
        if not self._votes:
            return None
        return max(self._votes, key=lambda name: self._votes[name])
