"""Zero loss: a server is killed under load and its data folder removed; the copy has it all.

./run python -m tools.campaign zeroloss --size full --seed 1 [--server mysql-9.7] [--rounds 5]
./run python -m tools.campaign zeroloss --size full --seed 1 --into s3

Semi-synchronous replication without a time-out, eight clients, a receiver as a process of its own.
Every commit that a client saw acknowledged must be in the copy, with all its rows. In some rounds
the receiver is killed, too, in mid-load or together with the server; in some its kill is a power
cut (`tools.campaign.zeroloss_receiver`).

With ``--into s3`` the copy is in a real S3 server's bucket. Each receiver has its own disk (its
home and its folder for temporary files), which is deleted with it: so each one resumes from the
bucket alone. In each round one is killed under load, and one with the server or right after it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree, which
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow.compute as pc

import tailrace
from tools.campaign.report import Report, conclude
from tools.campaign.zeroloss_clients import DATABASE, TABLE, Load
from tools.s3 import S3Server
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
CLIENTS: Final = 8
HEADER: Final = (
    "| Server | Rounds | receivers killed | of these power cuts | Commits seen | in the copy, not"
    " seen | not waited for | Failures |\n|---|---|---|---|---|---|---|---|"
)
_NEVER: Final = 4294967295
"""Milliseconds of the largest time-out."""
_WAIT: Final = 300.0


@dataclass(frozen=True)
class Size:
    """Rounds on each of the servers."""

    rounds: dict[str, int]


SIZES: Final = {
    "small": Size({"mysql-9.7": 2, "mariadb-11.8": 1, "mariadb-10.11": 1}),
    "full": Size({"mysql-9.7": 50, "mariadb-11.8": 25, "mariadb-10.11": 25}),
}
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

    server: str
    rounds: int = 0
    killed: int = 0
    power: int = 0
    seen: int = 0
    unseen: int = 0
    unwaited: int = 0
    """The server's count of commits that it did not wait for."""

    def cells(self) -> list[object]:
        """See `HEADER`."""
        counts = [self.rounds, self.killed, self.power, self.seen, self.unseen, self.unwaited]
        return [self.server, *counts]


class Wrong(AssertionError):
    """Something that was acknowledged is lost, or the round is not what it is to be."""


def run(size: Size, seed: int, into: Into = "disk") -> list[ZerolossReport]:
    """All rounds of a size."""
    reports = []
    for name, rounds in size.rounds.items():
        report = ZerolossReport(name)
        reports.append(report)
        for number in range(rounds):
            run_round(Round.of(name, seed * 1000 + number, into), report)
            if number % 5 == 4:
                print(f"of {rounds}: {report.line()}", flush=True)
    return reports


def run_round(given: Round, report: ZerolossReport) -> None:
    """One round; an error in it is reported."""
    with tempfile.TemporaryDirectory(prefix="tailrace-zeroloss-") as folder:
        place = Path(folder)
        try:
            with _target(given, place) as into:
                seen = _load_and_kill(given, place, into, report)
                _compare(seen, _copied(into), report)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            said = place / "said"
            text = said.read_text(errors="replace")[-1500:] if said.exists() else ""
            report.failures.append(f"{given}: {error!r} {text}".strip())
            print(f"FAILED {report.failures[-1]}", flush=True)
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
    options = [
        "--follow",
        "--into",
        into,
        "--plugin",
        "semisync.replica",
        "--sync",
        given.sync,
    ]
    dies_with_us = ["setpriv", "--pdeathsig", "KILL", "--"] if which("setpriv") else []
    return [*dies_with_us, sys.executable, "-m", *module, url, *options]


def _load_and_kill(
    given: Round, place: Path, into: str, report: ZerolossReport
) -> dict[tuple[int, int], int]:
    chance = random.Random(given.seed)
    server = Server(given.server, _options(given.server), folder=place / "server")
    server.start()
    try:
        server.execute(f"CREATE DATABASE {DATABASE}")
        server.execute(TABLE)
        _set(server, "wait_point", given.wait_point)
        _set(server, "enabled", 1)
        _until(lambda: _counter(server, "status") == "ON", "semi-synchronous replication")
        receiver = _receiver(given, server, into, place)
        try:
            load = Load(server, CLIENTS, given.seed)
            for _ in range(given.kills):
                _commits(load, receiver)
                time.sleep(chance.uniform(0, 0.4))
                _kill(receiver, given, place, report)
                receiver = _receiver(given, server, into, place)
            _commits(load, receiver)
            time.sleep(given.seconds)
            if _counter(server, "status") != "ON":
                raise Wrong("the server has switched semi-synchronous replication off")
            report.unwaited += int(_counter(server, "no_tx"))
            _end(given, server, receiver, place, report)
        finally:
            receiver.kill()
            receiver.wait()
        return load.seen()
    finally:
        server.kill()
        server.stop()
        rmtree(place / "server", ignore_errors=True)


