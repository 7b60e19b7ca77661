"""What the tests of the source share: it serves, and clients of all kinds attach to it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.replication.source.server import SourceServer

PASSWORD = "gehaim"
SERVER_ID = 4242


@pytest.fixture
def serve() -> Iterator[Callable[..., SourceServer]]:
    """A factory: serve(folder, …) serves it to the user ``repl``, until the test's end."""
    with ExitStack() as stack:

        def start(logs, **settings: Any) -> SourceServer:
            settings = {"server_id": SERVER_ID, "user": "repl", "password": PASSWORD} | settings
            if "users" in settings:
                del settings["user"], settings["password"]
            return stack.enter_context(tailrace.serve(logs, **settings))

        yield start


def connect(server: SourceServer, **settings: Any) -> pymysql.connections.Connection:
    """A client of it, by PyMySQL."""
    given = {"host": "127.0.0.1", "port": server.port, "user": "repl", "password": PASSWORD}
    return pymysql.connect(**(given | settings))


def ask(server: SourceServer, sql: str, **settings: Any) -> list[tuple[Any, ...]]:
    """A statement's rows, on a connection of its own."""
    with connect(server, **settings) as client, client.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
