"""Logs of the corpus, and what comes out of handlers as a log again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tailrace
from tailrace.constants import MAGIC
from tailrace.events import (
    Event,
    FormatDescriptionEvent,
    RowsEvent,
    TableMapEvent,
    TransactionPayloadEvent,
)
from tailrace.transaction import BoundaryParser
from tests.recorded import CORPUS, folders
from tools.servers import ONE_OF_EACH

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tailrace.handlers import Handler


def cases(*words: str) -> list[str]:
    """The readable cases, of a server of each flavour, whose names hold one of the words."""
    names = [folder.name for folder in folders("encrypted") if folder.name.startswith(ONE_OF_EACH)]
    return [name for name in names if not words or any(word in name for word in words)]


def opened(given: Iterable[Event]) -> list[Event]:
    """The events, and after each payload those that are in it."""
    return [
        inner
        for event in given
        for inner in ([event, *event] if isinstance(event, TransactionPayloadEvent) else [event])
    ]


def events(case: str, *handlers: Handler, expand: bool = True) -> list[Event]:
    with tailrace.open(CORPUS / case, handlers=handlers, expand_payloads=expand) as log:
        return list(log)


def as_file(path: Path, given: Iterable[Event]) -> Path:
    """The outer events as a log file with positions and checksums of its own."""
    out = bytearray(MAGIC)
    checksum = None
    for event in given:
        if event.inner_index is not None:
            continue
        if isinstance(event, FormatDescriptionEvent):
            if checksum is not None and len(out) > 4:
                continue  # a file more of the series
            checksum = event.checksum_algorithm
        size = len(event.encode(checksum))
        out += event.encode(checksum, log_pos=len(out) + size)
    path.write_bytes(bytes(out))
    return path


def row_images(given: Iterable[Event]) -> list[tuple[str, str, str, bytes]]:
    """Table, kind and bytes of each rows event."""
    return [
        (event.table_map.database, event.table_map.table, event.name, event.row_data)
        for event in given
        if isinstance(event, RowsEvent) and not event.is_dummy
    ]


def tables(given: Iterable[Event]) -> list[tuple[str, str]]:
    return sorted({(one.database, one.table) for one in given if isinstance(one, TableMapEvent)})


def check_grammar(given: Iterable[Event]) -> None:
    """Transactions are whole, each statement of rows ends, and none is empty."""
    parser = BoundaryParser()
    mapped: dict[int, TableMapEvent] = {}
    rows = 0
    for event in given:
        parser.feed(event)
        if isinstance(event, TableMapEvent):
            mapped[event.table_id] = event
        elif isinstance(event, RowsEvent):
            assert event.is_dummy or mapped[event.table_id] is event.table_map
            rows += 1
            if event.stmt_end:
                mapped.clear()
                rows = 0
        elif event.name in {"XID", "GTID", "QUERY", "MARIADB_GTID"}:
            assert not mapped, (event, mapped)
            assert not rows, event
