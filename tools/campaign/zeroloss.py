"""Zero loss: a server is killed under load and its data folder removed; the copy has it all.

Semi-synchronous replication without a time-out, eight clients, a receiver as a process of its own.
Every commit that a client saw acknowledged must be in the copy. In some rounds the receiver is
killed, too, in mid-load or together with the server; in some its kill is a power cut
(`tools.campaign.zeroloss_receiver`).

With ``--into s3`` the copy is in a real S3 server's bucket. Each receiver has its own disk (its
home and its folder for temporary files), which is deleted with it: so each one resumes from the
bucket alone. In each round one is killed under load, and one with the server or right after it.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import pyarrow.compute as pc

import tailrace
from tools.campaign.process import Process, Wrong
from tools.campaign.report import Report
from tools.load import Load
from tools.s3 import S3Server
from tools.servers import NAMES, Server, dies_with_parent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SERVERS: Final = NAMES
DATABASE: Final = "zeroloss"
CLIENTS: Final = 8
_NEVER: Final = 4294967295
"""Milliseconds of the largest time-out."""
SIZES: Final = {
    "small": {"mysql-9.7": 2, "mariadb-11.8": 1, "mariadb-10.11": 1},
    "full": {"mysql-9.7": 50, "mariadb-11.8": 25, "mariadb-10.11": 25},
}
"""Rounds on each of the servers."""
Into = Literal["disk", "s3"]
INTO: Final[tuple[Into, ...]] = ("disk", "s3")
_BUCKET: Final = "zeroloss"


@dataclass(frozen=True)
class Round:
    """What is done in a round."""

    server: str
    seed: int
    wait_point: str
    sync: str
    power: bool
    """The receiver's kills are power cuts."""
    kills: int
    """How often the receiver is killed while the load goes on."""
    end: str
    """What becomes of the receiver when the server is killed: it is killed ``with`` it, right
    ``behind`` it, or ``asked`` to end.
    """
    seconds: float
    into: Into = "disk"

    @classmethod
    def of(cls, server: str, seed: int, into: Into = "disk") -> Round:
        """The round of a seed."""
        chance = random.Random(f"{server} {seed}")
        found = cls(
            server,
            seed,
            chance.choice(("AFTER_SYNC", "AFTER_COMMIT")),
            chance.choice(("group", "group", "transaction", "0.05")),
            power=chance.random() < 0.5,
            kills=chance.choice((0, 0, 1, 2)),
            end=chance.choice(("with", "behind", "asked")),
            seconds=chance.uniform(0.2, 2.0),
        )
        if into == "disk":
            return found
        kills, end = max(found.kills, 1), "behind" if found.end == "asked" else found.end
        return replace(found, into=into, power=False, kills=kills, end=end)


@dataclass
class ZerolossReport(Report):
    """What the rounds on a server came to."""

    columns: ClassVar = (
        "Server | Rounds | receivers killed | of these power cuts | Commits seen | in the copy, not"
        " seen | not waited for"
    )
    server: str
    rounds: int = 0
    killed: int = 0
    power: int = 0
    seen: int = 0
    unseen: int = 0
    unwaited: int = 0
    """The server's count of commits that it did not wait for."""


def run_round(given: Round, report: ZerolossReport) -> None:
    """One round; an error in it is reported."""
    with tempfile.TemporaryDirectory(prefix="tailrace-zeroloss-") as folder:
        place = Path(folder)
        with report.noting(given), _target(given, place) as into:
            seen = _load_and_kill(given, place, into, report)
            _compare(seen, _copied(into), report)
    report.rounds += 1


@contextmanager
def _target(given: Round, place: Path) -> Iterator[str]:
    """Where the copy is: a folder, or one in a bucket of an S3 server of its own."""
    if given.into == "disk":
        yield str(place / "copy")
        return
    server = S3Server(log=False)
    server.bucket(_BUCKET)
    with server:
        before = dict(os.environ)
        os.environ.update(server.environment)
        try:
            yield f"s3://{_BUCKET}/copy"
        finally:
            os.environ.clear()
            os.environ.update(before)


def receiver_command(given: Round, server: Server, into: str) -> list[str]:
    """The receiver's."""
    module = ["tools.campaign.zeroloss_receiver"] if given.power else ["tailrace", "receive"]
    url = f"mysql://root@{server.host}:{server.port}/"
    options = ["--follow", "--into", into, "--plugin", "semisync.replica", "--sync", given.sync]
    return [*dies_with_parent(), sys.executable, "-m", *module, url, *options]


