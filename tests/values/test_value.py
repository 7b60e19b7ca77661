"""Values: type, metadata, storage, and nothing interpreted."""

import pickle
import struct
import zlib

import pytest

from tailrace.constants import ColumnType as T
from tailrace.errors import ConversionError, SchemaError, UnknownColumn, UsageError
from tailrace.events import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from tailrace.schema.table import Table
from tailrace.values.converter import Converter
from tailrace.values.image import ABSENT
from tailrace.values.row import RowSet
from tailrace.values.value import Value, made, stored
from tests.cases import each_case

TABLE = Table.parse("CREATE TABLE d.t (a INT, v VARCHAR(300), b TINYINT UNSIGNED)")


def value(type_, storage, metadata=0):
    return Value(type_, metadata, storage)


@each_case("bits", [8, 16, 32, 64])
def test_integers_of_every_width(bits):
    size = bits // 8
    most = value(T.LONGLONG, b"\xff" * size)
    assert getattr(most, f"as_int{bits}")() == -1
    assert getattr(most, f"as_uint{bits}")() == 2**bits - 1
    for wider in (each for each in (8, 16, 32, 64) if each > bits):
        assert getattr(most, f"as_int{wider}")() == -1
        assert getattr(most, f"as_uint{wider}")() == 2**bits - 1
    with pytest.raises(
        ConversionError, match=f"{size + 1} bytes, which are not an integer of {bits}"
    ):
        getattr(value(T.BLOB, bytes(size + 1)), f"as_int{bits}")()
    with pytest.raises(ConversionError, match="0 bytes"):
        getattr(value(T.BLOB, b""), f"as_uint{bits}")()
    with pytest.raises(ConversionError, match="NULL, which has no storage"):
        getattr(value(T.LONG, None), f"as_int{bits}")()


def test_three_bytes_are_an_int32():
    assert value(T.INT24, b"\xfe\xff\xff").as_int32() == -2
    assert value(T.INT24, b"\xfe\xff\xff").as_uint32() == 0xFFFFFE


def test_floats():
    assert value(T.FLOAT, struct.pack("<f", 1.5), 4).as_float() == 1.5
    assert value(T.DOUBLE, struct.pack("<d", -0.1), 8).as_double() == -0.1
    with pytest.raises(ConversionError, match="8 bytes, which are not a float"):
        value(T.DOUBLE, bytes(8), 8).as_float()
    with pytest.raises(ConversionError, match="4 bytes, which are not a double"):
        value(T.FLOAT, bytes(4), 4).as_double()


def test_strings_and_bytes():
    text = value(T.VARCHAR, b"caf\xe9", 80)
    assert text.as_c_str() == text.as_blob() == b"caf\xe9"
    assert value(T.LONG, b"abcd").as_blob() == b"abcd"
    with pytest.raises(ConversionError, match=r"\(LONG\) is no string"):
        value(T.LONG, b"abcd").as_c_str()
    with pytest.raises(ConversionError, match="NULL"):
        value(T.BLOB, None, 2).as_blob()


@each_case(
    ("type_", "metadata", "storage", "length"),
    [
        (T.LONG, 0, bytes(4), 4),
        (T.VARCHAR, 255, b"abc", 4),
        (T.VARCHAR, 256, b"abc", 5),
        (T.BLOB, 3, b"abc", 6),
        (T.STRING, 1020, b"", 2),
        (T.VARCHAR, 80, None, 0),
    ],
)
def test_length_is_what_it_takes_in_a_row(type_, metadata, storage, length):
    assert Value(type_, metadata, storage).length == length
    assert Value(type_, metadata, storage).is_null == (storage is None)


def test_values_compare_by_type_metadata_and_storage():
    column = TABLE.schema.columns[2]
    one, other = Value(T.TINY, 0, b"\xff", column), Value(T.TINY, 0, b"\xff")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Value(T.TINY, 0, b"\xfe")
    assert one != Value(T.TINY, 0, None)
    assert one != Value(T.SHORT, 0, b"\xff")
    assert Value(T.VARCHAR, 8, b"x") != Value(T.VARCHAR, 9, b"x")
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert again.column == column


def test_compressed_columns_give_what_they_hold():
    table = Table.parse(
        "CREATE TABLE d.t (v VARCHAR(300) COMPRESSED CHARACTER SET latin1, b BLOB COMPRESSED)",
        flavour="mariadb",
    )
    text, blob = table.schema.columns
    raw = b"x" * 200
    packed = zlib.compressobj(6, zlib.DEFLATED, -15)
    storage = b"\x89" + bytes([200]) + packed.compress(raw) + packed.flush()
    assert stored(text, storage) == Value(T.VARCHAR, 300, raw)
    assert stored(blob, b"\0plain") == Value(T.BLOB, 2, b"plain")
    assert stored(blob, None) == Value(T.BLOB, 2, None)
    assert stored(text, storage).length == 202
    assert stored(text, storage).described().name == "v"


def rows(kind, data, **present):
    table_map = TABLE.table_map(7)
    code = {WriteRowsEvent: 30, UpdateRowsEvent: 31, DeleteRowsEvent: 32}[kind]
    event = kind.make(type=code, table_map=table_map, row_data=data, **present)
    return RowSet(event, table_map)


