"""Row sets: images, absent columns, errors with their place, bytes left over."""

import pickle

import pytest

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError, UnknownColumn, UnsupportedType
from tailrace.values.image import ABSENT
from tailrace.values.json_diff import JsonDiffs, Operation, parse_diffs, parse_path
from tailrace.values.resolve import resolve_table
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.values.made import TableMap, rows_event, spec

T = ColumnType
COLUMNS = (
    spec(T.LONG, name="id"),
    spec(T.VARCHAR, 20, name="name", collation=45),
    spec(T.BLOB, 2, name="photo", collation=63),
)


def schema_of(*columns):
    return resolve_table(TableMap(columns or COLUMNS), Flavour.MYSQL)


SCHEMA = schema_of()
ONE = b"\x00\x01\0\0\0\x02ab\x01\0\xff"
TWO = b"\x06\x02\0\0\0"  # name and photo are NULL
INSERT = rows_event("insert", None, b"\x07", ONE + TWO)


def test_inserts():
    rows = RowSet(INSERT, SCHEMA)
    assert len(rows) == 2
    for _ in range(2):  # any number of times
        one, two = rows
        assert one.values == (1, "ab", b"\xff")
        assert two.values == (2, None, None)
        assert (one.number, two.number) == (0, 1)
        assert one.before is None
        assert one.after.as_dict() == {"id": 1, "name": "ab", "photo": b"\xff"}


def test_images_are_mappings():
    (row,) = RowSet(rows_event("update", b"\x01", b"\x02", b"\0\x01\0\0\0\0\x01x"), SCHEMA)
    assert row.before.as_dict() == {"id": 1}
    assert row.after.as_dict() == {"name": "x"}
    assert row.after["photo"] is ABSENT
    assert not ABSENT
    assert "photo" not in row.after
    assert "NAME" in row.after
    assert row.after["Name"].storage == b"x"
    assert len(row.after) == 3
    assert row.values == (ABSENT, "x", ABSENT)
    assert row.after.raw(1) == b"x"
    with pytest.raises(UnknownColumn, match="nothing"):
        row.after["nothing"]
    with pytest.raises(UnknownColumn):
        row.after.at(3)


def test_deletes():
    (row,) = RowSet(rows_event("delete", b"\x07", None, ONE), SCHEMA)
    assert row.after is None
    assert row.values == (1, "ab", b"\xff")


def test_rows_pickle():
    (row, _) = RowSet(INSERT, SCHEMA)
    copy = pickle.loads(pickle.dumps(row))
    assert copy == row
    assert copy.values == row.values
    (update,) = RowSet(rows_event("update", b"\x01", b"\x02", b"\0\x01\0\0\0\0\x01x"), SCHEMA)
    copy = pickle.loads(pickle.dumps(update))
    assert copy == update
    assert copy.after["photo"] is ABSENT


@each_case("size", [*range(1, len(ONE)), *range(len(ONE) + 1, len(ONE + TWO))])
def test_truncated(size):
    event = rows_event("insert", None, b"\x07", (ONE + TWO)[:size])
    with pytest.raises(
        EventDecodeError, match=r"binlog.000001 at 400 \(WRITE_ROWS\): a row of shop"
    ):
        len(RowSet(event, SCHEMA))


def test_left_over_bytes():
    with pytest.raises(EventDecodeError):
        list(RowSet(rows_event("insert", None, b"\x07", ONE + b"\0"), SCHEMA))


@each_case("present", [b"", b"\x07\x00"])
def test_bitmap_of_another_table(present):
    with pytest.raises(EventDecodeError, match="bitmap"):
        list(RowSet(rows_event("insert", None, present, ONE), SCHEMA))


def test_no_rows():
    assert list(RowSet(rows_event("insert", None, b"\x07", b""), SCHEMA)) == []


def test_a_row_without_columns():
    """MySQL logs INSERT INTO t () VALUES () so, with a MINIMAL image; at most one row an event."""
    (row,) = RowSet(rows_event("insert", None, b"\x00", b""), SCHEMA)
    assert row.values == (ABSENT, ABSENT, ABSENT)
    with pytest.raises(EventDecodeError, match="no columns"):
        list(RowSet(rows_event("insert", None, b"\x00", b"\0"), SCHEMA))


def test_a_value_that_cannot_be_decoded_says_where():
    (row,) = RowSet(rows_event("insert", None, b"\x02", b"\0\x01\xff"), SCHEMA)
    message = r"binlog.000001 at 400 \(WRITE_ROWS\): shop.orders.name: text that is not utf8mb4"
    for read in (lambda: row.after.at(1), row.after.as_tuple):
        with pytest.raises(EventDecodeError, match=message) as caught:
            read()
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), EventDecodeError)


def test_a_type_without_rows_says_where():
    schema = schema_of(spec(T.LONG), spec(T.TYPED_ARRAY))
    with pytest.raises(
        UnsupportedType, match=r"at 400 \(WRITE_ROWS\): shop.orders: column c2 .*TYPED"
    ):
        list(RowSet(rows_event("insert", None, b"\x03", b"\0\0"), schema))


# --- partial JSON updates ------------------------------------------------------------------------

