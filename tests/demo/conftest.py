"""Fixtures for tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import Mark, marked


@pytest.fixture
def mark() -> Iterator[Mark]:
    """See tests/processes.py."""
    with marked() as found:
        yield found
