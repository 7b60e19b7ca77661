"""Rows that are written: what goes in comes out, in every form of log, from Arrow too."""

from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tailrace
from tailrace.constants import Flavour
from tailrace.errors import (
    TailraceError,
    UnknownColumn,
    UsageError,
    ValueRejected,
)
from tailrace.events import RowsEvent
from tailrace.storage.memory import forget_memory, memory_folder
from tailrace.values.image import ABSENT
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.writing.made import (
    FLAVOURS,
    check_files,
    events_of,
    log,
    orders,
    row,
    transactions_of,
)

both = each_case("flavour", FLAVOURS)
Change = tuple[str, Any, Any]
KINDS = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("note", pa.string()),
        ("price", pa.decimal128(9, 2)),
    ]
)
ROWS = st.lists(
    st.tuples(
        st.integers(-(1 << 31), (1 << 31) - 1),
        st.none() | st.text(max_size=20).map(lambda text: text.replace("\0", "")),
        st.none() | st.text(max_size=300),
        st.none() | st.decimals(-9_999_999, 9_999_999, places=2),
    ),
    max_size=40,
)


def changes(path):
    """The rows' changes: kind, values before, values after; None where there is no image."""
    found = []
    for event in tailrace.open(path):
        if isinstance(event, RowsEvent):
            found += [
                (each.kind, _values(each.before), _values(each.after))
                for each in RowSet(event, event.table_map)
            ]
    return found


def _values(image):
    if image is None:
        return None
    names = [column.name for column in image.schema.columns]
    return dict(zip(names, image.as_tuple(), strict=True))


def shown(number):
    """`row` as a log gives it back."""
    return {**row(number), "price": Decimal(row(number)["price"])}


@both
@each_case("compress", [False, True])
@each_case("form", ["mapping", "sequence", "arrow", "batch"])
def test_rows_come_out_as_they_went_in(tmp_path, flavour, compress, form):
    table = orders(flavour)
    rows = [row(number) for number in range(1, 400)]
    later = [{**each, "name": "later"} for each in rows]

    def formed(rows):
        if form == "mapping":
            return iter(rows)
        if form == "sequence":
            return [tuple(each.values()) for each in rows]
        typed = [{**each, "price": Decimal(each["price"])} for each in rows]
        made = pa.Table.from_pylist(typed, schema=KINDS)
        return made if form == "arrow" else made.combine_chunks().to_batches()[0]

    with (
        log(tmp_path / "binlog.000001", flavour, compress=compress) as out,
        out.transaction() as trx,
    ):
        trx.insert(table, formed(rows), statement="insert into orders select …")
        trx.update(table, formed(rows), formed(later))
        trx.delete(table, formed(later))
    check_files(tmp_path / "binlog.000001")
    before, after = [shown(n) for n in range(1, 400)], []
    after = [{**each, "name": "later"} for each in before]
    assert changes(tmp_path) == [
        *(("insert", None, each) for each in before),
        *(("update", *pair) for pair in zip(before, after, strict=True)),
        *(("delete", each, None) for each in after),
    ]
    names = [event.name for event in events_of(tmp_path)]
    if flavour == "mysql":
        assert ("TRANSACTION_PAYLOAD" in names) == compress
        assert ("XID" in names) != compress
    else:
        assert ("WRITE_ROWS_COMPRESSED_V1" in names) == compress
    texts = [event.sql for event in tailrace.open(tmp_path) if "ROWS_QUERY" in event.name]
    texts += [event.sql for event in tailrace.open(tmp_path) if "ANNOTATE" in event.name]
    assert texts == ["insert into orders select …"]


@both
def test_statements_are_packed_and_ended(tmp_path, flavour):
    table = orders(flavour)
    with (
        log(tmp_path / "binlog.000001", flavour, max_rows_event_size=1024) as out,
        out.transaction() as trx,
    ):
        trx.insert(table, [row(number) for number in range(1, 200)])
        trx.insert(table, [{**row(1000), "note": "x" * 5000}, row(1001)])
        trx.insert(table, [])
    events = [event for event in events_of(tmp_path) if isinstance(event, RowsEvent)]
    assert [len(event.row_data) > 1024 for event in events] == [
        *[False] * (len(events) - 2),
        True,
        False,
    ]
    ends = [event.stmt_end for event in events]
    assert ends == [*[False] * (len(events) - 3), True, False, True]
    maps = [event for event in events_of(tmp_path) if event.name == "TABLE_MAP"]
    assert [each.table_id for each in maps] == [1, 1]
    expected = {Flavour.MYSQL: "WRITE_ROWS", Flavour.MARIADB: "WRITE_ROWS_V1"}
    assert {event.name for event in events} == {expected[Flavour(flavour)]}


