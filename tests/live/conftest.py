"""What the tests of streams on a connection share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.live.dumps import connect, write_log
from tools.servers import ONE_OF_EACH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.servers import Server


@pytest.fixture(scope="session", params=ONE_OF_EACH)
def server(request: pytest.FixtureRequest) -> Server:
    """A server of each flavour in turn: what is said on a connection does not go by the release."""
    return request.getfixturevalue(request.param.replace("-", "").replace(".", ""))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def log(server: Server) -> Path:
    """A closed log of each server."""
    return write_log(server)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that its machine holds up breaks no connection: the breaks are the test's alone."""
    monkeypatch.setattr("tailrace.live.open_dump.SILENT_PERIODS", 10_000)


@pytest.fixture
def connection(server: Server) -> Iterator[Any]:
    connection = connect(server)
    yield connection
    if connection.open:
        connection.close()