FIRST = b"\0" + struct.pack("<i", -5) + b"\3\0abc" + b"\xff"
SECOND = b"\2" + struct.pack("<i", 6) + b"\1"
VALUES = (
    Value(T.LONG, 0, b"\xfb\xff\xff\xff"),
    Value(T.VARCHAR, 1200, b"abc"),
    Value(T.TINY, 0, b"\xff"),
)


def check_sequence_and_mapping(one):
    """Of a row or an image whose values are `VALUES`."""
    assert tuple(one) == VALUES
    assert len(one) == 3
    assert one[0] == one[-3] == one["a"] == one["A"] == VALUES[0]
    assert one[1:] == VALUES[1:]
    assert dict(one) == dict(zip("avb", VALUES, strict=True))
    assert list(one.items()) == list(zip("avb", VALUES, strict=True))
    assert one.keys() == ["a", "v", "b"]
    assert "v" in one
    assert "w" not in one
    assert VALUES[1] in one
    assert (one.get("w", 5), one.get("a")) == (5, VALUES[0])
    assert one.values == (-5, "abc", 255)
    with pytest.raises(UnknownColumn, match="no column 'w'"):
        one["w"]
    with pytest.raises(IndexError):
        one[3]


def test_a_row_is_a_sequence_and_a_mapping_of_values():
    one, two = rows(WriteRowsEvent, FIRST + SECOND)
    check_sequence_and_mapping(one)
    assert two["v"] == Value(T.VARCHAR, 1200, None)
    assert one["b"].as_uint8() == 255


def test_images_are_the_same_kind_of_thing_as_the_row():
    """WL#3283, Row_of_fields: before and after are sequences and mappings of values, too."""
    (update,) = rows(UpdateRowsEvent, FIRST + SECOND)
    before, after = update.before, update.after
    check_sequence_and_mapping(before)
    assert before.as_tuple() == before.values
    assert before.as_dict() == {"a": -5, "v": "abc", "b": 255}
    assert after.as_dict() == update.as_dict() == {"a": 6, "v": None, "b": 1}
    assert tuple(after) == tuple(update)
    convert = Converter()
    assert convert.to(str, before[0]) == "-5"
    assert convert.row(before, {"a": str}) == {"a": "-5", "v": "abc", "b": 255}
    assert convert.row(after) == convert.row(update)


def test_absent_columns_are_in_the_sequence_only():
    (row,) = rows(WriteRowsEvent, b"\0" + struct.pack("<i", 9), present_after=b"\1")
    assert list(row) == [Value(T.LONG, 0, b"\x09\0\0\0"), ABSENT, ABSENT]
    assert row.keys() == ["a"]
    assert row["v"] is ABSENT
    assert row.get("v", 3) == 3
    assert "v" not in row


def test_the_row_is_the_one_that_there_is_now():
    (update,) = rows(UpdateRowsEvent, FIRST + SECOND)
    assert update[0].as_int32() == 6
    assert update.before.value("a").as_int32() == -5
    (delete,) = rows(DeleteRowsEvent, FIRST)
    assert tuple(delete) == delete.before.fields() == VALUES


def test_an_unpickled_image_has_the_same_values():
    (row,) = rows(WriteRowsEvent, FIRST)
    image = pickle.loads(pickle.dumps(row.after))
    assert image.fields() == VALUES


def test_a_value_is_made_of_a_python_object():
    assert made(TABLE.schema.columns[1], "abc") == VALUES[1]
    assert made(TABLE.schema.columns[1], None).is_null


def test_a_row_set_of_a_table_map_is_that_of_its_schema():
    by_map = rows(WriteRowsEvent, FIRST + SECOND)
    assert [row.after for row in by_map] == [
        row.after for row in RowSet(by_map.event, TABLE.schema)
    ]
    assert by_map.schema is RowSet(by_map.event, TABLE.table_map(7)).schema


def test_the_table_map_must_be_that_of_the_event():
    """WL#3283, Row_event_set(): of another table with the same columns, it is an error."""
    event = rows(WriteRowsEvent, FIRST).event
    other = Table.parse("CREATE TABLE d.u (a INT, v VARCHAR(300), b TINYINT UNSIGNED)")
    event.file, event.offset = "binlog.000001", 400
    message = r"^binlog.000001 at 400 \(WRITE_ROWS\): .* table id 7, the table map of d.u is of 8: "
    with pytest.raises(SchemaError, match=message):
        RowSet(event, other.table_map(8))
    assert len(RowSet(event, event.table_map)) == 1


def test_a_row_set_of_anything_else_is_a_wrong_call():
    """WL#3283: it should be difficult to use the interface in the wrong way."""
    event, table_map = rows(WriteRowsEvent, FIRST).event, TABLE.table_map(7)
    with pytest.raises(UsageError, match="of a rows event, not of TABLE_MAP"):
        RowSet(table_map, table_map)
    with pytest.raises(UsageError, match="takes a table map or a TableSchema, not WRITE_ROWS"):
        RowSet(event, event)
    with pytest.raises(UsageError, match="not Table"):
        RowSet(event, TABLE)
