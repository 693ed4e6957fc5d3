from __future__ import annotations

import itertools

import pytest
from packaging.version import Version

from vdoctor.launch import options

NEWEST = "0.33.0"


@pytest.fixture(scope="module")
def table() -> options.OptionTable:
    return options.load()


# spans


@pytest.mark.parametrize(
    ("flag", "span"),
    [
        ("--swap-space", ("0.5.5", "0.17.1")),
        ("--device", ("0.5.5", "0.9.2")),
        ("--cuda-graph-sizes", ("0.9.0.1", "0.12.0")),
        ("--cudagraph-capture-sizes", ("0.11.1", NEWEST)),
        ("--kv-cache-memory-bytes", ("0.10.2", NEWEST)),
        ("--num-scheduler-steps", ("0.5.5", "0.10.0")),
        ("--max-seq-len-to-capture", ("0.5.5", "0.10.2")),
        ("--worker-use-ray", ("0.5.5", "0.6.6")),
        ("--preemption-mode", ("0.5.5", "0.10.2")),
        ("--disable-log-requests", ("0.5.5", "0.16.0")),
        ("--task", ("0.6.4", "0.12.0")),
        ("--max-num-queued-reqs", ("0.29.0", NEWEST)),
        ("--attention-backend", ("0.13.0", NEWEST)),
        ("--disable-custom-all-reduce", ("0.5.5", NEWEST)),
        ("--device-memory-utilization", ("0.31.0", NEWEST)),
        ("-tp", ("0.5.5", NEWEST)),
    ],
)
def test_span(table: options.OptionTable, flag: str, span: tuple[str, str]) -> None:
    assert table.span(flag) == span


@pytest.mark.parametrize("flag", ["--enable-metrics", "--request-timeout", "--ray-address", "-zz"])
def test_what_never_existed(table: options.OptionTable, flag: str) -> None:
    assert table.span(flag) is None
    assert table.lookup(flag, None) is None
    assert table.exists(flag, None) is False
    assert table.exists(flag, "0.16.0") is False
    assert table.takes_value(flag, "0.16.0") is None


# versions


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.9.2", "0.9.2"),
        ("v0.9.2", "0.9.2"),
        ("0.19.1rc2.dev148+g1234", "0.19.1"),
        ("0.12.0+cu129", "0.12.0"),
        ("0.6.3.post1", "0.6.3"),
        ("0.11.2.dev0+gabcdef012.precompiled", "0.11.2"),
        ("0.8.4", "0.8.0"),
        ("0.34.0rc1.dev7", NEWEST),
        ("1.0", NEWEST),
        ("0.4.3", None),
        ("0.1.dev1+gbcc0a3c", None),
        ("dev", None),
        ("", None),
        (None, None),
    ],
)
def test_release_for(table: options.OptionTable, version: str | None, release: str | None) -> None:
    assert table.release_for(version) == release


@pytest.mark.parametrize(
    ("flag", "version", "answer"),
    [
        ("--swap-space", "0.17.1", True),
        ("--swap-space", "0.17.1+cu128", True),
        ("--swap-space", "0.18.0", False),
        ("--kv-cache-memory-bytes", "0.10.1.1", False),
        ("--kv-cache-memory-bytes", "0.10.2", True),
        # 0.8.3 lies between 0.8.0 and 0.8.5
        ("--data-parallel-size", "0.8.3", None),
        ("--tensor-parallel-size", "0.8.3", True),
        ("--enable-metrics", "0.8.3", False),
        # a candidate of 0.18.0 may still have what 0.17.1 has
        ("--swap-space", "0.18.0rc1", None),
        # a build of the main branch may hold what only the release after has
        ("--swap-space", "0.17.1rc1.dev20+g0123456", None),
        ("--swap-space", "0.16.0rc2.dev20+g0123456", True),
        ("--swap-space", "0.99", False),
        ("--max-model-len", "0.99", True),
        # too old to say
        ("--max-model-len", "0.3.0", None),
        # no version: certain only when all or none have it
        ("--max-model-len", None, True),
        ("--max-model-len", "unknown", True),
        ("--swap-space", None, None),
    ],
)
def test_exists(table: options.OptionTable, flag: str, version: str | None, answer: bool | None) -> None:
    assert table.exists(flag, version) is answer


# spellings


