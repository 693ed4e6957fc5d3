"""One trial in a process of its own, as `confirm` makes it: `tried.py SCRIPT TIMEOUT` prints what came of it as JSON."""

from __future__ import annotations

import json
import os
import sys
import time

from tests.relaunch.rule import BEFORE, RULES
from vdoctor.diagnose import Examination
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse
from vdoctor.live.watcher import Watcher
from vdoctor.model import Source
from vdoctor.relaunch.trial import attempt, with_trial
from vdoctor.report.json import to_dict


def main(script: str, timeout: str) -> None:
    """The unchanged launch died of the rule's cause; SCRIPT stands for the changed one."""
    options = option_tables.load()
    splitter = LineSplitter()
    lines = [*splitter.feed(BEFORE.encode()), *splitter.close()]
    first = Examination(RULES, options)
    first.feed(lines)
    before = first.report(Source("live", "child"))
    failure = before.findings[0]
    launch = parse(["TRIAL=yes", "sh", "-c", script])
    begun = time.monotonic()
    result = attempt(
        launch,
        failure.fixes[0],
        failure,
        os.environ,
        lambda examination, stop: Watcher(examination, None, interval=0.5, quiet=True, stop_when=stop),
        Examination(RULES, options, launch),
        timeout=float(timeout),
    )
    after = with_trial(before, failure, result.trial)
    took = time.monotonic() - begun
    print(json.dumps({"report": to_dict(after), "second": to_dict(result.report), "took": took}))


if __name__ == "__main__":
    main(*sys.argv[1:])
