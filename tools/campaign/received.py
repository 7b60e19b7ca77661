"""Receivers are killed at random moments: what each leaves, and what all have made in the end.

`tailrace receive` runs as a process against a server under a random load, and is killed by SIGKILL:
as it starts, some time after it has written, or as a new file of the copy appears. After each kill
the copy must hold the source's bytes, from the first on, and no others; the next receiver goes on
with it. In the end all files and the index must be the source's.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from tailrace.storage import keyring
from tools.campaign.process import TAILRACE, Process, Wrong
from tools.campaign.received_copy import Copy
from tools.campaign.report import Report
from tools.load import Load
from tools.servers import NAMES, Server

SERVERS: Final = NAMES
PLACES: Final = (
    "its start",
    "a file's begin",
    "an event",
    "a transaction",
    "no transaction",
    "a file's end",
)
_KEY: Final = "MySQLReplicationKey_896e7882-18fe-11ef-ab88-22222d34d411_1"
_OPTIONS: Final = {"max_binlog_size": "2M"}
_LOOK: Final = 0.002
_TIMES: Final = 5


@dataclass(frozen=True)
class Case:
    """How a receiver is run, and how many of them are killed."""

    kills: int
    sync: str = "group"
    encrypt: bool = False

    def __str__(self) -> str:
        return f"sync={self.sync}{' encrypted' if self.encrypt else ''}"


@dataclass(frozen=True)
class Size:
    """What is run against each server, one after the other; each copy begins at the oldest log."""

    cases: tuple[Case, ...]
    backlog: int = 50 << 20
    """Bytes that the source's log has when the first receiver starts."""
    rate: float = 150
    large: float = 2.0


SIZES: Final = {
    "small": Size((Case(4), Case(4, encrypt=True)), backlog=10 << 20),
    "full": Size((Case(80), Case(60, encrypt=True), Case(30, "transaction"), Case(30, "0.5"))),
}


@dataclass
class ReceivedReport(Report):
    """What came of one case."""

    columns: ClassVar = (
        f"Server | Receiver | Kills | {' | '.join(f'in {place}' for place in PLACES)} | Files | MB"
    )
    counted: ClassVar = PLACES
    server: str
    case: Case
    places: Counter[str] = field(default_factory=Counter)
    files: int = 0
    megabytes: float = 0


