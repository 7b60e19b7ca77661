"""Filters: what passes, and that what is left is a log."""

import struct

import pytest

import tailrace
from tailrace.constants import EventType, RowsFlag
from tailrace.errors import UnsupportedType, UsageError
from tailrace.events import (
    DecodeContext,
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
    cases,
    check_grammar,
    events,
    opened,
    row_images,
    tables,
)
from tests.handlers.made import BEGIN, XID

E = EventType
WITH_ROWS = (
    *("several-tables", "interleaved", "big-statements", "image-full-full", "payload", "ddl"),
    *("compressed-full-full", "partition", "load", "mixed", "replace", "savepoint", "relay", "xa"),
    *("small-events", "checksum", "rows-query"),
)


@pytest.mark.slow
@each_case("case", cases())
def test_filters_that_want_all_change_nothing(case):
    filters = (ByTable(["*.*"]), ByTable(), ByType(), ByServerId(), ByGtid(), ByTime())
    for expand in (True, False) if "payload" in case else (True,):
        assert events(case, *filters, expand=expand) == events(case, expand=expand)


@pytest.mark.slow
@each_case("case", cases(*WITH_ROWS))
def test_the_rows_of_some_tables(case):
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


def _of_rows(case):
    """Whether texts stand before rows only: MariaDB annotates CREATE TABLE ... SELECT, too."""
    return "ddl" not in case


def rows(table_id, *, end, code=E.WRITE_ROWS):
    return raw_event(
        code,
        table_id.to_bytes(6, "little") + bytes([end, 0]) + bytes.fromhex("0200 01 01 00 01000000"),
    )


def mapped(table_id, name):
    body = table_map_body(b"\3", table_id=table_id).replace(
        b"\6orders", bytes([len(name)]) + name.encode()
    )
    return raw_event(E.TABLE_MAP, body)


def decoded(*raws, form=None):
    context = DecodeContext()
    return [context.decode(raw, file="b.1", offset=4) for raw in (form or raw_format(), *raws)][1:]


def query(sql):
    return raw_event(E.QUERY, query_body(sql))


GTID = raw_event(E.ANONYMOUS_GTID, bytes(25))
TEXT = raw_event(E.ROWS_QUERY, b"\5x")


def through(handler, *raws, form=None):
    """What comes out, in short, with commas: rows as table, with an end mark."""
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
    return ", ".join(out)


def test_the_statements_end_is_moved():
    head = (GTID, BEGIN, TEXT, mapped(1, "a"), mapped(2, "b"))
    a, b = rows(1, end=False), rows(2, end=False)
    a_end, b_end, dummy = rows(1, end=True), rows(2, end=True), rows(0xFFFFFF, end=True)
    two = (a, b_end, mapped(2, "b"), b_end, TEXT, mapped(1, "a"), a_end)
    for given, kept in (
        ((*head, a, b_end), "ROWS_QUERY, map a, a., "),
        ((*head, b, a_end), "ROWS_QUERY, map a, a., "),
        ((*head, a, a, b, a, b, b_end), "ROWS_QUERY, map a, a, a, a., "),
        ((*head, a, a_end), "ROWS_QUERY, map a, a, a., "),
        ((*head, b, b_end), ""),
        ((*head, b_end), ""),
        ((*head, a, dummy), "ROWS_QUERY, map a, a, dummy., "),
        ((*head, b, dummy), ""),
        ((GTID, BEGIN, dummy), "dummy., "),
        ((*head, *two), "ROWS_QUERY, map a, a., ROWS_QUERY, map a, a., "),
    ):
        assert through(ByTable(["shop.a"]), *given, XID) == f"ANONYMOUS_GTID, BEGIN, {kept}XID"


def test_a_moved_end_changes_one_bit():
    given = decoded(
        BEGIN, mapped(1, "a"), mapped(2, "b"), rows(1, end=False), rows(2, end=True), XID
    )
    (out,) = (each for each in Pipeline([ByTable(["a"])]).run(given) if isinstance(each, RowsEvent))
    assert out.flags == RowsFlag.STMT_END
    assert (out.table_map, out.offset) == (given[1], 4)
    before = given[3].encode()
    assert out.encode() == before[:25] + bytes([before[25] | 1]) + before[26:]


def test_an_unfinished_statement_is_given_as_it_is():
    a, only = rows(1, end=False), ByTable(["a"])
    assert through(only, BEGIN, TEXT, mapped(1, "a"), a) == "BEGIN, ROWS_QUERY, map a, a"
    assert through(only, BEGIN, TEXT, mapped(1, "a")) == "BEGIN, ROWS_QUERY, map a"
    assert through(only, BEGIN, mapped(1, "a"), a, XID) == "BEGIN, map a, a, XID"


