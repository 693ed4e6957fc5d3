"""vdoctor watch --follow FILE, --pid PID and -: a server that somebody else started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdoctor.commands import watch as watching
from vdoctor.commands.streams import tell
from vdoctor.launch.command import parse
from vdoctor.live.follow import Follower, command_of, outputs_of
from vdoctor.live.supervise import Supervisor
from vdoctor.live.tail import Tail
from vdoctor.model import Fact, Report
from vdoctor.report.words import word

if TYPE_CHECKING:
    from vdoctor.commands.watch import Wish


def attach(wish: Wish) -> int:
    """0 nothing wrong, 1 something found."""
    command = command_of(wish.pid) if wish.pid is not None else []
    tails = _tails(wish)
    facts = watching.facts_of(wish, {})
    if wish.pid is not None:
        facts["watch.pid"] = Fact(wish.pid, "watch")
    base = watching.read_rules(wish.rules)
    events = watching.open_events(wish)
    recorder = watching.open_recorder(wish, command, facts)
    screen = watching.make_screen(
        wish, base, parse(command) if command else None, facts, recorder, events, attached=True
    )
    screen.name = str(wish.follow or (f"pid {wish.pid}" if wish.pid is not None else "-"))
    if tails is None:
        supervisor = Supervisor()
        supervisor.start_input()
        watching.follow(screen, supervisor, command)
        asked = supervisor.asked
    else:
        screen.patient = True
        follower = Follower(tails, wish.pid)
        watching.follow(screen, follower, command)
        asked = follower.asked
        if not wish.quiet and follower.why is not None:
            tell(f"vdoctor: {word(follower.why, wish.lang).format(pid=wish.pid)}\n")
    report = watching.conclude(wish, screen, recorder, None, to_stdout=tails is not None)
    watching.write_termination_log(wish, report)
    return _status(report, asked)


def _tails(wish: Wish) -> list[Tail] | None:
    """The files to follow; None: standard input. Raises UserError."""
    if wish.follow is not None:
        return [Tail(wish.follow)]
    if wish.pid is None:
        return None
    tails = outputs_of(wish.pid)
    if not tails and not wish.quiet:
        tell(f"vdoctor: {word('no_output_file', wish.lang).format(pid=wish.pid)}\n")
    return tails


def _status(report: Report, asked: str | None) -> int:
    """A server that was well when the user stopped looking has nothing wrong with it, ready or not."""
    if report.verdict == "incomplete" and asked is not None:
        return int(
            any(f.severity in ("fatal", "stall", "degraded") and f.confidence != "possible" for f in report.findings)
        )
    return 0 if report.verdict == "healthy" else 1
