"""Filters: what passes, and that what is left is a log."""

from __future__ import annotations

import re
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.constants import EventType, RowsFlag
from tailrace.errors import UnsupportedType, UsageError
from tailrace.events import (
    DecodeContext,
    Event,
    GtidEvent,
    MariadbGtidEvent,
    QueryEvent,
    RowsEvent,
    TableMapEvent,
    TransactionPayloadEvent,
    WriteRowsEvent,
)
from tailrace.handlers import ByGtid, ByServerId, ByTable, ByTime, ByType, Pipeline
from tests.cases import each_case
from tests.events.made import (
    MARIADB_ARRAY,
    query_body,
    raw_event,
    raw_format,
    table_map_body,
    write,
)
from tests.handlers.logs import (
    CORPUS,
    as_file,
    cases,
    check_grammar,
    events,
    opened,
    row_images,
    tables,
)
from tools.servers import available, binlog_tool

if TYPE_CHECKING:
    from pathlib import Path

E = EventType
WITH_ROWS = (
    "several-tables",
    "interleaved",
    "big-statements",
    "image-full-full",
    "payload",
    "compressed-full-full",
    "partition",
    "load",
    "mixed",
    "replace",
    "savepoint",
    "small-events",
    "checksum",
    "rows-query",
    "ddl",
    "relay",
    "xa",
)


@pytest.mark.slow
@each_case("case", cases())
def test_filters_that_want_all_change_nothing(case: str) -> None:
    filters = (ByTable(["*.*"]), ByTable(), ByType(), ByServerId(), ByGtid(), ByTime())
    for expand in (True, False) if "payload" in case else (True,):
        assert events(case, *filters, expand=expand) == events(case, expand=expand)


@pytest.mark.slow
@each_case("case", cases(*WITH_ROWS))
def test_the_rows_of_some_tables(case: str) -> None:
    bare = events(case)
    images = row_images(bare)
    gtids = [event for event in bare if isinstance(event, (GtidEvent, MariadbGtidEvent))]
    for database, name in tables(bare):
        full = f"{database}.{name}"
        for handler, kept in (
            (ByTable([full]), [one for one in images if one[:2] == (database, name)]),
            (ByTable(without=[full]), [one for one in images if one[:2] != (database, name)]),
        ):
            out = events(case, handler)
            assert row_images(out) == kept
            assert {one[:2] for one in kept} == set(tables(out))
            check_grammar(out)
            if "payload" in case:
                outer = events(case, handler, expand=False)
                check_grammar(outer)
                assert row_images(opened(outer)) == kept
                check_grammar(opened(outer))
            assert [e for e in out if isinstance(e, (GtidEvent, MariadbGtidEvent))] == gtids
    out = events(case, ByTable([]))
    assert row_images(out) == tables(out) == []
    assert not [
        event for event in out if event.name in {"ROWS_QUERY", "ANNOTATE_ROWS"} and _of_rows(case)
    ]
    check_grammar(out)


def _of_rows(case: str) -> bool:
    """Whether texts stand before rows only: MariaDB annotates CREATE TABLE ... SELECT, too."""
    return "ddl" not in case


@each_case(
    "case",
    cases(
        "several-tables", "interleaved", "big-statements", "payload-full", "compressed-full-full"
    ),
)
def test_the_servers_tool_reads_what_is_left(case: str, tmp_path: Path) -> None:
    server = case.rpartition(".")[0]
    if reason := available(server):
        pytest.skip(reason)
    whole = printed(server, as_file(tmp_path / "whole.000001", events(case)))
    assert whole == [
        one for path in sorted((CORPUS / case).glob("binlog.0*")) for one in printed(server, path)
    ]
    for database, name in tables(events(case)):
        out = events(case, ByTable([f"{database}.{name}"]))
        shown = printed(server, as_file(tmp_path / "left.000001", out))
        quoted = f"`{database}`.`{name}`"
        assert shown == [one for one in whole if one.partition("\n")[0].endswith(quoted)]
        assert shown


def printed(server: str, path: Path) -> list[str]:
    """The rows as the server's tool prints them, a text a row; it verifies the checksums."""
    command = [
        *binlog_tool(server),
        "-v",
        "--base64-output=DECODE-ROWS",
        "--verify-binlog-checksum",
        str(path),
    ]
    run = subprocess.run(command, capture_output=True, check=False)
    text = run.stdout.decode(errors="replace")
    assert run.returncode == 0, run.stderr
    lines = [line[4:] for line in text.splitlines() if line.startswith("### ")]
    return re.split(r"\n(?=INSERT|UPDATE|DELETE)", "\n".join(lines)) if lines else []


def rows(table_id: int, *, end: bool, code: int = E.WRITE_ROWS) -> bytes:
    return raw_event(
        code,
        table_id.to_bytes(6, "little") + bytes([end, 0]) + bytes.fromhex("0200 01 01 00 01000000"),
    )


def mapped(table_id: int, name: str) -> bytes:
    body = table_map_body(b"\3", table_id=table_id).replace(
        b"\6orders", bytes([len(name)]) + name.encode()
    )
    return raw_event(E.TABLE_MAP, body)


