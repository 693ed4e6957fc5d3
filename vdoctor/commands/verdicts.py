"""What a search found, as a report: confidence, trials, proof, price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdoctor.launch.command import print_words
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import value
from vdoctor.model import Finding, Launch, Proof, Report, Trial
from vdoctor.relaunch.driver import Driver
from vdoctor.relaunch.load import CONCURRENT, ROUNDS, TOKENS
from vdoctor.relaunch.search import Search
from vdoctor.relaunch.steps import Step
from vdoctor.report.words import word

Text = Mapping[str, str]


def concluded(
    report: Report, search: Search, driver: Driver, options: OptionTable, *, measured: bool = False
) -> Report:
    """The report on the failure with all trials; what works is its proof, what it cures is confirmed. `measured`: its speed was asked for."""
    trials = tuple(driver.trials)
    found = search.found
    if found is None:
        return replace(report, trials=trials)
    after = driver.reports[found.key]
    number = max(
        at for at, trial in enumerate(trials) if trial.verdict == "confirmed" and trial.change == found.fix.change
    )
    unchanged = next((trial for trial in trials if trial.fix == "unchanged"), None)
    proof = Proof(
        number,
        tuple(print_words(search.launch)),
        tuple(print_words(found.launch)),
        after.phases,
        after.memory,
        tuple(_price(search, found.steps, found.launch, after, trials[number], unchanged, options, measured)),
        search.minimal,
    )
    cured = {step.answers for step in found.steps}
    findings = tuple(_judged(finding, cured, at == 0) for at, finding in enumerate(report.findings))
    return replace(report, trials=trials, proof=proof, findings=findings)


def _judged(finding: Finding, cured: set[str | None], leading: bool) -> Finding:
    """Confirmed by a fix of its own; a step of the ladder says what helps, and not why."""
    return replace(finding, confidence="confirmed") if finding.id in cured and leading else finding


def _price(
    search: Search,
    steps: tuple[Step, ...],
    launch: Launch,
    after: Report,
    trial: Trial,
    unchanged: Trial | None,
    options: OptionTable,
    measured: bool,
) -> list[Text]:
    texts: list[Text] = []
    pairs = (("--max-model-len", "price_context", "model.max_len"), ("--max-num-seqs", "price_seqs", "seqs.max"))
    told: set[str] = set()
    for flag, key, fact in pairs:
        old, new = value(search.launch, flag, options), value(launch, flag, options)
        if old != new:
            known = search.first.facts.get(fact)
            before = old if old is not None else known.value if known is not None else "?"
            texts.append(_both(key, before=before, after=new))
            told.add(flag)
    for step in steps:
        if step.cost and not told & set(step.change.flags):
            texts.append(step.cost)
    if "kv.tokens" in after.facts and told:
        texts.append(_both("price_cache", tokens=after.facts["kv.tokens"].value))
    if trial.tokens_per_second is not None:
        texts.append(_speed(search, trial, unchanged))
    elif measured:
        texts.append(_both("price_not_measured"))
    return list({repr(text): text for text in texts}.values())


def _speed(search: Search, trial: Trial, unchanged: Trial | None) -> Text:
    """The speed now, beside that of the unchanged launch where it serves."""
    key, known = "price_speed_new", {"rate": trial.tokens_per_second, "latency": trial.latency}
    if search.first.served and unchanged is not None and unchanged.tokens_per_second is not None:
        key = "price_speed"
        known |= {"before": unchanged.tokens_per_second, "before_latency": unchanged.latency}
    elif search.first.served:
        key = "price_speed_alone"
    load = _both("load", requests=CONCURRENT * ROUNDS, tokens=TOKENS, together=CONCURRENT)
    return {lang: word(key, lang).format(load=load[lang], **known) for lang in ("en", "zh")}


def _both(key: str, **values: object) -> Text:
    return {lang: word(key, lang).format(**values) for lang in ("en", "zh")}
