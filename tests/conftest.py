"""Real servers for tests.

`mysql97`, `mariadb118` and `mariadb1011` are one running server each for the whole session, started
when a test first asks; `server` gives a test all three in turn; `fresh_server` starts one with
options of its own, which the file has for itself. Without servers such tests are skipped with the
reason; TAILRACE_REQUIRE_SERVERS=1 makes that a failure. What a test changes on a server that others
use as well is put back behind it, or fails it: see `tests.shared`.

Tests that need a server are marked `server`, those that need Spark `spark`: see `_marks`.

`pytest` without a path runs the quick suite (`QUICK`), and its last line says how to run the rest.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tailrace.columns import native
from tests.shared import Shared, State
from tools.servers import NAMES, ONE_OF_EACH, Server, available

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

FreshServer = Callable[..., Server]

QUICK = "quick or not (server or spark or slow)"
"""The quick suite: what needs no server, and the tests marked `quick`, one for each feature."""

# By its examples a test fails, and not by how long one took; the same ones each time, unless
# more of them are asked for.
settings.register_profile(
    "tests",
    deadline=None,
    derandomize="TAILRACE_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tests")

_STARTERS = (
    "tools.servers",
    "tools.s3",
    "tools.stores",
    "tests.storage.encryption.conftest",
)
_SERVERS = {
    *("mysql97", "mariadb118", "mariadb1011", "server", "flavour_server", "own_server"),
    "fresh_server",
    *("recorded", "release"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--order-seed",
        metavar="N",
        help="run the files in a random order: that of this number, or `random` for a new one",
    )
    parser.addoption(
        "--rest", action="store_true", help="run what the quick suite leaves out, and only that"
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("COLUMNS", None)  # a terminal's: the command keeps the width it has at first
    told = getattr(config, "workerinput", None)  # in one of xdist's workers
    if told is not None:
        config.option.order_seed = told["order_seed"]
        config.option.markexpr = told["markexpr"]
        return
    if not config.option.collectonly:
        with _aloud(config):
            _compile_kernels()
    if config.option.rest:
        config.option.markexpr = f"not ({QUICK})"
    elif config.args_source is config.ArgsSource.TESTPATHS and not _names_marks(config):
        config.option.markexpr = QUICK
        config.pluginmanager.register(_NamesTheRest(config))
    if config.option.order_seed == "random":
        config.option.order_seed = str(random.SystemRandom().randrange(1 << 32))
    config.pluginmanager.register(_SaysFailures(config))


def _aloud(config: pytest.Config) -> AbstractContextManager[Any]:
    """What is printed meanwhile is seen at once, also what one of xdist's workers prints on stderr."""
    return config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled()


def _compile_kernels() -> None:
    """Compile the kernels that this machine has not compiled: no test depends on an earlier one."""
    wanted = [name for name in native.KERNELS if not native.is_compiled(name)]
    if wanted:
        native._announce()
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(_compile, wanted))


def _compile(name: str) -> None:
    native._announced = True  # by the process that waits for this one
    native.kernel(name)


def _names_marks(config: pytest.Config) -> bool:
    """Whether the command line selects by marks: ``-m ''`` selects all tests."""
    return any(argument.startswith("-m") for argument in config.invocation_params.args)


class _NamesTheRest:
    """Prints, as the last line of the quick suite, how to run all tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Iterator[None]:
        yield
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line("This was the quick suite. Run every test: ./run pytest -m ''")


class _SaysFailures:
    """Prints the first failures as they happen, so that they are known if the run is stopped at its
    time limit.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left = 50

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed or not self._left:
            return
        self._left -= 1
        crash = getattr(report.longrepr, "reprcrash", None)
        said = str(report.longrepr if crash is None else crash.message).strip().splitlines()
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(f"\n{report.when} of {report.nodeid}:")
            for line in dict.fromkeys([*said[:1], *said[-1:]]):
                terminal.write_line(f"    {line[:500]}")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """All of xdist's workers have one order and one selection: each reads the command line only."""
    node.workerinput["order_seed"] = node.config.option.order_seed
    node.workerinput["markexpr"] = node.config.option.markexpr


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.option.order_seed
    return f"order of files: --order-seed={seed}" if seed is not None else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    for item in items:
        if isinstance(item, pytest.Function):
            for mark in _marks(item):
                item.add_marker(mark)
    yield  # pytest selects by marks, and sorts by parameters, which mixes files
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    if config.option.order_seed is not None:
        order = list(files.values())
        random.Random(config.option.order_seed).shuffle(order)
    else:
        order = _in_good_order(list(files.values()))
    items[:] = [item for file in order for item in file]


