"""One Spark session for all tests of a process: it takes some seconds to start."""

from __future__ import annotations

import pytest

from tailrace.spark import session
from tests.spark.following import FLAVOURS


@pytest.fixture(scope="session", params=FLAVOURS)
def server(request):
    """A server of each flavour in turn, which tests share."""
    return request.getfixturevalue(request.param.replace("-", "").replace(".", ""))


@pytest.fixture(scope="session")
def spark():
    """A local session of our own making, on two cores."""
    running = session(2)
    yield running
    running.stop()