@both
@each_case("image", ["full", "minimal", "noblob"])
@each_case("arrow", [False, True])
def test_row_images(tmp_path, flavour, image, arrow):
    table = orders(flavour)
    old = [{"id": 1, "name": "a", "note": "n", "price": Decimal("1.00")}]
    new = [{"id": 1, "name": "b", "note": "n", "price": Decimal("1.00")}]

    def rows(given):
        return pa.Table.from_pylist(given, schema=KINDS) if arrow else given

    with log(tmp_path / "binlog.000001", flavour, image=image) as out, out.transaction() as trx:
        trx.update(table, rows(old), rows(new))
        trx.delete(table, rows(old))
    ((_, before, after), (_, gone, _)) = changes(tmp_path)
    key, blobless = ["id"], ["id", "name", "price"]
    every = ["id", "name", "note", "price"]
    wanted = {
        "full": (every, every, every),
        "minimal": (key, ["name"], key),
        "noblob": (blobless, blobless, blobless),
    }[image]
    present = [
        [name for name, value in side.items() if value is not ABSENT]
        for side in (before, after, gone)
    ]
    assert tuple(present) == wanted


@each_case(
    ("flavour", "metadata"),
    [
        *(("mysql", each) for each in ("full", "minimal")),
        *(("mariadb", each) for each in ("full", "minimal", "none")),
    ],
)
def test_row_metadata(tmp_path, flavour, metadata):
    with (
        log(tmp_path / "binlog.000001", flavour, metadata=metadata) as out,
        out.transaction() as trx,
    ):
        trx.insert(orders(flavour), [row(1)])
    (table_map,) = [event for event in events_of(tmp_path) if event.name == "TABLE_MAP"]
    names = [column.name for column in table_map.columns]
    assert names == (["id", "name", "note", "price"] if metadata == "full" else [None] * 4)
    assert (table_map.columns[0].unsigned is None) == (metadata == "none")


@both
def test_a_refused_row_leaves_nothing_of_its_statement(tmp_path, flavour):
    table = orders(flavour)

    def rows():
        for number in range(2000):
            yield row(number)
        yield {**row(1), "price": "too dear"}

    with log(tmp_path / "binlog.000001", flavour) as out:
        with out.transaction() as trx:
            trx.insert(table, [row(1)])
            with pytest.raises(ValueRejected, match=r"row 2001 .*price"):
                trx.insert(table, rows())
            with pytest.raises(TailraceError):
                trx.update(table, [row(1)], [])
            trx.delete(table, [row(1)])
        with out.transaction() as trx, pytest.raises(ValueRejected):
            trx.insert(table, rows())
    assert [kind for kind, _, _ in changes(tmp_path)] == ["insert", "delete"]
    assert len(transactions_of(tmp_path)) == 1
    check_files(tmp_path / "binlog.000001")


@both
def test_arrow_in_many_slices(tmp_path, flavour, monkeypatch):
    monkeypatch.setattr("tailrace.writing.arrow._SLICE", 1000)
    rows = [shown(number) for number in range(1, 300)]
    given = pa.Table.from_pylist(rows, schema=KINDS)
    with log(tmp_path / "binlog.000001", flavour) as out, out.transaction() as trx:
        trx.update(orders(flavour), given, given)
    assert changes(tmp_path) == [("update", each, each) for each in rows]
    ends = [event.stmt_end for event in events_of(tmp_path) if isinstance(event, RowsEvent)]
    assert len(ends) > 10
    assert ends == [*[False] * (len(ends) - 1), True]


@both
def test_a_data_frame_is_taken_as_arrow(tmp_path, flavour):
    """What is no rows is an error: None wrote nothing, without a word."""
    rows = [shown(number) for number in range(1, 4)]
    frame = pa.Table.from_pylist(rows, schema=KINDS).to_pandas(types_mapper=pd.ArrowDtype)
    with log(tmp_path / "binlog.000001", flavour) as out, out.transaction() as trx:
        trx.insert(orders(flavour), frame)
        for wrong in (None, 5, "rows"):
            with pytest.raises(UsageError, match=r"rows are mappings, sequences, .* not"):
                trx.insert(orders(flavour), wrong)
    assert changes(tmp_path) == [("insert", None, each) for each in rows]


