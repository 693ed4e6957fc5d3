"""Rules as plain data, for a cache: checked once, read back in milliseconds.

Examples are left out: only the proof of rules needs them, and that reads the rule files themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from vdoctor.model import Change
from vdoctor.rulebase.schema import FixSpec, Rule, RuleBase, Signal, When

#: Raised whenever the data below changes its shape.
FORMAT = 4


def to_data(base: RuleBase) -> list[dict[str, Any]]:
    """JSON-ready data of all rules."""
    return [_rule_data(rule) for rule in base.rules]


def from_data(data: list[dict[str, Any]]) -> RuleBase:
    """The rules again. Raises TypeError, KeyError or ValueError when the data is not of this format."""
    return RuleBase(tuple(_rule(entry) for entry in data))


def _rule_data(rule: Rule) -> dict[str, Any]:
    data = asdict(rule)
    del data["examples"]
    data["signals"] = [{k: v for k, v in signal.items() if v not in (None, (), {})} for signal in data["signals"]]
    return data


def _rule(entry: Mapping[str, Any]) -> Rule:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value := entry[name], list) else value for name in _FLAT}
    return Rule(
        **values,
        signals=tuple(_signal(signal) for signal in entry["signals"]),
        whens=tuple(_when(when) for when in entry["whens"]),
        fixes=tuple(_fix(fix) for fix in entry["fixes"]),
        examples=(),
    )


_NESTED = frozenset({"signals", "whens", "fixes", "examples"})
_FLAT = tuple(field.name for field in fields(Rule) if field.name not in _NESTED)


def _signal(entry: Mapping[str, Any]) -> Signal:
    return Signal(
        **{name: _frozen(value) if isinstance(value, list | dict) else value for name, value in entry.items()}
    )


def _when(entry: Mapping[str, Any]) -> When:
    return When(entry["fact"], entry["op"], entry["value"], entry["than"])


def _fix(entry: Mapping[str, Any]) -> FixSpec:
    return FixSpec(
        entry["id"],
        entry["safety"],
        Change(**entry["change"]),
        tuple(_when(when) for when in entry["when"]),
        entry["confirm"],
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _frozen(item) for name, item in value.items()}
    return tuple(value) if isinstance(value, list) else value
