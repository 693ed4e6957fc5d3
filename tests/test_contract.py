"""What programs rely on: names of commands and options, exit statuses, JSON keys. Never removed, never renamed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.processes import VDOCTOR, marked, run
from vdoctor.cli import main_group
from vdoctor.model import CONFIDENCES, PHASES, SEVERITIES, STEPS, Report, Source
from vdoctor.report.json import to_dict
from vdoctor.rulebase.causes import CAUSES

ROOT = Path(__file__).parent.parent

COMMANDS = {
    "analyze": {"--format", "--output", "--lang", "--rules", "--no-color", "--redact", "--no-redact", "--check-redaction", "--verbose", "-v"},
    "watch": {"--session", "--no-session", "--interval", "--follow", "--pid", "--stall-after", "--on-stall", "--events", "--termination-log", "--after-ready", "--no-instrument", "--confirm", "--quiet", "-q", "--format", "--output", "--lang", "--rules", "--no-color", "-v"},
    "bundle": {"--output", "--lang", "--rules", "--check-redaction"},
    "explain": {"--lang", "--rules"},
    "rules list": {"--lang", "--rules", "--format"},
    "rules lint": set(),
    "rules new": set(),
    "rules test": set(),
    "confirm": {"--confirm", "--max-trials", "--trial-timeout", "--budget", "--dry-run", "--measure", "--format", "--lang", "--rules"},
    "fleet": {"--output", "--scheduler", "--workers", "--part", "--rules", "--lang"},
    "compare": {"--format", "--output", "--lang", "--rules"},
    "check": {"--format", "--output", "--lang", "--rules", "--no-color", "-v"},
    "estimate": {"--format", "--output", "--lang", "--gpu-memory", "--vllm-version", "--platform", "--max-model-len"},
    "demo": {"--lang", "--speed", "--no-color"},
    "completion": set(),
}  # fmt: skip
#: The steps that the first release has; more may come, none goes.
STEPS_PROMISED = """launch.config launch.distributed_init weight_load.download weight_load.read weight_load.process
kv_init.compile kv_init.profile kv_init.allocate graph_capture.warmup graph_capture.capture runtime.ready runtime.serving"""
KEYS = {
    "": """schema vdoctor source engine verdict phase step looks_like findings not_evaluated timeline phases elapsed
        memory exit motion trials proof facts""",
    "source": "kind name lines bytes",
    "engine": "name version generation model command",
    "findings": "id rule title severity confidence phase step why evidence symptoms fixes references",
    "evidence": "line process text",
    "fixes": "id title safety cost changes command",
    "changes": "flags env container",
    "not_evaluated": "id missing",
    "timeline": "process phase step start end first_line last_line",
    "phases": "phase start end",
    "exit": "status signal asked",
    "motion": "t state step since kind process pid waiting doing percent rate eta",
    "trials": "fix changes command verdict seconds finding",
    "facts": "value source",
}


def command(path: str) -> click.Command:
    found: click.Command = main_group
    for name in path.split():
        assert isinstance(found, click.Group)
        found = found.commands[name]
    return found


@pytest.fixture(scope="module")
def env() -> dict[str, str]:
    with marked() as mark:
        return mark.env


@pytest.mark.parametrize("path", COMMANDS)
def test_command_has_its_options_and_says_what_it_does(path: str) -> None:
    one = command(path)
    options = {name for parameter in one.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert COMMANDS[path] <= options
    assert one.help
    for parameter in one.params:
        if isinstance(parameter, click.Option) and parameter.name not in ("help", "form"):
            assert parameter.help, f"{path} {parameter.opts[0]} has no help"


def test_no_command_is_hidden_from_this_list() -> None:
    names = {name for name, one in main_group.commands.items() if not isinstance(one, click.Group)}
    group = command("rules")
    assert isinstance(group, click.Group)
    assert names | {f"rules {name}" for name in group.commands} <= set(COMMANDS)


@pytest.mark.parametrize(
    "argv", [[], ["--help"], ["-h"], *([*path.split(), "--help"] for path in COMMANDS)], ids=" ".join
)
def test_help_is_there(argv: list[str]) -> None:
    text = command(" ".join(argv[:-1]) if argv else "").get_help(
        click.Context(command(" ".join(argv[:-1]) if argv else ""))
    )
    assert text.startswith("Usage: ")


def test_version_is_printed(env: dict[str, str]) -> None:
    done = run([*VDOCTOR, "--version"], env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.fullmatch(rb"vdoctor, version \d+\.\d+\.\d+\S*\n", done.stdout)


def test_help_loads_nothing_heavy(env: dict[str, str]) -> None:
    """The times of imports, not wall-clock time: machines are noisy."""
    done = run([sys.executable, "-X", "importtime", "-m", "vdoctor", "--help"], env=env)
    assert done.returncode == 0
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert "click" in loaded
    heavy = {"rich", "pynvml", "rapidfuzz", "psutil", "zstandard", "ahocorasick_rs", "packaging", "platformdirs"}
    assert {name.partition(".")[0] for name in loaded} & heavy == set()
    assert not {name for name in loaded if name.startswith(("vdoctor.commands.", "vdoctor.live", "vdoctor.rulebase"))}


def test_analyze_loads_no_edge_to_gpus_and_no_matcher_of_texts_without_need(
    env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text("INFO:     Application startup complete.\n")
    argv = [sys.executable, "-X", "importtime", "-m", "vdoctor", "analyze", "--format", "json", str(tmp_path / "a.log")]
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in run(argv, env=env).stderr.splitlines()}
    assert {name.partition(".")[0] for name in loaded} & {"pynvml", "rapidfuzz", "rich", "zstandard"} == set()


def test_json_report_has_exactly_the_keys(env: dict[str, str]) -> None:
    """Of a recorded session, which has everything: times, samples, an end."""
    case = ROOT / "fixtures" / "model" / "max-len-vllm-0.11.2"
    script = f"cat '{case / 'log.txt'}'; exit 1"
    argv = [*VDOCTOR, "watch", "-q", "--no-session", "--format", "json", "--output", "-", "--", "sh", "-c", script]
    out = run(argv, env=env).stdout.decode()
    report = json.loads(out[out.index('{\n "schema"') :])
    assert report["schema"] == "vdoctor.report/1"
    assert set(report) == set(KEYS[""].split())
    assert report["findings"]
    for name in ("source", "engine", "exit"):
        assert set(report[name]) == set(KEYS[name].split())
    for name in ("findings", "timeline", "phases"):
        assert report[name]
        for entry in report[name]:
            assert set(entry) == set(KEYS[name].split())
    for fact in report["facts"].values():
        assert set(fact) == set(KEYS["facts"].split())
    fixes = [fix for finding in report["findings"] for fix in finding["fixes"]]
    assert fixes
    for entry in fixes:
        assert set(entry) == set(KEYS["fixes"].split())
        assert set(entry["changes"]) == set(KEYS["changes"].split())
    for entry in (one for finding in report["findings"] for one in finding["evidence"]):
        assert set(entry) == set(KEYS["evidence"].split())


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    for keys in KEYS.values():
        for key in keys.split():
            assert f"`{key}`" in text or f'"{key}"' in text, key


def test_empty_report_has_the_same_keys() -> None:
    data = to_dict(Report(Source("file", "x"), "not_vllm", None, None, (), (), (), (), {}))
    assert set(data) == set(KEYS[""].split())


def test_phases_and_steps_keep_their_names_and_order() -> None:
    assert PHASES == ("launch", "weight_load", "kv_init", "graph_capture", "runtime")
    promised = STEPS_PROMISED.split()
    assert [step for step in STEPS if step in promised] == promised
    assert all(step.partition(".")[0] in PHASES for step in STEPS)


def test_words_of_a_finding_keep_their_names() -> None:
    assert SEVERITIES == ("fatal", "stall", "degraded", "info")
    assert CONFIDENCES == ("confirmed", "certain", "likely", "possible")


def test_finding_ids_have_the_form_family_name() -> None:
    assert all(re.fullmatch(r"[a-z]+\.[a-z0-9]+(?:-[a-z0-9]+)*", name) for name in CAUSES)
    assert all(CAUSES.values())


def test_installed_script_and_module_are_the_same_program(env: dict[str, str]) -> None:
    script = Path(sys.executable).parent / "vdoctor"
    if script.exists():
        ours = run([str(script), "--help"], env=env)
        assert ours.stdout == run([*VDOCTOR, "--help"], env=env).stdout


def test_unknown_things_give_2(env: dict[str, str]) -> None:
    for argv in (["analyse"], ["--colour"], ["rules", "lnit"], ["demo", "--speed", "0"]):
        done = subprocess.run([*VDOCTOR, *argv], env=env, capture_output=True, stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stdout) == (2, b""), argv