def _commits(load: Load, receiver: subprocess.Popen[bytes]) -> None:
    """Wait for commits that this receiver has acknowledged: more than were under way before it."""
    begin = load.count()
    _until(lambda: load.count() > begin + CLIENTS, "commits", receiver)


def _end(
    given: Round,
    server: Server,
    receiver: subprocess.Popen[bytes],
    place: Path,
    report: ZerolossReport,
) -> None:
    """The server's end, and the receiver's."""
    if given.end == "with":
        receiver.kill()
    server.kill()
    rmtree(server.folder)
    if given.end != "asked":
        _kill(receiver, given, place, report)
        return
    receiver.send_signal(signal.SIGTERM)
    code = receiver.wait(_WAIT)
    if code:
        raise Wrong(f"the receiver that was asked to end ended with {code}")


def _kill(
    receiver: subprocess.Popen[bytes], given: Round, place: Path, report: ZerolossReport
) -> None:
    """Kill it; with a copy in a bucket, its disk is deleted."""
    receiver.kill()
    receiver.wait()
    report.killed += 1
    report.power += given.power
    if given.into == "s3":
        rmtree(place / "disk")


def _receiver(given: Round, server: Server, into: str, place: Path) -> subprocess.Popen[bytes]:
    disk = place / "disk"
    disk.mkdir(exist_ok=True)
    own = {"HOME": str(disk), "XDG_STATE_HOME": str(disk), "TMPDIR": str(disk)}
    with (place / "said").open("ab") as said:
        return subprocess.Popen(
            receiver_command(given, server, into),
            cwd=ROOT,
            env=os.environ | (own if given.into == "s3" else {}),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )


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


def _until(
    condition: Callable[[], bool], what: str, receiver: subprocess.Popen[bytes] | None = None
) -> None:
    deadline = time.monotonic() + _WAIT
    while not condition():
        if receiver is not None and receiver.poll() is not None:
            raise Wrong(f"the receiver ended by itself with {receiver.returncode}")
        if time.monotonic() > deadline:
            raise Wrong(f"{what}: not within {_WAIT:.0f} seconds")
        time.sleep(0.01)


# --- what is in the copy -------------------------------------------------------------------------


def _copied(into: str) -> dict[tuple[int, int], int]:
    """The commits in the copy, by client and number: how many rows each has."""
    rows: dict[tuple[int, int], int] = {}
    for batch in tailrace.changes(into, tables=[f"{DATABASE}.t"]):
        after = batch.column("after")
        clients = pc.struct_field(after, "client").to_pylist()
        numbers = pc.struct_field(after, "number").to_pylist()
        for key in zip(clients, numbers, strict=True):
            rows[key] = rows.get(key, 0) + 1
    return rows


def _compare(
    seen: dict[tuple[int, int], int], copied: dict[tuple[int, int], int], report: ZerolossReport
) -> None:
    report.seen += len(seen)
    report.unseen += len(copied.keys() - seen.keys())
    lost = {key: (rows, copied.get(key)) for key, rows in seen.items() if copied.get(key) != rows}
    if lost:
        some = dict(sorted(lost.items())[:5])
        raise Wrong(f"{len(lost)} commits of {len(seen)} are not in the copy as seen: {some}")


def add_arguments(parser: Any) -> None:
    """What the command takes."""
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--rounds", type=int, help="rounds on each server, whatever the size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--into", choices=INTO, default="disk", help="where the copy is")
    parser.add_argument("--server", action="append", choices=NAMES, help="only this one")


def command(given: argparse.Namespace) -> int:
    """Run it as the arguments say, and print what came of it."""
    size = SIZES[given.size]
    rounds = {
        name: given.rounds or count
        for name, count in size.rounds.items()
        if name in (given.server or NAMES)
    }
    began = time.monotonic()
    reports = run(replace(size, rounds=rounds), given.seed, given.into)
    rounds_done, seconds = sum(report.rounds for report in reports), time.monotonic() - began
    return conclude(HEADER, reports, f"seed {given.seed}: {rounds_done} rounds in {seconds:.0f} s")
