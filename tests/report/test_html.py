"""The report as one HTML page: structure and safety, without a browser."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.hostile import TEXTS, everywhere
from tests.report.reports import LONG, REPORT, report
from vdoctor.model import Report, Span
from vdoctor.report.curves import Recording, Series, wanted_lines
from vdoctor.report.html import render
from vdoctor.report.tags import esc, tag

ELEMENTS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "main",
    "footer",
    "p",
    "section",
    "header",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "ul",
    "li",
    "span",
    "article",
    "figure",
    "figcaption",
    "pre",
    "code",
    "div",
    "ol",
    "mark",
    "details",
    "summary",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "nav",
    "svg",
    "rect",
    "line",
    "text",
    "polyline",
    "desc",
}
ATTRIBUTES = {
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "href",
    "class",
    "id",
    "tabindex",
    "role",
    "aria-label",
    "aria-labelledby",
    "aria-hidden",
    "scope",
    "rel",
    "viewbox",
    "x",
    "y",
    "x1",
    "x2",
    "y1",
    "y2",
    "width",
    "height",
    "rx",
    "points",
    "text-anchor",
}
VOID = {"meta", "br"}
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
RECORDING = Recording(
    (
        Series("GPU 0 L4", ((0.0, 1.0), (30.0, 12.0), (75.0, 22.0)), 23.6, True),
        Series("host", ((0.0, 0.1), (75.0, 3.5))),
    ),
    2.0,
    {118: ((117, "before"), (118, "ValueError: No available memory"), (119, "after"))},
)


class Page(HTMLParser):
    """Elements, attributes and texts; asserts that what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def check(text: str) -> Page:
    """Nothing on the page but what the renderer makes itself."""
    assert not CONTROLS.search(text)
    text.encode()
    page = Page(text)
    assert {name for name, _ in page.elements} <= ELEMENTS
    assert {key for _, attributes in page.elements for key in attributes} <= ATTRIBUTES
    for name, attributes in page.elements:
        if name == "a":
            assert re.match(r"#|https?://", attributes["href"] or "")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for reference in (attributes.get("aria-labelledby") or "").split():
            assert reference in ids
    return page


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_text_of_a_log_stays_text(text: str, lang: str) -> None:
    near = Recording((Series(text, ((0.0, 1.0), (9.0, 2.0)), 3.0, True),), 0.0, {1: ((1, text), (2, text))})
    check(render([everywhere(text)], [near], lang=lang))
    check(render([everywhere(text), REPORT], [near, RECORDING], lang=lang))


@settings(max_examples=40)
@given(st.lists(st.sampled_from(TEXTS) | st.text(max_size=30), min_size=1, max_size=4).map(" ".join))
def test_any_text_stays_text(text: str) -> None:
    check(render([everywhere(text)]))


def test_markup_in_a_log_is_shown_letter_by_letter() -> None:
    for text in ("[red]markup[/red]", "<script>alert(1)</script>", "@octocat & co"):
        assert check(render([everywhere(text)])).text.count(text) >= 10


def test_page_holds_everything() -> None:
    page = check(render([REPORT], [RECORDING]))
    for text in (
        "failed", "kv_init.allocate", "No room for the KV cache", "The weights take all of it.", "line 118", "before", "after",
        LONG, "Buy a larger card.", "A rank is late", "EngineCore_DP0", "highest 22.0 GiB of 23.6 GiB", "weights 15.27 GiB",
        "After 1: confirmed", "After 2: same failure (oom.kv-none)", "tp.valid", "1, 2, 4", "killed by SIGKILL",
    ):  # fmt: skip
        assert text in page.text
    assert sum(name == "svg" for name, _ in page.elements) > 4
    hit = [attributes for name, attributes in page.elements if name == "li" and attributes.get("class") == "hit"]
    assert len(hit) == 2


def test_page_loads_nothing_and_runs_nothing() -> None:
    text = render([REPORT], [RECORDING])
    page = check(text)
    policy = next(
        a["content"] for name, a in page.elements if name == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert "unsafe" not in policy
    assert "://" not in style[1]
    assert "@import" not in style[1]
    assert "url(" not in style[1]


def test_chinese_page_says_its_language() -> None:
    text = render([REPORT], [RECORDING], lang="zh")
    page = check(text)
    assert ("html", {"lang": "zh-CN"}) in page.elements
    for word in ("失败", "原因", "时间线", "修复 1", "没有 KV 缓存空间", "内存随时间变化", "之前", "峰值"):
        assert word in page.text
    for word in ("Cause", "Timeline", "Memory", "confirmed", "Command", "seconds", "highest"):
        assert word not in page.text


def headings(page: Page) -> list[int]:
    return [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]


@pytest.mark.parametrize("reports", [[REPORT], [REPORT, REPORT]], ids=["one", "two"])
def test_headings_go_down_by_one(reports: list[Report]) -> None:
    levels = headings(check(render(reports, [RECORDING])))
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))


def test_several_reports_have_an_index() -> None:
    page = check(render([REPORT, report(verdict="healthy", findings=())], [RECORDING]))
    targets = [attributes["href"] for name, attributes in page.elements if name == "a"]
    assert "#r0" in targets
    assert "#r1" in targets
    assert "Nothing wrong found." in page.text


def test_picture_without_times_shows_the_order() -> None:
    spans = (
        Span("APIServer", "launch.config", None, None, 1, 20),
        Span("EngineCore", "weight_load.read", None, None, 21, 40),
    )
    page = check(render([report(timeline=spans)]))
    assert "The log has no times" in page.text
    assert "EngineCore: weight_load.read, Lines 21-40" in page.text


def test_wanted_lines_are_those_of_the_evidence() -> None:
    assert wanted_lines(REPORT) == {118, 7}


def test_tags_escape_what_goes_in() -> None:
    assert tag("p", "<b>", class_='x" y') == '<p class="x&quot; y">&lt;b&gt;</p>'
    assert tag("p", tag("b", "&")) == "<p><b>&amp;</b></p>"
    assert tag("rect", x=1, aria_hidden="true", role=None) == '<rect x="1" aria-hidden="true"/>'
    assert esc("a\x1b[31mb\n\u202ec") == "ab\nc"