def decoded(*raws: bytes, form: bytes | None = None) -> list[Event]:
    context = DecodeContext()
    return [context.decode(raw, file="b.1", offset=4) for raw in (form or raw_format(), *raws)][1:]


def query(sql: bytes) -> bytes:
    return raw_event(E.QUERY, query_body(sql))


GTID = raw_event(E.ANONYMOUS_GTID, bytes(25))
BEGIN, XID = query(b"BEGIN"), raw_event(E.XID, bytes(8))
TEXT = raw_event(E.ROWS_QUERY, b"\5x")


def through(handler: ByTable | ByType, *raws: bytes, form: bytes | None = None) -> list[str]:
    """What comes out, in short: rows as table, with an end mark."""
    out = []
    for event in Pipeline([handler]).run(decoded(*raws, form=form)):
        if isinstance(event, RowsEvent):
            name = "dummy" if event.is_dummy else event.table_map.table
            out.append(name + ("." if event.stmt_end else ""))
        elif isinstance(event, TableMapEvent):
            out.append(f"map {event.table}")
        elif isinstance(event, QueryEvent):
            out.append(event.sql)
        else:
            out.append(event.name)
    return out


def test_the_statements_end_is_moved() -> None:
    head = (GTID, BEGIN, TEXT, mapped(1, "a"), mapped(2, "b"))
    tail = (XID,)
    start, end = ["ANONYMOUS_GTID", "BEGIN"], ["XID"]
    a, b = rows(1, end=False), rows(2, end=False)
    a_end, b_end = rows(1, end=True), rows(2, end=True)
    for given, kept in (
        ((a, b_end), ["ROWS_QUERY", "map a", "a."]),
        ((b, a_end), ["ROWS_QUERY", "map a", "a."]),
        ((a, a, b, a, b, b_end), ["ROWS_QUERY", "map a", "a", "a", "a."]),
        ((a, a_end), ["ROWS_QUERY", "map a", "a", "a."]),
        ((b, b_end), []),
        ((b_end,), []),
    ):
        assert through(ByTable(["shop.a"]), *head, *given, *tail) == [*start, *kept, *end]
    dummy = rows(0xFFFFFF, end=True)
    assert through(ByTable(["a"]), *head, a, dummy, *tail) == [
        *start,
        "ROWS_QUERY",
        "map a",
        "a",
        "dummy.",
        *end,
    ]
    assert through(ByTable(["a"]), *head, b, dummy, *tail) == [*start, *end]
    assert through(ByTable(["a"]), GTID, BEGIN, dummy, *tail) == [*start, "dummy.", *end]
    two = (*head, a, b_end, mapped(2, "b"), b_end, TEXT, mapped(1, "a"), a_end, *tail)
    assert through(ByTable(["a"]), *two) == [
        *start,
        "ROWS_QUERY",
        "map a",
        "a.",
        "ROWS_QUERY",
        "map a",
        "a.",
        *end,
    ]


def test_a_moved_end_changes_one_bit() -> None:
    given = decoded(
        BEGIN, mapped(1, "a"), mapped(2, "b"), rows(1, end=False), rows(2, end=True), XID
    )
    out = [event for event in Pipeline([ByTable(["a"])]).run(given) if isinstance(event, RowsEvent)]
    assert len(out) == 1
    assert out[0].flags == RowsFlag.STMT_END
    assert (out[0].table_map, out[0].offset, out[0].row_data) == (given[1], 4, given[3].row_data)
    assert bytes(a ^ b for a, b in zip(out[0].encode(), given[3].encode(), strict=True)) == bytes(
        25
    ) + b"\1" + bytes(len(given[3].encode()) - 26)


def test_an_unfinished_statement_is_given_as_it_is() -> None:
    a = rows(1, end=False)
    assert through(ByTable(["a"]), BEGIN, TEXT, mapped(1, "a"), a) == [
        "BEGIN",
        "ROWS_QUERY",
        "map a",
        "a",
    ]
    assert through(ByTable(["a"]), BEGIN, TEXT, mapped(1, "a")) == ["BEGIN", "ROWS_QUERY", "map a"]
    assert through(ByTable(["a"]), BEGIN, mapped(1, "a"), a, XID) == ["BEGIN", "map a", "a", "XID"]


