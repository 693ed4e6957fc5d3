"""vdoctor check: look at this machine and at a launch before anything is started."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vdoctor.commands.config_file import with_config
from vdoctor.commands.examine import check_output, emit, render, tell, terminal_width, use_color
from vdoctor.commands.privacy import redactor_for, tell_redaction
from vdoctor.diagnose import Examination
from vdoctor.facts.launch import launch_facts
from vdoctor.facts.packages import package_facts
from vdoctor.facts.preflight import option_facts, variable_facts
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse, variables
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import text_of
from vdoctor.live.probe import (
    cpu_memory,
    disks,
    files,
    finding,
    fit,
    gpus,
    host,
    libcuda,
    pci,
    ports,
    suits,
    target,
    tools,
)
from vdoctor.live.probe import model as probe_model
from vdoctor.live.probe.finding import Look, Seen
from vdoctor.model import Evidence, Fact, Finding, Launch, NotEvaluated, Report, Source, Verdict
from vdoctor.report.fact_words import CONTEXT, sentence
from vdoctor.rulebase.conditions import all_hold
from vdoctor.rulebase.schema import RuleBase
from vdoctor.store import load_rules

#: What takes longer than this is not evaluated; a dead network file system answers after minutes.
_SECONDS = 8.0
#: The facts that each look gives.
_GIVES = {
    "gpu": ("gpu.", "driver."),
    "host": ("host.", "os.", "proc.", "shm."),
    "disks": ("disk.", "weights."),
    "environment": ("vllm.", "torch.", "cuda.torch", "launch.device", "python."),
    "vllm.version": ("vllm.", "torch.", "cuda.torch", "launch.device", "python.", "args.unknown"),
    "tools": ("compiler.", "cuda."),
    "model": ("model.", "tp.", "quant.", "mem.shortage"),
    "weights": ("mem.shortage",),
    "config": ("api.", "model.", "tp.", "quant.", "mem.shortage", "args."),
}
#: Of vllm serve.
_PORT = 8000


def check(
    command: Sequence[str],
    *,
    form: str,
    output: str | None,
    lang: str,
    rules: Sequence[Path],
    color: bool,
    verbose: bool,
    redact: bool | None = None,
) -> int:
    """Report what would stop the launch; 0 nothing found, 1 something found. Raises UserError for wrong usage."""
    check_output(output)
    words = list(command[1:] if command[:1] == ("--",) else command)
    base, options = load_rules(rules), option_tables.load()
    launch = parse(words) if words else None
    missed: list[str] = []
    if launch is not None:
        launch = with_config(launch, options, None, missed.append)
    env = _environ(launch) if launch else dict(os.environ)
    seen = finding.look(_looks(launch, env, options), seconds=_SECONDS, slow=_say_slow)
    for reason in missed:
        seen.miss("config", reason)
    if launch is not None:
        if launch.config and "vllm.version" in seen.facts:
            # What is false in the file counts by the release.
            launch = with_config(launch, options, str(seen.facts["vllm.version"].value), missed.append)
        _together(seen, launch, env, options)
    report = judge(seen, launch, env, base, options, lang)
    colored = use_color(color, sys.stdout.isatty()) and output in (None, "-")
    redactor, width = redactor_for(form, output, redact), terminal_width(1)
    emit(render([report], form, lang, color=colored, verbose=verbose, width=width, redactor=redactor), output)
    tell_redaction(redactor, lang)
    return 1 if any(one.severity != "info" for one in report.findings) else 0


def _environ(launch: Launch) -> dict[str, str]:
    """Our environment with what the command sets and unsets."""
    changed = variables(launch)
    return {name: value for name, value in {**os.environ, **changed}.items() if value is not None}


def _say_slow(names: Sequence[str]) -> None:
    tell(f"vdoctor: still looking at: {', '.join(names)}\n")


def _looks(launch: Launch | None, env: Mapping[str, str], options: OptionTable) -> dict[str, Look]:
    """What to look at; inside an image nothing of this machine's disks and packages counts."""
    looks: dict[str, Look] = {
        "host": host.host,
        "gpu": functools.partial(gpus.gpus, env),
        "pci": pci.pci,
    }
    asked = launch_facts(launch, options) if launch else {}
    if launch is not None:
        # 0 leaves the choice to the system: always free.
        any_port = text_of(launch, "--port", options) == "0"
        number = 0 if any_port else asked["port"].value if "port" in asked else _PORT
        interface = text_of(launch, "--host", options)
        looks["port"] = functools.partial(ports.port, interface, int(str(number)))
        looks["environment"] = functools.partial(_environment, launch, env)
    name = str(asked["model.name"].value) if "model.name" in asked else None
    if launch is not None and launch.container and name is not None:
        looks["model"] = functools.partial(probe_model.known, name, _table)
    if launch is None or not launch.container:
        model = target.local_model(launch, name) if launch else None
        if launch is not None:
            looks["files"] = functools.partial(files.files, launch, options, name)
        if launch is not None and name is not None and (model is None or model.exists()):
            looks["model"] = functools.partial(probe_model.model, launch, env, options, name, _table)
        looks["disks"] = functools.partial(disks.disks, env, model)
        looks["tools"] = functools.partial(tools.tools, env)
        looks["libcuda"] = functools.partial(libcuda.libcuda, env)
    return looks


