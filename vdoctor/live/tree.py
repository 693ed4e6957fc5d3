"""The process tree under watch, read from /proc at the price of a few files a process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from vdoctor.live import procfs
from vdoctor.live.procfs import Stat
from vdoctor.live.roles import role
from vdoctor.model import ProcessSample

#: Processes outside of the tree are looked at once; their numbers may be used again, so after so many walks anew.
_FORGET_WALKS = 30
#: Threads of a quiet process are looked through so often (in walks) and so many of them.
_THREAD_WALKS, _MOST_THREADS = 5, 256
#: A process that used less CPU than this since the last walk, in seconds, waits for something.
_QUIET = 0.05


@dataclass(slots=True)
class _Member:
    stat: Stat
    role: str | None
    words: list[str]
    #: Wait channel of a thread in uninterruptible sleep, as found at the last look through the threads.
    blocked: str | None = None


class Tree:
    """All processes that came from `root`, those included that were adopted by us after their parent died."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._members: dict[int, _Member] = {}
        self._strangers: set[int] = set()
        self._walks = 0
        self._ended = 0.0
        self._cpu = 0.0
        self._me = os.getpid()
        self._session = os.getsid(0)

    def walk(self) -> tuple[ProcessSample, ...]:
        """One row for each living process, the root first; zombies are rows of state Z."""
        self._walks += 1
        found = self._find()
        self._count_ended(found)
        members: dict[int, _Member] = {}
        rows = []
        for pid, stat in sorted(found.items(), key=lambda item: (item[0] != self.root, item[1].started, item[0])):
            before = self._members.get(pid)
            if before is not None and before.stat.started != stat.started:
                before = None
            cpu_before = before.stat.cpu if before else None
            members[pid] = member = self._named(before, stat, members)
            member.stat = stat
            rows.append(self._row(member, cpu_before))
        self._members = members
        return tuple(rows)

    @property
    def cpu_seconds(self) -> float:
        """User and system time of the tree so far, of processes that ended and were waited for too; never falls."""
        now = sum(one.stat.cpu + one.stat.reaped for one in self._members.values()) + self._ended
        self._cpu = max(self._cpu, now)
        return self._cpu

    def server(self) -> int:
        """The process that knows how vLLM was started: the API server, else the root."""
        return next((pid for pid, one in self._members.items() if one.role == "APIServer"), self.root)

    def words(self, pid: int) -> list[str]:
        """The command line of a member as it was read last."""
        member = self._members.get(pid)
        return member.words if member else []

    def _find(self) -> dict[int, Stat]:
        """Stat of all members; only processes that were not there before cost a read of their own."""
        if self._walks % _FORGET_WALKS == 0:
            self._strangers.clear()
        there = procfs.pids()
        self._strangers.intersection_update(there)
        stats: dict[int, Stat] = {}
        new: dict[int, Stat] = {}
        for pid in there:
            if pid in self._strangers:
                continue
            stat = procfs.stat(pid)
            if stat is not None:
                (stats if self._is_known(stat) else new)[pid] = stat
        while joined := [pid for pid, stat in new.items() if stat.ppid in stats or self._is_adopted(stat)]:
            for pid in joined:
                stats[pid] = new.pop(pid)
        self._strangers.update(new)
        return stats

    def _is_known(self, stat: Stat) -> bool:
        member = self._members.get(stat.pid)
        return stat.pid == self.root if member is None else member.stat.started == stat.started

    def _is_adopted(self, stat: Stat) -> bool:
        """Our own helpers stay in our session; an orphan that came to us did not, the child leads its own."""
        return stat.ppid == self._me and stat.session != self._session

    def _count_ended(self, found: dict[int, Stat]) -> None:
        """Time of processes that are gone: in their parent's sum if it waited for them, else kept here."""
        for pid, member in self._members.items():
            now = found.get(pid)
            if now is not None and now.started == member.stat.started:
                continue
            parent: int | None = member.stat.ppid
            while parent in self._members and parent not in found:
                parent = self._members[parent].stat.ppid
            if parent not in self._members:
                self._ended += member.stat.cpu + member.stat.reaped

    def _named(self, before: _Member | None, stat: Stat, members: Mapping[int, _Member]) -> _Member:
        """The command line is read again only when the name changed: reading it can block on a stuck process."""
        if before is not None and before.stat.name == stat.name:
            return before
        words = procfs.words(stat.pid) or (before.words if before else [])
        what = role(stat.name, words)
        parent = members.get(stat.ppid)
        if what == "APIServer" and parent is not None and parent.words == words:
            # Between fork and exec, and in a forked worker without a title, the parent's words are all there is.
            what = None
        return _Member(stat, what, words)

    def _row(self, member: _Member, cpu_before: float | None) -> ProcessSample:
        stat = member.stat
        state, wchan = stat.state, None if stat.state in "RZX" else procfs.wchan(stat.pid)
        quiet = cpu_before is not None and stat.cpu - cpu_before < _QUIET
        if state != "S" or not quiet or stat.threads < 2:
            member.blocked = None
        elif self._walks % _THREAD_WALKS == 0:
            member.blocked = procfs.blocked_thread(stat.pid, _MOST_THREADS)
        if member.blocked is not None:
            state, wchan = "D", member.blocked if member.blocked != "?" else None
        moved = procfs.io(stat.pid) if state not in "ZX" else None
        return ProcessSample(
            stat.pid,
            stat.ppid,
            stat.name,
            member.role,
            state,
            round(stat.cpu, 2),
            stat.rss,
            stat.threads,
            moved.read_bytes if moved else None,
            moved.read_chars if moved else None,
            moved.write_bytes if moved else None,
            wchan,
        )
