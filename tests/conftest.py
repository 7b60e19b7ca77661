"""Real servers for tests.

`mysql97`, `mariadb118` and `mariadb1011` are one running server each for the whole session, started
when a test first asks; `server` gives a test all three in turn; `fresh_server` starts one with
options of its own. Without servers such tests are skipped with the reason; TAILRACE_REQUIRE_SERVERS=1
makes that a failure. Global variables that the tests of a file set are put back behind the file:
which files share a server differs from run to run.

Tests that need a server are marked `server`, those that need Spark `spark`: see `_marks`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pymysql.err import InternalError, OperationalError

from tools.applied import gtid_mode
from tools.servers import NAMES, Server, available

FreshServer = Callable[..., Server]

_SERVER_FIXTURES = {"mysql97", "mariadb118", "mariadb1011", "server", "fresh_server"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function):
            for mark in _marks(item):
                item.add_marker(mark)


def _marks(item: pytest.Function) -> Iterator[str]:
    """What a test needs, by its fixtures and by what its file or theirs imports.

    A file that imports what starts a server, or a server's own programs, is taken to use it.
    """
    closure = item._fixtureinfo.name2fixturedefs
    namespaces = [vars(item.module)]
    for definitions in closure.values():
        namespaces += [
            each.func.__globals__ for each in definitions if each.func.__module__ != __name__
        ]
    origins = {
        getattr(value, "__module__", None) or getattr(value, "__name__", "")
        for namespace in namespaces
        for value in namespace.values()
        if callable(value) or isinstance(value, ModuleType)
    }
    if _SERVER_FIXTURES & closure.keys() or _any_below(origins, "tools.servers", "tools.s3"):
        yield "server"
    in_folder = Path(__file__).parent / "spark" in item.path.parents
    if in_folder or _any_below(origins, "pyspark", "tailrace.spark"):
        yield "spark"


def _any_below(origins: set[Any], *packages: str) -> bool:
    return any(f"{each}.".startswith(f"{package}.") for each in origins for package in packages)


def _require(name: str) -> None:
    if reason := available(name):
        text = f"needs {name}: {reason}"
        if os.environ.get("TAILRACE_REQUIRE_SERVERS") == "1":
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


_shared: dict[Server, dict[str, str]] = {}
"""The session's servers, and their global variables as they were at the start."""


def _variables(server: Server) -> dict[str, str]:
    return dict(server.query("SHOW GLOBAL VARIABLES"))


def _put_back(server: Server, before: dict[str, str]) -> None:
    if (mode := before.get("gtid_mode")) is not None:
        gtid_mode(server, mode)  # type: ignore[arg-type]  # a server's own word
    for name, now in _variables(server).items():
        was = before.get(name, now)
        if was != now:
            with suppress(OperationalError, InternalError):  # one that only the server sets
                server.execute(
                    f"SET GLOBAL {name} = {was}" if was.isdigit() else f"SET GLOBAL {name} = %s",
                    None if was.isdigit() else (was,),
                )


@pytest.fixture(scope="module", autouse=True)
def _same_variables() -> Iterator[None]:
    yield
    for server, before in _shared.items():
        if server.pid is not None:
            _put_back(server, before)


def _session_server(name: str) -> Iterator[Server]:
    _require(name)
    with Server(name) as server:
        _shared[server] = _variables(server)
        yield server
        del _shared[server]


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
