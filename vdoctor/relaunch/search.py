"""Which launch to try next, and when enough is known. Pure: it gets outcomes and gives candidates.

Findings' fixes first, then the ladder; what comes further is built upon; what works is made as small as it can be, and
its numbers as large. No command is tried twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence

from vdoctor.launch.command import print_words
from vdoctor.launch.options import OptionTable
from vdoctor.model import Change, Launch
from vdoctor.relaunch.fresh import with_folder
from vdoctor.relaunch.ladder import rungs
from vdoctor.relaunch.raising import MAX_TRIALS, SCALES, ceiling, next_value, number
from vdoctor.relaunch.steps import Candidate, Outcome, Purpose, Step, compose, hypotheses, merged, with_value

#: So many faults at once are looked for: each is one level of changes on top of changes.
_DEPTH = 4
#: A fix whose value was not enough is asked again for a better one, so often.
_AGAIN = 2
#: So many pairs of changes that each only move the failure are tried together.
_PAIRS = 3
#: What is tried of a length that was to fit and did not.
_LESS = (0.97, 0.9)

Steps = tuple[Step, ...]
Moves = Generator[Candidate, Outcome, Steps | None]


class Search:
    """One search. `moves` is to be driven: each candidate that it yields wants an outcome sent back.

    `found` and `lead` may be read at any time: a driver that runs out of time has what is known by then.
    """

    def __init__(
        self,
        launch: Launch,
        first: Outcome,
        options: OptionTable,
        version: str | None,
        *,
        allowed: Callable[[Step], bool],
        only: Sequence[str] = (),
        base: Steps = (),
        refine: bool = True,
        cache: str | None = None,
    ) -> None:
        """`first`: how the unchanged launch failed; `allowed` is asked once for each step; `only`: ids of fixes to
        which the search is limited; `base`: what every trial needs here, whatever the failure; `refine`: make the
        result small and its numbers large; `cache`: the folder for a fresh compile cache."""
        self.launch = launch
        self.first = first
        self.found: Candidate | None = None
        self.minimal = False
        #: The unchanged launch works now: what it died of was not of its own making.
        self.gone = False
        self.withheld: list[Step] = []
        self.lead: tuple[Candidate, Outcome] | None = None
        self._options = options
        self._version = version
        self._allowed = allowed
        self._only = {*only, *(step.id for step in base)} if only else set()
        self._base = base
        self._refine = refine
        self._cache = cache
        self.tried: list[tuple[Candidate, Outcome]] = []
        self._known: dict[tuple[str, ...], Outcome] = {tuple(print_words(launch)): first}
        self._last_resort: list[tuple[Steps, Step]] = []
        self._consent: dict[tuple[str, str], bool] = {}

    def outcome(self, candidate: Candidate) -> Outcome:
        """What is known of a candidate."""
        return self._known[candidate.key]

    def moves(self) -> Moves:
        """The candidates, one after the other. Returns the steps that work."""
        steps = yield from self._explore(self._base, self.first, 0)
        if steps is None:
            steps = yield from self._climb()
        if steps is not None and self._refine:
            steps = yield from self._shrink(steps)
            steps = yield from self._raise(steps)
        return steps

    def control(self, *, measure: bool = False) -> Moves:
        """To be driven when `moves` ended with something found: does the unchanged launch fail today, too?

        Else any change would seem to help. A trial that died of the same after one that worked is proof enough (one
        before it may have died of what has gone since: a GPU that was busy); without one the unchanged launch is
        tried; and where it served and speed is to be compared (`measure`).
        """
        verdicts = [outcome.verdict for _, outcome in self.tried]
        enough = "confirmed" in verdicts and "same failure" in verdicts[verdicts.index("confirmed") :]
        if self.found is None or (enough and not (measure and self.first.served)):
            return self.found.steps if self.found is not None else None
        result = yield Candidate((), self.launch, "control")
        if result.verdict == "confirmed":
            self.gone, self.found = True, None
        return self.found.steps if self.found is not None else None

    # ------------------------------------------------------------------ what may cure it

    def _explore(self, base: Steps, outcome: Outcome, depth: int) -> Moves:
        """Try what the findings of a failing launch propose; go on from what came further."""
        aside: list[tuple[Steps, Outcome]] = []
        moving: list[Step] = []
        for step in hypotheses(outcome):
            if _is_last_resort(step):
                self._last_resort.append((base, step))
                continue
            steps, result = yield from self._with_better_values((*base, step))
            if result is None:
                continue
            if result.verdict == "confirmed":
                return steps
            if result.verdict == "other failure" and result.finding != outcome.finding:
                moving.append(steps[-1])
            if not self._moved(outcome, result) or depth + 1 >= _DEPTH:
                continue
            if result.came > outcome.came:
                found = yield from self._explore(steps, result, depth + 1)
                if found is not None:
                    return found
            else:
                aside.append((steps, result))
        for steps, result in aside:
            found = yield from self._explore(steps, result, depth + 1)
            if found is not None:
                return found
        return (yield from self._together(base, moving))

    def _together(self, base: Steps, moving: Sequence[Step]) -> Moves:
        """Changes that each only gave another failure, two at a time: one may cure what the other lays bare."""
        for pair in list(itertools.combinations(moving, 2))[:_PAIRS]:
            result = yield from self._try((*base, *pair), "fix")
            if result is not None and result.verdict == "confirmed":
                return (*base, *pair)
        return None

    def _with_better_values(self, steps: Steps) -> Generator[Candidate, Outcome, tuple[Steps, Outcome | None]]:
        """Try steps; where the last one was not enough and its fix now names another value, that one."""
        result = yield from self._try(steps, "fix")
        for _ in range(_AGAIN):
            if result is None or result.verdict != "same failure":
                break
            last = steps[-1]
            better = [one for one in hypotheses(result) if one.id == last.id and one.change != last.change]
            if not better:
                break
            steps = (*steps[:-1], better[0])
            result = yield from self._try(steps, "fix")
        if result is not None and result.verdict == "same failure":
            return (yield from self._with_less(steps, result))
        return steps, result

    def _with_less(self, steps: Steps, result: Outcome) -> Generator[Candidate, Outcome, tuple[Steps, Outcome | None]]:
        """A length that was not short enough: an estimate is of its day, so try a little less before anything else."""
        length = number(steps[-1].change.flags.get("--max-model-len"))
        for share in _LESS if length is not None else ():
            less = (*steps[:-1], with_value(steps[-1], "--max-model-len", str(int((length or 0) * share) // 16 * 16)))
            again = yield from self._try(less, "raise")
            if again is None or again.verdict != "same failure":
                return less, again
        return steps, result

    def _moved(self, before: Outcome, after: Outcome) -> bool:
        """The failure gave way to another one that came no less far."""
        return after.verdict == "other failure" and after.finding != before.finding and after.came >= before.came

    def _climb(self) -> Moves:
        """The ladder, on top of what came furthest, then on the unchanged launch."""
        nodes: list[tuple[Steps, Outcome]] = [(self._base, self.first)]
        if self.lead is not None and self.lead[1].came > self.first.came:
            nodes.insert(0, (self.lead[0].steps, self.lead[1]))
        for base, outcome in nodes:
            ladder = [rung for rung in rungs(outcome, self._options, self._version) if not _is_last_resort(rung)]
            for rung in ladder:
                result = yield from self._try((*base, rung), "ladder")
                if result is None:
                    continue
                if result.verdict == "confirmed":
                    return (*base, rung)
                if self._moved(outcome, result) and result.came > outcome.came:
                    found = yield from self._explore((*base, rung), result, 1)
                    if found is not None:
                        return found
        return (yield from self._fall_back(nodes))

    def _fall_back(self, nodes: Sequence[tuple[Steps, Outcome]]) -> Moves:
        """What gives up most: only when nothing else helped."""
        resorts = [*reversed(self._last_resort)]
        for base, outcome in nodes:
            ladder = rungs(outcome, self._options, self._version)
            resorts += [(base, rung) for rung in ladder if _is_last_resort(rung)]
        for base, step in resorts:
            result = yield from self._try((*base, step), "ladder")
            if result is not None and result.verdict == "confirmed":
                return (*base, step)
        return None

    # ------------------------------------------------------------------ as little as will do

    def _shrink(self, steps: Steps) -> Generator[Candidate, Outcome, Steps]:
        """Leave out every single change that is not needed (the last stage of delta debugging: 1-minimal)."""
        atoms = self._standing(steps)
        again = len(atoms) > 1
        # What brings the first failure back when it alone is left out would do so with fewer changes, too.
        needed: set[str] = set()
        while again:
            again = False
            for at in range(len(atoms)):
                fewer = atoms[:at] + atoms[at + 1 :]
                if not fewer or _name(atoms[at].change) in needed:
                    continue
                result = yield from self._try(fewer, "drop")
                if result is not None and result.verdict == "same failure":
                    needed.add(_name(atoms[at].change))
                if result is not None and result.verdict == "confirmed":
                    atoms, again = fewer, len(fewer) > 1
                    break
        self.minimal = True
        # The steps whole where nothing could go: they keep their titles.
        return atoms if merged(atoms) != merged(steps) else steps

    def _standing(self, steps: Steps) -> Steps:
        """The atoms that hold in the end: what a later step sets anew is gone."""
        atoms = [atom for step in steps for atom in step.atoms()]
        last = {_name(atom.change): at for at, atom in enumerate(atoms)}
        return tuple(atom for at, atom in enumerate(atoms) if last[_name(atom.change)] == at)

    def _raise(self, steps: Steps) -> Generator[Candidate, Outcome, Steps]:
        """Give every number that was lowered the largest value that works."""
        for flag in [name for step in steps for name in step.change.flags if name in SCALES]:
            if any(flag in step.change.flags and _exact(step) for step in steps):
                continue
            steps = yield from self._raise_one(steps, flag)
        return steps

    def _raise_one(self, steps: Steps, flag: str) -> Generator[Candidate, Outcome, Steps]:
        good = number(merged(steps).flags[flag])
        bad = ceiling(flag, self.launch, self.first.facts, self._options, self._version)
        if good is None or bad is None or good >= bad:
            return steps
        hints = [hint for outcome in self._known.values() for hint in _hints(flag, outcome)]
        spent = sum(flag in merged(candidate.steps).flags for candidate, _ in self.tried)
        while spent < MAX_TRIALS:
            value = next_value(flag, good, bad, hints)
            if value is None:
                break
            trial = tuple(with_value(step, flag, value) for step in steps)
            result = yield from self._try(trial, "raise")
            if result is None:
                break
            spent += 1
            if result.verdict == "confirmed":
                steps, good = trial, float(value)
            else:
                bad = float(value)
                hints += _hints(flag, result)
        return steps

    # ------------------------------------------------------------------ one trial

    def _try(self, steps: Steps, purpose: Purpose) -> Generator[Candidate, Outcome, Outcome | None]:
        """The outcome of steps: known, or asked for; None where they have no place, no consent or no effect."""
        if self._cache is not None:
            steps = tuple(with_folder(step, self._cache) for step in steps)
        launch = compose(self.launch, steps, self._options, self._version)
        if launch is None or not self._consents(steps, purpose):
            return None
        candidate = Candidate(steps, launch, purpose)
        if candidate.key in self._known:
            return None if launch == self.launch else self._known[candidate.key]
        result = yield candidate
        self._known[candidate.key] = result
        self.tried.append((candidate, result))
        if result.verdict == "confirmed":
            self.found = candidate
        elif self.lead is None or result.came > self.lead[1].came:
            self.lead = (candidate, result)
        return result

    def _consents(self, steps: Steps, purpose: Purpose) -> bool:
        for step in steps:
            if self._only and step.id not in self._only:
                return False
            if purpose in ("drop", "raise"):
                # A smaller loss than the one agreed to needs no new word.
                continue
            key = (step.id, repr(step.change))
            if key not in self._consent:
                self._consent[key] = self._allowed(step)
                if not self._consent[key]:
                    self.withheld.append(step)
            if not self._consent[key]:
                return False
        return True


def _name(change: Change) -> str:
    return next(iter((*change.flags, *change.env, *change.container)))


def _exact(step: Step) -> bool:
    """The log says the limit itself, as a rule of the model and no matter of memory."""
    return step.answers is not None and not step.answers.startswith(("oom.", "graph.", "unknown."))


def _hints(flag: str, outcome: Outcome) -> list[float]:
    """Limits of an option that a log gave: vLLM's own estimate, and what the fixes made of it."""
    told = [step.change.flags[flag] for step in hypotheses(outcome) if flag in step.change.flags]
    if flag == "--max-model-len" and "kv.estimated_len" in outcome.facts:
        told.append(str(outcome.facts["kv.estimated_len"].value))
    return [limit for one in told if (limit := number(one)) is not None]


def _is_last_resort(step: Step) -> bool:
    """It costs more than anything else does, and hides the cause."""
    return step.change.flags.get("--enforce-eager") is True
