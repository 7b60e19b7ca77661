"""One Spark session for all tests of a process: it takes some seconds to start."""

from __future__ import annotations

import pytest

from tailrace.spark import session


@pytest.fixture(scope="session")
def spark():
    """A local session of our own making, on two cores."""
    running = session(2)
    yield running
    running.stop()