def _load_and_kill(
    given: Round, place: Path, into: str, report: ZerolossReport
) -> set[tuple[int, int]]:
    """The commits that clients saw acknowledged."""
    chance = random.Random(given.seed)
    server = Server(given.server, _options(given.server), folder=place / "server")
    server.start()
    load = Load(
        server, seed=given.seed, clients=CLIENTS, large=0.3, huge=0, own=False, database=DATABASE
    )
    disk = place / "disk"
    own = {"HOME": str(disk), "XDG_STATE_HOME": str(disk), "TMPDIR": str(disk)}
    command = receiver_command(given, server, into)
    receiver = Process(place / "said", command, own if given.into == "s3" else {})

    def kill() -> None:
        """With a copy in a bucket, its disk is deleted."""
        receiver.kill()
        report.killed += 1
        report.power += given.power
        rmtree(disk)

    try:
        for number in range(given.kills + 1):
            disk.mkdir()
            receiver.start()
            if not number:
                load.start()  # it creates its tables, for which nobody waits yet
                _set(server, "wait_point", given.wait_point)
                _set(server, "enabled", 1)
            receiver.wait(lambda: _counter(server, "status") == "ON", "is not waited for")
            _wait_for_commits(load, receiver)
            if number < given.kills:
                time.sleep(chance.uniform(0, 0.4))
                kill()
        time.sleep(given.seconds)
        if _counter(server, "status") != "ON":
            raise Wrong("the server has switched semi-synchronous replication off")
        report.unwaited += int(_counter(server, "no_tx"))
        if given.end == "with":
            receiver.kill()
        server.kill()
        rmtree(server.folder)
        if given.end == "asked":
            receiver.stop()
        else:
            kill()
    finally:
        receiver.kill()
        server.kill()
        server.stop()
        load.stop()
        rmtree(place / "server", ignore_errors=True)
    return load.acknowledged()


def _wait_for_commits(load: Load, receiver: Process) -> None:
    """Wait for commits that this receiver has acknowledged: more than were under way before it."""
    begin = load.counts["small"]
    receiver.wait(lambda: load.counts["small"] > begin + CLIENTS, "acknowledges nothing")


def _options(name: str) -> list[str]:
    common = ["--binlog-row-metadata=FULL", "--max-binlog-size=1M"]
    if name.startswith("mysql"):
        plugin = "--plugin-load-add=semisync_source.so"
        return [*common, plugin, f"--rpl-semi-sync-source-timeout={_NEVER}"]
    return [*common, f"--rpl-semi-sync-master-timeout={_NEVER}"]


def _word(server: Server) -> str:
    return "source" if server.flavour == "mysql" else "master"


def _set(server: Server, name: str, value: object) -> None:
    server.execute(f"SET GLOBAL rpl_semi_sync_{_word(server)}_{name} = %s", (value,))


def _counter(server: Server, name: str) -> str:
    rows = server.query(f"SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_{_word(server)}_{name}'")
    return str(rows[0][1])


# --- what is in the copy -------------------------------------------------------------------------


def _copied(into: str) -> set[tuple[int, int]]:
    """The commits in the copy, by client and number: of each its mark, which is its last row."""
    found: set[tuple[int, int]] = set()
    for batch in tailrace.changes(into, tables=[f"{DATABASE}.marks"]):
        after = batch.column("after")
        keys = [pc.struct_field(after, each).to_pylist() for each in ("client", "n")]
        found.update(zip(*keys, strict=True))
    return found


def _compare(
    seen: set[tuple[int, int]], copied: set[tuple[int, int]], report: ZerolossReport
) -> None:
    report.seen += len(seen)
    report.unseen += len(copied - seen)
    if lost := sorted(seen - copied):
        raise Wrong(f"{len(lost)} commits of {len(seen)} are not in the copy as seen: {lost[:5]}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--into", choices=INTO, default="disk", help="where the copy is")


def reports(given: argparse.Namespace) -> Iterator[ZerolossReport]:
    for name in given.server:
        report = ZerolossReport(name)
        for number in range(given.size[name]):
            run_round(Round.of(name, given.seed * 1000 + number, given.into), report)
        yield report
