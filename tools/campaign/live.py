"""A log is read live through forced breaks: what arrives is what the server's files hold.

Under a random load, four readers (`live_consumers`) read one server, each through a proxy of its
own. Their connections are killed by the server, cut by the proxies at once or in mid-packet,
stalled without closing; the server is restarted, and killed by SIGKILL. In the end, all of what
each was given is compared with the files, event by event.

"""

from __future__ import annotations

import logging
import random
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import pymysql

from tailrace.position import Position
from tools.campaign import live_files
from tools.campaign.live_consumers import LAST, Consumer, Events, Gtids, Raw, Rows
from tools.campaign.report import Report
from tools.load import Load
from tools.proxy import Proxy
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS: Final = NAMES
_KINDS: Final = ("killed", "reset", "ended", "in a packet", "stalled", "restarted", "SIGKILL")
_OF_DUMPS: Final = ("killed", "stalled")
"""What ends a dump, or is noticed by its heartbeats: each reader has to have one."""
HEARTBEAT: Final = 1.0
"""The period that the readers ask for, in seconds."""
_BACK_SECONDS: Final = 300.0
_END_SECONDS: Final = 300.0
_LEAST: Final = 120
"""Small transactions that the load has done in the end, on whatever machine."""
_OPTIONS: Final = {
    "sync_binlog": "1",  # what was sent outlives a SIGKILL
    "innodb_flush_log_at_trx_commit": "1",
    "max_binlog_size": "16M",
}
_GTIDS: Final = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}


@dataclass(frozen=True)
class Size:
    """How often the connections are broken, of each server, and how much load there is."""

    breaks: int
    rate: float
    large: float
    huge: int


SIZES: Final = {
    "small": Size(8, rate=60, large=0.5, huge=18 << 20),
    "full": Size(100, rate=60, large=1.0, huge=24 << 20),
}


@dataclass
class LiveReport(Report):
    """What came of one server."""

    columns: ClassVar = (
        f"Server | Breaks | {' | '.join(_KINDS)} | Reconnections | Stall noticed after at most, s |"
        " Events | MB | Transactions | Rows"
    )
    counted: ClassVar = _KINDS
    server: str
    breaks: Counter[str] = field(default_factory=Counter)
    reconnections: int = 0
    noticed: float = 0.0
    events: int = 0
    megabytes: float = 0.0
    transactions: int = 0
    rows: int = 0


def run(name: str, size: Size, seed: int) -> LiveReport:
    """Read one server through all breaks. What goes wrong is in the report."""
    logging.getLogger("tailrace.live").addHandler(logging.NullHandler())  # a line for each break
    report = LiveReport(name)
    options = {**_OPTIONS, **(_GTIDS if name.startswith("mysql") else {})}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-live-")))
        server = stack.enter_context(Server(name, options))
        server.execute("CREATE DATABASE done")
        proxies = [stack.enter_context(Proxy(lambda: server.port)) for _ in range(4)]
        urls = [
            f"mysql://root@{Proxy.host}:{proxy.port}/?heartbeat={HEARTBEAT}"
            f"&server_id={1001 + number}&ssl_mode=DISABLED"
            "&skip_torn_tail=1"  # a MariaDB that is killed as it writes leaves one
            for number, proxy in enumerate(proxies)
        ]
        consumers: list[Consumer] = [
            Events(urls[0], folder / "events"),
            Gtids(urls[1], folder / "gtids", server.flavour),
            Rows(urls[2], folder / "rows"),
            Raw(urls[3], folder / "raw"),
        ]
        load = Load(
            server, seed=seed, rate=size.rate, large=size.large, huge=size.huge, statements=True
        )
        breaker = _Breaker(server, proxies, consumers, report)
        with load:
            for consumer in consumers:
                consumer.start()
            breaker.begun()
            breaker.run(size.breaks, random.Random(f"{seed}/{name}"))
            breaker.loaded(load)
        report.reconnections = sum(proxy.counts.connections - 1 for proxy in proxies)
        _end(server, consumers)
        marks = set(server.query("SELECT client, n FROM random_load.marks"))
        if lost := load.acknowledged() - marks:
            report.failures.append(f"the server lost {len(lost)} commits: it is no witness")
        _compare(server, consumers, report)
    return report


def _end(server: Server, consumers: list[Consumer]) -> None:
    """Write what the readers end at, and wait for them."""
    server.rotate()
    server.settle()
    server.execute(f"CREATE TABLE done.{LAST} (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO done.{LAST} VALUES (1)")
    path = server.binlogs()[-1]
    end = Position(path.name, path.stat().st_size)
    deadline = time.monotonic() + _END_SECONDS
    for consumer in consumers:
        consumer.until(end)
    for consumer in consumers:
        consumer.join(max(0.0, deadline - time.monotonic()))


def _compare(server: Server, consumers: list[Consumer], report: LiveReport) -> None:
    paths = server.binlogs()
    wanted = [event for path in paths for event in live_files.events(path)]
    report.events = len(wanted)
    report.megabytes = sum(path.stat().st_size for path in paths) / 1e6
    report.transactions = len(live_files.transactions(wanted))
    for consumer in consumers:
        failure = consumer.failure
        if failure is not None:
            report.failures.append(f"{consumer.kind}: {type(failure).__name__}: {failure}")
        elif consumer.is_alive():
            report.failures.append(f"{consumer.kind}: has not come to the log's end")
        elif difference := consumer.difference(wanted, server.data / "binlog.index"):
            report.failures.append(difference)
        if isinstance(consumer, Rows):
            report.rows = consumer.rows


