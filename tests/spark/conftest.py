"""One Spark session for all tests of a process: it takes some seconds to start."""

from __future__ import annotations

from functools import cache

import pytest

from tailrace.spark import session
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.spark.following import FLAVOURS
from tests.storage.objects.conftest import bucket, s3_server  # noqa: F401 - fixtures
from tools.s3 import available


@pytest.fixture(scope="session", params=FLAVOURS)
def server(request):
    """A server of each flavour in turn, which tests share."""
    return request.getfixturevalue(request.param.replace("-", "").replace(".", ""))


@pytest.fixture(scope="module")
def running(fresh_server):
    """running(name) gives the server of a name, whose log has all names: one for each file."""
    return cache(lambda name: fresh_server(name, {"binlog_row_metadata": "FULL"}))


@pytest.fixture
def source(request, running):
    """A server of the file's own: a MySQL, or where it matters a server of `BOTH` flavours."""
    return running(getattr(request, "param", FLAVOURS[0]))


@pytest.fixture
def lake(tmp_path):
    """Where a test may create a lake."""
    return tmp_path / "lake"


@pytest.fixture(scope="session", autouse=True)
def spark(request):
    """A local session of our own making, on two cores.

    Its workers have the environment and the folder that it was started with: the credentials of the
    S3 server, if a test of this run needs it, and ours, from which tests can be imported. So it starts before any test that would
    start one by the way, in a folder of its own.
    """
    with pytest.MonkeyPatch.context() as environment:
        wanted = any("s3_server" in item.fixturenames for item in request.session.items)
        if wanted and available() is None:
            for name, value in request.getfixturevalue("s3_server").environment.items():
                environment.setenv(name, value)
        running = session(2)
    yield running
    running.stop()


@pytest.fixture(params=["delta", "iceberg"])
def name(request):
    """A format whose tables others write to, too."""
    return request.param
