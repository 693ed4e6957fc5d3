"""Which options `vllm serve` has, release by release.

The table comes from vLLM's own sources (tools/vllm_tables) and knows some fifty releases. A
version between two of them is answered only where both neighbours agree: vdoctor must never
propose an option that the user's vLLM does not have.
"""

from __future__ import annotations

import bisect
import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

_DATA = Path(__file__).parents[1] / "data"
# Measured over the options of 0.33.0: 96 % of the names with one random typing error and 90 % of those
# with two score at least this, and so do "--max-model-length", "--gpu-utilization" or "--tool-parser".
# Below it begin the false friends: "--max-batch-size" and "--ubatch-size" 80, "--worker-use-ray" and
# "--ray-workers-use-nsight" 78, "--enable-metrics" and "--enable-mfu-metrics" 78.
GOOD_MATCH = 81.0
# Enough where every word is the beginning of a word of the option: "--gpu-mem-util", "--model-name".
SHORTENED_MATCH = 70.0


@dataclass(frozen=True, slots=True)
class Option:
    """One option in one release; `choices` is None where any value parses."""

    name: str
    aliases: tuple[str, ...]
    kind: str  # flag, value, optional (a value may follow) or many (values follow)
    default: object
    choices: tuple[str, ...] | None
    negatable: bool = False  # has a --no- form; a plain store_true flag has none


class _Span(NamedTuple):
    """An option as it was from one release to another, as indexes into the list of releases."""

    first: int
    last: int
    option: Option


class OptionTable:
    """The options of all known releases. Flags come without a value: no `=x`, no `.key`."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._releases: list[str] = document["releases"]
        self._versions = [Version(release) for release in self._releases]
        self._index = {release: at for at, release in enumerate(self._releases)}
        self._spellings: dict[str, list[_Span]] = {}
        for name, entry in document["options"].items():
            for span in self._spans(name, entry):
                for spelling in _spellings(span.option):
                    self._spellings.setdefault(spelling, []).append(span)

    def release_for(self, version: str | None) -> str | None:
        """The nearest release of the table at or below a version; suffixes of a build do not count."""
        parsed = parse_version(version)
        if parsed is None:
            return None
        at = bisect.bisect_right(self._versions, _base(parsed)) - 1
        return self._releases[at] if at >= 0 else None

    def lookup(self, flag: str, version: str | None, *, allow_abbrev: bool = False) -> Option | None:
        """The option that a flag means; None when the version certainly has no such option.

        Where the version lies between two releases, the one that has the option describes it; where the
        version is unknown, the newest that has it. With allow_abbrev a unique beginning will do, as for
        argparse.
        """
        for release in self._order(version):
            found = self._find(flag, release)
            if found is not None:
                return found
        if allow_abbrev and flag.startswith("--"):
            return self._expand(_normal(flag), self._order(version))
        return None

    def exists(self, flag: str, version: str | None) -> bool | None:
        """Whether a version has a flag; None when the table cannot tell."""
        known = parse_version(version) is not None
        releases = self._neighbours(version) if known else range(len(self._releases))
        found = {self._find(flag, release) is not None for release in releases}
        return found.pop() if len(found) == 1 else None

    def span(self, flag: str) -> tuple[str, str] | None:
        """The first and the last release that have a flag."""
        spans = self._spellings.get(_normal(flag))
        if not spans:
            return None
        first, last = min(span.first for span in spans), max(span.last for span in spans)
        return self._releases[first], self._releases[last]

    def nearest(self, flag: str, version: str | None, *, limit: int = 3) -> list[str]:
        """Flags that a mistaken one may stand for, best first; only good matches.

        All of them exist in the version. Of an unknown version the newest release is taken: say the
        span along with the name.
        """
        from rapidfuzz import fuzz  # 20 ms that only a mistake has to pay for

        wanted = _stem(flag)
        rated: list[tuple[float, int, str]] = []
        for spelling, since in self._proposals(flag, version):
            stem = _stem(spelling)
            score = max(fuzz.ratio(wanted, stem), fuzz.token_sort_ratio(wanted, stem))
            if score >= (SHORTENED_MATCH if _shortens(wanted, stem) else GOOD_MATCH):
                rated.append((-score, since, spelling))  # of equals, the one that is known longest
        return [spelling for _, _, spelling in sorted(rated)[:limit]]

    def takes_value(self, flag: str, version: str | None) -> bool | None:
        """Whether the next word belongs to the flag; None for an unknown flag.

        True also for an optional value: argparse takes the next word unless it looks like a flag.
        """
        option = self.lookup(flag, version)
        if option is None:
            return None
        return option.kind != "flag" and not self._is_joined(flag)

    def _spans(self, name: str, entry: dict[str, Any]) -> Iterator[_Span]:
        for span in entry["spans"]:
            merged = {**entry, **span}  # what never changed stands in the entry only
            choices = merged["choices"]
            option = Option(
                name=name,
                aliases=tuple(merged["aliases"]),
                kind=merged["kind"],
                default=merged["default"],
                choices=None if choices is None else tuple(choices),
                negatable=merged["no"],
            )
            yield _Span(self._index[merged["since"]], self._index[merged["until"]], option)

    def _neighbours(self, version: str | None) -> range:
        """The releases between which a version lies, as indexes; empty when it is too old to say."""
        parsed = parse_version(version)
        if parsed is None:
            return range(0)
        base = _base(parsed)
        low = bisect.bisect_right(self._versions, base) - 1
        high = bisect.bisect_left(self._versions, base)
        if parsed.is_prerelease and low == high:
            # A candidate may lack what the release got last. A build of the main branch is named after
            # the release to come, but may hold what only the one after it brings.
            low, high = low - 1, high + 1 if parsed.is_devrelease else high
        if low < 0:
            return range(0)
        return range(low, min(high, len(self._releases) - 1) + 1)

    def _order(self, version: str | None) -> Iterable[int]:
        """The releases to look a flag up in, the most telling one first."""
        newest_first = range(len(self._releases) - 1, -1, -1)
        release = self.release_for(version)
        if release is None:
            return newest_first
        at = self._index[release]
        return sorted(self._neighbours(version), key=lambda one: abs(one - at)) or newest_first

    def _find(self, flag: str, release: int) -> Option | None:
        spellings = [_normal(flag)]
        if len(flag) > 2 and flag[0] == "-" != flag[1]:
            spellings.append(flag[:2])  # "-O3": argparse takes the rest for the value
        for spelling in spellings:
            for span in self._spellings.get(spelling, ()):
                if span.first <= release <= span.last:
                    return span.option
        return None

    def _is_joined(self, flag: str) -> bool:
        return _normal(flag) not in self._spellings

    def _expand(self, beginning: str, releases: Iterable[int]) -> Option | None:
        """The one option that begins so, in the first release that has any."""
        for release in releases:
            found = {
                span.option.name: span.option
                for spelling, spans in self._spellings.items()
                if spelling.startswith(beginning)
                for span in spans
                if span.first <= release <= span.last
            }
            if found:
                return found.popitem()[1] if len(found) == 1 else None
        return None

    def _proposals(self, flag: str, version: str | None) -> Iterator[tuple[str, int]]:
        """All long flags that are certain to exist and point the same way, with their first release.

        The opposite of what was meant is no help: "--disable-log-requests" may become
        "--no-enable-log-requests", but never "--enable-log-requests".
        """
        releases = self._neighbours(version) or range(len(self._releases) - 1, len(self._releases))
        for spelling, spans in self._spellings.items():
            if not spelling.startswith("--") or _is_positive(spelling) != _is_positive(flag):
                continue
            if all(self._find(spelling, release) for release in releases):
                yield spelling, spans[0].first


def _spellings(option: Option) -> Iterator[str]:
    for name in (option.name, *option.aliases):
        yield name
        if option.negatable and name.startswith("--"):
            yield f"--no-{name[2:]}"


def _normal(flag: str) -> str:
    """vLLM's parser takes underscores in long flags for dashes."""
    return flag.replace("_", "-") if flag.startswith("--") else flag


