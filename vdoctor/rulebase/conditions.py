"""Three-valued conditions on facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vdoctor.model import Facts
from vdoctor.rulebase.schema import When


def _version(left: Any, right: Any) -> bool:
    """`0.11.1rc2.dev5+gabc` is compared by its release number: nightly builds carry the next one."""
    # 10 ms that only rules about versions pay for.
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    return SpecifierSet(str(right)).contains(Version(str(left)).base_version, prereleases=True)


#: op -> test of (fact's value, rule's value)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
    "in": lambda left, right: left in right,
    "not_in": lambda left, right: left not in right,
    "contains": lambda left, right: right in left,
    "contains_any": lambda left, right: any(one in left for one in right),
    "nonempty": lambda left, _: bool(left),
    "version": _version,
}
#: Conditions about whether a fact is known at all: never "not evaluated".
EXISTENCE = ("known", "unknown")


def missing(when: When, facts: Facts) -> tuple[str, ...]:
    """The facts that this condition needs and that are unknown."""
    if when.op in EXISTENCE:
        return ()
    needs = (when.fact, when.than) if when.than else (when.fact,)
    return tuple(name for name in needs if name not in facts)


def holds(when: When, facts: Facts) -> bool | None:
    """True, False, or None when it cannot be decided."""
    if when.op in EXISTENCE:
        return (when.fact in facts) == (when.op == "known")
    if missing(when, facts):
        return None
    left = facts[when.fact].value
    right = facts[when.than].value if when.than else when.value
    try:
        return OPERATORS[when.op](left, right)
    except (TypeError, ValueError):  # values that cannot be compared, a build that names no version
        return None


def all_hold(whens: tuple[When, ...], facts: Facts) -> bool | None:
    """False when one is false, else None when one is undecided, else True."""
    results = [holds(when, facts) for when in whens]
    if False in results:
        return False
    return None if None in results else True
