"""vdoctor estimate: the memory budget of a model or of a start command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vdoctor.budget.changes import cards, remedies
from vdoctor.budget.estimate import Estimate, estimate
from vdoctor.budget.extras import Draft
from vdoctor.budget.launch import apply_flag, apply_variable, beyond, lora_of, settings_of, speculation
from vdoctor.budget.presets import PRESETS, plan
from vdoctor.budget.settings import GIB, NEWEST, Settings
from vdoctor.commands.config_file import with_config
from vdoctor.commands.streams import check_output, emit
from vdoctor.commands.subjects import Subject, load_subject
from vdoctor.errors import UserError
from vdoctor.facts.snippets import image_release
from vdoctor.launch.change import apply
from vdoctor.launch.command import editable, parse, print_text, variables
from vdoctor.launch.options import OptionTable, load
from vdoctor.launch.values import model_of
from vdoctor.model import Change, Launch
from vdoctor.report.estimate import Answer, markdown, text, to_dict
from vdoctor.report.json import printed


def run(
    words: Sequence[str],
    flags: Mapping[str, str | bool],
    *,
    form: str,
    output: str | None,
    lang: str,
    gpu_memory: float | None,
    gpus: int | None,
    version: str | None,
    platform: str | None,
    preset: str | None,
    online: bool = False,
) -> int:
    """Print the budget; 0 it fits (or no GPU memory is known), 1 it does not or may not, 2 by UserError."""
    check_output(output)
    options = load()
    launch = _read(parse(words), options, version) if len(words) > 1 else None
    name = (
        model_of(launch, options) if launch is not None and editable(launch) else words[0] if len(words) == 1 else None
    )
    if name is None:
        raise UserError("no model given", "vdoctor estimate MODEL, or: vdoctor estimate -- vllm serve MODEL ...")
    asked = _with_flags(launch, name, flags)
    settings = _settings(launch, flags, options, gpu_memory=gpu_memory, version=version, platform=platform)
    subject = load_subject(name, os.environ, online)
    settings, more = _beside(asked, settings, options, online)
    subject = replace(subject, doubts=(*subject.doubts, *more))
    if not settings.gpu_bytes and settings.platform == "cuda" and preset is None:
        settings, gpus = _of_this_machine(settings, gpus, launch)
    base = _with_flags(launch, subject.name, flags)
    answer = _answer(
        subject, settings, base, options, gpus=gpus, preset=preset, assumed=version is None, given=gpu_memory
    )
    emit(_render(answer, form, lang), output)
    known = bool(answer.found.settings.gpu_bytes) or answer.found.exact
    return 0 if answer.found.fits or not known else 1


def _read(launch: Launch, options: OptionTable, version: str | None) -> Launch:
    """With the file of --config; UserError where that cannot be read: it may change every figure."""
    missed: list[str] = []
    release = version or (image_release(launch.container[-1]) if launch.container else None)
    launch = with_config(launch, options, release, missed.append)
    if missed:
        raise UserError(missed[0], "give a file that can be read from here, or its options on the command line")
    return launch


def _with_flags(launch: Launch | None, name: str, flags: Mapping[str, str | bool]) -> Launch:
    """The command with the options of vdoctor's own command line behind its own."""
    words: list[str] = []
    for flag, value in flags.items():
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            # argparse takes a value such as -1 behind "=" alone.
            words += [f"{flag}={value}"] if value.startswith("-") else [flag, value]
    base = launch if launch is not None and editable(launch) else parse(["vllm", "serve", name])
    return replace(base, args=(*base.args, *words))


def _beside(
    launch: Launch, settings: Settings, options: OptionTable, online: bool
) -> tuple[Settings, list[tuple[str, dict[str, object]]]]:
    """The settings with LoRA slots and the draft model, and what of the command is not counted."""
    doubts: list[tuple[str, dict[str, object]]] = [(way, {"flag": flag}) for flag, way in beyond(launch, options)]
    settings = replace(settings, lora=lora_of(launch, options))
    asked = speculation(launch, options)
    if asked is None:
        return settings, doubts
    settings = replace(settings, speculative_tokens=asked.tokens, drafts=asked.loads)
    if not asked.loads or not asked.model:
        return settings, doubts
    try:
        draft = load_subject(asked.model, os.environ, online)
    except UserError as error:
        return settings, [*doubts, ("draft_missing", {"why": error.what})]
    return replace(settings, draft=Draft(draft.config, draft.parts, asked.tp)), doubts


def _render(answer: Answer, form: str, lang: str) -> str:
    if form == "json":
        return printed(to_dict(answer, lang), 2) + "\n"
    return markdown(answer, lang) if form == "markdown" else text(answer, lang)


