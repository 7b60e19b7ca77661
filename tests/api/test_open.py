"""`tailrace.open`: its end, its tables, and the rows of its events."""

import pickle

import pytest

import tailrace
from tailrace.errors import MissingTableMap, UsageError
from tailrace.events import RowsEvent, TableMapEvent
from tailrace.log.reader import Reader
from tailrace.position import Position
from tailrace.selection import Selection
from tailrace.storage import find
from tests.cases import each_case
from tests.recorded import SHOP, case_of, folders

LOGS = [
    SHOP / "mysql",
    *(each for each in folders() if case_of(each) in ("xa", "payload-full", "anonymous")),
]


def places(events):
    return [(each.file, each.offset, each.inner_index) for each in events]


@pytest.mark.slow
@each_case("log", LOGS, ids=[each.name for each in LOGS])
def test_it_ends_where_readers_end(log):
    (series,) = find(log)
    transactions = [*tailrace.transactions(log, statements="skip")]
    bounds = {"now"}
    for each in transactions[:: max(1, len(transactions) // 3)]:
        bounds |= {str(each.position), str(each.start), each.timestamp.isoformat(), each.gtid}
    for until in bounds - {None}:
        reader = Reader(series, selection=Selection.parse(None, until))
        expected = places(step.event for step in reader)
        assert places(tailrace.open(log, until=until)) == expected, until
    every = places(tailrace.open(log))
    assert len(every) > len(places(tailrace.open(log, until=transactions[0].position))) > 0


def test_an_end_that_the_log_does_not_have():
    with pytest.raises(UsageError, match="a followed log has no present end"):
        tailrace.open(SHOP / "mysql", until="now", follow=True)


def test_a_followed_log_ends_where_one_asks():
    log = tailrace.open(SHOP / "mysql", follow=True, until="binlog.000002:60823")
    assert places(log) == places(tailrace.open(SHOP / "mysql", until="binlog.000002:60823"))
    assert log.position == Position("binlog.000002", 60823)
    log.close()


def test_only_some_tables():
    log = tailrace.open(SHOP / "mysql", tables="shop.*", exclude=["shop.orders", "shop.order_*"])
    found = {event.table for event in log if isinstance(event, TableMapEvent)}
    assert found == {"customers", "products", "payments", "reviews"}


def test_an_event_has_its_rows():
    rows = [row.row for row in tailrace.rows(SHOP / "mysql", tables="shop.reviews")]
    log = tailrace.open(SHOP / "mysql", tables="shop.reviews")
    found = [row for event in log if isinstance(event, RowsEvent) for row in event.rows]
    assert [each.values for each in found] == [each.values for each in rows]
    assert found[0].after.names()[0] == "c1"


def test_a_schema_names_the_columns(tmp_path):
    sql = tmp_path / "schema.sql"
    sql.write_text("create table shop.t (id int primary key, note varchar(9));")
    table = tailrace.Table("shop.t", "id int primary key, note varchar(9)")
    path = tmp_path / "binlog.000001"
    made = tailrace.create(path, flavour="mysql", server_id=1, metadata="minimal")
    with made as log, log.transaction() as trx:
        trx.insert(table, [(1, "x")])
    events = [event for event in tailrace.open(path, schema=sql) if isinstance(event, RowsEvent)]
    assert [row.as_dict() for event in events for row in event.rows] == [
        {"id": 1, "note": "x"},
    ]
    assert [row.values for row in pickle.loads(pickle.dumps(events[0])).rows] == [(1, "x")]


def test_a_dummy_has_no_rows():
    event = next(event for event in tailrace.open(SHOP / "mysql") if isinstance(event, RowsEvent))
    dummy = type(event).make(table_map=None, form=event.form)
    with pytest.raises(MissingTableMap):
        _ = dummy.rows
