"""Real servers for tests.

`mysql97`, `mariadb118` and `mariadb1011` are one running server each for the whole session, started
when a test first asks; `server` gives a test all three in turn; `fresh_server` starts one with
options of its own. Without servers such tests are skipped with the reason; TAILRACE_REQUIRE_SERVERS=1
makes that a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tools.servers import NAMES, Server, available

FreshServer = Callable[..., Server]


def _require(name: str) -> None:
    if reason := available(name):
        text = f"needs {name}: {reason}"
        if os.environ.get("TAILRACE_REQUIRE_SERVERS") == "1":
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


def _session_server(name: str) -> Iterator[Server]:
    _require(name)
    with Server(name) as server:
        yield server


@pytest.fixture(scope="session")
def mysql97() -> Iterator[Server]:
    yield from _session_server("mysql-9.7")


@pytest.fixture(scope="session")
def mariadb118() -> Iterator[Server]:
    yield from _session_server("mariadb-11.8")


@pytest.fixture(scope="session")
def mariadb1011() -> Iterator[Server]:
    yield from _session_server("mariadb-10.11")


@pytest.fixture(scope="session", params=NAMES)
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the three servers in turn."""
    return request.getfixturevalue(request.param.replace("-", "").replace(".", ""))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def fresh_server() -> Iterator[FreshServer]:
    """A factory: fresh_server(name, options, server_id=..., init_options=...) gives it started."""
    started: list[Server] = []

    def start(name: str, options: Any = None, **settings: Any) -> Server:
        _require(name)
        server = Server(name, options, **settings)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()
