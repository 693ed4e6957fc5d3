"""The wheel: complete, and enough to work from another folder without the checkout."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import marked, run

ROOT = Path(__file__).parent.parent
SOURCES = ("setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
FIXTURE = ROOT / "fixtures" / "oom" / "kv-too-small-vllm-0.11.2" / "log.txt"

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def once(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """A folder that all workers of a run share, and whether this one is the first and has to fill it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = shared / name
        first = not folder.exists()
        folder.mkdir(exist_ok=True)
        yield folder, first


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources: the checkout stays as it is."""
    with once(tmp_path_factory, "wheel-build") as (folder, first):
        if first:
            _build(folder)
        (built,) = (folder / "dist").glob("*.whl")
        return built


def _build(folder: Path) -> None:
    for name in SOURCES:
        shutil.copy(ROOT / name, folder / name)
    for name in ("vdoctor", "rules"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_every_rule_and_their_index(names: set[str]) -> None:
    rules = {f"vdoctor/_rules/{path.relative_to(ROOT / 'rules')}" for path in ROOT.glob("rules/*/*.toml")}
    assert rules - names == set()
    assert {name for name in names if name.startswith("vdoctor/_rules/")} == rules | {"vdoctor/_rules/index.json"}


def test_wheel_holds_every_module_and_table(names: set[str]) -> None:
    wanted = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "vdoctor").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - names == set()
    assert {"vdoctor/py.typed", "vdoctor/data/options.json"} <= names


def test_wheel_holds_nothing_else(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"vdoctor"}
    assert not [name for name in names if name.endswith((".pyc", ".tmp", "~"))]


def test_wheel_says_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    assert "\nRequires-Python: >=3.10\n" in text
    assert "\nLicense: Apache-2.0\n" in text or "\nLicense-Expression: Apache-2.0\n" in text
    assert "# vdoctor" in text or "vLLM" in text.partition("\n\n")[2]


def test_build_needs_only_what_pyproject_names(tmp_path: Path) -> None:
    """The hook that checks the rules runs where nothing of the product is installed."""
    (tmp_path / "rules").mkdir()
    shutil.copytree(ROOT / "rules" / "quant", tmp_path / "rules" / "quant")
    script = (
        "import sys\n"
        "for name in 'ahocorasick_rs click psutil pynvml rapidfuzz rich zstandard'.split(): sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from vdoctor.store import write_index\n"
        f"write_index(Path({str(tmp_path / 'rules')!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((tmp_path / "rules" / "index.json").read_text())["rules"]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel alone; its dependencies are those of the running one."""
    with once(tmp_path_factory, "wheel-installed") as (folder, first):
        if first:
            _install(wheel, folder)
        return folder


def _install(wheel: Path, folder: Path) -> None:
    venv.create(folder / "env", with_pip=False, symlinks=True)
    python = folder / "env" / "bin" / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    argv = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Behind the wheel, and without the checkout, which an editable install would bring along.
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    for source in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(source).iterdir():
            if "vdoctor" not in entry.name and entry.suffix not in (".pth", ".egg-link"):
                (dependencies / entry.name).symlink_to(entry)
    (site / "dependencies.pth").write_text(f"{dependencies}\n")


@pytest.fixture
def env() -> dict[str, str]:
    with marked() as mark:
        return {name: value for name, value in mark.env.items() if name != "PYTHONPATH"}


def test_installed_wheel_analyses_a_log_from_another_folder(installed: Path, env: dict[str, str]) -> None:
    vdoctor = str(installed / "env" / "bin" / "vdoctor")
    done = run([vdoctor, "analyze", "--format", "json", str(FIXTURE)], env=env, cwd=installed)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["findings"][0]["id"] == "oom.kv-too-small"
    python = str(installed / "env" / "bin" / "python")
    where = run([python, "-c", "import vdoctor; print(vdoctor.__file__)"], env=env, cwd=installed)
    assert str(installed / "env").encode() in where.stdout


def test_installed_wheel_lints_its_own_rules_and_runs_the_demo_server(installed: Path, env: dict[str, str]) -> None:
    vdoctor = str(installed / "env" / "bin" / "vdoctor")
    listed = run([vdoctor, "rules", "list"], env=env, cwd=installed)
    assert len(listed.stdout.splitlines()) == len(list(ROOT.glob("rules/*/*.toml")))
    python = str(installed / "env" / "bin" / "python")
    helped = run([python, "-m", "vdoctor.demo.server", "--help"], env=env, cwd=installed)
    assert (helped.returncode, helped.stderr) == (0, b"")


def test_installed_wheel_watches(installed: Path, env: dict[str, str], tmp_path: Path) -> None:
    vdoctor = str(installed / "env" / "bin" / "vdoctor")
    done = run(
        [vdoctor, "watch", "-q", "--session", str(tmp_path / "s"), "--", "sh", "-c", "echo hi; exit 7"],
        env=env,
        cwd=installed,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, b"hi\n", b"")