@pytest.mark.parametrize(
    ("flag", "version", "name"),
    [
        ("--max_model_len", "0.9.2", "--max-model-len"),
        ("-tp", "0.9.2", "--tensor-parallel-size"),
        ("-q", "0.9.2", "--quantization"),
        ("--device-memory-utilization", "0.32.0", "--gpu-memory-utilization"),
        # -O changed its meaning
        ("-O", "0.10.2", "--compilation-config"),
        ("-O", "0.12.0", "--optimization-level"),
        ("-O3", "0.12.0", "--optimization-level"),
        ("-cc", "0.12.0", "--compilation-config"),
        # the --no- form came with the dataclasses, in 0.8.5 and 0.9
        ("--no-enable-chunked-prefill", "0.8.5", "--enable-chunked-prefill"),
        ("--no-trust_remote_code", "0.9.2", "--trust-remote-code"),
        # the neighbour that has the option describes it
        ("--data-parallel-size", "0.8.3", "--data-parallel-size"),
        # no version: the newest release that has it
        ("--swap-space", None, "--swap-space"),
    ],
)
def test_lookup(table: options.OptionTable, flag: str, version: str | None, name: str) -> None:
    option = table.lookup(flag, version)
    assert option is not None
    assert option.name == name


@pytest.mark.parametrize(
    ("flag", "version"),
    [
        ("--swap-space", "0.18.1"),
        ("--device-memory-utilization", "0.26.0"),
        ("-cc", "0.11.2"),
        # plain store_true flags have no --no- form
        ("--no-disable-log-stats", "0.33.0"),
        ("--no-enforce-eager", "0.8.5"),
        ("--no-max-model-len", "0.33.0"),
        ("--kv-cache-memory", "0.32.0"),
    ],
)
def test_lookup_of_what_is_absent(table: options.OptionTable, flag: str, version: str) -> None:
    assert table.lookup(flag, version) is None


@pytest.mark.parametrize(
    ("flag", "version", "name"),
    [
        ("--kv-cache-memory", "0.32.0", "--kv-cache-memory-bytes"),
        ("--gpu_memory", "0.32.0", "--gpu-memory-utilization"),
        ("--no-enable-pre", "0.9.2", "--enable-prefix-caching"),
        ("--max-model", None, "--max-model-len"),
        # ambiguous: --device-ids, --device-memory-utilization
        ("--device", "0.32.0", None),
        # in full it is no abbreviation
        ("--device", "0.9.2", "--device"),
        ("--nothing-like-it", "0.32.0", None),
    ],
)
def test_abbreviations(table: options.OptionTable, flag: str, version: str | None, name: str | None) -> None:
    option = table.lookup(flag, version, allow_abbrev=True)
    assert (option and option.name) == name


# descriptions


@pytest.mark.parametrize(
    ("flag", "version", "default"),
    [
        ("--gpu-memory-utilization", "0.19.1", 0.9),
        ("--gpu-memory-utilization", "0.20.2", 0.92),
        ("--gpu-memory-utilization", NEWEST, 0.92),
        ("--swap-space", "0.16.0", 4),
        ("--max-num-seqs", "0.5.5", 256),
        ("--max-num-seqs", "0.8.5", None),  # depends on the GPU
        ("--tensor-parallel-size", NEWEST, 1),
        ("--enforce-eager", "0.5.5", False),
        ("--max-seq-len-to-capture", "0.9.2", 8192),
    ],
)
def test_default(table: options.OptionTable, flag: str, version: str, default: object) -> None:
    option = table.lookup(flag, version)
    assert option is not None
    assert option.default == default


@pytest.mark.parametrize(
    ("version", "choices"),
    [
        ("0.5.5", ("8", "16", "32", "128", "256", "512", "1024", "2048")),
        ("0.6.3", ("8", "16", "32")),
        ("0.7.3", ("8", "16", "32", "64", "128")),
        ("0.10.2", ("1", "8", "16", "32", "64", "128")),
        ("0.16.0", ("1", "8", "16", "32", "64", "128", "256")),
        ("0.18.1", None),  # any number parses
    ],
)
def test_block_size(table: options.OptionTable, version: str, choices: tuple[str, ...] | None) -> None:
    option = table.lookup("--block-size", version)
    assert option is not None
    assert option.choices == choices


def test_kv_cache_dtype_was_never_called_fp16(table: options.OptionTable) -> None:
    for version in ("0.5.5", "0.10.2", "0.18.1", "0.32.0"):
        option = table.lookup("--kv-cache-dtype", version)
        assert option is not None
        assert option.choices is not None
        assert "fp8" in option.choices
        assert "fp16" not in option.choices


