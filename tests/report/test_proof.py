from __future__ import annotations

import re

import pytest

from tests.report.reports import report
from vdoctor.model import Change, Proof, Report, Trial
from vdoctor.report import html, markdown, text
from vdoctor.report.proof import words_diff, working


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("vllm serve m", "vllm serve m --x 1", ["+ --x 1"]),
        ("vllm serve m --x 1 --y", "vllm serve m --x 2 --y", ["- --x 1", "+ --x 2"]),
        ("vllm serve m --x=1", "vllm serve m", ["- --x=1"]),
        ("A=1 vllm serve m", "A=2 vllm serve m", ["- A=1", "+ A=2"]),
        ("vllm serve m --many 1 2", "vllm serve m --many 1 3", ["- 2", "+ 3"]),
        ("vllm serve m", "vllm serve m", []),
    ],
)
def test_difference_of_commands(before: str, after: str, rows: list[str]) -> None:
    assert [f"{mark} {text}" for mark, text in words_diff(before.split(), after.split())] == rows


def test_words_are_quoted_for_a_shell() -> None:
    assert words_diff(["m"], ["m", "--x", "a b"]) == [("+", "--x 'a b'")]


SMALL, LARGE, PLAIN = (f"vllm serve m{rest}" for rest in (" --max-num-seqs 32", " --max-num-seqs 64", ""))


def tried(*trials: Trial, proof: int | None = None) -> Report:
    """The report of a search; `proof` is the number of the trial that proves it."""
    found = None
    if proof is not None:
        price = ({"en": "Fewer <at once>.", "zh": "并发变少。"},)
        found = Proof(proof, tuple(PLAIN.split()), tuple(trials[proof].command.split()), (), {}, price)
    return report(trials=trials, proof=found)


def trial(command: str, verdict: str = "confirmed") -> Trial:
    change = Change() if command == PLAIN else Change({"--max-num-seqs": command.rsplit(" ", 1)[1]})
    return Trial("fewer" if change else "unchanged", change, command, verdict, 1.0)


FORMS = {
    "text": lambda report, lang: text.render(report, lang=lang, width=300),
    "markdown": lambda report, lang: markdown.render([report], lang=lang),
    "html": lambda report, lang: re.sub(r"<[^>]*>", "", html.render([report], lang=lang)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("lang", "title", "price"), [("en", "proven: this command", "Fewer"), ("zh", "已证实：以下", "并发变少")]
)
def test_every_form_gives_the_command_that_is_proven_and_its_price(
    form: str, lang: str, title: str, price: str
) -> None:
    shown = FORMS[form](tried(trial(SMALL), trial(PLAIN, "same failure"), trial(LARGE), proof=2), lang)
    assert price in shown
    assert LARGE in shown.partition(title)[2]
    assert (SMALL in shown) == (form == "html")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("lang", "told"), [("en", "the unchanged command gets ready now"), ("zh", "原命令现在可以就绪")]
)
def test_every_form_says_that_the_failure_has_gone_and_gives_no_command(form: str, lang: str, told: str) -> None:
    shown = FORMS[form](tried(trial(SMALL), trial(PLAIN)), lang)
    assert told in shown
    assert (SMALL in shown) == (form == "html")
    assert {"en": "proven: this", "zh": "已证实：以下"}[lang] not in shown


def test_recorded_trials_without_a_proof_give_the_last_command_that_worked() -> None:
    assert working(tried(trial(SMALL), trial(PLAIN, "same failure"), trial(LARGE))) == LARGE
    assert working(tried(trial(SMALL, "other failure"))) is None
