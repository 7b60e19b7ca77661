"""Logs that the tests write, and what every log must keep to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tailrace
from tailrace.constants import Flavour
from tailrace.events import (
    Event,
    GtidEvent,
    GtidListEvent,
    MariadbGtidEvent,
    PreviousGtidsEvent,
)
from tailrace.events.description import STANDARD_VERSIONS
from tailrace.schema.table import Table
from tailrace.storage import EventReader
from tailrace.writing import LogWriter, create
from tools.campaign.killed_writer import TABLE_SQL, UUID, row

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.gtid import GtidList, GtidSet
    from tailrace.transaction import Transaction

FLAVOURS = ("mysql", "mariadb")
START = 1_700_000_000_000_000


class Clock:
    """A clock that goes on by a second whenever it is asked."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> int:
        self.time += 1_000_000
        return self.time


def log(target: Any, flavour: str, **given: Any) -> LogWriter:
    """A new log with automatic GTIDs and a clock of its own; not synced unless told."""
    if flavour == "mysql":
        given.setdefault("server_uuid", UUID)
    given.setdefault("sync", "none")
    given.setdefault("now", Clock())
    return create(target, flavour=flavour, server_id=7, **given)


def append(target: object, **given: object) -> LogWriter:
    """The log gone on with, in the way of `log`."""
    given.setdefault("now", Clock())
    if "mysql" in str(target):  # the tests name their folders by flavour
        given.setdefault("server_uuid", UUID)
    return tailrace.append(target, sync="none", **given)


def orders(flavour: str) -> Table:
    return Table.parse(
        TABLE_SQL, flavour=flavour, server_version=STANDARD_VERSIONS[Flavour(flavour)]
    )


def fill(log: LogWriter, count: int, *, first: int = 1, rows: int = 3) -> None:
    """``count`` transactions of an insert each."""
    table = orders(log.flavour)
    for number in range(first, first + count):
        with log.transaction() as trx:
            trx.insert(table, [row(number * 100 + each) for each in range(rows)])


def ddl(log: LogWriter, count: int, *, first: int = 1) -> None:
    """``count`` transactions of a definition each."""
    for number in range(first, first + count):
        with log.transaction() as trx:
            trx.query(f"create table t{number} (a int)", "shop")


def events_of(path: Path) -> list[Event]:
    """The events of one file or a folder, every one decoded in whole."""
    events = list(tailrace.open(path, expand_payloads=False))
    for event in events:
        event.check()
    return events


def transactions_of(path: Path) -> list[Transaction]:
    return list(tailrace.open(path, expand_payloads=False).transactions())


def check_files(*paths: Path, restarts: bool = False) -> None:
    """What holds of every file, told from its bytes: positions, lengths, clock, GTID state.

    The files are one log from its begin; with ``restarts`` it was opened again in between.
    """
    state: GtidSet | GtidList | None = None
    for path in paths:
        for offset, raw in EventReader(path):
            assert int.from_bytes(raw[13:17], "little") == (offset + len(raw)) & 0xFFFFFFFF
        events = events_of(path)
        sequence = 0
        assert events[0].name == "FORMAT_DESCRIPTION"
        assert restarts or bool(events[0].created) == (path == paths[0])
        for event in events:
            assert (event.checksum is not None) == bool(events[0].checksum_algorithm) or (
                event is events[0]
            )
            if isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
                assert state is None or event.gtids == state
                state = event.gtids.copy()
            elif isinstance(event, GtidEvent):
                sequence += 1
                assert event.sequence_number == sequence
                assert event.last_committed == sequence - 1
                if event.gtid is not None:
                    assert event.gtid not in state
                    state.add(event.gtid)
            elif isinstance(event, MariadbGtidEvent):
                last = state.position.get(event.domain_id)
                assert last is None or last.seq_no < event.seq_no
                state.add(event.gtid)
        found = transactions_of(path)
        assert all(each.complete for each in found)
        for each in found:
            if events[0].flavour is Flavour.MYSQL:
                assert each.gtid_event.transaction_length == each.size
