"""The HTML report in a real browser: nothing runs, nothing is loaded, everybody can read it.

Skipped where no Chromium is installed; VDOCTOR_CHROMIUM names one, VDOCTOR_SCREENSHOTS a folder for the pictures.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import FIXTURES
from tests.commands.conftest import Cli
from tests.commands.sessions import MARKUP, oom_session, planted_session

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM = os.environ.get("VDOCTOR_CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"no browser found ({', '.join(NAMES)})")
SESSIONS = ("oom", "planted", "healthy/session-vllm-0.32.0-cold", "stall/session-worker-stopped-vllm-0.32.0")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # The sandbox of the browser needs a user that is not root, which a container often has not.
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield one
        one.close()


@pytest.fixture
def page_of(cli: Cli, tmp_path: Path) -> Any:
    def make(name: str, lang: str = "en") -> Path:
        made = {"oom": oom_session, "planted": planted_session}
        session = made[name](tmp_path / name) if name in made else FIXTURES / name
        out = tmp_path / f"{name.replace('/', '-')}-{lang}.html"
        cli("analyze", session, "--format", "html", "--lang", lang, "--output", out)
        return out

    return make


class Visit:
    """A page in a context of its own, and all that it did besides being shown."""

    def __init__(
        self, browser: Any, path: Path, *, scheme: str = "light", width: int = 1100, scripts: bool = True
    ) -> None:
        self._context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, java_script_enabled=scripts
        )
        self.page = self._context.new_page()
        self.noise: list[str] = []
        self._path = path
        self.page.on("console", lambda message: self.noise.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.noise.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.noise.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self._requested(request.url))

    def _requested(self, url: str) -> None:
        if url != self._path.as_uri():
            self.noise.append(f"request: {url}")

    def __enter__(self) -> Any:
        self.page.goto(self._path.as_uri(), wait_until="load")
        return self.page

    def __exit__(self, *_: object) -> None:
        self._context.close()


def shot(page: Any, name: str) -> bytes:
    """A picture of the whole page, kept where somebody asked for it."""
    folder = os.environ.get("VDOCTOR_SCREENSHOTS")
    return bytes(page.screenshot(full_page=True, path=str(Path(folder, f"{name}.png")) if folder else None))


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_page_is_shown_with_and_without_scripts_in_light_and_dark(
    browser: Any, page_of: Any, name: str, lang: str
) -> None:
    path = page_of(name, lang)
    pictures = {}
    for scheme in ("light", "dark"):
        for scripts in (True, False):
            visit = Visit(browser, path, scheme=scheme, scripts=scripts)
            with visit as page:
                pictures[scheme, scripts] = shot(page, f"{name.replace('/', '-')}-{lang}-{scheme}")
                assert page.locator("h1").count() == 1
                assert page.locator("svg[role=img]").count() >= 2
                assert page.locator("h2").first.is_visible()
            assert visit.noise == []
    assert pictures["light", True] == pictures["light", False]
    assert pictures["light", True] != pictures["dark", True]


def test_hostile_text_is_text(browser: Any, page_of: Any) -> None:
    visit = Visit(browser, page_of("oom"))
    with visit as page:
        assert page.title().startswith("failed")
        shown = page.locator("main").inner_text()
        for text in (
            "<script>document.title='owned'</script> [red]markup[/red] **bold** red",
            "@octocat #1 </pre><img src=x onerror=alert(1)>",
        ):
            assert text in shown
            assert text.split()[0] in MARKUP
        assert page.locator("img, script, iframe, object, embed, form, input, link").count() == 0
    assert visit.noise == []


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_page_fits_screens_of_any_width(browser: Any, page_of: Any, width: int) -> None:
    with Visit(browser, page_of("oom"), width=width) as page:
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["oom", "healthy/session-vllm-0.32.0-cold"])
def test_all_text_stands_out_from_its_background(browser: Any, page_of: Any, name: str, scheme: str) -> None:
    """At least 4.5 to 1, as WCAG 2 asks for in text of normal size."""
    with Visit(browser, page_of(name), scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        low = page.evaluate(
            """() => {
              const light = c => { const f = c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                                   return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
              const parse = s => s.match(/[\\d.]+/g).map(Number);
              const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; }
                                    return [255, 255, 255]; };
              const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
              for (let n; n = walk.nextNode();) {
                const e = n.parentElement; if (!n.data.trim() || e.closest('title, desc, style')) continue;
                const s = getComputedStyle(e), svg = e.closest('svg');
                const a = light(parse(svg ? s.fill : s.color)), b = light(ground(svg ? svg.parentElement : e));
                const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
                if (ratio < 4.5) found.push([n.data.slice(0, 40), ratio.toFixed(2)]);
              }
              return found; }"""
        )
        assert low == []


def test_page_speaks_to_a_screen_reader(browser: Any, page_of: Any) -> None:
    with Visit(browser, page_of("oom")) as page:
        told = page.locator("body").aria_snapshot()
    for part in (
        "- main:",
        '- heading "failed in graph_capture.capture" [level=1]',
        '- heading "Cause" [level=2]',
        '- heading "Timeline" [level=2]',
        '- heading "Fix 1 (gives something up)" [level=4]',
        '- img "Timeline One row a process and step',
        "GPU 0 NVIDIA H100 80GB HBM3: highest 78.0 GiB of 79.0 GiB",
        '- img "Where the memory of one GPU went, as vLLM stated it weights 30.60 GiB; KV cache 38.20 GiB"',
        "- contentinfo:",
        "mark:",
    ):
        assert part in told, told


@pytest.mark.parametrize("scripts", [True, False])
def test_page_can_be_used_with_the_keyboard_alone(browser: Any, page_of: Any, scripts: bool) -> None:
    with Visit(browser, page_of("oom"), scripts=scripts) as page:
        page.keyboard.press("Tab")
        first = page.locator("*:focus")
        assert first.get_attribute("href") == "#main"
        assert first.bounding_box()["x"] >= 0
        reached = []
        for _ in range(60):
            page.keyboard.press("Tab")
            here = page.locator("*:focus")
            if here.count() == 0:
                break
            reached.append(
                here.evaluate("e => e.tagName.toLowerCase()") if scripts else (here.get_attribute("class") or "")
            )
            if here.locator("xpath=self::summary").count():
                page.keyboard.press("Enter")
                assert here.locator("xpath=..").get_attribute("open") is not None
                break
        else:
            pytest.fail(f"no folded part can be reached: {reached}")
        assert len(reached) > 3


def test_several_logs_are_linked_from_the_index(browser: Any, cli: Cli, tmp_path: Path) -> None:
    oom_session(tmp_path / "many" / "a")
    oom_session(tmp_path / "many" / "b")
    out = tmp_path / "page.html"
    cli("analyze", tmp_path / "many", "--format", "html", "--output", out)
    visit = Visit(browser, out)
    with visit as page:
        page.locator("nav a").nth(1).click()
        assert page.url.endswith("#r1")
        assert page.locator("#r1").bounding_box()["y"] < 100
    assert [noise for noise in visit.noise if "#r1" not in noise] == []


def test_page_can_be_printed(browser: Any, page_of: Any) -> None:
    with Visit(browser, page_of("oom")) as page:
        assert page.pdf().startswith(b"%PDF")
