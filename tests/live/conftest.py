"""What the tests of streams on a connection share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.dumps import connect, write_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tools.servers import Server


@pytest.fixture(scope="module")
def log_of() -> Callable[[Server], Path]:
    return functools.cache(write_log)


@pytest.fixture
def log(server: Server, log_of: Callable[[Server], Path]) -> Path:
    """A closed log of each server."""
    return log_of(server)


@pytest.fixture
def connection(server: Server) -> Iterator[Any]:
    connection = connect(server)
    yield connection
    if connection.open:
        connection.close()
