"""Logs of random load, applied to other servers by appliers that are killed.

A source of each flavour is put under random load (`tools.load`). Its log is then applied to a fresh
server of the same release and of the other flavour, with 1 and 4 workers, to a real PostgreSQL and
to SQLite. The applier is a process of its own, which is killed by SIGKILL at random moments and
started again. In the end the tables must have the same rows as the source's.

Left out are tables without transactions on servers (what was interrupted is applied again there,
as the guide says), statements that were logged as such (only servers of the same release take
those), and in other databases the tables of random types.
"""

from __future__ import annotations

import random
import re
import signal
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import sqlalchemy as sa

from tools.applied import differences, gtid_mode
from tools.campaign.process import TAILRACE, Process, Wrong
from tools.campaign.report import Report
from tools.dumps import quoted, tables
from tools.load import Load
from tools.postgres import Postgres
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

DATABASE: Final = "random_load"
SOURCES: Final = {"mysql-9.7": "mariadb-11.8", "mariadb-11.8": "mysql-9.7"}
"""Each source's release, and that of the other flavour."""
SERVERS: Final = tuple(SOURCES)
_OTHERS: Final = ("myisam_*", "aria_*")
"""The load's tables without transactions."""


@dataclass(frozen=True)
class Size:
    """Seconds of load, kills of each target, and the targets: kind and workers."""

    seconds: float
    kills: int
    targets: tuple[tuple[str, int], ...]


SIZES: Final = {
    "small": Size(3, 2, (("same", 4), ("sqlite", 1))),
    "full": Size(
        25,
        9,
        (
            *(("same", 1), ("same", 4), ("other", 1), ("other", 4)),
            *(("postgresql", 1), ("sqlite", 1)),
        ),
    ),
}


@dataclass
class AppliedReport(Report):
    """What came of one target."""

    columns: ClassVar = (
        "Source | Target | Workers | Transactions of the last applier | Kills | before its end |"
        " Tables"
    )
    source: str
    target: str
    workers: int
    transactions: int = 0
    kills: int = 0
    within: int = 0
    tables: int = 0


def run(name: str, size: Size, seed: int) -> Iterator[AppliedReport]:
    """All targets of one source."""
    with ExitStack() as stack:
        source = stack.enter_context(_server(name, 1))
        with Load(
            source, seed=seed, clients=4, tables=2, large=0.3, huge=0, own=True, statements=False
        ):
            time.sleep(size.seconds)
        source.disconnect()
        source.rotate()
        for number, (kind, workers) in enumerate(size.targets):
            report = AppliedReport(name, kind, workers)
            rng = random.Random(f"{seed}/{name}/{number}")
            with report.noting(f"{kind}, {workers} workers"):
                _apply(source, report, size, rng)
            yield report


def _server(name: str, number: int) -> Server:
    server = Server(name, ["--max-connections=60"], server_id=number)
    server.start()
    gtid_mode(server, "ON")
    return server


def _apply(source: Server, report: AppliedReport, size: Size, rng: random.Random) -> None:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-applied-")))
        target: Server | None = None
        exclude = [f"{DATABASE}.{each}" for each in _OTHERS]
        if report.target in {"same", "other"}:
            release = source.name if report.target == "same" else SOURCES[source.name]
            target = stack.enter_context(_server(release, 2))
            url = f"mysql://root@127.0.0.1:{target.port}/?ssl-mode=DISABLED"
        elif report.target == "sqlite":
            url = f"sqlite:///{place / 'applied.db'}"
        else:
            url = stack.enter_context(Postgres()).url
        if report.target in {"postgresql", "sqlite"}:
            exclude = []
        if report.target != "same":
            exclude.append(f"{DATABASE}.own_*")
        options = [option for each in exclude for option in ("--exclude", each)]
        options += ["--workers", str(report.workers)]
        command = [*TAILRACE, "apply", str(source.data), "--to", url, *options]
        while report.kills < size.kills:
            _kill(Process(place / f"applier {report.kills}", command), report, rng)
        last = Process(place / "applier", command)
        last.start()
        last.finish("in the end")
        (said,) = re.findall(r"([\d,]+) transactions? applied", last.said())
        report.transactions += int(said.replace(",", ""))
        _compare(source, target, url, report)


def _kill(applier: Process, report: AppliedReport, rng: random.Random) -> None:
    """Start an applier, and kill it at a random moment after it has begun."""
    applier.start()
    applier.wait(lambda: "applying to" in applier.said(), "does not begin")
    time.sleep(rng.uniform(0, 2))
    status = applier.kill()
    if status not in {0, -signal.SIGKILL}:
        raise Wrong(f"an applier ended with {status}: {applier.said()}")
    report.kills += 1
    report.within += status != 0


def _wanted(source: Server, kind: str) -> list[str]:
    """The tables that are compared."""
    found = [str(table) for _, table in tables(source, DATABASE)]
    if kind in {"same", "other"}:
        starts = tuple(each[:-1] for each in _OTHERS)
        found = [each for each in found if not each.startswith(starts)]
    if kind != "same":
        found = [each for each in found if not each.startswith("own_")]
    return found


def _compare(source: Server, target: Server | None, url: str, report: AppliedReport) -> None:
    """All tables, row by row, those of the same release by CHECKSUM TABLE, too."""
    names = _wanted(source, report.target)
    report.tables = len(names)
    if report.target == "same":
        assert target is not None
        every = {str(table) for _, table in tables(source, DATABASE)}
        report.failures += differences(source, target, DATABASE, besides=every - {*names})
        return
    engine = None if target is not None else sa.create_engine(url)
    for name in names:
        place = f"{quoted(DATABASE)}.{quoted(name)}"
        left = _rows(source.query(f"SELECT * FROM {place}"))
        if target is not None:
            right = _rows(target.query(f"SELECT * FROM {place}"))
        else:
            assert engine is not None
            own = (
                f'"{DATABASE}.{name}"'
                if engine.dialect.name == "sqlite"
                else (f'"{DATABASE}"."{name}"')
            )
            with engine.connect() as connection:
                right = _rows(map(tuple, connection.execute(sa.text(f"SELECT * FROM {own}"))))
        if left != right:
            here = next((row for row in left if row not in right), None)
            there = next((row for row in right if row not in left), None)
            report.failures.append(
                f"{name}: {len(left)} and {len(right)} rows: {here!r:.300} against {there!r:.300}"
            )
    if engine is not None:
        engine.dispose()


def _rows(found: Any) -> list[tuple[str | None, ...]]:
    """Rows as text: databases give a decimal and a time as different classes."""
    return sorted((tuple(map(_text, row)) for row in found), key=str)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text and text[-1].isdigit() else text
