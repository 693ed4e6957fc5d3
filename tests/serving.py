"""What a vLLM server prints while it serves, in the forms of several releases. Composed, not recorded."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

_SAMPLING = (
    "SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, temperature=0.7, top_p=0.8, "
    "top_k=20, min_p=0.0, seed=None, stop=[], stop_token_ids=[], bad_words=[], include_stop_str_in_output=False, "
    "ignore_eos=False, max_tokens={tokens}, min_tokens=0, logprobs=None, prompt_logprobs=None, skip_special_tokens=True, "
    "spaces_between_special_tokens=True, truncate_prompt_tokens=None, guided_decoding=None, extra_args=None)"
)
_WORDS = (
    "the model answers",
    "a question",
    "about",
    "failed tests",
    "in Berlin",
    "你好",
    "и ещё",
    "lists",
    "Error codes",
)
START = datetime(2025, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Style:
    """How the lines of a server look: process tag, what a log shipper puts in front, line ends."""

    tag: str = "(APIServer pid=10689) "
    access_tag: str = "(APIServer pid=10689) "
    others: tuple[str, ...] = ("(EngineCore_DP0 pid=10714) ", "(Worker_TP0 pid=10731) ", "(Worker_TP1 pid=10732) ")
    shipped: str = ""
    end: str = "\n"
    old: bool = False
    color: bool = False


STYLES: dict[str, Style] = {
    "0.11": Style(),
    "0.32": Style(access_tag=""),
    "V0": Style(tag="", access_tag="", others=("", "(VllmWorkerProcess pid=77) "), old=True),
    "kubectl --timestamps": Style(shipped="iso"),
    "docker compose": Style(shipped="vllm-1  | "),
    "CRLF": Style(end="\r\n"),
    "colours": Style(color=True),
    "several API servers": Style(tag="(ApiServer_{n} pid=2000{n}) ", access_tag="(ApiServer_{n} pid=2000{n}) "),
}


class Server:
    """A server that serves: `seconds(10)` gives the lines of the next ten seconds."""

    def __init__(self, seed: int, style: Style, *, strange: bool = False, busy: int = 60) -> None:
        self._dice = random.Random(seed)
        self._style, self._strange, self._busy = style, strange, busy
        self._now = START + timedelta(seconds=self._dice.randrange(300 * 86_400))
        self._running = 3

    def seconds(self, step: int = 10) -> Iterator[str]:
        """Lines without their ends."""
        for _ in range(self._dice.randrange(self._busy + 1)):
            yield self._line()
        self._now += timedelta(seconds=step)
        yield self._ship(self._statistics())

    def text(self, steps: int) -> bytes:
        """The log of so many statistics lines."""
        return "".join(line + self._style.end for _ in range(steps) for line in self.seconds()).encode()

    def _line(self) -> str:
        kinds: list[tuple[float, Callable[[], str]]] = [(0.7, self._access), (0.85, self._probe), (0.97, self._request)]
        if self._strange:
            kinds = [
                (0.5, self._access),
                (0.6, self._probe),
                (0.7, self._request),
                (0.99, self._odd),
                (1, self._trouble),
            ]
        roll = self._dice.random()
        return next((self._ship(make()) for share, make in kinds if roll < share), self._ship(self._access()))

    def _ship(self, line: str) -> str:
        if self._style.shipped == "iso":
            stamp = self._now.strftime("%Y-%m-%dT%H:%M:%S") + f".{self._dice.randrange(10**9):09}Z "
            return "\n".join(stamp + part for part in line.split("\n"))
        return "\n".join(self._style.shipped + part for part in line.split("\n"))

    def _tag(self, text: str) -> str:
        text = text.replace("{n}", str(self._dice.randrange(4)))
        return f"\x1b[1;36m{text.rstrip()}\x1b[0;0m " if text and self._style.color else text

    def _record(self, file: str, text: str, level: str = "INFO", tag: str | None = None) -> str:
        stamp = self._now.strftime("%m-%d %H:%M:%S")
        place = (
            f"{file}:{self._dice.randrange(9, 999)}]" if self._style.old else f"[{file}:{self._dice.randrange(9, 999)}]"
        )
        return f"{self._tag(self._style.tag if tag is None else tag)}{level} {stamp} {place} {text}"

    def _statistics(self) -> str:
        dice = self._dice
        if dice.random() < 0.3:
            self._running = dice.choice([0, 1, 2, 40])
        prompt = 0.0 if dice.random() < 0.3 else dice.random() * 9000
        answer = 0.0 if dice.random() < 0.1 else dice.random() * 3000
        waiting, usage = dice.choice([0, 0, 0, 1, 12]), dice.choice([dice.random() * 90, 99.9])
        if self._style.old:
            text = (
                f"Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {answer:.1f} tokens/s, Running: "
                f"{self._running} reqs, Swapped: 0 reqs, Pending: {waiting} reqs, GPU KV cache usage: {usage:.1f}%, "
                "CPU KV cache usage: 0.0%."
            )
            return self._record("metrics.py", text)
        text = (
            f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {answer:.1f} tokens/s, "
            f"Running: {self._running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage:.1f}%, "
            f"Prefix cache hit rate: {dice.random() * 60:.1f}%"
        )
        return self._record("loggers.py", text)

    def _peer(self) -> str:
        return f"10.0.{self._dice.randrange(256)}.{self._dice.randrange(256)}:{self._dice.randrange(32768, 61000)}"

    def _access(self) -> str:
        path = self._dice.choice(["chat/completions", "completions"])
        return f'{self._tag(self._style.access_tag)}INFO:     {self._peer()} - "POST /v1/{path} HTTP/1.1" 200 OK'

    def _probe(self) -> str:
        path = self._dice.choice(["health", "metrics", "v1/models"])
        return f'{self._tag(self._style.access_tag)}INFO:     {self._peer()} - "GET /{path} HTTP/1.1" 200 OK'

    def _id(self) -> str:
        return f"chatcmpl-{self._dice.getrandbits(128):032x}"

    def _request(self) -> str:
        prompt = repr(" ".join(self._dice.choices(_WORDS, k=self._dice.randrange(30)))) if self._strange else "None"
        params = _SAMPLING.format(tokens=self._dice.randrange(100, 30000))
        tail = "prompt_token_ids: None, prompt_embeds shape: None, lora_request: None."
        return self._record("logger.py", f"Received request {self._id()}: prompt: {prompt}, params: {params}, {tail}")

    def _odd(self) -> str:
        """Lines that mean nothing, or nearly so."""
        dice, tag = self._dice, self._dice.choice(self._style.others)
        access = self._tag(self._style.access_tag)
        return dice.choice(
            [
                self._record("gpu_model_runner.py", f"Running batch with {dice.randrange(99)} tokens", "DEBUG", tag),
                self._record("sampling_params.py", f"temperature {dice.random():.3f} is too low, may fail", "WARNING"),
                self._record("serving_chat.py", "Error in preprocessing prompt inputs", "ERROR"),
                f'{access}INFO:     {self._peer()} - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
                f'{access}INFO:     {self._peer()} - "GET /died unexpectedly HTTP/1.1" 404 Not Found',
                f"Processed prompts: {dice.randrange(100)}%|####      | {dice.randrange(9)}/10 [00:01<00:02,  4.1it/s]",
                f"generated: {' '.join(dice.choices(_WORDS, k=5))}",
                self._record("core.py", f"took {dice.randrange(10**6)} ms\x1b[31m!\x1b[0m", "INFO", tag),
                "",
            ]
        )

    def _trouble(self) -> str:
        """A request that fails with a traceback; the server goes on."""
        dice = self._dice
        tag = self._tag(dice.choice([self._style.tag, *self._style.others, ""]))
        lines = [
            "Traceback (most recent call last):",
            '  File "/x/vllm/v1/engine/async_llm.py", line 12, in generate',
            "    x()",
        ]
        lines.append(
            dice.choice(["ValueError: bad request", "vllm.v1.engine.exceptions.EngineGenerateError", "    more"])
        )
        lead = dice.choice([tag, self._record("async_llm.py", "", dice.choice(["ERROR", "INFO"]), tag)])
        return "\n".join(lead + line for line in lines[: dice.randrange(1, 5)])