def run(name: str, size: Size, seed: int) -> list[ReceivedReport]:
    """All cases against one server."""
    reports = []
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-received-") as folder,
        Server(name, _OPTIONS) as server,
    ):
        for number, case in enumerate(size.cases):
            place = Path(folder) / str(number)
            place.mkdir()
            rng = random.Random(f"{seed}/{name}/{number}")
            base = f"load_{number}"
            with Load(server, seed=seed, rate=size.rate, large=size.large, huge=0, database=base):
                _wait_for_bytes(server, size.backlog)
                reports.append(kill_receivers(server, case, place, rng))
            finish(server, reports[-1], place)
            shutil.rmtree(place)
            server.execute(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    return reports


def _wait_for_bytes(server: Server, wanted: int, seconds: float = 60) -> None:
    """Wait until the source's log has so many bytes, but no longer than that."""
    deadline = time.monotonic() + seconds
    while _bytes(server) < wanted and time.monotonic() < deadline:
        time.sleep(0.05)


def _bytes(server: Server) -> int:
    return sum(path.stat().st_size for path in server.binlogs())


def kill_receivers(server: Server, case: Case, place: Path, rng: random.Random) -> ReceivedReport:
    """Kill one receiver after the other; an error ends the case and is reported."""
    report = ReceivedReport(server.name, case)
    receiver = _Receiver(server, case, place)
    for number in range(case.kills):
        if rng.random() < 0.4:  # the next one has something to catch up with
            _wait_for_bytes(server, _bytes(server) + rng.randrange(8 << 20), seconds=3)
        try:
            report.places[receiver.start_and_kill(rng)] += 1
        except Wrong as error:
            report.failures.append(f"{case} kill {number}: {error}")
            break
        finally:
            receiver.kill()
    return report


def finish(server: Server, report: ReceivedReport, place: Path) -> None:
    """Rotate, let the last receiver come to the end of a source at rest, and compare everything.

    It is ended by SIGTERM; one behind it, that has nothing to do, must change nothing.
    """
    if report.failures:
        return
    server.rotate()
    server.settle()
    receiver = _Receiver(server, report.case, place)
    try:
        receiver.come_to_the_end()
        receiver.do_nothing()
        receiver.copy.at_the_end()
    except Wrong as error:
        report.failures.append(f"{report.case} at the end: {error}")
    finally:
        receiver.kill()
    report.files = len(receiver.copy.names())
    report.megabytes = receiver.copy.bytes_there() / 1e6


class _Receiver(Process):
    """``tailrace receive`` into ``place / "copy"``."""

    def __init__(self, server: Server, case: Case, place: Path) -> None:
        self._start_seconds = 1.5
        key = b""
        command = [
            *(*TAILRACE, "receive"),
            f"mysql://root@{server.host}:{server.port}/?ssl_mode=DISABLED",
            *("--into", str(place / "copy"), "--sync", case.sync),
        ]
        if case.encrypt:
            ring = place / "keyring"
            if not ring.exists():
                keyring.make(ring, _KEY)
            key = keyring.open(ring).key(_KEY)
            command += ["--encrypt", "--keyring", str(ring)]
        super().__init__(place / "output", command)
        self.copy = Copy(place / "copy", server.data, key, case.encrypt)

    def start_and_kill(self, rng: random.Random) -> str:
        """Start one, kill it, look at what it left; where that was. Raises `Wrong`."""
        before = self._state()
        began = time.monotonic()
        self.start("--follow")
        kind = rng.choices(["start", "written", "file"], [2, 5, 3])[0]
        if kind == "start":
            self._sleep(rng.uniform(0, self._start_seconds))
        elif kind == "written":
            self.wait(lambda: self._state() != before, "has written nothing", _LOOK)
            self._start_seconds = 0.5 * self._start_seconds + 0.5 * (time.monotonic() - began)
            self._sleep(rng.choice([rng.uniform(0, 0.03), rng.expovariate(1 / 0.4)]))
        else:
            names = self.copy.names()
            self.wait(lambda: self.copy.names() != names, "has begun no file", _LOOK)
            self._sleep(rng.choice([0, rng.uniform(0, 0.02)]))
        self.kill()
        where = self.copy.after_a_kill()
        return where if self._state() != before else "its start"

    def come_to_the_end(self) -> None:
        """Run one until the copy is the source's log; then SIGTERM. Raises `Wrong`.

        A server at rest may write once more into its new log (MariaDB its checkpoints).
        """
        for _ in range(_TIMES):
            self.start("--follow")
            self.wait(lambda: self.copy.bytes_there() >= self._source_size(), "is not at the end")
            self.stop()
            wanted = self._source_size()
            try:
                return self.copy.at_the_end()
            except Wrong:
                if self.copy.bytes_there() >= wanted == self._source_size():
                    raise
        raise Wrong("the source does not come to rest")

    def do_nothing(self) -> None:
        """Run one at the end of a log at rest. Raises `Wrong`."""
        for _ in range(_TIMES):
            before, wanted = self._state(), self._source_size()
            rested = self.copy.bytes_there() >= wanted
            self.start()
            self.finish("without --follow")
            if self._state() == before:
                return
            if rested and self._source_size() == wanted:
                raise Wrong("a receiver that had nothing to do has changed the copy")
        raise Wrong("the source does not come to rest")

    def _source_size(self) -> int:
        """Bytes of the source's log, as many as the copy should have."""
        head = 512 * self.copy.encrypted
        paths = [self.copy.source / name for name in self.copy.source_names()]
        return sum(path.stat().st_size + head for path in paths)

    def _sleep(self, seconds: float) -> None:
        """The moment is what is random here; nothing is waited for."""
        time.sleep(seconds)
        _ = self.running

    def _state(self) -> list[tuple[str, int]]:
        """The copy's log files and their sizes."""
        found = []
        for name in self.copy.names():
            with suppress(FileNotFoundError):
                found.append((name, (self.copy.folder / name).stat().st_size))
        return found