JSON_SCHEMA = schema_of(
    spec(T.LONG, name="id"),
    spec(T.JSON, 4, name="a"),
    spec(T.LONG, name="n"),
    spec(T.JSON, 4, name="b"),
)
DOCUMENT = b"\x02\x02\x00\x0d\x00\x05\x01\x00\x0c\x0a\x00\x02ab"  # [1, "ab"]
DIFFS = b"\x00\x04$[0]\x02\x04\x01" + b"\x01\x04$[1]\x02\x04\x00" + b"\x02\x04$[2]"


def u32(data):
    return len(data).to_bytes(4, "little") + data


def partial(before, after, present=b"\x0f"):
    return rows_event("update", present, b"\x0f", before + after, partial=True)


BEFORE = b"\x08\x01\0\0\0" + u32(DOCUMENT) + b"\x07\0\0\0"
AFTER = b"\x08\x01\0\0\0" + u32(DIFFS) + b"\x08\0\0\0"


def test_partial_update_with_the_document_before():
    (row,) = RowSet(partial(BEFORE, b"\x01\x01" + AFTER), JSON_SCHEMA)
    assert row.before.at(1) == '[1, "ab"]'
    assert row.values == (1, "[true, null]", 8, None)


def test_partial_update_without_diffs():
    unchanged = b"\x08\x01\0\0\0" + u32(b"") + b"\x08\0\0\0"
    (row,) = RowSet(partial(BEFORE, b"\x01\x01" + unchanged), JSON_SCHEMA)
    assert row.after.at(1) == '[1, "ab"]'
    (row,) = RowSet(partial(BEFORE, b"\x00" + BEFORE), JSON_SCHEMA)
    assert row.after.at(1) == '[1, "ab"]'


def test_partial_update_without_the_document_before():
    (row,) = RowSet(partial(b"\0\x01\0\0\0", b"\x01\x01" + AFTER, b"\x01"), JSON_SCHEMA)
    diffs = row.after.at(1)
    assert isinstance(diffs, JsonDiffs)
    assert [diff.operation for diff in diffs] == list(Operation)
    assert diffs.apply('[1.50, "a\\n"]') == "[true, null]"
    assert pickle.loads(pickle.dumps(row)) == row
    with pytest.raises(EventDecodeError, match="no JSON"):
        diffs.apply("[")
    with pytest.raises(EventDecodeError, match=r"at \$\[0\] does not fit"):
        diffs.apply("{}")


@each_case("data", [b"", b"\x02", b"\x01"])
def test_partial_update_cut_off(data):
    with pytest.raises(EventDecodeError):
        list(RowSet(partial(BEFORE, data), JSON_SCHEMA))


def test_partial_update_of_null():
    (row,) = RowSet(partial(b"\x0a\x01\0\0\0\x07\0\0\0", b"\x01\x01" + AFTER), JSON_SCHEMA)
    with pytest.raises(EventDecodeError, match="of NULL"):
        row.after.at(1)


@each_case("size", [*range(1, 9), *range(10, 18), *range(19, len(DIFFS))])
def test_truncated_diffs(size):
    with pytest.raises(EventDecodeError):
        parse_diffs(DIFFS[:size])


def test_diffs_of_other_operations():
    with pytest.raises(EventDecodeError, match="operation 3"):
        parse_diffs(b"\x03\x01$")
    with pytest.raises(EventDecodeError, match="utf8mb4"):
        parse_diffs(b"\x02\x01\xff")


@each_case(
    ("path", "legs"),
    [
        ("$", ()),
        ("$.a[0]", ("a", 0)),
        ('$."a b".é[last]', ("a b", "é", -1)),
        ('$."q\\"\\u00e9"[last-2]', ('q"é', -3)),
        ("$ . a [ 12 ]", ("a", 12)),
    ],
)
def test_paths(path, legs):
    assert parse_path(path) == legs


@each_case("path", ["", "a", "$a", "$.", "$[", "$[x]", "$.*", '$."', '$."\\x"', "$[1"])
def test_what_is_no_path(path):
    with pytest.raises(EventDecodeError, match="no path"):
        parse_path(path)


@each_case(
    ("before", "diff", "after"),
    [
        ('{"a": 1}', b"\x01\x03$.b\x02\x04\x01", '{"a": 1, "b": true}'),
        ('{"bb": 1}', b"\x01\x03$.c\x02\x04\x01", '{"c": true, "bb": 1}'),
        ('{"a": 1}', b"\x01\x03$.a\x02\x04\x01", None),
        ('{"a": 1}', b"\x00\x03$.b\x02\x04\x01", None),
        ('{"a": 1}', b"\x02\x03$.b", None),
        ('{"a": 1}', b"\x02\x03$.a", "{}"),
        ("[1, 2]", b"\x01\x04$[9]\x02\x04\x01", "[1, 2, true]"),
        ("[1, 2]", b"\x00\x04$[2]\x02\x04\x01", None),
        ("[1, 2]", b"\x02\x04$[2]", None),
        ("1", b"\x00\x01$\x02\x04\x01", "true"),
        ("1", b"\x02\x01$", None),
        ("[[1]]", b"\x02\x07$[0][0]", "[[]]"),
    ],
)
def test_diffs_apply_or_do_not_fit(before, diff, after):
    if after is None:
        with pytest.raises(EventDecodeError, match="JSON diff"):
            parse_diffs(diff).apply(before)
    else:
        assert parse_diffs(diff).apply(before) == after
