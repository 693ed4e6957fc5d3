"""Options that argparse did not recognise: their names, and the nearest valid ones."""

from __future__ import annotations

from vdoctor.launch.options import OptionTable
from vdoctor.launch.words import is_option
from vdoctor.model import Fact, Facts


def unknown_options(facts: Facts, options: OptionTable) -> dict[str, Fact]:
    """Adds `args.unknown_flags` and `args.nearest` where `args.unknown` holds argparse's list.

    argparse prints the words that it could not place, values included: `--swap-space 4 --foo`.
    """
    known = dict(facts)
    fact = facts.get("args.unknown")
    if fact is None or "args.unknown_flags" in facts:
        return known
    words = str(fact.value).split()
    flags = tuple(dict.fromkeys(word.partition("=")[0] for word in words if is_option(word)))
    if not flags:
        return known
    known["args.unknown_flags"] = Fact(flags, fact.source)
    version = str(facts["vllm.version"].value) if "vllm.version" in facts else None
    near = [names[0] for flag in flags if (names := options.nearest(flag, version, limit=1))]
    if near:
        known["args.nearest"] = Fact(", ".join(dict.fromkeys(near)), "derived")
    return known
