"""Renaming databases and tables."""

import re
import subprocess

import pytest

from tailrace.constants import EventType
from tailrace.events import (
    DecodeContext,
    QueryEvent,
    RowsEvent,
    TableMapEvent,
    TransactionPayloadEvent,
)
from tailrace.events.status_vars import StatusVariable
from tailrace.handlers import ByTable, Handler, Pipeline, Rename
from tests.cases import each_case
from tests.events.made import query_body, raw_event, raw_format
from tests.handlers.logs import (
    as_file,
    cases,
    check_grammar,
    events,
    opened,
    row_images,
    tables,
)
from tools.servers import available, binlog_tool

E = EventType


def databases(case):
    return sorted(
        {
            e.database
            for e in events(case)
            if isinstance(e, (QueryEvent, TableMapEvent)) and e.database
        }
    )


def alike(one, other, *fields):
    return all(getattr(one, field) == getattr(other, field) for field in fields)


RENAMED = (
    *("several-tables", "image-full-full", "payload-full", "payload-no", "compressed-full-full"),
    *("compressed-statements", "ddl", "load-data", "relay", "names-full", "interleaved"),
)


@each_case("case", cases(*RENAMED))
@each_case("new", ["b", "a_database_with_quite_a_long_name"])
def test_databases(case, new):
    bare = events(case)
    names = databases(case)
    mapping = {name: f"{new}{number}" for number, name in enumerate(names)}
    out = events(case, Rename(mapping))
    assert len(out) == len(bare)
    for one, other in zip(bare, out, strict=True):
        assert alike(one, other, "type", "file", "offset", "inner_index", "end_offset")
        if isinstance(one, TableMapEvent):
            assert isinstance(other, TableMapEvent)
            assert (other.database, other.table) == (mapping[one.database], one.table)
            assert alike(one, other, "columns", "primary_key", "flags", "table_id")
        elif isinstance(one, QueryEvent):
            assert isinstance(other, QueryEvent)
            assert other.database == mapping.get(one.database, one.database)
            assert other.sql_bytes == one.sql_bytes
            wanted = dict(one.status_variables.values)
            if updated := wanted.get(StatusVariable.UPDATED_DB_NAMES):
                wanted[StatusVariable.UPDATED_DB_NAMES] = tuple(map(mapping.get, updated, updated))
            assert [*other.status_variables.values.items()] == [*wanted.items()]
            assert alike(one, other, "thread_id", "exec_time", "error_code")
        elif isinstance(one, RowsEvent) and not one.is_dummy:
            assert isinstance(other, RowsEvent)
            assert other.body == one.body
            assert other.table_map.database == mapping[one.table_map.database]
        elif not isinstance(one, TransactionPayloadEvent):
            assert other == one
    check_grammar(out)
    outer = events(case, Rename(mapping), expand=False)
    inside = [e for e in opened(outer) if e.inner_index is not None]
    inner = [event for event in out if event.inner_index is not None]
    assert [(e.type, e.body) for e in inside] == [(e.type, e.body) for e in inner]
    assert row_images(inside) == row_images(inner)
    back = events(case, Rename(mapping), Rename({new: old for old, new in mapping.items()}))
    assert row_images(back) == row_images(bare)
    same = [
        (one, two)
        for one, two in zip(bare, back, strict=True)
        if not isinstance(one, TransactionPayloadEvent)
        and type(one).__name__ != "QueryCompressedEvent"
    ]
    assert all(one.body == two.body for one, two in same)


@each_case("case", cases("several-tables", "ddl", "image-full-full", "interleaved"))
def test_as_the_servers_tool(case, tmp_path):
    """What the tool makes of our log is what its --rewrite-db makes of the server's."""
    server = case.rpartition(".")[0]
    if reason := available(server):
        pytest.skip(reason)
    old = databases(case)[0]
    whole = as_file(tmp_path / "whole.000001", events(case))
    ours = as_file(tmp_path / "renamed.000001", events(case, Rename({old: "renamed"})))
    shown = _printed(server, ours)
    assert shown == _printed(server, whole, f"--rewrite-db={old}->renamed")
    assert "renamed" in shown
    assert shown != _printed(server, whole)


def _printed(server, path, *options):
    command = [
        *binlog_tool(server),
        "-v",
        "--base64-output=DECODE-ROWS",
        "--verify-binlog-checksum",
        *options,
        str(path),
    ]
    run = subprocess.run(command, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    text = run.stdout.decode(errors="replace")
    text = re.sub(
        r"(end_log_pos |# at |CRC32 |total length of the transaction: |transaction_length=)\S+",
        r"\1",
        text,
    )
    # It prints table maps, and with them what it rewrote, before or behind: only statements count.
    return "\n".join(
        line for line in text.splitlines() if not line.startswith("#") or line.startswith("###")
    )


def test_tables_and_precedence(monkeypatch):
    monkeypatch.setattr("tailrace.handlers.rename._KEPT", 1)
    case = "mysql-9.7.several-tables"
    (database, first), (_, second), *_ = tables(events(case))
    out = events(case, Rename({database: "other"}, {(database, first): ("special", "renamed")}))
    names = tables(out)
    assert ("special", "renamed") in names
    assert ("other", second) in names
    assert database not in {name for name, _ in names}
    assert {one[:2] for one in row_images(out)} <= set(names)


@each_case("case", cases("several-tables", "payload-full"))
def test_filters_before_and_behind(case):
    database, table = tables(events(case))[0]
    rename = Rename({database: "new"})
    old, new = [f"{database}.{table}"], [f"new.{table}"]
    for handlers, count in (
        ((ByTable(old), rename), 1), ((rename, ByTable(new)), 1), ((rename, ByTable(old)), 0), ((ByTable(new), rename), 0)
    ):  # fmt: skip
        out = events(case, *handlers)
        assert tables(out) == [("new", table)] * count
        outer = opened(events(case, *handlers, expand=False))
        assert tables(outer) == tables(out)
        assert row_images(outer) == row_images(out)


@each_case("case", cases("several-tables", "compressed-full-full"))
def test_what_is_not_renamed_is_the_very_event(case):
    seen = []

    class Notes(Handler):
        def on_event(self, event):
            seen.append(event)
            return event

    out = events(case, Notes(), Rename({"nowhere": "x"}, {("a", "b"): ("c", "d")}))
    assert all(one is other for one, other in zip(seen, out, strict=True))


def test_a_statement_with_unknown_variables_keeps_them():
    status = b"\x0c\x02one\0two\0" + b"\x63rest of it"
    context = DecodeContext()
    context.decode(raw_format())
    event = context.decode(raw_event(E.QUERY, query_body(b"DROP TABLE one.t", status, b"one")))
    (out,) = Pipeline([Rename({"one": "three"})]).process(event)
    assert isinstance(out, QueryEvent)
    assert (out.database, out.status["UPDATED_DB_NAMES"], out.sql) == (
        "three",
        ("three", "two"),
        "DROP TABLE one.t",
    )
    assert out.status_variables.unparsed == b"\x63rest of it"
    many = context.decode(raw_event(E.QUERY, query_body(b"x", b"\x0c\xfe", b"other")))
    assert list(Pipeline([Rename({"one": "three"})]).process(many)) == [many]