def _in_good_order(files: list[list[pytest.Item]]) -> list[list[pytest.Item]]:
    """Files that take long come first, so that no process has one of them left for the end; then
    those of Spark, which keep processors busy, in turn with those of servers, which mostly wait.
    """
    kinds: dict[str, list[list[pytest.Item]]] = {}
    for file in files:
        marks = {mark.name for item in file for mark in item.iter_markers()}
        kind = next((name for name in ("slow", "spark", "server") if name in marks), "")
        kinds.setdefault(kind, []).append(file)
    places = {
        id(file): number / len(kinds[kind])
        for kind in ("spark", "server")
        for number, file in enumerate(kinds.get(kind, []))
    }
    mixed = [*kinds.get("spark", []), *kinds.get("server", [])]
    mixed.sort(key=lambda file: places[id(file)])
    return [*kinds.get("slow", []), *mixed, *kinds.get("", [])]


def _marks(item: pytest.Function) -> Iterator[str]:
    """What a test needs, by its fixtures and by what its file or theirs imports.

    A file that imports what starts a server, or a server's own programs, is taken to use it; and so
    is a test that asks for a fixture by a name that is computed. Spark is a server, too.
    """
    closure = item._fixtureinfo.name2fixturedefs
    functions = [each.func for definitions in closure.values() for each in definitions]
    functions = [each for each in functions if each.__module__ != __name__]
    by_name = any(
        "getfixturevalue" in inspect.unwrap(each).__code__.co_names
        for each in [item.function, *functions]
    )
    modules = frozenset({item.module.__name__, *(each.__module__ for each in functions)})
    in_folder = Path(__file__).parent / "spark" in item.path.parents
    if by_spark := in_folder or _any_below(modules, "pyspark", "tailrace.spark"):
        yield "spark"
    by_fixture = _SERVERS & closure.keys()
    if by_spark or by_name or by_fixture or _any_below(modules, *_STARTERS):
        yield "server"


@functools.cache
def _origins(module: str) -> frozenset[Any]:
    """Where a module has its functions, classes and modules from; and a campaign of its has them."""
    found = {
        getattr(value, "__module__", None) or getattr(value, "__name__", "")
        for value in vars(sys.modules[module]).values()
        if callable(value) or isinstance(value, ModuleType)
    }
    campaigns = [each for each in found - {module} if str(each).startswith("tools.campaign.")]
    return frozenset(found).union(*map(_origins, campaigns))


@functools.cache  # many tests have the same modules
def _any_below(modules: frozenset[str], *packages: str) -> bool:
    """Is any of what these modules have from one of the packages?"""
    origins = frozenset().union(*map(_origins, modules))
    return any(f"{each}.".startswith(f"{package}.") for each in origins for package in packages)


_running: list[pytest.Item] = []


def pytest_runtest_setup(item: pytest.Item) -> None:
    _running[:] = [item]


def _require(name: str) -> None:
    """Skip or fail without that server; and fail a test that is not marked as one that needs it."""
    if all(item.get_closest_marker("server") is None for item in _running):
        pytest.fail(f"needs {name}, and is not marked `server`: see `_marks`", pytrace=False)
    with _aloud(_running[0].config):
        reason = available(name)
    if reason:
        text = f"needs {name}: {reason}"
        if os.environ.get("TAILRACE_REQUIRE_SERVERS") == "1":
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


_shared: list[Shared] = []
"""The session's servers that run."""


def _put_back(before: dict[Shared, State], whose: str) -> None:
    found = [
        f"{shared.server.name}: {what}"
        for shared in before
        for what in shared.put_back(before[shared])
    ]
    if found:
        pytest.fail(
            f"{whose} changed a server that tests share, use fresh_server: {'; '.join(found)}",
            pytrace=False,
        )


@pytest.fixture(scope="module", autouse=True)
def _servers_as_before_the_file(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    _put_back({shared: shared.at_start for shared in _shared}, request.node.nodeid)


@pytest.fixture(autouse=True)
def _servers_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("server") is None:  # it has none: see `_require`
        yield
        return
    before = {shared: shared.state() for shared in _shared}
    yield
    started = {shared: shared.at_start for shared in _shared if shared not in before}
    _put_back(before | started, request.node.nodeid)


def _session_server(name: str) -> Iterator[Server]:
    _require(name)
    with Server(name) as server:
        shared = Shared(server)
        _shared.append(shared)
        yield server
        _shared.remove(shared)
        shared.close()


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


@pytest.fixture(scope="session", params=ONE_OF_EACH)
def flavour_server(request: pytest.FixtureRequest) -> Server:
    """A server of each flavour in turn: for what does not go by the release."""
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
        server.discard()


@pytest.fixture(scope="module", params=NAMES)
def own_server(request: pytest.FixtureRequest, fresh_server: FreshServer) -> Server:
    """Each of the three releases in turn, for the tests of one file: they may purge and reset it."""
    return fresh_server(request.param)
