"""One reader for the options of a command, whoever asks."""

from __future__ import annotations

import shlex

import pytest

from vdoctor.budget.launch import settings_of
from vdoctor.budget.settings import Settings
from vdoctor.facts.launch import launch_facts
from vdoctor.facts.preflight import option_facts
from vdoctor.launch.command import parse
from vdoctor.launch.config import configured
from vdoctor.launch.endpoint import Endpoint, endpoint
from vdoctor.launch.options import load
from vdoctor.launch.values import Given, given, last_values, model_of, object_of, text_of, value
from vdoctor.model import Launch

TABLE = load()


def launch(words: str, file: str = "") -> Launch:
    return configured(parse(shlex.split(f"vllm serve m {words}")), file, TABLE)


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("--port 9 --max-model-len 64 -tp 2", ""),
        ("--port=9 --max-model-len=64 -tp=2", ""),
        ("--port 1 --port 9 --max-model-len 7 --max_model_len 64 -tp 1 --tensor_parallel_size=2", ""),
        ("--port 9 --max-model-le 64 --tensor-parallel-s 2", ""),
        ("--config c.yaml", "port: 9\nmax_model_len: 64\ntensor-parallel-size: 2\n"),
        ("--config c.yaml --port 9 -tp 2", "port: 1\nmax-model-len: 64\ntensor-parallel-size: 8\n"),
        ("-tp 2 --port 9 --config c.yaml --max-model-len 64 -- --port 1", "port: 1"),
    ],
)
def test_all_who_ask_get_the_same(words: str, file: str) -> None:
    one = launch(words, file)
    assert value(one, "--port", TABLE) == text_of(one, "--port", TABLE) == last_values(one, TABLE)["--port"] == "9"
    facts = {name: fact.value for name, fact in launch_facts(one, TABLE).items()}
    assert (facts["port"], facts["model.max_len"], facts["tp.size"], facts["model.name"]) == (9, 64, 2, "m")
    found = endpoint(one, TABLE, {})
    assert isinstance(found, Endpoint) and found.port == 9
    settings = settings_of(one, TABLE, Settings())
    assert (settings.tp, settings.max_len) == (2, 64)


@pytest.mark.parametrize(
    ("words", "flag", "expected"),
    [
        ("--enforce-eager", "--enforce-eager", True),
        ("--enforce-eager --no-enforce-eager", "--enforce-eager", False),
        ("--enforce-eager m", "--enforce-eager", True),
        ("-O3", "--optimization-level", "3"),
        ("--served-model-name a b --port 1", "--served-model-name", "a b"),
        ("--max-model-len -1", "--max-model-len", "-1"),
        ("--max-model-len --port 1", "--max-model-len", True),
        ("--max-model-len=", "--max-model-len", ""),
        ("-- --port 1", "--port", None),
    ],
)
def test_forms_of_a_value(words: str, flag: str, expected: str | bool | None) -> None:
    assert value(launch(words), flag, TABLE) == expected


def test_a_switch_that_is_off_is_not_among_the_last_values() -> None:
    assert "--enable-auto-tool-choice" not in last_values(launch("--no-enable-auto-tool-choice"), TABLE)
    off = launch("--config c.yaml", "enable-prefix-caching: false\n")
    assert settings_of(off, TABLE, Settings()).prefix_caching is False
    old = configured(parse(["vllm", "serve", "m"]), "enable-prefix-caching: false\n", TABLE, "0.20.0")
    assert settings_of(old, TABLE, Settings()).prefix_caching is None


def test_keys_of_an_object_may_stand_alone() -> None:
    one = launch('--speculative-config \'{"model": "d"}\' --speculative_config.num_speculative_tokens 3')
    assert object_of(one, "--speculative-config", TABLE) == {"model": "d", "num_speculative_tokens": 3}
    assert object_of(launch("--speculative-config nonsense"), "--speculative-config", TABLE) == {}
    assert object_of(launch(""), "--speculative-config", TABLE) is None


def test_mappings_in_the_file_are_objects() -> None:
    text = """
speculative-config:
  model: "a/b"   # the draft
  num_speculative_tokens: 3
  nested:
    deep: true
port: 9
"""
    expected = {"model": "a/b", "num_speculative_tokens": 3, "nested": {"deep": True}}
    assert object_of(launch("", text), "--speculative-config", TABLE) == expected
    assert value(launch("", text), "--port", TABLE) == "9"


def test_the_model_of_the_file() -> None:
    bare = configured(parse(["vllm", "serve", "--config", "c.yaml"]), "model: org/m\n")
    assert model_of(bare, TABLE) == "org/m"
    assert model_of(launch("--config c.yaml", "model: org/other"), TABLE) == "m"


def test_unknown_options_are_given_as_written() -> None:
    (one,) = given(launch("--no_such_thing=3"), TABLE)
    assert one == Given("--no-such-thing", "--no-such-thing", "", "3", None)
    file = launch("--config c.yaml", "no-such-thing: 3\n")
    assert option_facts(file, TABLE, "0.32.0")["args.unknown"].value == "--no-such-thing"
