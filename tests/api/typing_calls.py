"""Right and wrong calls of the public names, as a user's type checker sees them.

`test_typing.py` compares mypy's errors with the comments. Nothing runs this file.
"""

# ruff: noqa: B015, B018

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack, assert_type

import tailrace
from tailrace import GtidList, GtidSet, Log, Position, Table
from tailrace.applier.applier import Applied
from tailrace.columns import Batch
from tailrace.events import Event
from tailrace.log.rows import ChangedRow, CommittedTransaction
from tailrace.log.statistics import Statistics
from tailrace.replication.progress import Progress
from tailrace.writing import LogWriter

SOURCE = Path("logs")
MOMENT = datetime(2026, 11, 21, tzinfo=UTC)
PLACE = Position("binlog.000001", 4)
GTIDS = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")
NAMES: list[str] = ["shop.orders", "shop.re*"]


def names() -> None:
    tailrace.rowz(SOURCE)  # error: attr-defined
    tailrace.Positions  # error: attr-defined
    tailrace.errors.UsageErrors  # error: attr-defined
    tailrace.events.QueryEvents  # error: attr-defined
    tailrace.generators.RowConsumers  # error: attr-defined
    tailrace.handlers.ByTables  # error: attr-defined
    tailrace.spark.mirrors  # error: attr-defined
    tailrace.storage.finds  # error: attr-defined
    assert_type(tailrace.__version__, str)


def sources() -> None:
    tailrace.rows("mysql://root@127.0.0.1/")
    tailrace.rows(tailrace.storage.find(SOURCE))
    tailrace.rows([SOURCE, "memory:logs"])
    tailrace.rows(5)  # error: arg-type
    tailrace.rows()  # error: call-arg
    tailrace.rows(SOURCE, "binlog.000001")  # error: call-arg


def bounds() -> None:
    tailrace.rows(SOURCE, start="now", until=None)
    tailrace.transactions(SOURCE, start=PLACE, until=MOMENT)
    tailrace.changes(SOURCE, start=GTIDS, until=GtidList.parse("0-1-5"))
    tailrace.rows(SOURCE, start=3.5)  # error: arg-type
    tailrace.rows(SOURCE, until=4)  # error: arg-type
    tailrace.transactions(SOURCE, start=b"now")  # error: arg-type
    tailrace.changes(SOURCE, start=3.5)  # error: arg-type
    tailrace.table(SOURCE, "shop.orders", until=3.5)  # error: arg-type
    tailrace.open(SOURCE, start=3.5)  # error: arg-type
    tailrace.stat(SOURCE, until=3.5)  # error: arg-type
    tailrace.undo(SOURCE, start=3.5)  # error: arg-type
    tailrace.redo(SOURCE, until=3.5)  # error: arg-type
    tailrace.apply(SOURCE, "sqlite:///x.db", start=3.5)  # error: arg-type
    tailrace.generators.EventStream(SOURCE, until=3.5)  # error: arg-type


def options() -> None:
    tailrace.rows(SOURCE, tables="shop.*", exclude=NAMES, schema=SOURCE, follow=True)
    tailrace.rows(SOURCE, tables=["shop.orders"])
    tailrace.rows(SOURCE, table="shop.orders")  # error: call-arg
    tailrace.rows(SOURCE, tables=5)  # error: arg-type
    tailrace.changes(SOURCE, columns={"id", "status"}, threads=2, statements="skip")
    tailrace.changes(SOURCE, statements="ignore")  # error: arg-type
    tailrace.changes(SOURCE, threads="2")  # error: arg-type
    tailrace.table(SOURCE)  # error: call-arg
    tailrace.undo(SOURCE, rows_per_insert="10")  # error: arg-type


def lakes(**lake: Unpack[tailrace.spark.LakeKeywords]) -> None:
    tailrace.spark.mirror(SOURCE, "lake", follow=True, **lake)
    report = tailrace.spark.mirror(SOURCE, "lake", tables=NAMES, keep="history", keys={"a.b": "c"})
    assert_type(report, tailrace.spark.MirrorReport)
    tailrace.spark.mirror(SOURCE, "lake", table="shop.orders")  # error: call-arg
    tailrace.spark.mirror(SOURCE, "lake", tables=5)  # error: arg-type
    tailrace.spark.mirror(SOURCE, "lake", update_mode="merge")  # error: arg-type
    tailrace.spark.mirror(SOURCE, "lake", keys=["a.b"])  # error: arg-type
    tailrace.spark.mirror(SOURCE, "lake", shards="yes")  # error: arg-type


def results() -> None:
    for row in tailrace.rows(SOURCE):
        assert_type(row, ChangedRow)
        row.operation == "upsert"  # error: comparison-overlap
        row.colums  # error: attr-defined
    with tailrace.transactions(SOURCE) as transactions:
        assert_type(next(transactions), CommittedTransaction)
        assert_type(transactions.position, Position)
    with tailrace.open(SOURCE) as log:
        assert_type(log, Log)
        assert_type(next(log), Event)
        log.seek(PLACE)
        log.seek(365)
        log.seek(3.5)  # error: arg-type
    batch = next(tailrace.changes(SOURCE))
    assert_type(batch, Batch)
    assert_type(batch.position, Position)
    assert_type(tailrace.stat(SOURCE), Statistics)
    lines: list[str] = list(tailrace.undo(SOURCE))
    lines += tailrace.redo(SOURCE)
    number: str = tailrace.table(SOURCE, "shop.orders").num_rows  # error: assignment
    assert_type(tailrace.table(SOURCE, "shop.orders").column_names, list[str])
    print(number, lines)


def writing() -> None:
    orders = Table("shop.orders", {"id": "INT PRIMARY KEY"})
    with tailrace.create(SOURCE, flavour="mysql", server_id=1) as log:
        assert_type(log, LogWriter)
        with log.transaction() as transaction:
            transaction.insert(orders, [(1,)])
            transaction.upsert(orders, [(1,)])  # error: attr-defined
    tailrace.create(SOURCE, flavour="mysql")  # error: call-arg
    tailrace.create(SOURCE, flavour="mysql", server_id=1, syncs="group")  # error: call-arg
    tailrace.append(SOURCE, server_id="1")  # error: arg-type
    with tailrace.local(server_id=1) as server, server.transaction() as transaction:
        transaction.insert(orders, [(1,)])
    tailrace.local(servers=1)  # error: call-arg


def servers() -> None:
    assert_type(tailrace.receive("mysql://root@127.0.0.1/", "copy"), Progress)
    tailrace.receive("mysql://root@127.0.0.1/")  # error: call-arg
    tailrace.receive("mysql://root@127.0.0.1/", "copy", every="1")  # error: arg-type
    tailrace.serve(SOURCE)  # error: call-arg
    with tailrace.serve(SOURCE, server_id=1) as server:
        assert_type(server.port, int)
    assert_type(tailrace.apply(SOURCE, "sqlite:///x.db", conflicts="skip"), Applied)
    tailrace.apply(SOURCE, "sqlite:///x.db", conflicts="skips")  # error: arg-type
