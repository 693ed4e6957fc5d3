"""Facts about an end that was watched: who died first and by what, what the host and the kernel counted meanwhile."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vdoctor.facts.kernel import kernel_facts
from vdoctor.model import Death, Event, Exit, Fact, FactValue, HostSample, Motion, Sample

_GIB = 1 << 30
#: A full /dev/shm is emptied by whoever cleans up after the crash: what counts is the fullest moment shortly before.
_SHM_WINDOW_S = 30.0
#: The end is told when what the child left behind is gone: so long after its death at most (live/supervise.py).
_CLEAN_UP_S = 2.3
#: After an error vLLM waits for its workers, then terminates, then kills them: 4 s each (multiproc_executor.py).
_ERROR_WINDOW_S = 30.0
#: Who died so shortly before the user asked for the end may have died of what he did (a signal to all processes).
_TOGETHER_S = 1.0
#: Signals that end a process for a fault of its own, or from a killer; all others are a way to ask it to go.
FATAL_SIGNALS = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT", "SIGFPE", "SIGTRAP", "SIGSYS")
#: What a shell or container between us and the server shows of a signal: 128 + its number (Linux).
_SHELL_STATUS = {
    132: "SIGILL",
    133: "SIGTRAP",
    134: "SIGABRT",
    135: "SIGBUS",
    136: "SIGFPE",
    137: "SIGKILL",
    139: "SIGSEGV",
    143: "SIGTERM",
    159: "SIGSYS",
}
#: The same as Python's multiprocessing gives it, in vLLM's messages.
_NEGATIVE = {128 - status: name for status, name in _SHELL_STATUS.items()}
_FAULTS = {
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Aborted": "SIGABRT",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
}
#: 0.5.5 to 0.33.0: vllm/v1/executor/multiproc_executor.py, v1/engine/core_client.py, v1/utils.py
_DIED = re.compile(
    r"(?:[Ww]orker(?: proc)?|Engine core proc(?:ess)?|Process) (?P<who>\S{1,80})(?: pid \d+| \(PID: \d+\))?"
    r" died(?: unexpectedly)?(?:,| \(| with)? ?(?:exit code:? (?P<code>-?\d{1,3}))?"
)
#: What of a log matters to this module, besides who wrote a line.
PATTERNS = (_DIED.pattern,)


class DeathFacts:
    """Collects from samples and log lines; `facts` answers when the end is known or somebody died."""

    def __init__(self) -> None:
        self._deaths: list[tuple[Death, bool]] = []
        self._roles: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._kernel: list[str] = []
        self._shm: list[tuple[float, float, int]] = []
        self._oom: list[tuple[float, int]] = []
        self._host: HostSample | None = None
        self._peak: dict[str, float] = {}
        self._largest: tuple[int, str] | None = None
        self._said: tuple[str, int | None, int] | None = None
        self._watched = False
        self._asked_at: float | None = None

    def restart(self) -> None:
        """The server starts again in the same log."""
        self._said = None

    def feed_event(self, event: Event) -> None:
        """Learn the processes' names, and what vLLM says about dead ones."""
        if event.process and event.pid is not None:
            self._roles[event.pid] = event.process
        if self._said is None and " died" in event.text and (found := _DIED.search(event.text)):
            code = int(found["code"]) if found["code"] is not None else None
            self._said = (found["who"].rstrip(","), code, event.line)

    def feed(self, sample: Sample, orderly: bool, error_at: float | None) -> None:
        """`orderly`: the server is shutting down on purpose; who ends then is no victim. `error_at`: when its log last
        showed an error; who is told to go after one is no victim either."""
        self._watched = True
        if sample.asked and self._asked_at is None:
            self._asked_at = sample.t
        for death in sample.deaths:
            told = death.signal in ("SIGKILL", "SIGTERM", "SIGINT")
            after_error = error_at is not None and error_at < death.t < error_at + _ERROR_WINDOW_S
            self._deaths.append((death, orderly or (told and after_error)))
        for death in sample.deaths:
            self._names.setdefault(death.pid, death.name)
        self._kernel += sample.kernel
        if sample.host is not None:
            self._feed_host(sample.t, sample.host)

    def _feed_host(self, t: float, host: HostSample) -> None:
        self._host = host
        for process in host.tree:
            self._names[process.pid] = process.name
            if process.role:
                self._roles[process.pid] = process.role
        if host.shm_total:
            self._shm = [entry for entry in self._shm if entry[0] >= t - _SHM_WINDOW_S]
            self._shm.append((t, (host.shm_used or 0) / host.shm_total, host.shm_total))
        if host.oom_kills is not None:
            self._oom = [*self._oom[:1], (t, host.oom_kills)]
        if host.cgroup_used is not None:
            self._peak["used"] = max(self._peak.get("used", 0.0), host.cgroup_used / _GIB)
        if host.cgroup_limit is not None:
            self._peak["limit"] = host.cgroup_limit / _GIB
        if host.available is not None:
            self._peak["available"] = min(self._peak.get("available", float("inf")), host.available / _GIB)
        for process in host.tree:
            if self._largest is None or process.rss > self._largest[0]:
                self._largest = (process.rss, process.role or process.name)

    # ------------------------------------------------------------------ answer

    def facts(self, end: Exit | None, silent: bool, fault: str | None, motion: Motion | None) -> dict[str, Fact]:
        """`end` of the child; `silent`: its log shows no sign of an end; `fault`: what faulthandler printed; `motion`:
        how it stood.

        Nothing when the user asked for the end, for who dies then dies of the user: but what died before, and had the
        rest wait for it, is why he did.
        """
        if end is not None and end.asked is not None:
            asked = {"exit.asked": Fact(end.asked, "exit"), "exit.after_s": Fact(round(end.t, 1), "exit")}
            waited = motion is not None and motion.kind == "rank-dead"
            return asked | (self._of_death(first, fault) if waited and (first := self.first(end)) else {})
        if end is None and not self._watched:
            return {}
        found: dict[str, tuple[FactValue, str]] = {}
        first = self.first(end)
        if end is not None:
            found["exit.status"] = (end.status, "exit")
            found["exit.after_s"] = (round(end.t, 1), "exit")
            found["exit.silent"] = (silent, "log")
            if signal := end.signal or _SHELL_STATUS.get(end.status):
                found["exit.signal"] = (signal, "exit")
        if first is not None:
            found.update(self._about(first))
        elif self._said is not None and end is not None:
            who, code, line = self._said
            found["exit.first_dead"] = (who, f"log:{line}")
            if code in _NEGATIVE:
                found["exit.first_dead_signal"] = (_NEGATIVE[code], f"log:{line}")
        if end is not None or first is not None:
            self._cause(found, fault)
            found["exit.died"] = (bool(end is None or end.status or first or not silent), "exit")
        self._counted(found, first, end)
        facts = {name: Fact(value, source) for name, (value, source) in found.items()}
        return facts | kernel_facts(self._kernel, {*self._roles, *self._names})

    def _of_death(self, first: Death, fault: str | None) -> dict[str, Fact]:
        """What is known of a death while the rest lives."""
        found: dict[str, tuple[FactValue, str]] = dict(self._about(first))
        self._cause(found, fault)
        found["exit.died"] = (True, "exit")
        self._counted(found, first, None)
        return {name: Fact(value, source) for name, (value, source) in found.items()}

    def first(self, end: Exit | None) -> Death | None:
        """The first process that did not end by itself in peace; of several at one moment the innermost."""
        until = float("inf") if self._asked_at is None else self._asked_at - _TOGETHER_S
        victims = [d for d, orderly in self._deaths if not orderly and d.t < until and self._is_victim(d)]
        return min(victims, key=lambda death: (round(death.t, 3), -_depth(self._name(death))), default=None)

    def _is_victim(self, death: Death) -> bool:
        if death.signal in FATAL_SIGNALS:
            return True
        # Helpers (compilers, probes for a library) end with any status; vLLM's own processes do not.
        return bool(death.status) and _depth(self._name(death)) > 0

    def _name(self, death: Death) -> str:
        return self._roles.get(death.pid) or death.name.removeprefix("VLLM::") or f"pid {death.pid}"

    def _about(self, first: Death) -> Mapping[str, tuple[FactValue, str]]:
        found: dict[str, tuple[FactValue, str]] = {
            "exit.first_dead": (self._name(first), "kernel"),
            "exit.first_dead_pid": (first.pid, "kernel"),
        }
        if first.status is not None:
            found["exit.first_dead_status"] = (first.status, "kernel")
        if first.signal is not None:
            found["exit.first_dead_signal"] = (first.signal, "kernel")
        return found

    @staticmethod
    def _cause(found: dict[str, tuple[FactValue, str]], fault: str | None) -> None:
        """The signal that began it: of the first dead, else what Python printed before it crashed, else our child's own.

        A first death without a signal was an exception of its own: a later signal is its consequence.
        """
        for name in ("exit.first_dead_signal", "exit.signal"):
            if name in found:
                found["exit.cause_signal"] = found[name]
                break
        if "exit.first_dead_status" in found and "exit.first_dead_signal" not in found:
            found.pop("exit.cause_signal", None)
        if "exit.cause_signal" not in found and fault is not None and fault in _FAULTS:
            found["exit.cause_signal"] = (_FAULTS[fault], "log")

    def _counted(self, found: dict[str, tuple[FactValue, str]], first: Death | None, end: Exit | None) -> None:
        """What the host counted. Counters of our own machine say nothing about a server that a docker or ssh
        command runs elsewhere: there no death and no signal was seen, only a status.
        """
        ours = first is not None or (end is not None and end.signal is not None)
        if len(self._oom) > 1:
            (_, before), (t, now) = self._oom
            # No rise tells something only when it was read after the death.
            died = first.t if first is not None else end.t - _CLEAN_UP_S if end is not None else 0.0
            if now > before or (ours and t >= died):
                found["exit.oom_kills"] = (max(0, now - before), "cgroup")
        if self._shm and ours:
            _, share, total = max(self._shm, key=lambda entry: entry[1])
            found["shm.used_share"] = (round(share, 3), "sample")
            found["shm.size_mib"] = (total >> 20, "sample")
        for name, fact in (("used", "host.used_gib"), ("limit", "host.limit_gib"), ("available", "host.available_gib")):
            if name in self._peak:
                found[fact] = (round(self._peak[name], 2), "sample")
        if self._largest is not None and self._largest[0] > 0:
            found["host.largest"] = (self._largest[1], "sample")
            found["host.largest_gib"] = (round(self._largest[0] / _GIB, 2), "sample")


def _depth(name: str) -> int:
    """How far inside the server a process stands: 2 worker, 1 engine core; 0 for the rest."""
    name = name.removeprefix("VLLM::")
    if name.startswith(("Worker", "VllmWorker", "RayWorker")):
        return 2
    return 1 if name.startswith(("EngineCore", "DPEngineCoreActor", "DPCoordinator")) else 0
