"""TOML text to rules. A file with faults raises one RuleError that lists all of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, cast

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from vdoctor.errors import RuleError
from vdoctor.facts.registry import FACTS, known
from vdoctor.intake.patterns import MIN_LITERAL, required_literals
from vdoctor.model import (
    CONFIDENCES,
    PHASES,
    SEVERITIES,
    STEPS,
    Change,
    Confidence,
    FactValue,
    FlagValue,
    Safety,
    Severity,
)
from vdoctor.rulebase.conditions import EXISTENCE, OPERATORS
from vdoctor.rulebase.fields import Faults, Fields
from vdoctor.rulebase.schema import LANGUAGES, Example, FixSpec, Rule, RuleBase, Signal, When
from vdoctor.rulebase.template import facts_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_STATUSES = ("experimental", "test", "stable")
_SAFETIES = ("safe", "lossy", "manual")
_ID = re.compile(r"[a-z]+(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)\Z")
# Two unbounded repeats that can match the same text make a search quadratic or worse on long lines.
_NESTED_REPEAT = re.compile(r"\([^()]*[+*]\)[+*]")


def load(files: Iterable[tuple[str, str]]) -> RuleBase:
    """Rules from (place, TOML text) pairs. Raises RuleError with every fault of every file."""
    rules: list[Rule] = []
    faults: list[str] = []
    for place, text in files:
        try:
            rules.append(parse_rule(text, place))
        except RuleError as error:
            faults.append(error.what)
    seen: dict[str, str] = {}
    for rule in rules:
        if rule.id in seen:
            faults.append(f"{rule.place}: id: {rule.id!r} is taken by {seen[rule.id]}")
        seen[rule.id] = rule.place
    if faults:
        raise RuleError("\n".join(faults), "run: vdoctor rules lint")
    return RuleBase(tuple(sorted(rules, key=lambda rule: rule.id)))


def merge(base: RuleBase, more: RuleBase) -> RuleBase:
    """Both rule bases as one. Raises RuleError when they share a rule id."""
    places = {rule.id: rule.place for rule in base.rules}
    faults = [f"{r.place}: id: {r.id!r} is taken by {places[r.id]}" for r in more.rules if r.id in places]
    if faults:
        raise RuleError("\n".join(faults), "choose another id")
    return RuleBase(tuple(sorted((*base.rules, *more.rules), key=lambda rule: rule.id)))


def parse_rule(text: str, place: str) -> Rule:
    """One rule file. Raises RuleError that lists every fault in it."""
    faults = Faults(place)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{place}: not valid TOML: {error}") from error
    rule = _rule(table, place, faults)
    if faults.found:
        raise RuleError("\n".join(faults.found))
    return rule


def _rule(table: Mapping[str, Any], place: str, faults: Faults) -> Rule:
    top = Fields(
        table,
        "",
        faults,
        "schema id cause status severity confidence phases phase preflight wrapper explains references "
        "signal when fix text example",
    )
    if table.get("schema") != 1:
        faults.add("schema", "must be 1", "write schema = 1 as the first line")
    name = top.text("id", required=True) or ""
    if name and not _ID.match(name):
        faults.add("id", f"{name!r} is no rule id", "family.some-name, lower case")
    if (
        name
        and "/" in place
        and place.replace("\\", "/").split("/")[-2:] != [name.partition(".")[0], name.partition(".")[2] + ".toml"]
    ):
        faults.add("id", f"{name!r} does not equal the path", f"move the file to {name.replace('.', '/', 1)}.toml")
    texts = _texts(top.mapping("text"), faults)
    signals = tuple(_signal(item, f"signal[{at}]", faults) for at, item in enumerate(top.tables("signal")))
    whens = _whens(top.tables("when"), "when", faults)
    if not signals and not whens:
        faults.add("signal", "a rule needs a [[signal]] or a [[when]]")
    if any(signal.when for signal in signals) and table.get("preflight") is not True:
        faults.add("signal", "one holds by facts alone", "write preflight = true")
    fixes = tuple(_fix(item, f"fix[{at}]", faults) for at, item in enumerate(top.tables("fix")))
    return Rule(
        id=name,
        cause=top.text("cause", required=True) or "",
        status=top.text("status", required=True, choices=_STATUSES) or "experimental",
        severity=cast(Severity, top.text("severity", choices=SEVERITIES) or "fatal"),
        confidence=cast(Confidence, top.text("confidence", choices=CONFIDENCES) or "certain"),
        phases=top.texts("phases", choices=PHASES),
        phase=top.text("phase", choices=PHASES),
        preflight=top.flag("preflight"),
        wrapper=top.flag("wrapper"),
        explains=top.texts("explains"),
        references=top.texts("references"),
        signals=signals,
        whens=whens,
        fixes=fixes,
        texts=texts,
        examples=tuple(_example(item, f"example[{at}]", faults) for at, item in enumerate(top.tables("example"))),
        place=place,
    )


def _signal(table: Mapping[str, Any], key: str, faults: Faults) -> Signal:
    fields = Fields(
        table,
        key,
        faults,
        "regex stack not_stack process level phases phase ends last like gives set confidence repeats when",
    )
    regex = fields.text("regex")
    literals: tuple[str, ...] = ()
    groups: set[str] = set()
    if regex is not None:
        pattern = _compile(regex, f"{key}.regex", faults)
        if pattern is not None:
            groups = set(pattern.groupindex)
            literals = tuple(sorted(required_literals(regex)))
            if not literals or min(map(len, literals)) < MIN_LITERAL:
                faults.add(
                    f"{key}.regex",
                    f"no literal of {MIN_LITERAL} characters is in every match",
                    "keep a fixed stretch of the message in the pattern; no (?i)",
                )
    elif not any(name in fields for name in ("ends", "like", "when")):
        faults.add(key, "needs regex, ends, like or when")
    for name in ("stack", "not_stack", "process", "last"):
        value = fields.text(name)
        if value is not None:
            _compile(value, f"{key}.{name}", faults)
    gives = fields.mapping("gives")
    for fact, group in gives.items():
        _check_fact(fact, f"{key}.gives", faults)
        if not isinstance(group, str) or group not in groups:
            faults.add(f"{key}.gives", f"{group!r} is no group of the regex", f"write (?P<{group}>...)")
    given = _values(fields, "set", f"{key}.set", faults)
    return Signal(
        regex=regex,
        stack=fields.text("stack"),
        not_stack=fields.text("not_stack"),
        process=fields.text("process"),
        level=fields.texts("level"),
        phases=fields.texts("phases", choices=PHASES),
        phase=fields.text("phase", choices=PHASES),
        ends=fields.texts("ends", choices=STEPS),
        last=fields.text("last"),
        like=fields.text("like"),
        gives=gives,
        set=given,
        confidence=cast("Confidence | None", fields.text("confidence", choices=CONFIDENCES)),
        repeats=fields.count("repeats"),
        literals=literals,
        when=_whens(fields.tables("when"), f"{key}.when", faults),
    )


def _compile(pattern: str, key: str, faults: Faults) -> re.Pattern[str] | None:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        caret = f"\n    {pattern}\n    {' ' * (error.pos or 0)}^"
        faults.add(key, f"{error.msg}{caret}")
        return None
    if _NESTED_REPEAT.search(pattern):
        faults.add(key, "a repeat inside a repeat can take exponential time", "write one repeat")
    return compiled


def _check_fact(name: str, key: str, faults: Faults) -> None:
    if not known(name):
        near = [fact for fact in FACTS if fact.partition(".")[0] == name.partition(".")[0]]
        faults.add(key, f"unknown fact {name!r}", f"known: {', '.join(near or list(FACTS))}")


def _values(fields: Fields, name: str, key: str, faults: Faults) -> dict[str, FactValue]:
    """A table of facts and their values."""
    values: dict[str, FactValue] = {}
    for fact, value in fields.mapping(name).items():
        _check_fact(fact, key, faults)
        items = value if isinstance(value, list) else [value]
        if all(isinstance(item, str | int | float) for item in items):
            values[fact] = tuple(value) if isinstance(value, list) else value
        else:
            faults.add(key, f"{value!r} is no value of a fact", "a string, a number, true or false, or a list of these")
    return values


def _whens(tables: list[Mapping[str, Any]], key: str, faults: Faults) -> tuple[When, ...]:
    return tuple(_when(item, f"{key}[{at}]", faults) for at, item in enumerate(tables))


def _when(table: Mapping[str, Any], key: str, faults: Faults) -> When:
    fields = Fields(table, key, faults, "fact op value than")
    fact = fields.text("fact", required=True) or ""
    if fact:
        _check_fact(fact, f"{key}.fact", faults)
    op = fields.text("op", required=True, choices=(*OPERATORS, *EXISTENCE)) or "=="
    than = fields.text("than")
    if than is not None:
        _check_fact(than, f"{key}.than", faults)
    if than is None and "value" not in fields and op not in (*EXISTENCE, "nonempty"):
        faults.add(key, "needs value or than")
    elif than is None:
        _check_value(op, fields.raw("value"), f"{key}.value", faults)
    return When(fact, op, fields.raw("value"), than)


def _check_value(op: str, value: Any, key: str, faults: Faults) -> None:
    """A condition that could never be decided is a fault of the rule, not of the log."""
    if op in ("in", "not_in", "contains_any") and not isinstance(value, list):
        faults.add(key, f"must be a list, not {value!r}", "write value = [...]")
    elif op == "version":
        try:
            SpecifierSet(value if isinstance(value, str) and value else "?")
        except InvalidSpecifier:
            faults.add(key, f"{value!r} is no range of versions", "such as value = '>=0.11,<0.14'")


def _fix(table: Mapping[str, Any], key: str, faults: Faults) -> FixSpec:
    fields = Fields(table, key, faults, "id safety when changes confirm")
    changes = Fields(fields.mapping("changes"), f"{key}.changes", faults, "flags env container remove")
    flags: dict[str, FlagValue] = dict.fromkeys(changes.texts("remove"))
    flags |= _settings(changes.mapping("flags"), f"{key}.changes.flags", faults)
    for name in flags:
        if not name.startswith("-") and not facts_of(name):
            faults.add(f"{key}.changes", f"{name!r} is no option", "write it as on the command line: --name")
    env = {name: str(value) for name, value in changes.mapping("env").items()}
    container = _settings(changes.mapping("container"), f"{key}.changes.container", faults)
    safety = cast(Safety, fields.text("safety", required=True, choices=_SAFETIES) or "manual")
    change = Change(flags, env, {name: value for name, value in container.items() if value is not None})
    if safety != "manual" and not change:
        faults.add(key, f"a {safety} fix needs changes", "advice that no code can apply is safety = 'manual'")
    return FixSpec(
        id=fields.text("id", required=True) or "",
        safety=safety,
        change=change,
        when=_whens(fields.tables("when"), f"{key}.when", faults),
        confirm=fields.mapping("confirm"),
    )


def _settings(table: Mapping[str, Any], key: str, faults: Faults) -> dict[str, FlagValue]:
    found: dict[str, FlagValue] = {}
    for name, value in table.items():
        if value is True or isinstance(value, str):
            found[name] = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = str(value)
        else:
            faults.add(f"{key}.{name}", f"{value!r} is no setting", "a string, a number or true")
    return found


def _texts(table: Mapping[str, Any], faults: Faults) -> dict[str, dict[str, str]]:
    """`[text.en]` with title, cause, fix.<id>, cost.<id>, flattened to `fix.<id>` keys."""
    found: dict[str, dict[str, str]] = {}
    for language in LANGUAGES:
        part = table.get(language)
        if not isinstance(part, dict):
            faults.add(f"text.{language}", "missing", f"add [text.{language}] with title and cause")
            continue
        flat = dict(_flatten(part))
        for name in ("title", "cause"):
            if not flat.get(name):
                faults.add(f"text.{language}.{name}", "missing")
        for name, text in flat.items():
            for fact in sorted(facts_of(text)):
                _check_fact(fact, f"text.{language}.{name}", faults)
        found[language] = flat
    for language in table:
        if language not in LANGUAGES:
            faults.add(f"text.{language}", "unknown language", f"one of: {', '.join(LANGUAGES)}")
    return found


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            yield f"{prefix}{name}", " ".join(value.split())


def _example(table: Mapping[str, Any], key: str, faults: Faults) -> Example:
    fields = Fields(table, key, faults, "match log facts why fix phase change")
    change = Fields(fields.mapping("change"), f"{key}.change", faults, "before after")
    facts = _values(fields, "facts", f"{key}.facts", faults)
    if not isinstance(fields.raw("match"), bool):
        faults.add(f"{key}.match", "must be true or false")
    if fields.raw("match") is False and not fields.text("why"):
        faults.add(f"{key}.why", "missing", "a negative example says why the rule must stay silent")
    return Example(
        match=fields.flag("match"),
        log=fields.text("log") or "",
        facts=facts,
        why=fields.text("why") or "",
        fix=fields.text("fix"),
        phase=fields.text("phase", choices=PHASES),
        before=change.text("before"),
        after=change.text("after"),
    )
