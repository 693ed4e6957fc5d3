"""The report for tickets."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.report.hostile import TEXTS, everywhere
from tests.report.reports import FINDING, FIX, LONG, REPORT, both, report
from vdoctor.model import Evidence, Fact, Source, Span
from vdoctor.report.markdown import LIMIT, render
from vdoctor.report.marks import code, fence, is_link, link, prose, table

GITHUB_LIMIT = 65536
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: What GitHub turns into a link by itself outside of code.
AUTOLINKS = re.compile(r"(?<![\w/])@[A-Za-z0-9]|#\d|\bGH-\d|\bwww\.|https?://|\b[0-9a-f]{7,40}\b")


class Inline(HTMLParser):
    """The elements of raw HTML in a Markdown text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def flattened(tokens: list[Token]) -> list[Token]:
    return [inner for token in tokens for inner in ([token, *flattened(token.children)] if token.children else [token])]


def tokens(text: str) -> list[Token]:
    return flattened(MarkdownIt("gfm-like", {"linkify": False}).enable("table").parse(text))


def check(text: str) -> None:
    """Nothing in the text but what the renderer makes itself."""
    assert len(text) <= GITHUB_LIMIT
    assert not CONTROLS.search(text)
    parsed = tokens(text)
    html = Inline("".join(token.content for token in parsed if token.type in ("html_block", "html_inline")))
    assert html.tags <= {"details", "summary", "sub"}
    assert html.attributes <= {"open"}
    kinds = {token.type for token in parsed}
    assert not kinds & {"image", "blockquote_open", "hr", "bullet_list_open", "ordered_list_open", "em_open", "s_open"}
    for link_token in (token for token in parsed if token.type == "link_open"):
        assert is_link(str(link_token.attrs["href"]))
    inside = False
    for token in parsed:
        inside = (inside or token.type == "link_open") and token.type != "link_close"
        if token.type == "text" and not inside:
            assert not AUTOLINKS.search(token.content), token.content


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_text_of_a_log_stays_text(text: str, lang: str) -> None:
    shown = render([everywhere(text)], lang=lang)
    check(shown)
    check(render([everywhere(text), everywhere(text)], lang=lang))


@settings(max_examples=60)
@given(st.lists(st.sampled_from(TEXTS) | st.text(max_size=30), min_size=1, max_size=4).map(" ".join))
def test_any_text_stays_text(text: str) -> None:
    check(render([everywhere(text)]))


@pytest.mark.parametrize("text", ["[red]markup[/red]", "<script>alert(1)</script>", "@octocat", "a`b```c"])
def test_evidence_is_shown_letter_by_letter(text: str) -> None:
    shown = render([everywhere(text)])
    fences = [token.content.rstrip("\n") for token in tokens(shown) if token.type == "fence"]
    assert text in fences


def test_top_is_short_and_says_all_that_matters() -> None:
    shown = render([REPORT])
    top, _, folded = shown.partition("<details>")
    assert len(top) < 2500
    for part in (
        "**failed**",
        "`kv_init.allocate`",
        "`0.11.0`",
        "**No room for the KV cache**",
        "`oom.kv-none`",
        "line 118",
        "No available memory",
        LONG,
    ):
        assert part in top
    for part in ("Buy a larger card.", "A rank is late", "EngineCore_DP0", "confirmed", "tp.valid"):
        assert part in folded


def test_command_can_be_copied_as_it_is() -> None:
    fences = [token for token in tokens(render([REPORT])) if token.type == "fence"]
    assert fences[1].info == "sh"
    assert fences[1].content == LONG + "\n"


def test_chinese_report_has_chinese_words() -> None:
    shown = render([REPORT], lang="zh")
    for part in ("失败", "没有 KV 缓存空间", "证据，第 118 行", "修复 1", "时间线"):
        assert part in shown
    assert "Proof" not in shown


def test_huge_report_fits_and_says_what_is_left_out() -> None:
    long = "x" * 50_000
    spans = tuple(Span(f"Worker_TP{n}", "launch.config", 0.0, 1.0, n, n) for n in range(5000))
    facts = {f"f.{n}": Fact(long, "log:1") for n in range(500)}
    findings = tuple(replace(FINDING, why=both(long), evidence=(Evidence(1, None, long),) * 50) for _ in range(40))
    huge = report(findings=findings, timeline=spans, facts=facts, source=Source("file", long))
    shown = render([huge])
    assert len(shown.encode()) <= LIMIT
    assert "Left out" in shown
    assert LONG in shown
    many = render([huge] * 300)
    assert len(many.encode()) <= LIMIT
    assert "logs" in many
    check(shown)


def test_command_that_is_too_long_is_not_cut() -> None:
    command = "vllm serve m " + "--x y " * 4000
    shown = render(
        [replace(REPORT, findings=(replace(FINDING, fixes=(replace(FIX, command=command),)),), command=None, trials=())]
    )
    assert "--x y --x y" not in shown
    assert "--max-model-len 8192" in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Set --max-model-len 8192 (26112 fit).", "Set `--max-model-len` 8192 (26112 fit)."),
        ("Plain words, 0.90 and 5 % of 80 GiB: fine.", "Plain words, 0.90 and 5 % of 80 GiB: fine."),
        ("gpu_memory_utilization=0.9", "`gpu_memory_utilization=0.9`"),
        ("1. one", "`1.` one"),
        ("- one", "`-` one"),
        ("把 --tp 设为 2。", "把 `--tp` 设为 2。"),
        ("ask @octocat", "ask `@octocat`"),
        ("", ""),
    ],
)
def test_prose_keeps_words_and_wraps_what_is_no_word(text: str, expected: str) -> None:
    assert prose(text) == expected


def test_pieces() -> None:
    assert fence("a```b") == "````text\na```b\n````"
    assert code("a`b") == "``a`b``"
    assert code("`a") == "`` `a ``"
    assert code("a\nb") == "`a b`"
    assert link("https://github.com/a/b/issues/1") == "<https://github.com/a/b/issues/1>"
    assert link("javascript:alert(1)") == "`javascript:alert(1)`"
    assert table(["a"], [["b|c"]]) == "| a |\n| --- |\n| b\\|c |"
