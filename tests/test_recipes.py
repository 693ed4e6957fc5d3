"""The recipes of docs/recipes: parsed, linted, and their commands run as Docker, Kubernetes and systemd run them."""

from __future__ import annotations

import http.server
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import click
import psutil
import pytest
import yaml

from tests.cases import FIXTURES, ROOT
from tests.processes import DEADLINE, VDOCTOR, Mark, read_until, run, start
from vdoctor.cli import main_group
from vdoctor.launch.manifest import servers

RECIPES = ROOT / "docs" / "recipes"
FAILED = FIXTURES / "tp/heads-vllm-0.23.0/log.txt"
TOO_SMALL = FIXTURES / "oom/kv-too-small-vllm-0.11.2/log.txt"
#: A server that dies as the fixture did when TINY is the model, and else serves until it is told to end.
SERVER = f"""#!/bin/sh
echo "started $*"
[ "$2" = dies ] && cat '{FAILED}' && exit 1
trap 'echo told; exit 0' TERM
echo serving
sleep 600 & wait
"""
#: A /dev as a container has it, with Kubernetes' file, around the command; nothing of the host's is touched.
CONTAINER = """
set -e
mkdir -p "$0/dev"
mount -t tmpfs tmpfs "$0/dev"
for one in null zero random urandom; do touch "$0/dev/$one"; mount --bind "/dev/$one" "$0/dev/$one"; done
mkdir "$0/dev/shm"
touch "$0/dev/termination-log" "$0/message"
mount --bind "$0/message" "$0/dev/termination-log"
mount --rbind "$0/dev" /dev
exec unshare --pid --fork --kill-child --mount-proc "$@"
"""
NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount")


def permitted() -> bool:
    argv = [*NAMESPACES, "unshare", "--pid", "--fork", "--mount-proc", "true"]
    return shutil.which("unshare") is not None and subprocess.run(argv, capture_output=True).returncode == 0


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with bin/vdoctor, this tree's, and bin/vllm, the stand-in."""
    (tmp_path / "bin").mkdir()
    vdoctor = f'#!/bin/sh\nexec {shlex.join(VDOCTOR)} "$@"\n'
    for name, text in (("vdoctor", vdoctor), ("vllm", SERVER)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def env_of(mark: Mark, place: Path) -> dict[str, str]:
    return mark.env | {"PATH": f"{place / 'bin'}:{mark.env['PATH']}", "XDG_STATE_HOME": str(place / "state")}


def instructions() -> list[tuple[str, str]]:
    """Name and argument of each instruction of the Dockerfile."""
    text = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", (RECIPES / "Dockerfile").read_text(), flags=re.MULTILINE))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def entrypoint() -> list[str]:
    return list(json.loads(dict(instructions())["ENTRYPOINT"]))


def documents(name: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((RECIPES / name).read_text()) if one is not None]


def kinds(name: str) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in documents(name)}


def unit(name: str) -> dict[str, str]:
    """Keys of a unit; each stands there once."""
    lines = [line for line in (RECIPES / name).read_text().splitlines() if re.match(r"[A-Z]\w*=", line)]
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def taken(words: list[str]) -> None:
    """The program knows these options."""
    command = main_group.commands[words[1]]
    assert isinstance(command, click.Command)
    command.make_context(words[1], words[2:])


# Docker


def test_dockerfile_has_instructions_that_docker_knows() -> None:
    names = [name for name, _ in instructions()]
    assert set(names) <= {"ARG", "FROM", "COPY", "RUN", "ENV", "ENTRYPOINT"}
    assert names.index("FROM") == 1  # behind the ARG that it uses
    (script,) = (text for name, text in instructions() if name == "RUN")
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)
    taken(entrypoint())


def test_image_gets_all_that_the_installation_reads() -> None:
    lines = (RECIPES / "Dockerfile.dockerignore").read_text().splitlines()
    left_out = {line for line in lines if line and not line.startswith(("#", "!"))}
    needed = {"vdoctor", "rules", "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"}
    assert not left_out & needed
    assert all((ROOT / name).exists() for name in needed)
    assert [line for line in lines if line.startswith("!")] == ["!rules/dist"]  # "dist" is a family of rules, too


