"""The environment with a real vLLM, made once and kept outside the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vllm.watched import RealVllm

TOOL = Path(__file__).parents[2] / "tools" / "real_vllm.py"
# Installing takes minutes where packages are near; a slow line may need longer.
BUILD_TIMEOUT_S = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The starts that work come first: they fill the cache of compiled code that others break."""
    items.sort(key=lambda item: item.path.name != "test_real_vllm.py")


@pytest.fixture(scope="session")
def real() -> RealVllm:
    """A real vLLM. Without one these tests prove nothing, so its absence is a failure."""
    done = subprocess.run(
        [sys.executable, str(TOOL)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
    )
    if done.returncode:
        pytest.fail(f"{TOOL.name} failed:\n{done.stderr[-4000:]}", pytrace=False)
    return RealVllm(**json.loads(done.stdout.splitlines()[-1]))