def test_groups_of_one_statement() -> None:
    """With their GTID left, something must stand for what was left out."""
    ddl = query(b"CREATE TABLE x (id INT)")
    keep = ByTable(["a"], statements=False)
    assert through(keep, GTID, ddl, GTID, BEGIN, XID) == [
        "ANONYMOUS_GTID",
        "BEGIN",
        "COMMIT",
        "ANONYMOUS_GTID",
        "BEGIN",
        "XID",
    ]
    assert through(keep, ddl, query(b"XA COMMIT X'61',X'',1")) == ["XA COMMIT X'61',X'',1"]
    insert = (raw_event(E.INTVAR, bytes(9)[:8] + b"\1"), query(b"INSERT INTO x VALUES (1)"))
    control = (query(b"SAVEPOINT s"), query(b"ROLLBACK TO s"))
    assert through(keep, GTID, BEGIN, insert[1], *control, XID) == [
        "ANONYMOUS_GTID",
        "BEGIN",
        "SAVEPOINT s",
        "ROLLBACK TO s",
        "XID",
    ]
    assert through(ByTable(["a"]), GTID, BEGIN, *insert, XID) == [
        "ANONYMOUS_GTID",
        "BEGIN",
        "INTVAR",
        "INSERT INTO x VALUES (1)",
        "XID",
    ]
    assert through(keep, GTID, BEGIN, *insert, XID) == ["ANONYMOUS_GTID", "BEGIN", "XID"]
    form = raw_format("11.8.9-MariaDB", MARIADB_ARRAY)
    single = raw_event(E.MARIADB_GTID, struct.pack("<QIB", 5, 0, 1) + bytes(6))
    group = raw_event(E.MARIADB_GTID, struct.pack("<QIB", 6, 0, 4) + bytes(6))
    v1 = raw_event(
        E.WRITE_ROWS_V1, bytes([1, 0, 0, 0, 0, 0, 1, 0]) + bytes.fromhex("01 01 00 01000000")
    )
    assert through(keep, single, ddl, group, ddl, XID, form=form) == [
        "MARIADB_GTID",
        "# left out",
        "MARIADB_GTID",
        "XID",
    ]
    assert through(ByTable([]), single, mapped(1, "a"), v1, form=form) == [
        "MARIADB_GTID",
        "# left out",
    ]
    assert through(ByTable([]), group, mapped(1, "a"), v1, XID, form=form) == [
        "MARIADB_GTID",
        "XID",
    ]


def test_rows_that_cannot_be_told_are_refused() -> None:
    with pytest.raises(UnsupportedType, match=r"b\.1 at 4 \(PRE_GA_WRITE_ROWS\): rows in events"):
        through(ByTable(["a"]), BEGIN, raw_event(E.PRE_GA_WRITE_ROWS, bytes(12)))


def test_patterns() -> None:
    handler = ByTable(["shop.o*", "items"], without=["*_old"])
    for name, wanted in (("orders", True), ("orders_old", False), ("items", True), ("x", False)):
        (made,) = decoded(mapped(1, name))
        assert isinstance(made, TableMapEvent)
        assert handler.wants_map(made) is wanted


def test_types() -> None:
    given = (
        GTID,
        BEGIN,
        TEXT,
        mapped(1, "a"),
        mapped(2, "b"),
        rows(1, end=False),
        rows(2, end=True, code=E.DELETE_ROWS),
        XID,
    )
    assert through(ByType(without=[E.DELETE_ROWS]), *given) == [
        "ANONYMOUS_GTID",
        "BEGIN",
        "ROWS_QUERY",
        "map a",
        "map b",
        "a.",
        "XID",
    ]
    assert through(ByType(without=[E.WRITE_ROWS, E.ROWS_QUERY]), *given) == [
        "ANONYMOUS_GTID",
        "BEGIN",
        "map a",
        "map b",
        "b.",
        "XID",
    ]
    assert through(ByType(without=[RowsEvent]), *given) == ["ANONYMOUS_GTID", "BEGIN", "XID"]
    assert through(ByType([WriteRowsEvent]), *given) == ["a."]
    assert through(ByType([QueryEvent, E.XID]), *given) == ["BEGIN", "XID"]
    assert through(ByType([]), *given) == []
    with pytest.raises(UsageError, match="not a type of events"):
        ByType(["QUERY"])


@each_case("case", cases("payload-full", "compressed-full-full", "several-tables"))
def test_types_in_real_logs(case: str) -> None:
    bare = events(case)
    out = events(case, ByType(without=[RowsEvent]), expand=False)
    check_grammar(out)
    inserts = events(case, ByType([WriteRowsEvent]))
    assert row_images(inserts) == [one for one in row_images(bare) if one[2].startswith("WRITE")]
    inserts = events(case, ByType([TableMapEvent, WriteRowsEvent]))
    inner = [i for e in inserts if isinstance(e, TransactionPayloadEvent) for i in e]
    if any(isinstance(event, TransactionPayloadEvent) for event in bare):
        assert {event.name for event in inner} == {"TABLE_MAP", "WRITE_ROWS"}
        assert not any(
            isinstance(e, TransactionPayloadEvent)
            for e in events(case, ByType(without=[E.TRANSACTION_PAYLOAD]))
        )


def test_a_log_read_again_begins_anew(tmp_path: Path) -> None:
    """What was held of a log that ended inside a statement does not come in the next reading."""
    path = write(tmp_path / "b.000001", raw_format(), BEGIN, mapped(1, "a"), rows(1, end=False))
    log = tailrace.open(path, handlers=[ByTable(["a"]), ByServerId()])
    assert (
        [e.name for e in log]
        == [e.name for e in log]
        == ["FORMAT_DESCRIPTION", "QUERY", "TABLE_MAP", "WRITE_ROWS"]
    )
    iterator = iter(log)
    for _ in range(2):
        next(iterator)
    assert len(list(log)) == 4
