from __future__ import annotations

import pytest

from vdoctor.launch import options as tables
from vdoctor.launch.change import apply
from vdoctor.launch.command import parse, print_words
from vdoctor.launch.config import configured, path, words
from vdoctor.launch.values import address, value
from vdoctor.model import Change

TABLE = tables.load()
FILE = """\
# a server
model: org/m
port: 9001   # not 8000
max_model_len: 4096
enforce-eager: true
enable-prefix-caching: false
served-model-name: "a: b # c"
chat-template: 'it''s'
compilation-config: {"level": 3}
cudagraph-capture-sizes:
  - 1
  - 2
nothing: null
"""


def test_file_as_words() -> None:
    assert words(FILE) == [
        *("--model", "org/m", "--port", "9001", "--max-model-len", "4096", "--enforce-eager"),
        *("--served-model-name", "a: b # c", "--chat-template", "it's"),
        *("--compilation-config", '{"level": 3}', "--cudagraph-capture-sizes", "1", "2"),
    ]


def test_command_beats_the_file() -> None:
    launch = configured(parse(["vllm", "serve", "--config", "x.yaml", "--max-model-len", "8"]), FILE)
    assert path(launch, TABLE) == "x.yaml"
    assert value(launch, "--max-model-len", TABLE) == "8"
    assert value(launch, "--port", TABLE) == "9001"
    place = address(launch, TABLE)
    assert place is not None
    assert place.url == "http://127.0.0.1:9001"


def test_changes_go_to_the_command_and_the_file_is_not_printed() -> None:
    launch = configured(parse(["vllm", "serve", "--config", "x.yaml"]), FILE)
    changed = apply(launch, Change({"--max-model-len": "8"}), TABLE)
    assert changed is not None
    assert print_words(changed) == ["vllm", "serve", "--config", "x.yaml", "--max-model-len", "8"]


def test_what_only_the_file_sets_cannot_be_left_out() -> None:
    launch = configured(parse(["vllm", "serve", "--config", "x.yaml"]), FILE)
    assert apply(launch, Change({"--enforce-eager": None}), TABLE) is None


@pytest.mark.parametrize("text", ["", "- a\n- b", "key", ": x", "a:\n  b: c", "{", "\x00: 1"])
def test_what_is_no_flat_file_does_no_harm(text: str) -> None:
    assert all(isinstance(word, str) for word in words(text))
