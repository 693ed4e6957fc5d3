"""Worlds for the search: what a launch does is a function of its words; nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse, print_words
from vdoctor.model import STEPS, Change, Fact, FactValue, Finding, Fix, FlagValue, Launch, Safety
from vdoctor.relaunch.search import Search
from vdoctor.relaunch.steps import Candidate, Outcome, Step

OPTIONS = option_tables.load()
VERSION = "0.32.0"


def fix(name: str, safety: Safety = "lossy", env: Mapping[str, str | None] | None = None, **flags: FlagValue) -> Fix:
    """`fix("x", max_num_seqs="8")`."""
    change = Change({"--" + key.replace("_", "-"): value for key, value in flags.items()}, env or {})
    return Fix(name, {"en": name}, safety, change)


def finding(name: str, *fixes: Fix) -> Finding:
    """A cause with its fixes."""
    return Finding(name, name, {"en": name}, {"en": ""}, "fatal", "certain", None, None, (), (), fixes, ())


def fails(step: str, *findings: Finding, **facts: FactValue) -> Outcome:
    """A launch that died at a step; facts as `kv_estimated_len=5` for kv.estimated_len."""
    known = {name.replace("_", ".", 1): Fact(value, "log:1") for name, value in facts.items()}
    return Outcome("other failure", findings, known, STEPS.index(step))


WORKS = Outcome("confirmed", (), {}, STEPS.index("runtime.ready"))

World = Callable[[dict[str, str], dict[str, str | None]], Outcome]


@dataclass
class Run:
    """A finished search and what it did."""

    search: Search
    asked: list[Candidate] = field(default_factory=list)

    @property
    def tried(self) -> list[Candidate]:
        """Without the unchanged launch."""
        return [candidate for candidate in self.asked if candidate.purpose != "control"]

    @property
    def controls(self) -> int:
        """How often the unchanged launch was tried."""
        return len(self.asked) - len(self.tried)

    @property
    def result(self) -> str | None:
        """The command that works."""
        return " ".join(print_words(self.search.found.launch)) if self.search.found else None


def settings(launch: Launch) -> dict[str, str]:
    """The options of a launch, `--x v` and `--x`."""
    found: dict[str, str] = {}
    words = list(launch.args)
    for at, word in enumerate(words):
        if word.startswith("--"):
            following = words[at + 1] if at + 1 < len(words) else "--"
            found[word] = "" if following.startswith("--") else following
    return found


def play(
    command: str,
    world: World,
    *,
    allowed: Callable[[Step], bool] = lambda step: True,
    only: Sequence[str] = (),
    most: int = 60,
) -> Run:
    """Search in a world to the end, or for `most` trials."""
    launch = parse(command.split())

    def outcome(of: Launch, first: Outcome | None) -> Outcome:
        found = world(settings(of), dict(of.env))
        if found.verdict == "confirmed" or first is None:
            return found
        same = found.finding == first.finding
        return Outcome("same failure" if same else "other failure", found.findings, found.facts, found.came)

    first = outcome(launch, None)
    search = Search(launch, first, OPTIONS, VERSION, allowed=allowed, only=only)
    run = Run(search)
    for moves in (search.moves(), search.control()):
        try:
            candidate = next(moves)
            while len(run.asked) < most:
                run.asked.append(candidate)
                candidate = moves.send(outcome(candidate.launch, first))
        except StopIteration:
            pass
    return run
