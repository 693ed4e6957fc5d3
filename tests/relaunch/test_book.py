from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.errors import UserError
from vdoctor.launch import options as option_tables
from vdoctor.launch.secrets import hide
from vdoctor.live.session import Recorder
from vdoctor.model import Change, Trial
from vdoctor.relaunch.book import Book, replay
from vdoctor.rulebase.schema import RuleBase

TRIAL = Trial(
    "f",
    Change({"--x": None, "--y": True}, {"A": "1", "B": None}, {"--ipc": "host"}),
    "c",
    "confirmed",
    1.5,
    reason={"en": "r", "zh": "由"},
)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    Book(tmp_path).add(["vllm", "serve", "m"], TRIAL)
    again = Book(tmp_path)
    assert again.get(["vllm", "serve", "m"]) == TRIAL
    assert again.get(["vllm", "serve m"]) is None


def test_lines_that_are_no_trials_are_passed_over(tmp_path: Path) -> None:
    Book(tmp_path).add(["a"], TRIAL)
    whole = (tmp_path / "trials.jsonl").read_text()
    broken = ["{", "[]", "null", '{"key": 1}', json.dumps({**json.loads(whole), "verdict": "proven"}), whole[:40]]
    (tmp_path / "trials.jsonl").write_text("\n".join(broken) + "\n" + whole)
    assert Book(tmp_path).get(["a"]) == TRIAL


def test_folders_are_never_used_twice(tmp_path: Path) -> None:
    book = Book(tmp_path)
    first = book.new_folder()
    first.mkdir(parents=True)
    assert book.new_folder() != first


def test_keys_and_tokens_are_hidden() -> None:
    words = [
        "HF_TOKEN=abc",
        "vllm",
        "serve",
        "m",
        "--api-key",
        "k1",
        "k2",
        "--port",
        "1",
        "--hf_token=x",
        "-e",
        "OPENAI_API_KEY=y",
    ]
    assert hide(words) == [
        *(
            "HF_TOKEN=***",
            "vllm",
            "serve",
            "m",
            "--api-key",
            "***",
            "***",
            "--port",
            "1",
            "--hf_token=***",
            "-e",
            "OPENAI_API_KEY=***",
        ),
    ]


@given(st.lists(st.text(max_size=8), max_size=6))
def test_hiding_keeps_the_number_of_words(words: list[str]) -> None:
    assert len(hide(words)) == len(words)


@given(st.integers(0, 400))
def test_trial_behind_a_line_that_was_cut_off_is_kept(cut: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Book(folder).add(["a"], TRIAL)
        whole = (folder / "trials.jsonl").read_bytes()
        (folder / "trials.jsonl").write_bytes(whole[:cut])
        again = Book(folder)
        # Without its line break it is whole all the same.
        assert (again.get(["a"]) is None) == (cut < len(whole) - 1)
        again.add(["b"], TRIAL)
        assert Book(folder).get(["b"]) == TRIAL
        assert Book(folder).get(["a"]) == again.get(["a"])


@pytest.mark.parametrize("label", [None, "", "{", "[]", "{}", '{"kind": "crash", "note": "the trial was cut off"}'])
def test_recording_without_its_end_is_no_trial(tmp_path: Path, label: str | None) -> None:
    recorder = Recorder(tmp_path, ["vllm", "serve", "m"], {}, {})
    recorder.log(0.1, b"INFO 12-01 10:00:00 [api_server.py:1] vLLM API server version 0.11.2\n")
    if label is not None:
        (tmp_path / "case.json").write_text(label)
    with pytest.raises(UserError):
        replay(tmp_path, RuleBase(()), option_tables.load())