@pytest.mark.parametrize(
    ("flag", "version", "answer"),
    [
        ("--max-model-len", "0.9.2", True),
        ("--enforce-eager", "0.9.2", False),
        ("--no-enforce-eager", "0.9.2", False),
        ("--served-model-name", "0.9.2", True),
        ("--enable-chunked-prefill", "0.5.5", True),  # `--enable-chunked-prefill False` was possible
        ("--enable-chunked-prefill", "0.10.2", False),
        ("-tp", None, True),
        ("-O3", "0.16.0", False),  # its value is inside
        ("-O", "0.16.0", True),
    ],
)
def test_takes_value(table: options.OptionTable, flag: str, version: str | None, answer: bool) -> None:
    assert table.takes_value(flag, version) is answer


def test_kinds(table: options.OptionTable) -> None:
    kinds = {
        flag: option.kind
        for flag in ("--hf-token", "--served-model-name", "--port", "--headless")
        if (option := table.lookup(flag, "0.32.0"))
    }
    assert kinds == {
        "--hf-token": "optional",
        "--served-model-name": "many",
        "--port": "value",
        "--headless": "flag",
    }


# nearest


@pytest.mark.parametrize(
    ("flag", "version", "first"),
    [
        ("--max-model-length", "0.9.2", "--max-model-len"),
        ("--max_model_length", None, "--max-model-len"),
        ("--gpu-memory-utlization", "0.16.0", "--gpu-memory-utilization"),
        ("--gpu-mem-util", "0.16.0", "--gpu-memory-utilization"),
        ("--tensor-parallel", "0.16.0", "--tensor-parallel-size"),
        ("--data-parallel", "0.16.0", "--data-parallel-size"),
        ("--model-name", "0.16.0", "--served-model-name"),
        ("-tensor-parallel-size", "0.16.0", "--tensor-parallel-size"),
        ("--kv-cache-type", "0.16.0", "--kv-cache-dtype"),
        ("--prefix-caching", "0.16.0", "--enable-prefix-caching"),
    ],
)
def test_nearest(table: options.OptionTable, flag: str, version: str | None, first: str) -> None:
    assert table.nearest(flag, version)[0] == first


@pytest.mark.parametrize(
    "flag", ["--enable-metrics", "--request-timeout", "--max-batch-size", "--worker-use-ray", "--foo"]
)
def test_nearest_names_no_false_friends(table: options.OptionTable, flag: str) -> None:
    assert table.nearest(flag, "0.32.0") == []


@pytest.mark.parametrize(
    ("flag", "version", "proposed"),
    [
        ("--disable-log-requests", "0.33.0", ["--no-enable-log-requests"]),
        ("--enable-log-requests", "0.9.2", []),
        ("--disable-prefix-caching", "0.9.2", ["--no-enable-prefix-caching"]),
        ("--disable-prefix-caching", "0.5.5", []),
        ("--no-enforce-eager", "0.8.5", []),
    ],
)
def test_nearest_never_proposes_the_opposite(
    table: options.OptionTable, flag: str, version: str, proposed: list[str]
) -> None:
    assert table.nearest(flag, version) == proposed


@pytest.mark.parametrize("version", ["0.5.5", "0.8.3", "0.16.0", "0.18.0rc1", NEWEST])
def test_nearest_proposes_only_what_exists(table: options.OptionTable, version: str) -> None:
    for flag in ("--max-model-length", "--kv-cache-memory", "--swap-spaces", "--data-parallel", "--max-lora"):
        assert all(table.exists(found, version) for found in table.nearest(flag, version))


def test_nearest_respects_the_limit(table: options.OptionTable) -> None:
    assert len(table.nearest("--data-parallel", "0.33.0")) > 1
    assert len(table.nearest("--data-parallel", "0.33.0", limit=1)) == 1


# the table itself


def test_every_span_is_in_order(table: options.OptionTable) -> None:
    releases = table._releases
    assert releases == sorted(releases, key=Version)
    for spelling, spans in table._spellings.items():
        assert all(span.first <= span.last < len(releases) for span in spans), spelling
        for before, after in itertools.pairwise(spans):
            assert before.last < after.first, spelling


def test_load_is_cached() -> None:
    assert options.load() is options.load()