class _Breaker:
    """Breaks what connects the readers and the server, and waits until they are back."""

    def __init__(
        self, server: Server, proxies: list[Proxy], consumers: list[Consumer], report: LiveReport
    ) -> None:
        self._server = server
        self._proxies = proxies
        self._consumers = consumers
        self._report = report
        self._acts: dict[str, Callable[[random.Random], object]] = {
            "killed": self._kill,
            "reset": lambda _: self._cut(reset=True),
            "ended": lambda _: self._cut(reset=False),
            "in a packet": self._cut_in_a_packet,
            "stalled": self._stall,
            "restarted": lambda _: server.restart(),
            "SIGKILL": self._crash,
        }

    def run(self, breaks: int, rng: random.Random) -> None:
        """Break ``breaks`` times, each kind as often as the others, but killing once more."""
        kinds = ["killed"]
        while len(kinds) < breaks:
            kinds += rng.sample(_KINDS, len(_KINDS))
        kinds = kinds[:breaks]
        rng.shuffle(kinds)
        for kind in kinds:
            time.sleep(rng.uniform(0, 0.6))  # the load's moment is random, too
            if kind in _OF_DUMPS:
                self._dumps()  # of those, too, that are on their way back
            before = [proxy.counts.connections for proxy in self._proxies]
            self._acts[kind](rng)
            self._report.breaks[kind] += 1
            patient = rng.random() < 0.8  # else the next break may meet them on their way back
            self.connected(before, received=2000 if patient else 0)
            if any(not consumer.is_alive() for consumer in self._consumers):
                return  # its failure is told

    def begun(self) -> None:
        """Wait until each reader gets the log: a failure before that is for its caller."""
        self.connected([0] * len(self._proxies), received=2000)
        self._dumps()

    def loaded(self, load: Load) -> None:
        """Wait until the load has done something worth reading."""
        deadline = time.monotonic() + _BACK_SECONDS
        while load.counts["small"] < _LEAST:
            if not self._wait(0, deadline, f"only {load.counts['small']} transactions to read"):
                return

    def connected(self, before: list[int], received: int = 0) -> None:
        """Wait until each reader has connected anew, and has got that many bytes since."""
        deadline = time.monotonic() + _BACK_SECONDS
        for number, (proxy, count) in enumerate(zip(self._proxies, before, strict=True)):
            while proxy.counts.connections <= count:
                if not self._wait(number, deadline, "has not connected again"):
                    return
            start = proxy.counts.from_server
            while proxy.counts.from_server < start + received:
                if not self._wait(number, deadline, "gets nothing"):
                    return

    def _wait(self, number: int, deadline: float, text: str) -> bool:
        consumer = self._consumers[number]
        if not consumer.is_alive():
            return False
        if time.monotonic() > deadline:
            self._report.failures.append(f"{consumer.kind}: {text} in {_BACK_SECONDS:.0f} s")
            return False
        time.sleep(0.005)
        return True

    def _kill(self, rng: random.Random) -> None:  # noqa: ARG002 - one of its siblings
        """The server ends the connections that it sends its log on."""
        for thread in self._dumps():
            with suppress(pymysql.err.Error):  # it has ended meanwhile
                self._server.execute(f"KILL {thread}")

    def _dumps(self) -> list[int]:
        """The server's threads that send its log, one for each reader: waits until there is."""
        deadline = time.monotonic() + _BACK_SECONDS
        found: list[int] = []
        for number, proxy in enumerate(self._proxies):
            while not (threads := self._dumps_of(proxy)):
                if not self._wait(number, deadline, "does not ask for the log"):
                    break
            found += threads
        return found

    def _dumps_of(self, proxy: Proxy) -> list[int]:
        ports = proxy.ports()
        return [thread for port, thread in self._server.dumps().items() if port in ports]

    def _cut(self, *, reset: bool) -> None:
        for proxy in self._proxies:
            proxy.cut(reset=reset)

    def _cut_in_a_packet(self, rng: random.Random) -> None:
        """Each after another number of bytes; most of the time inside a packet."""
        done = [proxy.cut_after(rng.randint(1, 60_000)) for proxy in self._proxies]
        deadline = time.monotonic() + _BACK_SECONDS
        for each in done:
            if not each.wait(max(0.0, deadline - time.monotonic())):
                self._report.failures.append("a proxy passed nothing that it could have cut")

    def _stall(self, rng: random.Random) -> None:  # noqa: ARG002 - one of its siblings
        """Half-dead connections: the readers have to notice by the heartbeats that do not come."""
        before = [proxy.counts.connections for proxy in self._proxies]
        for proxy in self._proxies:
            proxy.stall()
        began = time.monotonic()
        self.connected(before)
        self._report.noticed = max(self._report.noticed, time.monotonic() - began)
        for proxy in self._proxies:
            proxy.go_on()

    def _crash(self, rng: random.Random) -> None:
        self._server.kill()
        time.sleep(rng.uniform(0, 0.3))
        self._server.start()
