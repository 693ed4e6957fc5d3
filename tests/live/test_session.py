"""Session folders: what was recorded replays, however much of it is left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vdoctor.errors import UserError
from vdoctor.intake.splitter import LineSplitter
from vdoctor.live.session import Recorder, Session, is_session
from vdoctor.model import (
    Exit,
    Fact,
    GpuProcess,
    GpuSample,
    HostSample,
    Line,
    Observation,
    ProcessSample,
    Sample,
    Stack,
    Xid,
)

COMMAND = ["vllm", "serve", "org/model", "--port", "8000"]
FACTS = {"gpu.count": Fact(2, "nvml"), "tp.valid": Fact((1, 2, 4), "derived"), "gpu.name": Fact("NVIDIA L4", "nvml")}
GPUS = (GpuSample(0, "NVIDIA L4", "GPU-1", 24 << 30, 3 << 30, 87), GpuSample(1))
LABEL = {"id": "x", "also": [], "phase": None, "kind": "crash"}
LOG = "INFO 12-01 00:00:01 [api_server.py:1] vLLM API server version 0.11.0\r\nbar 1/2\rbar 2/2\nValueError: 显存 \udcff\nend"


def record(folder: Path, entries: Sequence[tuple[float, bytes] | Sample], end: Exit | None) -> list[Observation]:
    """Record as `watch` does; returns what the examination saw meanwhile."""
    recorder = Recorder(folder, COMMAND, {"HF_HOME": "/x"}, FACTS)
    splitter = LineSplitter()
    seen: list[Observation] = []
    for entry in entries:
        if isinstance(entry, Sample):
            recorder.sample(entry)
            seen.append(entry)
        else:
            recorder.log(*entry)
            seen += splitter.feed(entry[1], entry[0])
    if end is not None:
        seen += [*splitter.close(end.t), end]
        recorder.close(end, LABEL)
    assert recorder.failed is None
    return seen


TIMES = st.floats(0, 1e6).map(lambda t: round(t, 4))
NUMBERS = st.none() | st.integers(0, 1 << 45)
FLOATS = st.none() | st.floats(0, 1e6)
WORDS = st.none() | st.text(max_size=8)
FEW = st.integers(0, 3)
ROWS = st.builds(
    GpuSample,
    FEW,
    *(WORDS, WORDS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, FLOATS, NUMBERS, NUMBERS),
    throttle=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    ecc_errors=NUMBERS,
    processes=st.none() | st.lists(st.builds(GpuProcess, FEW, NUMBERS, WORDS), max_size=2).map(tuple),
    lost=st.booleans(),
    unified=st.booleans(),
)
TREE = st.builds(
    ProcessSample,
    *(FEW, FEW, st.text(max_size=5), WORDS, WORDS, st.floats(0, 1e6), st.integers(0, 1 << 45)),
    *(NUMBERS, NUMBERS, NUMBERS, NUMBERS, WORDS),
)
HOSTS = st.builds(
    HostSample,
    *(st.integers(0, 999), st.integers(0, 1 << 45), st.floats(0, 1e6), st.lists(TREE, max_size=3).map(tuple)),
    *(NUMBERS for _ in range(9)),
    st.dictionaries(st.text(max_size=5), st.integers(0, 1 << 45), max_size=2),
)
SAMPLES = st.builds(
    Sample,
    TIMES,
    st.lists(ROWS, max_size=3).map(tuple),
    st.none() | HOSTS,
    st.lists(st.builds(Xid, FEW, st.integers(1, 200)), max_size=2).map(tuple),
    st.lists(
        st.builds(
            Stack,
            *(FEW, WORDS, st.text(max_size=5), st.lists(st.text(max_size=9), max_size=3).map(tuple)),
            st.sampled_from(["py-spy", "proc", "log"]),
        ),
        max_size=2,
    ).map(tuple),
    st.none() | st.dictionaries(st.text(max_size=5), st.floats(-1e9, 1e9), max_size=2),
    st.none() | st.integers(0, 599),
)
CHUNKS = st.tuples(
    TIMES, st.binary(max_size=30) | st.text(max_size=20).map(str.encode) | st.sampled_from([b"a\r", b"\nb", b"\r\n"])
)
ENDS = st.none() | st.builds(
    Exit, TIMES, st.integers(0, 255), st.sampled_from([None, "SIGKILL"]), st.sampled_from([None, "SIGINT", "stop"])
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40, deadline=None
)
@given(entries=st.lists(CHUNKS | SAMPLES, max_size=12), end=ENDS, chunk=st.none() | st.integers(1, 9))
def test_replay_gives_what_was_seen_while_it_was_recorded(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[tuple[float, bytes] | Sample],
    end: Exit | None,
    chunk: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("s") / "session"
    seen = record(folder, entries, end)
    replayed = list(Session(folder).observations(chunk))
    if end is None:
        # Nobody closed it: the unfinished last line comes as well.
        assert replayed[: len(seen)] == seen
        assert all(isinstance(rest, Line) for rest in replayed[len(seen) :])
    else:
        assert replayed == seen


def test_launch_and_facts_come_back(tmp_path: Path) -> None:
    record(tmp_path / "s", [(0.5, b"x\n")], Exit(1.0, 3))
    session = Session(tmp_path / "s")
    assert (session.command, session.env, session.facts) == (COMMAND, {"HF_HOME": "/x"}, FACTS)
    list(session.observations())
    assert (session.lines, session.bytes) == (1, 2)


def test_log_is_the_output_as_captured(tmp_path: Path) -> None:
    data = bytes(range(256)) * 3
    record(tmp_path / "s", [(0.1, data[:100]), (0.2, data[100:])], Exit(1.0, 0))
    assert (tmp_path / "s" / "log.txt").read_bytes() == data
    assert json.loads((tmp_path / "s" / "case.json").read_text()) == LABEL


def test_steady_fields_are_written_once(tmp_path: Path) -> None:
    tree = (ProcessSample(7, 1, "python", "EngineCore", "S", 1.5, 1 << 30, 9, 1, 2, 3, "futex"),)
    host = HostSample(1, 1 << 30, 1.5, tree, 5, disk_free={"/tmp": 9})
    record(tmp_path / "s", [Sample(0.1, GPUS, host), Sample(1.1, GPUS, host)], None)
    first, second = map(json.loads, (tmp_path / "s" / "samples.jsonl").read_text().splitlines())
    assert first["host"]["tree"][0]["role"] == "EngineCore"
    assert second == {
        "t": 1.1,
        "gpus": [{"index": 0, "memory_used": 3 << 30, "utilization": 87}, {"index": 1}],
        "host": {"processes": 1, "rss": 1 << 30, "cpu_seconds": 1.5, "tree": [{"pid": 7}]},
    }


def test_session_of_an_older_form_is_read(tmp_path: Path) -> None:
    record(tmp_path / "s", [(0.1, b"one\n")], Exit(1.0, 0))
    gpu = {"index": 0, "name": "X", "uuid": None, "memory_total": 9, "memory_used": 5, "utilization": None}
    rows = [
        {"t": 0.2, "gpus": [gpu], "host": {"processes": 2, "rss": 3, "cpu_seconds": 0.5}},
        {"t": 0.3, "gpus": [], "host": None},
    ]
    (tmp_path / "s" / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = [one for one in Session(tmp_path / "s").observations() if isinstance(one, Sample)]
    assert samples == [Sample(0.2, (GpuSample(0, "X", None, 9, 5),), HostSample(2, 3, 0.5)), Sample(0.3)]


# cut off


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], list[Observation]]:
    """The files of a small session, and its observations."""
    folder = tmp_path_factory.mktemp("whole") / "s"
    data = LOG.encode("utf-8", "surrogateescape")
    entries: list[tuple[float, bytes] | Sample] = [(at / 10, data[at : at + 33]) for at in range(0, len(data), 33)]
    entries[2:2] = [Sample(0.15, GPUS, HostSample(3, 1 << 30, 12.5))]
    seen = record(folder, entries, Exit(20.0, 137, "SIGKILL"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}, seen


def restored(folder: Path, files: dict[str, bytes]) -> Session:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return Session(folder)


def texts(observations: Sequence[Observation]) -> list[str]:
    return [one.text for one in observations if isinstance(one, Line)]


def test_samples_cut_off_at_any_byte_still_replay(
    whole: tuple[dict[str, bytes], list[Observation]], tmp_path: Path
) -> None:
    files, seen = whole
    samples = files["samples.jsonl"]
    session = restored(tmp_path, files)
    for size in range(len(samples)):
        (tmp_path / "samples.jsonl").write_bytes(samples[:size])
        # The log is complete: every line comes, whatever became of the times.
        assert texts(list(session.observations())) == texts(seen), size


def test_log_cut_off_at_any_byte_still_replays(
    whole: tuple[dict[str, bytes], list[Observation]], tmp_path: Path
) -> None:
    files, seen = whole
    session = restored(tmp_path, files)
    for size in range(len(files["log.txt"])):
        (tmp_path / "log.txt").write_bytes(files["log.txt"][:size])
        replayed = list(session.observations())
        lines = texts(replayed)
        assert lines[:-1] == texts(seen)[: max(len(lines) - 1, 0)], size
        assert replayed[-1] == Exit(20.0, 137, "SIGKILL")


def test_session_that_was_never_closed_replays(tmp_path: Path) -> None:
    record(tmp_path / "s", [(0.1, b"one\ntwo")], None)
    assert list(Session(tmp_path / "s").observations()) == [Line(1, "one", 0.1), Line(2, "two", 0.1)]


@pytest.mark.parametrize("missing", ["samples.jsonl", "case.json"])
def test_lost_file_leaves_the_rest_readable(
    whole: tuple[dict[str, bytes], list[Observation]], tmp_path: Path, missing: str
) -> None:
    files, seen = whole
    session = restored(tmp_path, {name: data for name, data in files.items() if name != missing})
    assert texts(list(session.observations())) == texts(seen)


# damage


@pytest.mark.parametrize(
    "line",
    [
        '{"t":"x","log":3}',
        '{"t":null,"log":3}',
        '{"t":NaN,"log":3}',
        '{"t":1e999,"log":3}',
        '{"t":0,"log":"x"}',
        '{"t":0,"log":Infinity}',
        '{"t":0,"log":[]}',
        '{"t":0,"log":-5}',
        '{"t":0,"gpus":5,"host":null}',
        '{"t":0,"gpus":[5],"host":null}',
        '{"t":0,"gpus":[{}],"host":null}',
        '{"t":0,"gpus":[{"index":0,"memory_used":"much"}],"host":null}',
        '{"t":0,"gpus":[],"host":5}',
        '{"t":0,"gpus":[],"host":{"rss":1}}',
        '{"t":0,"gpus":[{"index":0,"lost":1}]}',
        '{"t":0,"gpus":[{"index":0,"power":NaN}]}',
        '{"t":0,"gpus":[{"index":0,"throttle":"hot"}]}',
        '{"t":0,"gpus":[{"index":0,"processes":[{"memory":1}]}]}',
        '{"t":0,"host":{"processes":1,"rss":1,"cpu_seconds":1,"tree":[{"pid":1}]}}',
        '{"t":0,"host":{"processes":1,"rss":1,"cpu_seconds":1,"tree":5}}',
        '{"t":0,"host":{"processes":1,"rss":1,"cpu_seconds":1,"disk_free":[1]}}',
        '{"t":0,"host":{"processes":1,"rss":1,"cpu_seconds":1,"disk_free":{"/":"x"}}}',
        '{"t":0,"host":{"processes":1,"rss":1e999,"cpu_seconds":1}}',
        '{"t":0,"xids":[{"gpu":0}]}',
        '{"t":0,"stacks":[{"pid":1,"role":null,"thread":"a","frames":[],"source":"x"}]}',
        '{"t":0,"metrics":{"a":"b"}}',
        '{"t":0,"health":"ok"}',
        '{"t":0,"exit":null}',
        '{"t":0,"exit":{"status":"bad"}}',
    ],
)
def test_entry_of_the_wrong_form_is_called_damage(tmp_path: Path, line: str) -> None:
    record(tmp_path / "s", [(0.1, b"one\n")], Exit(1.0, 0))
    (tmp_path / "s" / "samples.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match="is damaged"):
        list(Session(tmp_path / "s").observations())


@pytest.mark.parametrize(
    "line",
    [
        '{"t":0,"log":1000000000000000000}',
        "[]",
        "17",
        "null",
        "",
        "\x00\xff",
        '{"t":0}',
        "[" * 100_000,
    ],
)
def test_strange_entry_does_not_hide_the_log(tmp_path: Path, line: str) -> None:
    record(tmp_path / "s", [(0.1, b"one\ntwo\n")], Exit(1.0, 0))
    (tmp_path / "s" / "samples.jsonl").write_text(line + "\n")
    assert texts(list(Session(tmp_path / "s").observations())) == ["one", "two"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "not json",
        '{"command": 5}',
        '{"command": [], "env": []}',
        '{"command": [], "facts": {"a": 1}}',
        '{"command": [], "facts": {"a": {"value": {}, "source": "x"}}}',
        "[" * 100_000,
    ],
)
def test_description_of_the_wrong_form_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "session.json").write_text(text)
    with pytest.raises(UserError, match=r"session\.json: is no session description"):
        Session(tmp_path)


def test_folder_is_a_session_when_it_holds_description_and_log(tmp_path: Path) -> None:
    assert not is_session(tmp_path)
    assert not is_session(tmp_path / "missing")
    assert not is_session(tmp_path / ("x" * 300))
    (tmp_path / "session.json").write_text("{}")
    assert not is_session(tmp_path)
    (tmp_path / "log.txt").write_text("")
    assert is_session(tmp_path)


# the disk


@pytest.mark.parametrize("name", ["log.txt", "samples.jsonl", "session.json", "case.json"])
def test_folder_that_holds_something_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(UserError, match=f"holds a {name} already") as caught:
        Recorder(tmp_path, [], {}, {})
    assert "--session" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "precious"


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        Recorder(tmp_path / "s", [], {}, {})


def test_folders_above_are_made(tmp_path: Path) -> None:
    Recorder(tmp_path / "a" / "b", [], {}, {})
    assert is_session(tmp_path / "a" / "b")


class _Full:
    """A stream on a disk that is full: what no test can have without a disk of its own."""

    def write(self, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        raise OSError(28, "No space left on device")

    def close(self) -> None:
        raise OSError(28, "No space left on device")


def test_recording_stops_at_the_first_error_and_keeps_what_it_has(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s", COMMAND, {}, {})
    recorder.log(0.1, b"kept\n")
    recorder._log.close()
    recorder._log = _Full()  # type: ignore[assignment]
    recorder.log(0.2, b"lost\n")
    assert recorder.failed is not None
    recorder.log(0.3, b"lost too\n")
    recorder.sample(Sample(0.4))
    recorder.close(Exit(1.0, 0), LABEL)
    assert recorder.failed.errno == 28
    assert texts(list(Session(tmp_path / "s").observations())) == ["kept"]
