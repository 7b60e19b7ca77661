"""Arrow to rows events: every type as the object path writes it, in whatever Arrow type it comes."""

import os
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.columns.objects import arrow_value
from tailrace.columns.types import plan_of
from tailrace.columns.write import rows as encode
from tailrace.columns.write.rows import encode_rows, present_of
from tailrace.constants import ColumnType as T
from tailrace.constants import EventType, Flavour
from tailrace.errors import EventEncodeError, UnknownColumn, ValueRejected
from tailrace.values.encode import CellWriter
from tailrace.values.image import ABSENT
from tailrace.values.registry import dumper_of, loader_of, width_of
from tailrace.values.resolve import resolve_table
from tailrace.values.row import RowSet
from tailrace.values.schema import Column, Logical, TableSchema
from tests.columns.random_columns import COLUMNS
from tests.columns.random_log import MadeTable, logs
from tests.columns.read.test_random import series_of
from tests.columns.write.encode_oracle import by_objects, encoded, prefix_of, rows_events
from tests.events.made import decode

EXAMPLES = settings(max_examples=int(os.environ.get("TAILRACE_EXAMPLES", "30")))
PREFIX = bytes(range(29))
UTF8, LATIN1, SJIS, UTF8MB3 = 255, 8, 13, 33


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("encoded")


def column(type_, metadata=0, logical=Logical.PLAIN, *, nullable=True, **told):
    told = {"unsigned": False, "collation": None, "members": None, **told}
    return Column(0, "c", type_, metadata, nullable, logical=logical, **told)


def text(metadata=40, collation=UTF8, type_=T.VARCHAR):
    return column(type_, metadata, Logical.TEXT, collation=collation)


def schema_of(*columns):
    return TableSchema("shop", "t", columns)


def written(col, array):
    """The rows' bytes of a table of one column."""
    found = encode_rows(
        schema_of(col),
        "insert",
        None,
        pa.table({"c": array}),
        prefix=PREFIX,
        most=1 << 30,
    )
    return b"".join(bytes(each)[len(PREFIX) :] for each in found)


def expected(col, values):
    """The same by the object path's dumper."""
    dump, prefix = dumper_of(col), width_of(col).prefix
    data = b""
    for value in values:
        if value is None:
            data += b"\1"
        else:
            cell = dump(value)
            data += b"\0" + (len(cell).to_bytes(prefix, "little") if prefix else b"") + cell
    return data


def made_column(made):
    """The column of a table map that holds one column as drawn."""
    body = MadeTable("t", (made,), named=True).table_map(7)
    return resolve_table(decode(EventType.TABLE_MAP, body), Flavour.MYSQL).columns[0]


@EXAMPLES
@given(data=st.data(), made=COLUMNS)
def test_every_type_is_written_as_by_objects(data, made):
    """Values, NULLs and those that stand beside; where one is refused, so it is by the other."""
    col = made_column(made)
    load, prefix = loader_of(col), width_of(col).prefix
    logged = data.draw(st.lists(st.none() | made.values, min_size=1, max_size=8))
    values = [None if each is None else load(each[prefix:]) for each in logged]
    plan = plan_of(col)
    pairs = [(None, None) if v is None else arrow_value(v, plan) for v in values]
    array = pa.array([value for value, _ in pairs], plan.type)
    raw = [[] if odd is None else [(f"after.{col.name}", odd)] for _, odd in pairs]
    refused = set()
    for row, value in enumerate(values):
        try:
            expected(col, [value])
        except ValueRejected:
            refused.add(row)
    write = lambda: encode_rows(  # noqa: E731
        schema_of(col),
        "insert",
        None,
        pa.table({col.name: array}),
        prefix=PREFIX,
        most=1 << 30,
        raw=pa.array(raw, pa.map_(pa.string(), pa.string())),
    )
    if refused:
        with pytest.raises(ValueRejected, match=re.escape(f"shop.t.{col.name}, row")) as error:
            write()
        assert int(re.search(r"row (\d+)", str(error.value))[1]) in refused
    else:
        (event,) = write()
        assert bytes(event)[len(PREFIX) :] == expected(col, values)


@pytest.mark.slow
@EXAMPLES
@given(data=logs(), filler=st.booleans())
def test_random_logs_come_back(folder, data, filler):
    """Decoded by the kernels, written by the kernels: what the object path writes, or refuses."""
    for event, schema, records in rows_events(series_of(folder, data)):
        by_hand = by_objects(event, schema, filler=filler)
        if by_hand is None:
            with pytest.raises(ValueRejected):
                encoded(event, schema, records, filler=filler)
        else:
            (found,) = encoded(event, schema, records, filler=filler)
            assert bytes(found)[len(prefix_of(event)) :] == by_hand


@EXAMPLES
@given(data=logs(), most=st.integers(20, 400), piece=st.integers(1, 5))
@pytest.mark.slow
def test_events_are_cut_where_they_are_full(folder, data, most, piece):
    """However rows are cut into events and pieces: all rows in order, as many an event as fit."""
    for event, schema, records in rows_events(series_of(folder, data)):
        if by_objects(event, schema) is None:
            continue
        (whole,) = encoded(event, schema, records)
        prefix = prefix_of(event)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encode, "PIECE", piece)
            found = list(encoded(event, schema, records, most=most))
        assert b"".join(bytes(each)[len(prefix) :] for each in found) == bytes(whole)[len(prefix) :]
        assert [len(each) for each in found] == cut(row_sizes(event, schema), len(prefix), most)
        for each in found:
            assert int.from_bytes(each[9:13], "little") == len(each)
            assert bytes(each[:9]) == prefix[:9]
            assert bytes(each[13 : len(prefix)]) == prefix[13:]