def _settings(
    launch: Launch | None,
    flags: Mapping[str, str | bool],
    options: OptionTable,
    *,
    gpu_memory: float | None,
    version: str | None,
    platform: str | None,
) -> Settings:
    """The command first, options of vdoctor itself on top."""
    release = (
        version or (image_release(launch.container[-1]) if launch is not None and launch.container else None) or NEWEST
    )
    base = Settings(version=release, platform="cpu" if platform == "cpu" else "cuda", cpu_flags=_cpu_flags())
    if platform == "cpu":
        base = apply_variable(base, "VLLM_CPU_KVCACHE_SPACE", os.environ.get("VLLM_CPU_KVCACHE_SPACE", ""))
    if launch is not None:
        base = settings_of(launch, options, base)
    for flag, value in flags.items():
        base = apply_flag(base, flag, str(value), f"--no-{flag[2:]}" if value is False else flag)
    if base.platform == "cpu" and gpu_memory is None and not base.cpu_space_gib and base.kv_bytes is None:
        base = replace(base, gpu_bytes=_host_memory())
    if gpu_memory is not None:
        base = replace(base, gpu_bytes=int(gpu_memory * GIB))
    assert base.release
    return base


def _cpu_flags() -> frozenset[str]:
    """What this processor can do; the CPU build of vLLM chooses layouts by it."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as file:
            line = next((one for one in file if one.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset({"avx512_bf16", "amx_tile"} & set(line.split()))


def _host_memory() -> int | None:
    import psutil

    return int(psutil.virtual_memory().total)


def _of_this_machine(settings: Settings, gpus: int | None, launch: Launch | None) -> tuple[Settings, int | None]:
    """The smallest of the GPUs that the launch would see, when this machine has any."""
    from vdoctor.live.nvml import Nvml

    own = variables(launch) if launch is not None else {}
    nvml = Nvml({name: value for name, value in {**os.environ, **own}.items() if value is not None})
    samples = [sample for sample in nvml.samples() if sample.memory_total]
    nvml.close()
    if not samples:
        return settings, gpus
    smallest = min(samples, key=lambda sample: sample.memory_total or 0)
    return replace(settings, gpu_bytes=smallest.memory_total, gpu_name=smallest.name or ""), gpus or len(samples)


def _answer(
    subject: Subject,
    settings: Settings,
    base: Launch,
    options: OptionTable,
    *,
    gpus: int | None,
    preset: str | None,
    assumed: bool,
    given: float | None,
) -> Answer:
    made = plan(PRESETS[preset], subject.config, subject.parts, settings, options) if preset else None
    found = made.after if made else estimate(subject.config, subject.parts, settings)
    helps = [] if made else remedies(found, subject.parts, options, gpus)
    return Answer(
        model=subject.name,
        found=found,
        remedies=tuple(helps),
        commands=tuple(_command(base, Change(flags=remedy.flags), options, settings) for remedy in helps),
        cards=tuple(cards(found, subject.parts)) if found.fits is not True else (),
        doubts=tuple(_doubts(subject, found, assumed=assumed and not base.container, given=given)),
        problems=subject.problems,
        plan=made,
        plan_command=_command(
            base,
            Change(
                flags={one.name: one.value for one in made.choices},
                env={one.name: str(one.value) for one in made.variables},
            ),
            options,
            settings,
        )
        if made and made.after.fits
        else "",
        facts=_facts(subject, found),
    )


def _command(launch: Launch, change: Change, options: OptionTable, settings: Settings) -> str:
    changed = apply(launch, change, options, settings.version)
    return print_text(changed) if changed is not None else ""


def _doubts(
    subject: Subject, found: Estimate, *, assumed: bool, given: float | None
) -> list[tuple[str, dict[str, object]]]:
    doubts: list[tuple[str, dict[str, object]]] = list(subject.doubts)
    if assumed:
        doubts.append(("version", {"version": found.settings.version}))
    if given is not None and not found.exact:
        doubts.append(("gpu_memory", {"gib": given}))
    values: dict[str, dict[str, object]] = {
        "architecture": {"type": found.config.type or "?"},
        "too_long": {"longest": found.config.max_len},
    }
    doubts += [(key, values.get(key, {})) for key in found.doubts]
    if found.guessed:
        doubts.append(("guessed", {"names": ", ".join(found.guessed)}))
    return doubts


def _facts(subject: Subject, found: Estimate) -> dict[str, tuple[Any, str]]:
    """What the figures rest on, with its source."""
    config, settings = found.config, found.settings
    source = subject.source if subject.source in ("table", "hub") else "config.json"
    facts: dict[str, tuple[Any, str]] = {
        "model.architecture": (config.architecture, source),
        "model.type": (config.type, source),
        "model.layers": (config.layers, source),
        "model.heads": (config.heads, source),
        "model.kv_heads": (config.kv_heads, source),
        "model.max_len": (found.length, "argv" if settings.max_len else source),
        "tp.size": (settings.tp, "argv"),
        "pp.size": (settings.pp, "argv"),
        "seqs.max": (found.batch.requests, "argv" if settings.seqs else "default"),
        "batch.tokens": (found.batch.tokens, "argv" if settings.batched else "default"),
        "mem.utilization": (
            settings.utilization or settings.release.utilization,
            "argv" if settings.utilization else "default",
        ),
        "kv.blocks": (found.blocks, "derived"),
    }
    if settings.gpu_bytes:
        facts["gpu.total_gib"] = (round(settings.gpu_bytes / GIB, 2), "argv" if settings.gpu_name == "" else "nvml")
    return {name: fact for name, fact in facts.items() if fact[0] not in ("", None)}
