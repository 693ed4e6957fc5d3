"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import vllm_tables
from vllm_tables import checks
from vllm_tables.fetch import fetch
from vllm_tables.releases import DATA, RELEASES, TREES, missing
from vllm_tables.write import build


def differing(texts: dict[str, str], data: Path) -> list[str]:
    """The names of the files whose content is not what the trees say."""
    return [
        name
        for name, text in texts.items()
        if not (data / name).is_file() or (data / name).read_text(encoding="utf-8") != text
    ]


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    return checks.run(words[0], words[1:]) if words and words[0] in checks.MODES else make(words)


def make(argv: Sequence[str]) -> int:
    """Write the tables, or check them, or fetch what they are made from."""
    parser = argparse.ArgumentParser(description=(vllm_tables.__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", nargs="*", help="releases instead of the built-in list")
    parser.add_argument("--fetch", action="store_true", help="download the trees that are missing")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    parser.add_argument("--trees", type=Path, default=TREES, help="where the Python trees are kept")
    parser.add_argument("--data", type=Path, default=DATA, help="where the tables are")
    args = parser.parse_args(argv)
    releases = args.versions or RELEASES
    if args.fetch:
        fetch(args.trees, releases)
        return 0
    if absent := missing(args.trees, releases):
        print(f"no tree of {', '.join(absent)}: use --fetch first", file=sys.stderr)
        return 2
    texts = build(args.trees, releases)
    if args.check:
        stale = differing(texts, args.data)
        print(f"stale: {', '.join(stale)}" if stale else "tables are up to date")
        return 1 if stale else 0
    for name, text in texts.items():
        (args.data / name).write_text(text, encoding="utf-8")
    return 0