def cut(sizes, head, most):
    """The sizes of events that rows of these sizes fill."""
    events = []
    for size in sizes:
        if events and events[-1] + size <= most:
            events[-1] += size
        else:
            events.append(head + size)
    return events


def row_sizes(event, schema):
    """Bytes of each row as the object path writes it."""
    writer = CellWriter(schema)
    for row in RowSet(event, schema):
        size = 0
        for image in (row.before, row.after):
            if image is not None:
                here = [c for c in writer.cells(list(image.as_tuple())) if c is not ABSENT]
                size += (len(here) + 7) // 8 + sum(len(c) for c in here if c is not None)
        yield size


def columns(*names):
    kinds = {
        "i": column(T.LONG),
        "s": text(),
        "d": column(T.NEWDECIMAL, 10 << 8 | 2),
    }
    return TableSchema(
        "shop",
        "t",
        tuple(
            Column(at, name, *[getattr(kinds[name], each) for each in Column.__slots__[2:]])
            for at, name in enumerate(names)
        ),
    )


def test_rows_are_counted_over_the_whole_table(monkeypatch):
    monkeypatch.setattr(encode, "PIECE", 10)
    array = pa.chunked_array([pa.array(range(7)), pa.array([*range(20), 128])])
    with pytest.raises(ValueRejected, match=r"row 27 .*128"):
        written(column(T.TINY), array)


def test_columns_go_by_name_and_may_be_absent():
    schema = columns("i", "s", "d")
    rows = pa.table({"d": ["1.00"], "I": [7]})
    assert present_of(schema, rows) == b"\5"
    (event,) = encode_rows(schema, "insert", None, rows, prefix=PREFIX, most=99)
    assert bytes(event)[len(PREFIX) :] == b"\0\7\0\0\0\x80\0\0\1\0"
    with pytest.raises(UnknownColumn, match="'x'"):
        present_of(schema, pa.table({"x": [1]}))
    with pytest.raises(UnknownColumn, match="twice"):
        present_of(schema, pa.table({"i": [1], "I": [1]}))


def test_calls_that_do_not_go_together():
    schema = columns("i")
    one, two = pa.table({"i": [1]}), pa.table({"i": [1, 2]})
    told = {"prefix": PREFIX, "most": 99}
    with pytest.raises(ValueRejected, match="before"):
        encode_rows(schema, "insert", one, one, **told)
    with pytest.raises(ValueRejected, match="after"):
        encode_rows(schema, "update", one, None, **told)
    with pytest.raises(ValueRejected, match="1 rows before, 2 after"):
        encode_rows(schema, "update", one, two, **told)
    with pytest.raises(ValueRejected, match="upsert"):
        encode_rows(schema, "upsert", one, two, **told)
    with pytest.raises(EventEncodeError):
        encode_rows(schema, "insert", None, one, prefix=b"short", most=99)


def test_nothing_and_rows_of_nothing():
    schema = columns("i")
    none = encode_rows(schema, "insert", None, pa.table({"i": []}), prefix=PREFIX, most=99)
    assert (len(none), none.rows, bytes(none.data)) == (0, 0, b"")
    bare = pa.table({"i": [1, 2]}).select([])
    (event,) = encode_rows(schema, "insert", None, bare, prefix=PREFIX, most=99)
    assert len(event) == len(PREFIX)


def test_odd_values_have_to_fit():
    schema = TableSchema("shop", "t", (column(T.DATE),))
    kind = pa.map_(pa.string(), pa.string())
    told = {"prefix": PREFIX, "most": 99}

    def write(values, raw):
        rows = pa.table({"c": pa.array(values, pa.date32())})
        return encode_rows(schema, "insert", None, rows, raw=pa.array(raw, kind), **told)

    (event,) = write([None, 1], [[("after.c", "2024-00-10")], None])
    zero = (2024 << 9 | 10).to_bytes(3, "little")
    assert bytes(event)[len(PREFIX) :] == b"\0" + zero + b"\0" + b"\x22\x64\x0f"
    with pytest.raises(ValueRejected, match=r"row 1 .*in `_raw` and one in the column"):
        write([None, 1], [None, [("after.c", "0000-00-00")]])
    with pytest.raises(ValueRejected, match=r"row 0: .*nosuch"):
        write([None], [[("after.nosuch", "0000-00-00")]])
    with pytest.raises(ValueRejected, match=r"row 0: .*no date"):
        write([None], [[("after.c", "nonsense")]])
    with pytest.raises(ValueRejected, match="2 rows and 1"):
        write([None, None], [None])


def test_large_values_and_many_events():
    """More than the first guess of memory, more events than their first table."""
    col = column(T.BLOB, 4, Logical.BINARY)
    values = [os.urandom(size % 3000) for size in range(0, 300_000, 97)]
    found = encode_rows(
        schema_of(col), "insert", None, pa.table({"c": values}), prefix=PREFIX, most=1
    )
    assert len(found) == len(values)
    assert [bytes(each)[len(PREFIX) + 5 :] for each in found] == values
