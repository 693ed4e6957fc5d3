from __future__ import annotations

import pytest

from tests.rulebase.rulebook import API, CORE, WORKER, base, examine, found, line, rule, signal, traceback

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
OOM_SIGNAL = r"CUDA out of memory\. Tried to allocate (?P<tried>[\d.]+ [KMG]iB)"


@pytest.mark.parametrize(
    "text",
    [
        line(OOM),
        line(OOM, ""),
        line(traceback(OOM, "load_model")),
        "vllm: starting\n" + traceback(OOM, "load_model"),
        "\n".join(f"(EngineCore pid=2) {one}" for one in traceback(OOM, "load_model").splitlines()),
        "vllm-1  | " + line(OOM),
        '{"log":"' + line(OOM) + '\\n","stream":"stderr","time":"2025-07-02T15:32:50.7Z"}',
    ],
)
def test_the_message_is_searched_without_prefix_and_header(text: str) -> None:
    rules = base(rule("oom.x", signal("^(?:torch.OutOfMemoryError: )?" + OOM_SIGNAL)))
    assert found(rules, text) == ["oom.x"]


def test_one_signal_of_several_is_enough() -> None:
    rules = base(rule("oom.x", signal("first message") + signal("second message")))
    assert found(rules, line("second message")) == ["oom.x"]
    assert found(rules, line("no such message")) == []


@pytest.mark.parametrize(
    ("level", "expected"),
    [("ERROR", ["oom.x"]), ("WARNING", ["oom.x"]), ("INFO", [])],
)
def test_the_level_of_the_record(level: str, expected: list[str]) -> None:
    rules = base(rule("oom.x", signal("the message", "level = ['ERROR', 'WARNING']")))
    assert found(rules, line("the message", level=level)) == expected


def test_a_level_is_not_met_by_a_line_without_one() -> None:
    rules = base(rule("oom.x", signal("the message", "level = ['ERROR']")))
    assert found(rules, "vllm\nthe message") == []


@pytest.mark.parametrize(("process", "expected"), [(WORKER, ["oom.x"]), (CORE, []), (API, []), ("", [])])
def test_the_process_that_writes(process: str, expected: list[str]) -> None:
    rules = base(rule("oom.x", signal("the message", "process = '^Worker'")))
    assert found(rules, line("the message", process)) == expected


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (("worker_main", "load_model"), ["oom.weights"]),
        (("worker_main", "profile_run", "execute_model"), ["oom.profile"]),
        (("worker_main", "capture_model"), ["oom.graph-capture"]),
        # profiling captures, too
        (("worker_main", "profile_run", "capture_model"), ["oom.profile"]),
        (("somewhere",), []),
    ],
)
def test_the_stack_around_the_message_tells_rules_apart(frames: tuple[str, ...], expected: list[str]) -> None:
    rules = base(
        rule("oom.weights", signal(OOM_SIGNAL, "stack = 'load_model'")),
        rule("oom.profile", signal(OOM_SIGNAL, "stack = 'profile_run'")),
        rule("oom.graph-capture", signal(OOM_SIGNAL, "stack = 'capture_model'\nnot_stack = 'profile_run'")),
    )
    assert found(rules, line(traceback(OOM, *frames))) == expected


def test_a_stack_is_matched_by_name_in_order_from_outside() -> None:
    rules = base(
        rule("oom.x", signal(OOM_SIGNAL, "stack = '(?s)^worker_main$.*^load_model$'".replace("(?s)", "(?sm)")))
    )
    assert found(rules, line(traceback(OOM, "worker_main", "f", "load_model"))) == ["oom.x"]
    assert found(rules, line(traceback(OOM, "load_model", "worker_main"))) == []


def test_a_line_outside_a_traceback_has_no_stack() -> None:
    rules = base(
        rule("oom.x", signal(OOM_SIGNAL, "stack = 'load_model'")),
        rule("oom.y", signal(OOM_SIGNAL, "not_stack = 'load_model'")),
    )
    log = line(traceback("ValueError: x", "load_model")) + "\n" + line(OOM, API)
    assert found(rules, log) == ["oom.y"]


LOADING = line("Starting to load model m...", level="INFO")
PROFILING = line("Model loading took 7.1 GiB and 4.5 seconds", level="INFO", seconds=9)


def test_hits_in_other_phases_do_not_count() -> None:
    rules = base(rule("oom.x", signal("the message"), "phases = ['weight_load']"))
    assert found(rules, f"{LOADING}\n{line('the message')}") == ["oom.x"]
    assert found(rules, f"{LOADING}\n{PROFILING}\n{line('the message')}") == []


def test_an_unknown_phase_is_every_phase() -> None:
    rules = base(rule("oom.x", signal("the message"), "phases = ['weight_load']"))
    assert found(rules, line("the message")) == ["oom.x"]


def test_the_phases_of_a_signal_replace_those_of_its_rule() -> None:
    rules = base(rule("oom.x", signal("the message", "phases = ['kv_init']"), "phases = ['weight_load']"))
    assert found(rules, f"{LOADING}\n{PROFILING}\n{line('the message')}") == ["oom.x"]
    assert found(rules, f"{LOADING}\n{line('the message')}") == []


