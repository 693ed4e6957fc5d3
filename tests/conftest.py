"""Options of the whole suite."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.processes import Mark, marked

# The same examples in every run, and no deadlines on noisy machines; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails the run")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Continuous integration must not pass because a suite quietly skipped itself."""
    if not session.config.getoption("--no-skips"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped") and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def mark() -> Iterator[Mark]:
    """See tests/processes.py."""
    with marked() as found:
        yield found