@both
@each_case("image", ["full", "minimal", "noblob"])
def test_arrow_needs_its_columns(tmp_path, flavour, image):
    table = orders(flavour)
    whole = pa.Table.from_pylist([shown(1)], schema=KINDS)
    with log(tmp_path / "binlog.000001", flavour, image=image) as out, out.transaction() as trx:
        with pytest.raises(UnknownColumn, match="no column 'colour'"):
            trx.insert(table, whole.append_column("colour", pa.array(["red"])))
        with pytest.raises(ValueRejected, match="does not give id"):
            trx.delete(table, whole.drop_columns(["id"]))
        with pytest.raises(UsageError, match="both Arrow's or neither"):
            trx.update(table, whole, [row(1)])
        with pytest.raises(UsageError, match="before and those after"):
            trx.update(table, whole)
        with pytest.raises(ValueRejected, match="1 rows before, 0 rows after"):
            trx.update(table, whole, whole.slice(0, 0))
        some = whole.select(["id", "price"])
        if image == "full":
            with pytest.raises(ValueRejected, match="does not give name, note"):
                trx.insert(table, some)
        elif image == "minimal":
            trx.insert(table, some)
        trx.insert(table, whole.slice(0, 0))
    if image == "minimal":
        ((_, _, after),) = changes(tmp_path)
        assert after["price"] == Decimal("1.25")
        assert after["name"] is ABSENT
    else:
        assert not changes(tmp_path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=ROWS, data=st.data())
def test_arrow_gives_the_bytes_of_the_object_path(rows, data):
    """Two speeds, one truth: the same log, byte for byte, whatever the options."""
    flavour = data.draw(st.sampled_from(FLAVOURS))
    options = {
        "image": data.draw(st.sampled_from(["full", "minimal", "noblob"])),
        "compress": data.draw(st.booleans()),
        "max_rows_event_size": data.draw(st.sampled_from([256, 1000, 8192])),
    }
    table = orders(flavour)
    after = [(key, "now", f"{note}!", price) for key, _, note, price in rows]

    def arrow(rows):
        named = [dict(zip(KINDS.names, row, strict=True)) for row in rows]
        return pa.Table.from_pylist(named, schema=KINDS)

    logs = []
    for form in (list, arrow):
        forget_memory("same")
        with log("memory:same", flavour, **options) as out, out.transaction() as trx:
            trx.insert(table, form(rows))
            if options["image"] == "full":  # else a call's images are alike, or a row's
                trx.update(table, form(rows), form(after))
            trx.delete(table, form(rows))
        logs.append(bytes(memory_folder("same").files["binlog.000001"]))
    forget_memory("same")
    assert logs[0] == logs[1]


@both
@each_case("image", ["minimal", "noblob"])
@each_case("before", [("id", "name", "note", "price"), ("id", "name", "price")])
@each_case("given", [("id", "name", "note", "price"), ("id", "note"), ("name",)])
def test_both_paths_choose_the_same_columns(flavour, image, before, given):
    old = {name: shown(1)[name] for name in before}
    new = {name: {**shown(1), "name": "later"}[name] for name in given}

    def arrow(row):
        return pa.Table.from_pylist([row], schema=pa.schema([KINDS.field(name) for name in row]))

    logs = []
    for form in (lambda row: [row], arrow):
        forget_memory("same")
        with log("memory:same", flavour, image=image) as out, out.transaction() as trx:
            trx.update(orders(flavour), form(old), form(new))
        logs.append(bytes(memory_folder("same").files["binlog.000001"]))
    forget_memory("same")
    assert logs[0] == logs[1]


@each_case("change", ["insert", "delete", "update"])
@each_case("rows", [[None], [(1, "x"), None], [None, (1, "x")]])
def test_none_is_no_row(tmp_path, change, rows):
    """It was left out, and the other rows were written."""
    table = tailrace.Table("d.t", "a INT, b VARCHAR(5)")
    given = (rows, [(2, "y")] * len(rows)) if change == "update" else (rows,)
    with tailrace.create(tmp_path / "log", flavour="mysql", server_id=1) as log:
        with log.transaction() as transaction, pytest.raises(ValueRejected, match="None is no row"):
            getattr(transaction, change)(table, *given)
        with log.transaction() as transaction:
            transaction.insert(table, [(3, "z")])
    assert [row.after["a"] for row in tailrace.rows(tmp_path / "log.000001", start="oldest")] == [3]