def test_the_stack_beats_the_last_marker() -> None:
    rules = base(rule("oom.x", signal("the message"), "phases = ['kv_init']"))
    log = LOADING + "\n" + line(traceback("RuntimeError: the message", "determine_available_memory", "profile_run"))
    report = examine(rules, log)
    assert (report.findings[0].id, report.findings[0].phase, report.findings[0].step) == (
        "oom.x",
        "kv_init",
        "kv_init.profile",
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("fits 26112 tokens", 26112),
        ("fits 26,112 tokens", 26112),
        ("fits 1,234,567 tokens", 1234567),
        ("fits -3 tokens", -3),
        ("fits 0.95 tokens", 0.95),
        ("fits 1,2 tokens", "1,2"),
        ("fits some tokens", "some"),
        ("fits 1.2.3 tokens", "1.2.3"),
        ("fits " + "9" * 5000 + " tokens", "9" * 5000),
    ],
)
def test_captured_numbers_become_numbers(text: str, value: object) -> None:
    rules = base(
        rule(
            "oom.x",
            signal(r"fits (?P<n>\S+) tokens", "gives = { 'kv.tokens' = 'n' }")
            + "[[fix]]\nid = 'a'\nsafety = 'safe'\nchanges = { flags = { '--max-model-len' = '{kv.tokens}' } }",
            en='fix.a = "{kv.tokens}"',
            zh='fix.a = "{kv.tokens}"',
        )
    )
    (finding,) = examine(rules, line(text)).findings
    assert finding.fixes[0].change.flags == {
        "--max-model-len": f"{value:g}" if isinstance(value, float) else str(value)
    }


def test_a_group_that_took_no_part_gives_no_fact() -> None:
    rules = base(
        rule(
            "oom.x",
            signal(r"the message(?: of (?P<n>\d+))?", "gives = { 'port' = 'n' }\nset = { 'gpu.cc' = 75 }"),
            en="",
        ).replace('title = "title of oom.x"', 'title = "a[[ {port}]] {gpu.cc}"')
    )
    assert examine(rules, line("the message")).findings[0].title["en"] == "a 7.5"
    assert examine(rules, line("the message of 3")).findings[0].title["en"] == "a 3 7.5"


def test_the_evidence_names_line_and_process() -> None:
    rules = base(rule("oom.x", signal("the message")))
    (finding,) = examine(rules, f"{LOADING}\n\n{line('the message', WORKER)}").findings
    (evidence,) = finding.evidence
    assert (evidence.line, evidence.process) == (3, "Worker_TP0")
    assert evidence.text.endswith("the message")


def test_progress_bars_are_no_messages() -> None:
    rules = base(rule("oom.x", signal("Capturing CUDA")))
    assert found(rules, "vllm\nCapturing CUDA graphs:  50%|█| 1/2 [00:01<00:01, 1.00it/s]") == []


def test_rules_without_any_regex_do_no_harm() -> None:
    rules = base(rule("oom.x", "[[signal]]\nlike = 'something'\n"))
    assert found(rules, line("the message")) == []


def test_a_server_that_restarts_in_a_circle_shows_its_latest_fault() -> None:
    banner = line("vLLM API server version 0.11.0", API, "INFO")
    rules = base(rule("oom.x", signal("the message")), rule("oom.y", signal("other message"), "confidence = 'likely'"))
    first = "\n".join([banner, LOADING, *[line("the message")] * 30])
    second = "\n".join([banner, LOADING, line("other message"), line("the message")])
    assert found(rules, f"{first}\n{second}") == ["oom.x", "oom.y"]
    (finding, _) = examine(rules, f"{first}\n{second}").findings
    assert finding.evidence[0].line == 36
    assert found(rules, f"{second}\n{banner}\n{LOADING}\n{line('other message')}") == ["oom.y"]


def test_a_message_in_a_million_lines_is_kept_once() -> None:
    rules = base(rule("oom.x", signal("the message")))
    (finding,) = examine(rules, "\n".join([line("the message")] * 5000)).findings
    assert len(finding.evidence) == 1


@pytest.mark.parametrize(("times", "expected"), [(2, []), (3, ["oom.x"]), (9, ["oom.x"])])
def test_a_signal_may_have_to_repeat(times: int, expected: list[str]) -> None:
    rules = base(rule("oom.x", signal("the message", "repeats = 3")))
    assert found(rules, "\n".join([line("the message")] * times)) == expected


@pytest.mark.parametrize(
    ("log", "phase"),
    [
        # the message says where it belongs, unless a stack around it says more
        (line("the message"), "kv_init"),
        (f"{LOADING}\n{line('the message')}", "kv_init"),
        (f"{LOADING}\n{PROFILING}\n{line('the message')}", "kv_init"),
        (f"{LOADING}\n{line(traceback('RuntimeError: the message', 'capture_model'))}", "graph_capture"),
    ],
)
def test_the_phase_where_a_message_belongs(log: str, phase: str) -> None:
    rules = base(rule("oom.x", signal("the message", "phase = 'kv_init'")))
    assert examine(rules, log).findings[0].phase == phase


def test_a_message_that_says_its_phase_counts_at_any_marker() -> None:
    rules = base(rule("oom.x", signal("the message", "phase = 'kv_init'"), "phases = ['kv_init']"))
    assert found(rules, f"{LOADING}\n{line('the message')}") == ["oom.x"]
    inside = line(traceback("RuntimeError: the message", "capture_model"))
    assert found(rules, f"{LOADING}\n{inside}") == []


def test_a_step_that_contradicts_the_phase_of_the_message_is_not_told() -> None:
    rules = base(rule("oom.x", signal("the message", "phase = 'kv_init'")))
    (contradicted,) = examine(rules, f"{LOADING}\n{line('the message')}").findings
    (agreed,) = examine(rules, f"{LOADING}\n{PROFILING}\n{line('the message')}").findings
    assert (contradicted.step, agreed.step) == (None, "kv_init.profile")
