"""vdoctor compare: what got slower, what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import FAILED, HEALTHY, Cli

SLOW = (
    HEALTHY.replace("00:00:09", "00:00:29")
    .replace("00:00:12", "00:00:32")
    .replace("00:00:15", "00:00:35")
    .replace("00:00:16", "00:00:36")
    .replace("0.11.0", "0.11.2")
    .replace("took 1.5000 GiB", "took 2.7500 GiB")
)
WARM = "(EngineCore_DP0 pid=12) INFO 12-01 00:00:10 [backends.py:1] Directly load the compiled graph(s) for dynamic shape from the cache, took 1.0 s\n"
COLD = "(EngineCore_DP0 pid=12) INFO 12-01 00:00:30 [backends.py:1] Compiling a graph for dynamic shape takes 9.0 s\n"


def with_line(log: str, line: str) -> str:
    """The line stands before the KV cache is sized."""
    head, mark, rest = log.partition("(EngineCore_DP0 pid=12) INFO 12-01 00:00:" + line.split("00:00:")[1][0] + "2")
    return head + line + mark + rest


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setattr(
        "vdoctor.commands.compare.load_rules", __import__("tests.commands.conftest").commands.conftest._rules
    )


def logs(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"{number}.log" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_says_which_phase_got_slower_and_what_changed(cli: Cli, tmp_path: Path) -> None:
    answer = cli("compare", *logs(tmp_path, with_line(HEALTHY, WARM), with_line(SLOW, COLD)), "--format", "json")
    assert answer.status == 1
    found = answer.data
    assert found["schema"] == "vdoctor.compare/1"
    assert found["slower"] == "weight_load"
    assert found["bigger"] == "weights"
    (row,) = [row for row in found["phases"] if row["name"] == "weight_load"]
    assert row["delta"] == 20.0
    assert {"name": "vllm.version", "before": "0.11.0", "after": "0.11.2", "delta": None} in found["versions"]
    assert {"name": "compile.cache", "before": "hit", "after": "miss", "delta": None} in found["caches"]


def test_text_names_it_first_in_both_languages(cli: Cli, tmp_path: Path) -> None:
    paths = logs(tmp_path, HEALTHY, SLOW)
    answer = cli("compare", *paths, "--lang", "en")
    assert (
        answer.out.splitlines()[0]
        == "weight_load got 20.0 s slower (4.0 -> 24.0 s). weights grew from 1.50 to 2.75 GiB."
    )
    assert "vllm.version: 0.11.0 -> 0.11.2" in answer.out
    assert "慢了 20.0 秒" in cli("compare", *paths, "--lang", "zh").out


def test_two_that_are_the_same_show_no_news(cli: Cli, tmp_path: Path) -> None:
    paths = logs(tmp_path, HEALTHY, HEALTHY.replace("00:00:16", "00:00:17"))
    answer = cli("compare", *paths, "--lang", "en")
    assert answer.status == 0
    assert answer.out.startswith("No phase got slower, nothing got bigger.")


def test_change_of_the_command_is_shown_as_a_difference(cli: Cli, tmp_path: Path) -> None:
    line = (
        "(APIServer pid=11) INFO 12-01 00:00:01 [utils.py:1] non-default args: {'model': 'org/m', 'max_model_len': 9}\n"
    )
    other = line.replace("9}", "8, 'enforce_eager': True}")
    answer = cli("compare", *logs(tmp_path, line + HEALTHY, other + HEALTHY), "--lang", "en")
    assert [row.strip() for row in answer.out.splitlines() if row.startswith("  ") and row.strip()[0] in "+-"][2:] == [
        "- --max-model-len 9",
        "+ --max-model-len 8",
        "+ --enforce-eager",
    ]


def test_start_that_failed_can_be_compared(cli: Cli, tmp_path: Path) -> None:
    answer = cli("compare", *logs(tmp_path, HEALTHY, FAILED), "--format", "json")
    assert answer.data["verdict"] == {"before": "healthy", "after": "failed"}
    assert answer.status == 1
    answer = cli("compare", *logs(tmp_path, HEALTHY, FAILED))
    assert answer.out.startswith("The first start got ready, the second did not: failed.")
    assert "(failed: " in answer.out
    back = cli("compare", *logs(tmp_path, FAILED, HEALTHY))
    assert (back.status, "did not" in back.out) == (0, False)
    assert back.out.startswith("Before: failed; after: healthy.")


def test_larger_kv_cache_is_no_loss_and_a_smaller_one_is(cli: Cli, tmp_path: Path) -> None:
    small, large = (HEALTHY.replace("KV cache memory: 5.00", f"KV cache memory: {gib}") for gib in ("4.00", "6.00"))
    assert small != large
    answer = cli("compare", *logs(tmp_path, small, large), "--format", "json")
    assert (answer.status, answer.data["bigger"], answer.data["smaller"]) == (0, None, None)
    answer = cli("compare", *logs(tmp_path, large, small), "--format", "json")
    assert (answer.status, answer.data["bigger"], answer.data["smaller"]) == (1, None, "kv_cache")
    answer = cli("compare", *logs(tmp_path, large, small), "--lang", "zh")
    assert "KV cache 从 6.00 减少到 4.00 GiB" in answer.out


def test_start_that_is_slower_in_no_phase_alone_is_slower_all_the_same(cli: Cli, tmp_path: Path) -> None:
    late = HEALTHY
    for old, new in ((16, 19), (15, 17), (12, 14), (9, 10), (5, 6), (3, 4)):
        late = late.replace(f"00:00:{old:02}", f"00:00:{new:02}")
    answer = cli("compare", *logs(tmp_path, HEALTHY, late), "--format", "json")
    assert (answer.status, answer.data["slower"]) == (1, "ready"), answer.data["phases"]


def test_what_is_not_of_vllm_is_refused(cli: Cli, tmp_path: Path) -> None:
    for texts in ((HEALTHY, "root:x:0:0:\n"), ("root:x:0:0:\n", HEALTHY)):
        answer = cli("compare", *logs(tmp_path, *texts))
        assert (answer.status, answer.out) == (2, "")
        assert "not the output of a vLLM server" in answer.err


def test_what_cannot_be_read_is_wrong_usage(cli: Cli, tmp_path: Path) -> None:
    (path,) = logs(tmp_path, HEALTHY)
    answer = cli("compare", path, tmp_path / "no")
    assert answer.status == 2
    assert "no" in answer.err


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("form", ["markdown", "html"])
def test_ticket_and_page_say_the_same(cli: Cli, tmp_path: Path, form: str, lang: str) -> None:
    paths = logs(tmp_path, with_line(HEALTHY, WARM), with_line(SLOW, COLD))
    answer = cli("compare", *paths, "--format", form, "--lang", lang)
    assert answer.status == 1
    row = {
        "markdown": "| `weight_load` | 4.00 | 24.00 | +20.00 |",
        "html": '<th scope="row">weight_load</th><td class="n">4.00</td><td class="n">24.00</td><td class="n">+20.00</td>',
    }[form]
    assert row in answer.out
    for part in ("0.11.0", "0.11.2", "慢了" if lang == "zh" else "slower", "difference" if lang == "en" else "差值"):
        assert part.lower() in answer.out.lower()


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_hostile_command_is_text_in_every_form(cli: Cli, tmp_path: Path, form: str) -> None:
    evil = "'</pre><script>alert(1)</script>' '[red]x[/red]' '```' '|' '![x](https://evil.example/x.png)' '@octocat' '\x1b[2J'"
    texts = [f"$ vllm serve m --max-model-len {n} --x {evil}\n{HEALTHY}" for n in (1, 2)]
    answer = cli("compare", *logs(tmp_path, *texts), "--format", form, "--no-redact")
    assert answer.status in (0, 1)
    assert "\x1b" not in answer.out
    assert "<script" not in answer.out or form != "html"
