"""The report for a terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.report.reports import CHANGE, FINDING, FIX, LONG, REPORT, both, finding, report
from vdoctor.model import Change, Evidence, Exit, Fact, PhaseTime, Report, Source
from vdoctor.report.text import describe, render

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: What a hostile log puts where it may be shown.
HOSTILE = (
    "[bold red]x[/bold red]",
    "[/]",
    "[link=file:///etc/passwd]y[/link]",
    "[[{gpu.cc}]] {0} {} %s %(a)s",
    ":skull: \\[",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\x9b2J \x08\x08 \x7f \u202e",
    "a\rb",
)


def everywhere(text: str) -> Report:
    """A report with this text at every place that comes from a log, a session or a rule."""
    bad = both(text)
    fix = replace(FIX, title=bad, cost=bad, command=text, change=Change({"--x": text}, {"A": text}, {"--y": text}))
    bad_finding = replace(
        FINDING,
        title=bad,
        why=bad,
        evidence=(Evidence(1, text, text),),
        fixes=(fix, replace(fix, command=None)),
        references=(text,),
        symptoms=(text,),
    )
    return report(
        source=Source("file", text),
        findings=(bad_finding, bad_finding),
        facts={"model.name": Fact(text, "argv"), "vllm.version": Fact(text, "log:1")},
        memory={"gpus": [{"index": 0, "name": text, "total": 1.0, "used": 1.0, "used_peak": 1.0}]},
        looks_like=text,
        trials=(replace(REPORT.trials[0], command=text, change=fix.change),),
    )


@pytest.mark.parametrize("text", HOSTILE[:5])
def test_markup_is_shown_as_text(text: str) -> None:
    shown = render(everywhere(text), width=400, verbose=True)
    assert shown.count(text) >= 10


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("verbose", [False, True])
def test_no_control_sequence_reaches_the_terminal(text: str, verbose: bool) -> None:
    assert not CONTROLS.search(render(everywhere(text), verbose=verbose))
    # In colour only our own.
    ours = re.sub(r"\x1b\[[0-9;]*m", "", render(everywhere(text), verbose=verbose, color=True))
    assert not CONTROLS.search(ours)


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=40), st.integers(-5, 200), st.sampled_from(["en", "zh", "xx"]), st.booleans())
def test_any_text_can_be_shown_in_any_width(text: str, width: int, lang: str, color: bool) -> None:
    shown = render(everywhere(text), width=width, lang=lang, color=color, verbose=True)
    assert shown.endswith("\n")


def test_phase_that_begins_before_the_first_line_has_a_bar_of_the_usual_length() -> None:
    early = replace(REPORT, phases=(PhaseTime("launch", 0.0, 1.0), PhaseTime("weight_load", -1e9, 2.0)), elapsed=2.0)
    assert max(len(line) for line in render(early).splitlines() if "━" in line) < 100


def test_report_says_what_failed_where_and_why() -> None:
    shown = render(REPORT, width=200)
    for text in (
        "✗ failed in kv_init.allocate  ·  vLLM 0.11.0 v1  ·  org/model  ·  exit status 137  ·  killed by SIGKILL",
        "No room for the KV cache  oom.kv-none · certain",
        "The weights take all of it.",
        "line 118: ValueError: No available memory",
        "dist.engine-core-failed",
        "fix 1 (gives something up): Serve shorter requests.",
        "price: Longer ones fail.",
        "fix 2 (by hand): Buy a larger card.",
        "also found",
        "A rank is late  dist.straggler",
        "timeline (so far: 75.0 s)",
    ):
        assert text in shown


def test_first_finding_comes_first() -> None:
    shown = render(REPORT)
    assert shown.index("No room for the KV cache") < shown.index("A rank is late")


def test_chinese_report_has_no_english_words_of_ours() -> None:
    shown = render(REPORT, lang="zh")
    for text in (
        "失败",
        "没有 KV 缓存空间",
        "权重占满显存。",
        "缩短请求。",
        "确定",
        "第 118 行",
        "时间线",
        "退出状态 137",
        "由此引起",
        "其他发现",
    ):
        assert text in shown
    for text in (
        "failed in",
        "· certain",
        "price",
        "timeline",
        "also found",
        "confirmed",
        "same failure",
        "so far",
        "peak",
        "used",
    ):
        assert text not in shown


@pytest.mark.parametrize("width", [1, 40, 41, 60, 100, 300])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_lines_fit_the_width_but_for_what_is_pasted(width: int, lang: str) -> None:
    shown = render(REPORT, width=width, lang=lang)
    too_long = [line for line in shown.splitlines() if cell_len(line) > max(width, 40)]
    assert [line for line in too_long if LONG not in line] == []


@pytest.mark.parametrize("width", [1, 40, 80])
@pytest.mark.parametrize("color", [False, True])
def test_command_is_one_line_whatever_the_width(width: int, color: bool) -> None:
    shown = re.sub(r"\x1b\[[0-9;]*m", "", render(REPORT, width=width, color=color))
    assert f"    {LONG}" in shown.splitlines()


def test_change_without_a_command_is_one_line() -> None:
    shown = render(finding(fixes=(replace(FIX, command=None),)), width=40)
    assert f"    {describe(CHANGE)}" in shown.splitlines()


def test_change_as_fragments_to_type() -> None:
    assert (
        describe(CHANGE)
        == "A='b c'  unset OLD  --shm-size=16g  --max-model-len 8192  --enforce-eager  without --quantization"
    )
    assert describe(Change()) == ""


def test_long_evidence_is_cut_but_not_in_the_verbose_report() -> None:
    one = finding(evidence=(Evidence(1, None, "x" * 5000),))
    assert render(one, width=100).count("x") < 400
    assert render(one, width=100, verbose=True).count("x") >= 5000


def test_verbose_report_shows_all_evidence_references_and_what_could_not_be_decided() -> None:
    many = finding(evidence=tuple(Evidence(n, None, f"proof number {n}") for n in range(1, 5)))
    assert render(many).count("proof number") == 2
    shown = render(many, verbose=True)
    assert shown.count("proof number") == 4
    for text in (
        "https://example.org/1",
        "vdoctor explain oom.kv-none-v1",
        "1 rules could not be decided; missing: gpu.cc.",
    ):
        assert text in shown


@pytest.mark.parametrize("verdict", ["failed", "stalled", "degraded", "incomplete", "healthy", "not_vllm"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_verdict_has_a_head(verdict: str, lang: str) -> None:
    shown = render(report(verdict=verdict, findings=(), phase=None, step=None, exit=None), lang=lang)
    head = shown.splitlines()[0]
    assert len(head) > 3
    assert verdict not in ("stalled", "not_vllm") or verdict not in head or lang == "en"


def test_healthy_report_says_so() -> None:
    assert "Nothing wrong found." in render(report(verdict="healthy", findings=()))


def test_failure_without_a_rule_asks_for_what_would_tell() -> None:
    assert "No known cause in this log." in render(report(findings=(), exit=None))


def test_sigkill_without_a_finding_points_to_the_kernel_log() -> None:
    assert "dmesg" in render(report(findings=(), exit=Exit(9.0, 137, "SIGKILL")))


def test_stranger_is_named() -> None:
    shown = render(report(verdict="not_vllm", findings=(), phases=(), looks_like="llama.cpp"))
    assert "It looks like: llama.cpp." in shown


@pytest.mark.parametrize("width", [40, 44, 50, 70])
def test_timeline_keeps_one_line_a_phase_in_a_narrow_terminal(width: int) -> None:
    lines = render(REPORT, width=width).splitlines()
    at = lines.index("timeline (so far: 75.0 s)")
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["launch", "weight_load", "kv_init"]


def test_phase_bars_follow_each_other() -> None:
    rows = [line for line in render(REPORT).splitlines() if "━" in line]
    assert [row.split()[0] for row in rows] == ["launch", "weight_load", "kv_init"]
    starts = [row.index("━") for row in rows]
    assert starts == sorted(starts)
    assert [row.count("━") for row in rows] == sorted([7, 15, 6], key=[7, 15, 6].index)


@pytest.mark.parametrize(
    "phases",
    [
        (PhaseTime("launch", None, None),),
        (PhaseTime("launch", 0.0, 0.0), PhaseTime("runtime", 0.0, None)),
        (PhaseTime("launch", 0.0, 1e9), PhaseTime("kv_init", 1e9, None)),
        (PhaseTime("launch", 5.0, 2.0),),
    ],
    ids=["no times", "all at once", "longer than the log", "clock that went back"],
)
@pytest.mark.parametrize("elapsed", [None, 0.0, 75.0])
def test_strange_times_are_shown_without_a_fault(phases: tuple[PhaseTime, ...], elapsed: float | None) -> None:
    assert render(report(phases=phases, elapsed=elapsed, timeline=()))


def test_trials_show_their_verdicts_and_the_proven_command() -> None:
    shown = render(REPORT)
    assert "1. confirmed (31.0 s)" in shown
    assert "2. same failure (9.0 s)" in shown
    assert shown.count(f"    {LONG}\n") == 2


def test_plain_report_has_no_colours_and_the_coloured_one_the_same_words() -> None:
    plain, coloured = render(REPORT), render(REPORT, color=True)
    assert "\x1b" not in plain
    without = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in without.splitlines()] == [line.rstrip() for line in plain.splitlines()]
