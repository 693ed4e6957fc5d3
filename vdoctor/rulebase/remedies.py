"""Fixes that this vLLM can take, with the whole corrected command."""

from __future__ import annotations

from dataclasses import replace

from vdoctor.launch import command as commands
from vdoctor.launch.change import apply
from vdoctor.launch.options import OptionTable
from vdoctor.model import Facts, Finding, Fix, Launch


def with_commands(finding: Finding, launch: Launch | None, facts: Facts, options: OptionTable) -> Finding:
    """The finding without fixes that this release does not have; the others as commands where the launch is known."""
    version = str(facts["vllm.version"].value) if "vllm.version" in facts else None
    fixes: list[Fix] = []
    for fix in finding.fixes:
        if not _available(fix, version, options):
            continue
        changed = None
        if fix.change and launch is not None and commands.editable(launch):
            changed = apply(launch, fix.change, options, version)
        fixes.append(replace(fix, command=commands.print_text(changed)) if changed else fix)
    return replace(finding, fixes=tuple(fixes))


def _available(fix: Fix, version: str | None, options: OptionTable) -> bool:
    """Never propose an option that this vLLM does not have."""
    wanted = [flag for flag, value in fix.change.flags.items() if value is not None]
    return all(options.exists(flag, version) is not False for flag in wanted)