def _table() -> Mapping[str, Any]:
    """Configurations of well-known models: read only for a model that is not on this disk."""
    from vdoctor.commands.subjects import known_models

    return known_models()


def _together(seen: Seen, launch: Launch, env: Mapping[str, str], options: OptionTable) -> None:
    """What only several looks together can tell: model and command against the vLLM and the memory that are there."""
    known = launch_facts(launch, options) | seen.facts
    facts = {name: fact.value for name, fact in known.items()}
    seen.merge(suits.suits(seen, launch, options, facts))
    seen.merge(fit.fit(seen, launch, env, options, facts))
    if not launch.container:
        seen.merge(cpu_memory.cpu_memory(launch, env, options, facts))


def _environment(launch: Launch, env: Mapping[str, str]) -> Seen:
    seen = Seen()
    python, where = target.interpreter(launch, env)
    if python is None:
        seen.miss("vllm.version", where)
        return seen
    answer = target.ask_target(python, env)
    if answer is None:
        seen.miss("vllm.version", f"{python}: no answer")
        return seen
    seen.things["target"] = answer
    seen.facts.update(package_facts(answer, where))
    if "vllm.version" not in seen.facts:
        seen.miss("vllm.version", f"{python} has no vllm")
    return seen


def judge(
    seen: Seen, launch: Launch | None, env: Mapping[str, str], base: RuleBase, options: OptionTable, lang: str = "en"
) -> Report:
    """The rules on the facts: the same rules, ids and fixes as for a log."""
    facts = dict(seen.facts)
    if launch is not None:
        # Inside an image it is the tag that names the release.
        release = facts.get("vllm.version") or launch_facts(launch, options).get("vllm.version")
        facts |= option_facts(launch, options, str(release.value) if release else None)
    facts |= variable_facts(env, option_tables.variables())
    facts |= {f"env.{name}": Fact(env[name], "environment") for name in _told(env)}
    examination = Examination(base, options, launch, facts)
    report = examination.report(Source("check", " ".join(launch.args[:1]) if launch else "this machine"))
    found = tuple(_with_proof(one, report, base, lang) for one in report.findings)
    undecided = tuple(_undecided(report, seen, str(facts["launch.device"].value) if "launch.device" in facts else None))
    grave = any(one.severity == "fatal" and one.confidence != "possible" for one in found)
    verdict: Verdict = "failed" if grave else "degraded" if found else "healthy"
    phase = found[0].phase if found else None
    return replace(report, findings=found, not_evaluated=undecided, verdict=verdict, phase=phase)


def _undecided(report: Report, seen: Seen, device: str | None) -> Iterator[NotEvaluated]:
    """The rules that wait for what could not be looked at; facts that only a log gives are no gaps of a look."""
    for name, reason in seen.unknown.items():
        if device == "cpu" and name in ("gpu", "lib.cuda"):
            continue
        given = _GIVES.get(name, (name,))
        waiting = [one for one in report.not_evaluated if any(fact.startswith(given) for fact in one.missing)]
        for one in waiting or [NotEvaluated(name, given)]:
            yield replace(one, reason=f"{name}: {reason}")


def _told(env: Mapping[str, str]) -> list[str]:
    from vdoctor.facts.registry import VARIABLES

    return [name for name in VARIABLES if name in env]


def _with_proof(found: Finding, report: Report, base: RuleBase, lang: str) -> Finding:
    """The facts that decided it, in words, each with its source, where a log would give a line."""
    rule = base.get(found.rule)
    if rule is None or found.evidence:
        return found
    holding = [group for group in rule.foretold_by if all_hold((*rule.whens, *group), report.facts)]
    whens = [when for group in holding[:1] for when in (*group, *rule.whens) if when.op != "unknown"]
    names = dict.fromkeys(name for when in whens for name in (when.fact, when.than) if name and name not in CONTEXT)
    known = [(name, report.facts[name]) for name in names if name in report.facts]
    proof = tuple(Evidence(0, fact.source, sentence(name, fact.value, lang)) for name, fact in known)
    return replace(found, evidence=proof)