def parse_version(version: str | None) -> Version | None:
    """None for what is no version, or not known."""
    try:
        return Version(version) if version else None
    except InvalidVersion:
        return None


def _base(version: Version) -> Version:
    """The release that a candidate, a development build or a post-release belongs to."""
    return Version(version.base_version)


def _words(flag: str) -> list[str]:
    return flag.replace("_", "-").strip("-").split("-")


def _stem(flag: str) -> str:
    """The words of a flag less "enable", "disable" and "no", which would make all of them look alike."""
    words = _words(flag)
    while len(words) > 1 and words[0] in ("enable", "disable", "no"):
        words = words[1:]
    return " ".join(words)


def _shortens(short: str, long: str) -> bool:
    """Whether two or more words are beginnings of words of the longer one, in its order."""
    rest = iter(long.split())
    words = short.split()
    return len(words) > 1 and all(any(one.startswith(word) for one in rest) for word in words)


def _is_positive(flag: str) -> bool:
    """Whether a flag asks for a thing, or asks to leave it: "--no-disable-x" asks for x."""
    positive = True
    words = _words(flag)
    while len(words) > 1 and words[0] in ("enable", "disable", "no"):
        positive ^= words.pop(0) != "enable"
    return positive


@functools.lru_cache(maxsize=1)
def load() -> OptionTable:
    """The table that is installed with vdoctor."""
    text = (_DATA / "options.json").read_text(encoding="utf-8")
    return OptionTable(json.loads(text))


@functools.lru_cache(maxsize=1)
def variables() -> tuple[str, ...]:
    """Names of all environment variables that a known release of vLLM reads."""
    text = (_DATA / "envs.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["variables"])
