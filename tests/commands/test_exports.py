"""The forms of a report, and what of it leaves the terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import FIXTURES, Case, cases
from tests.commands.conftest import FAILED, HEALTHY, Cli
from tests.commands.sessions import oom_session, planted_session
from tests.processes import VDOCTOR, Mark
from tests.report.planted import SECRETS

SECRET = SECRETS[0][0]
#: The log tells its own start command, with a secret in it.
TICKET = f"$ HF_TOKEN={SECRET} vllm serve /home/mariselle/llm/secret-7b --port 8000\n{FAILED}"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def ticket(tmp_path: Path) -> Path:
    path = tmp_path / "ticket.txt"
    path.write_text(TICKET)
    return path


def private(text: str) -> list[str]:
    return [value for value in (SECRET, "mariselle", "secret-7b") if value in text]


@pytest.mark.parametrize("form", ["json", "markdown", "html", "text"])
def test_nothing_planted_is_in_a_file(cli: Cli, tmp_path: Path, form: str) -> None:
    session = planted_session(tmp_path / "s")
    out = tmp_path / "out"
    answer = cli("analyze", session, "-v", "--format", form, "--output", out)
    assert answer.status == 1
    assert "hidden: " in answer.err
    text = out.read_text()
    assert "oom.graph-capture" in text
    assert [secret for secret, _ in SECRETS if secret in text or secret in answer.err] == []


@pytest.mark.parametrize("line", [line for _, line in SECRETS], ids=lambda line: line[:30])
def test_planted_line_as_evidence_is_redacted_in_every_form(cli: Cli, tmp_path: Path, rules: Path, line: str) -> None:
    """Each secret stands right beside the message that is shown as proof, and in the lines around it."""
    secret = next(value for value, text in SECRETS if text == line)
    first, *rest = line.split("\n")
    log = tmp_path / "log.txt"
    log.write_text(
        "\n".join([FAILED.rstrip(), f"RuntimeError: the frobnicator has only 3 of 4 gears {first}", *rest, FAILED])
    )
    for form in ("json", "markdown", "html"):
        out = tmp_path / form
        assert cli("analyze", log, "--rules", rules, "-v", "--format", form, "--output", out).status == 1
        assert "frobnicator" in out.read_text()
        assert secret not in out.read_text()


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_markdown_and_html_are_redacted_on_standard_output_too(cli: Cli, ticket: Path, form: str) -> None:
    assert private(cli("analyze", ticket, "--format", form).out) == []
    assert private(cli("analyze", ticket, "--format", form, "--no-redact").out) == [SECRET, "mariselle", "secret-7b"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_terminal_and_pipe_show_things_as_they_are(cli: Cli, ticket: Path, rules: Path, form: str) -> None:
    asked = ("analyze", ticket, "-v", "--rules", rules, "--format", form)
    answer = cli(*asked)
    assert answer.err == ""
    assert private(answer.out) == [SECRET, "mariselle", "secret-7b"]
    assert cli(*asked, "--no-redact").out == answer.out
    assert private(cli(*asked, "--redact").out) == []


def test_shell_redirection_to_a_file_counts_as_a_file(ticket: Path, tmp_path: Path, mark: Mark) -> None:
    out = tmp_path / "out.json"
    with out.open("wb") as file:
        subprocess.run(
            [*VDOCTOR, "analyze", str(ticket), "--format", "json"], stdout=file, env=mark.env, check=False, timeout=60
        )
    assert private(out.read_text()) == []
    assert json.loads(out.read_text())["verdict"] == "failed"
    done = subprocess.run(
        [*VDOCTOR, "analyze", str(ticket), "--format", "json"],
        stdout=subprocess.PIPE,
        env=mark.env,
        check=False,
        timeout=60,
    )
    assert private(done.stdout.decode()) == [SECRET, "mariselle", "secret-7b"]


def test_check_shows_kinds_and_counts(cli: Cli, ticket: Path) -> None:
    answer = cli("analyze", ticket, "--check-redaction")
    assert answer.status == 1
    assert {line.split()[0] for line in answer.out.splitlines()[1:]} == {"secret", "user", "model-path"}
    assert private(answer.out + answer.err) == []
    data = cli("analyze", ticket, "--check-redaction", "--format", "json").data
    assert data["schema"] == "vdoctor.redaction/1"
    assert data["kinds"]["secret"]["values"] == 1
    assert data["kinds"]["secret"]["places"] >= 1


def test_check_of_a_log_without_secrets_says_so(cli: Cli, healthy: Path) -> None:
    answer = cli("analyze", healthy, "--check-redaction")
    assert (answer.status, answer.out) == (0, "Nothing private found.\n")


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_markup_of_a_log_is_text_in_every_form(cli: Cli, tmp_path: Path, form: str, lang: str) -> None:
    session = oom_session(tmp_path / "s")
    log = (
        (session / "log.txt")
        .read_text()
        .replace("512.00 MiB is free.", "512.00 MiB is free. [red]x[/red] <script>y</script> \x1b[2J\u202e@octocat")
    )
    (tmp_path / "log.txt").write_text(log)
    shown = cli("analyze", tmp_path / "log.txt", "--format", form, "--lang", lang, "-v").out
    assert not CONTROLS.search(shown)
    escaped = "[red]x[/red] &lt;script&gt;y&lt;/script&gt;" if form == "html" else "[red]x[/red] <script>y</script>"
    assert escaped in " ".join(shown.split())
    if form == "html":
        assert "<script" not in shown


def test_html_of_a_session_has_curves_and_surroundings(cli: Cli, tmp_path: Path) -> None:
    page = cli("analyze", oom_session(tmp_path / "s"), "--format", "html").out
    assert "GPU 0 NVIDIA H100 80GB HBM3: highest 78.0 GiB of 79.0 GiB" in page
    assert page.count("<polyline") == 3
    assert 'class="hit"' in page
    assert "EngineCore failed to start." in page


def test_html_of_a_log_has_surroundings_from_archives_too(cli: Cli, failed: Path, rules: Path, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(failed, "x:y/server.log")
    for path in (failed, tmp_path / "a.zip"):
        page = cli("analyze", path, "--format", "html", "--rules", rules).out
        assert 'class="hit"' in page
        assert "in load_model" in page


def near_of(page: str) -> list[str]:
    """The lists of lines around the evidence."""
    return re.findall(r'<div class="log".*?</div>', page, re.S)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_html_of_a_pipe_has_the_same_surroundings_as_that_of_the_file(cli: Cli, tmp_path: Path, case: Case) -> None:
    (tmp_path / "log.txt").write_bytes(case.log)
    pages = [cli("analyze", place, "--format", "html", stdin=case.log).out for place in (tmp_path / "log.txt", "-")]
    assert near_of(pages[1]) == near_of(pages[0])
    assert bool(near_of(pages[1])) == ("<figure" in pages[1])


def test_secrets_around_the_evidence_of_a_pipe_are_hidden(cli: Cli, rules: Path) -> None:
    log = "\n".join(
        [FAILED.rstrip(), *(line for _, line in SECRETS[:3]), "RuntimeError: the frobnicator has only 3 of 4 gears"]
    )
    page = cli("analyze", "-", "--format", "html", "--rules", rules, stdin=log.encode()).out
    assert "HF_TOKEN=secret-" in page
    assert [secret for secret, _ in SECRETS if secret in page] == []


def test_several_logs_are_one_page_and_one_markdown(cli: Cli, failed: Path, healthy: Path) -> None:
    page = cli("analyze", failed, healthy, "--format", "html").out
    assert page.count("<!doctype html>") == 1
    assert "2 logs" in page
    text = cli("analyze", failed, healthy, "--format", "markdown").out
    assert text.count("## `") == 2


def test_watch_writes_a_page_with_its_own_curves(mark: Mark, tmp_path: Path) -> None:
    code = f"import time\nprint({HEALTHY!r}, flush=True)\ntime.sleep(2.5)"
    out = tmp_path / "page.html"
    command = [
        *VDOCTOR,
        "watch",
        "--interval",
        "0.1",
        "--session",
        str(tmp_path / "s"),
        "--format",
        "html",
        "--output",
        str(out),
        "--",
        sys.executable,
        "-c",
        code,
    ]
    done = subprocess.run(command, env=mark.env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert b"<html" not in done.stderr
    assert "<polyline" in out.read_text()


@pytest.mark.parametrize("session", sorted(FIXTURES.glob("*/session-*")), ids=lambda path: path.name)
def test_recorded_sessions_make_pages_in_both_languages(cli: Cli, session: Path) -> None:
    for lang, word in (("en", "Memory over time"), ("zh", "内存随时间变化")):
        assert word in cli("analyze", session, "--format", "html", "--lang", lang).out
