"""`docker run` as a trial runs it."""

from __future__ import annotations

import pytest

from vdoctor.launch.command import parse_text, words
from vdoctor.launch.container import as_trial, dropped, removal


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("docker run img m", "docker run --rm --name t img m"),
        ("docker run --rm --name mine img m", "docker run --rm --name t img m"),
        ("docker run -d --name=mine -p 1:2 img m", "docker run --rm --name t -p 1:2 img m"),
        ("docker run -itd -v /a:/b img --model m", "docker run --rm --name t -v /a:/b img --model m"),
        ("docker run -dP img m", "docker run --rm --name t -P img m"),
        ("docker run -itp 1:2 img m", "docker run --rm --name t -p 1:2 img m"),
        ("docker run -itp1:2 img m", "docker run --rm --name t -p1:2 img m"),
        ("docker run -d=true --tty=false img m", "docker run --rm --name t img m"),
        ("docker run --restart always --cidfile /x -e A=-d img m", "docker run --rm --name t -e A=-d img m"),
        (
            "docker run --ipc=host --device x --init img m",
            "docker run --rm --name t --ipc=host --device x --init img m",
        ),
        ("nohup podman container run -dt img m", "nohup podman container run --rm --name t img m"),
        ("docker run --name run run run", "docker run --rm --name t run run"),
        ("vllm serve m", "vllm serve m"),
    ],
)
def test_trial_runs_in_the_foreground_under_its_own_name(command: str, run: str) -> None:
    launch = parse_text(command)
    assert launch is not None
    assert words(as_trial(launch, "t")) == run.split()


def test_container_is_removed_by_the_runtime_that_started_it() -> None:
    for command, wanted in (
        ("docker run -d img m", ["docker", "rm", "-f", "t"]),
        ("nohup /opt/bin/podman container run img m", ["/opt/bin/podman", "rm", "-f", "t"]),
        ("vllm serve m", []),
    ):
        launch = parse_text(command)
        assert launch is not None
        assert removal(launch, "t") == wanted


def test_what_a_trial_goes_without_is_known() -> None:
    launch = parse_text("docker run --rm -d -it --name mine --gpus all img m")
    assert launch is not None
    assert dropped(launch) == ["-d", "-it", "--name mine"]
