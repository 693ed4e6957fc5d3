"""Where an event stands in the start."""

from __future__ import annotations

from vdoctor.intake.reader import EventReader
from vdoctor.model import Event
from vdoctor.rulebase.match import Place
from vdoctor.startup.markers import step_of_method, step_of_stack
from vdoctor.startup.timeline import Timeline, depth


def place_of(event: Event, reader: EventReader, timeline: Timeline) -> Place:
    """The step by the stack around the event, by the call that it names, or by the last marker."""
    frames: tuple[str, ...] = ()
    process = event.process
    if event.block is not None:
        block = reader.traceback(event.block)
        frames, process = block.frames, event.process or block.process
    known = step_of_stack(frames) or step_of_method(event.text)
    step = known or timeline.step_at(event)
    if step == "runtime.serving" and not timeline.ready and frames:
        # execute_model is also called by the profile run of engines that are not up yet.
        known, step = None, timeline.step_at(event) or step
    if step is None and frames[:1] == ("<module>",):
        # The program died before it said anything that tells a step: imports, arguments.
        step = "launch.config"
    return Place(step, known is not None, timeline.starts, depth(process or ""), lambda: frames)