def test_compose_file_fits_the_dockerfile() -> None:
    (file,) = documents("compose.yaml")
    service = file["services"]["vllm"]
    assert (RECIPES / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == RECIPES / "Dockerfile"
    assert set(service["build"]["args"]) <= {text.split("=")[0] for name, text in instructions() if name == "ARG"}
    mounted = dict(volume.split(":")[::-1] for volume in service["volumes"])
    assert set(mounted.values()) == set(file["volumes"])
    assert dict(text.split("=") for name, text in instructions() if name == "ENV")["XDG_STATE_HOME"] in mounted
    taken([*entrypoint(), *service["command"]])


@pytest.mark.parametrize(("code", "status"), [(200, 0), (503, 1)])
def test_healthcheck_is_right_about_a_server(code: int, status: int, mark: Mark) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    words = documents("compose.yaml")[0]["services"]["vllm"]["healthcheck"]["test"]
    assert words[:2] == ["CMD", "python3"]
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code_words = words[3].replace(":8000/", f":{server.server_port}/")
        assert code_words != words[3]
        done = run([sys.executable, words[2], code_words], env=mark.env)
        server.shutdown()
    assert done.returncode == status


@pytest.mark.skipif(not permitted(), reason="no namespaces here")
def test_entrypoint_as_process_1_leaves_the_diagnosis_in_kubernetes_file(mark: Mark, place: Path) -> None:
    argv = [*NAMESPACES, "sh", "-c", CONTAINER, str(place), *entrypoint(), "dies"]
    done = run(argv, env=env_of(mark, place))
    assert done.returncode == 1, done.stderr
    assert done.stdout == b"started serve dies\n" + FAILED.read_bytes()
    message = (place / "message").read_text()
    assert message.splitlines()[1].startswith("tp.heads-not-divisible (certain): ")
    assert message.splitlines()[-1].endswith("--tensor-parallel-size 2")
    assert len(message.encode()) <= 4096
    (session,) = (place / "state/vdoctor/sessions").iterdir()
    assert (session / "log.txt").read_bytes() == done.stdout


@pytest.mark.skipif(not permitted(), reason="no namespaces here")
def test_entrypoint_as_process_1_passes_on_the_order_to_stop(mark: Mark, place: Path) -> None:
    argv = [*NAMESPACES, "sh", "-c", CONTAINER, str(place), *entrypoint(), "m"]
    process = start(argv, env=env_of(mark, place))
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"serving\n")
    inner = [one for one in psutil.Process(process.pid).children(recursive=True) if "watch" in one.cmdline()]
    inner[0].terminate()
    out, _ = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (0, b"told\n")
    # It was not ready: Kubernetes' probes may have lost patience, and the message says so.
    assert "proc.terminated (likely)" in (place / "message").read_text()
    assert mark.left() == []


# Kubernetes


def test_kubernetes_file_asks_for_what_vdoctor_and_vllm_need() -> None:
    found = kinds("kubernetes.yaml")
    pod = found["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert "command" not in container  # the image's entrypoint
    taken([*entrypoint(), *container["args"]])
    assert (container["terminationMessagePath"], container["terminationMessagePolicy"]) == (
        "/dev/termination-log",
        "File",
    )
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert mounted.keys() == volumes.keys()
    assert volumes[next(name for name, path in mounted.items() if path == "/dev/shm")]["emptyDir"]["medium"] == "Memory"
    assert "/var/lib/vdoctor" in mounted.values()
    labels = pod["metadata"]["labels"].items()
    for selector in (found["Deployment"]["spec"]["selector"]["matchLabels"], found["Service"]["spec"]["selector"]):
        assert selector.items() <= labels
    ports = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} <= ports
    assert {container[f"{probe}Probe"]["httpGet"]["port"] for probe in ("startup", "readiness", "liveness")} <= ports
    (job,) = found["Job"]["spec"]["template"]["spec"]["containers"]
    taken([*job["command"], *job["args"]])
    assert job["args"] == container["args"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_reads_the_file(tmp_path: Path) -> None:
    shutil.copy(RECIPES / "kubernetes.yaml", tmp_path)
    (tmp_path / "kustomization.yaml").write_text("resources: [kubernetes.yaml]\n")
    done = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {one["kind"] for one in yaml.safe_load_all(done.stdout)} == {"Deployment", "Service", "Job"}


@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml"])
def test_fixes_can_be_written_into_the_file(name: str, mark: Mark) -> None:
    assert servers((RECIPES / name).read_text())[0].argv == ["Qwen/Qwen3-8B", "--max-model-len", "32768"]
    done = run(
        [*VDOCTOR, "confirm", "--manifest", str(RECIPES / name), "--fix", "shorter", str(TOO_SMALL)], env=mark.env
    )
    added = [line for line in done.stdout.decode().splitlines() if re.match(r"\+[^+]", line)]
    assert (done.returncode, len(added)) == (0, 1), done.stderr
    assert "262144" in added[0]


# systemd


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("name", ["vllm.service", "vdoctor-follow.service"])
def test_systemd_finds_no_fault_in_the_unit(name: str, place: Path) -> None:
    text = (RECIPES / name).read_text().replace("/opt/vdoctor/bin/", f"{place}/bin/")
    (place / name).write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", str(place / name)], capture_output=True, text=True)
    mine = [line for line in done.stderr.splitlines() if name in line and "vllm.service not found" not in line]
    assert (done.returncode, mine) == (0, [])


def test_unit_starts_and_stops_the_server(mark: Mark, place: Path) -> None:
    words = shlex.split(unit("vllm.service")["ExecStart"])
    taken(["vdoctor", *words[1:]])
    words = [str(place / "bin" / Path(word).name) if word.startswith("/opt/") else word for word in words]
    process = start(words, env=env_of(mark, place), start_new_session=True)
    assert process.stdout is not None
    told = read_until(process.stdout.fileno(), b"serving\n")
    assert told.startswith(b"started serve Qwen/Qwen3-8B --host 127.0.0.1")
    process.terminate()  # KillMode=mixed: SIGTERM to the main process
    out, _ = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (0, b"told\n")
    assert mark.left() == []


def test_unit_beside_another_tells_events(mark: Mark, place: Path) -> None:
    shell, option, script = shlex.split(unit("vdoctor-follow.service")["ExecStart"])
    journalctl = place / "bin" / "journalctl"
    journalctl.write_text(f"#!/bin/sh\ncat '{FAILED}'\n")
    journalctl.chmod(0o755)
    script = script.replace("/opt/vdoctor/bin/", "").replace("/run/vdoctor/", f"{place}/")
    done = run([shell, option, script], env=env_of(mark, place))
    assert done.stdout == b""
    assert b"4 attention heads cannot be shared by 3 GPUs" in done.stderr
    events = [json.loads(line) for line in (place / "events").read_text().splitlines()]
    assert "tp.heads-not-divisible" in [event.get("id") for event in events]
