"""How long a step may be quiet, and how long it may take, before vdoctor says so.

The figures are seconds. They stand far above what healthy starts need: a false alarm costs a restart.
"""

from __future__ import annotations

from typing import NamedTuple


class Patience(NamedTuple):
    """Of one step.

    `idle`: no process uses its processor, reads, grows or prints for so long: nothing moves.
    `spin`: the ranks of a group use their processors and nothing else changes: they wait for each other.
    `long`: what moves is past what is normal for the step.
    """

    idle: float
    spin: float
    long: float


#: Measured on nine healthy starts of five releases (cold and warm, two cores): nothing moved for 7 s at most, in any
#: step. Meetings of the ranks take seconds, and more than a minute is suspicious
#: (vLLM issues 8058, 12292); cold compilations of 79 s for one range and 2219 s in all were reported (issues 15360,
#: 27815); 140 GB at 200 MB/s are 12 minutes; vLLM gives a model step 300 s (VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS).
STEPS: dict[str, Patience] = {
    # Imports and model inspection take 5 to 30 s; the hub's client gives up on one try after 10 s and sleeps up to 8 s.
    "launch.config": Patience(60.0, 600.0, 120.0),
    "launch.engine_start": Patience(60.0, 600.0, 120.0),
    "launch.distributed_init": Patience(120.0, 120.0, 60.0),
    "weight_load.download": Patience(120.0, 600.0, 600.0),
    "weight_load.init": Patience(120.0, 600.0, 180.0),
    "weight_load.read": Patience(120.0, 600.0, 300.0),
    "weight_load.process": Patience(120.0, 600.0, 180.0),
    # Ranks compile each for itself and at different speed: one may wait long for another.
    "kv_init.compile": Patience(180.0, 900.0, 180.0),
    "kv_init.profile": Patience(180.0, 900.0, 180.0),
    "kv_init.allocate": Patience(120.0, 600.0, 60.0),
    # Kernels are tuned here, for minutes on large models.
    "graph_capture.warmup": Patience(180.0, 900.0, 180.0),
    "graph_capture.capture": Patience(120.0, 300.0, 180.0),
    "graph_capture.sampler": Patience(120.0, 300.0, 60.0),
    "runtime.startup": Patience(120.0, 600.0, 60.0),
    "runtime.ready": Patience(60.0, 300.0, 300.0),
    "runtime.serving": Patience(60.0, 300.0, 300.0),
}

#: The least that a user may ask for: a healthy start stands still for 7 s (see above), and use of the processor is
#: averaged over 5 s.
LEAST = 10.0

#: A stopped process (SIGSTOP, a debugger) cannot move: confirmed by so many seconds in that state.
STOPPED = 3.0
TRACED = 10.0
#: With one rank dead or gone, nothing that the others do brings the start further.
DEAD = 30.0
#: In a group whose other ranks spin while serving, a rank without any use of its processor.
BEHIND_SERVING = 60.0
#: Below these a load or a download is slow: 140 GB take 24 minutes at 100 MB/s, 7 hours at 5 MB/s.
SLOW_READ, SLOW_DOWNLOAD = 100e6, 5e6


def patience(step: str | None, stall_after: float | None) -> Patience:
    """That of the step (`launch.config` before the first one is known); `stall_after` replaces what makes a stall."""
    own = STEPS.get(step or "launch.config", STEPS["launch.config"])
    return own if stall_after is None else own._replace(idle=stall_after, spin=stall_after)


def confirmation(state: str, stall_after: float | None) -> float:
    """Seconds in state T (stopped) or t (traced) that make a stall."""
    own = STOPPED if state == "T" else TRACED
    return own if stall_after is None else min(own, stall_after)
