"""Sources with semi-synchronous replication and no time-out, not enabled before a test does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.servers import Server

_OPTIONS = {
    "mysql-9.7": [
        "--plugin-load-add=semisync_source.so",
        "--rpl-semi-sync-source-timeout=4294967295",
    ],
    "mariadb-11.8": ["--rpl-semi-sync-master-timeout=4294967295"],
}


@pytest.fixture(scope="module", params=_OPTIONS)
def started(request, fresh_server) -> Server:
    server = fresh_server(request.param, _OPTIONS[request.param])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB) ENGINE=InnoDB")
    server.settle()
    return server


def variable(server: Server, name: str, value: object) -> None:
    """Set one of the source's variables, by the name behind ``rpl_semi_sync_source_``."""
    word = "source" if server.flavour == "mysql" else "master"
    server.execute(f"SET GLOBAL rpl_semi_sync_{word}_{name} = %s", (value,))


@pytest.fixture
def source(started: Server) -> Iterator[Server]:
    """Each source in turn, enabled, its table empty."""
    variable(started, "enabled", 0)  # nobody waits any more
    started.execute("DELETE FROM d.t")
    variable(started, "enabled", 1)
    yield started
    variable(started, "enabled", 0)
