"""What vdoctor said after every observation of a run, by its recording."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tests.cases import rules
from tests.vllm.watched import Watched
from vdoctor.diagnose import Examination
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse
from vdoctor.live.session import Session
from vdoctor.model import Motion, Sample

#: Far below the patience that is built in: every healthy stretch of these runs is a test against false alarms.
STALL_AFTER_S = 15.0


def motions(watched: Watched) -> Iterator[Motion]:
    """The verdict on the movement after every observation, until the user asks for the end or the child ends."""
    session = Session(watched.session)
    examination = Examination(rules(), option_tables.load(), parse(session.command), session.facts, STALL_AFTER_S)
    for observation in session.observations():
        if isinstance(observation, Sample) and observation.asked:
            return
        examination.feed([observation])
        if examination.exit is None and (motion := examination.motion) is not None:
            yield motion


def stalls(watched: Watched) -> list[Motion]:
    """The first moment of every stall, in order."""
    states = groupby(motions(watched), key=lambda m: (m.state == "stalled", m.kind, m.process))
    return [next(group) for (stalled, _, _), group in states if stalled]