def test_groups_of_one_statement():
    """With their GTID left, something must stand for what was left out."""
    ddl = query(b"CREATE TABLE x (id INT)")
    keep = ByTable(["a"], statements=False)
    insert = (raw_event(E.INTVAR, bytes(9)[:8] + b"\1"), query(b"INSERT INTO x VALUES (1)"))
    control = (query(b"SAVEPOINT s"), query(b"ROLLBACK TO s"))
    for handler, given, kept in (
        (keep, (GTID, ddl, GTID, BEGIN, XID), "@, BEGIN, COMMIT, @, BEGIN, XID"),
        (keep, (ddl, query(b"XA COMMIT X'61',X'',1")), "XA COMMIT X'61',X'',1"),
        (
            keep,
            (GTID, BEGIN, insert[1], *control, XID),
            "@, BEGIN, SAVEPOINT s, ROLLBACK TO s, XID",
        ),
        (
            ByTable(["a"]),
            (GTID, BEGIN, *insert, XID),
            "@, BEGIN, INTVAR, INSERT INTO x VALUES (1), XID",
        ),
        (keep, (GTID, BEGIN, *insert, XID), "@, BEGIN, XID"),
    ):
        assert through(handler, *given) == kept.replace("@", "ANONYMOUS_GTID")
    form = raw_format("11.8.9-MariaDB", MARIADB_ARRAY)
    single = raw_event(E.MARIADB_GTID, struct.pack("<QIB", 5, 0, 1) + bytes(6))
    group = raw_event(E.MARIADB_GTID, struct.pack("<QIB", 6, 0, 4) + bytes(6))
    v1 = raw_event(
        E.WRITE_ROWS_V1, bytes([1, 0, 0, 0, 0, 0, 1, 0]) + bytes.fromhex("01 01 00 01000000")
    )
    for handler, given, kept in (
        (keep, (single, ddl, group, ddl, XID), "@, # left out, @, XID"),
        (ByTable([]), (single, mapped(1, "a"), v1), "@, # left out"),
        (ByTable([]), (group, mapped(1, "a"), v1, XID), "@, XID"),
    ):
        assert through(handler, *given, form=form) == kept.replace("@", "MARIADB_GTID")


def test_rows_that_cannot_be_told_are_refused():
    with pytest.raises(UnsupportedType, match=r"b\.1 at 4 \(PRE_GA_WRITE_ROWS\): rows in events"):
        through(ByTable(["a"]), BEGIN, raw_event(E.PRE_GA_WRITE_ROWS, bytes(12)))


def test_patterns(monkeypatch):
    monkeypatch.setattr("tailrace.handlers.filters._CACHED", 1)
    handler = ByTable(["shop.o*", "items"], without=["*_old"])
    for name, wanted in (("orders", True), ("orders_old", False), ("items", True), ("x", False)):
        (made,) = decoded(mapped(1, name))
        assert isinstance(made, TableMapEvent)
        assert handler.wants_map(made) is wanted


def test_types():
    a, b = rows(1, end=False), rows(2, end=True, code=E.DELETE_ROWS)
    given = (GTID, BEGIN, TEXT, mapped(1, "a"), mapped(2, "b"), a, b, XID)
    start = "ANONYMOUS_GTID, BEGIN"
    for handler, kept in (
        (ByType(without=[E.DELETE_ROWS]), f"{start}, ROWS_QUERY, map a, map b, a., XID"),
        (ByType(without=[E.WRITE_ROWS, E.ROWS_QUERY]), f"{start}, map a, map b, b., XID"),
        (ByType(without=[RowsEvent]), f"{start}, XID"),
        (ByType([WriteRowsEvent]), "a."),
        (ByType([QueryEvent, E.XID]), "BEGIN, XID"),
        (ByType([]), ""),
    ):
        assert through(handler, *given) == kept
    with pytest.raises(UsageError, match="not a type of events"):
        ByType(["QUERY"])


@each_case("case", cases("payload-full", "compressed-full-full", "several-tables"))
def test_types_in_real_logs(case):
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


def test_a_log_read_again_begins_anew(tmp_path):
    """What was held of a log that ended inside a statement does not come in the next reading."""
    path = write(tmp_path / "b.000001", raw_format(), BEGIN, mapped(1, "a"), rows(1, end=False))
    log = tailrace.open(path, handlers=[ByTable(["a"]), ByServerId()])
    names = ["FORMAT_DESCRIPTION", "QUERY", "TABLE_MAP", "WRITE_ROWS"]
    assert [e.name for e in log] == [e.name for e in log] == names
    iterator = iter(log)
    for _ in range(2):
        next(iterator)
    assert len(list(log)) == 4
