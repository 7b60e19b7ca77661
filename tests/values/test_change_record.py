"""The change record as JSON."""

import json
from base64 import b64encode

import pytest

import tailrace
from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.storage import find
from tailrace.values.change_record import Origin, change_record, image_json, sequence
from tailrace.values.charsets import PIECE
from tailrace.values.image import Image, decoder_of
from tailrace.values.resolve import resolve_table
from tailrace.values.row import RowSet
from tailrace.values.schema import ColumnDefinition, Logical, TableDefinition
from tests.cases import each_case
from tests.values.made import TableMap, rows_event, spec
from tests.values.test_rows import AFTER, JSON_SCHEMA, partial

T = ColumnType
ORIGIN = Origin("binlog.000003", 3, 1234, 1700000000123456, "uuid:7", 42)


def written(column, value, definition=None):
    known = definition and TableDefinition("shop", "orders", (definition,))
    schema = resolve_table(TableMap((column,)), Flavour.MARIADB, known)
    text = image_json(Image(decoder_of(schema), [value]))
    json.loads(text)
    assert "\n" not in text
    name = schema.columns[0].name
    return text.removeprefix(f'{{"{name}":').removesuffix("}")


def test_whole_record():
    columns = (spec(T.LONG, name="id"), spec(T.VARCHAR, 20, name='n"', collation=45))
    schema = resolve_table(TableMap(columns), Flavour.MYSQL)
    (row,) = RowSet(rows_event("update", b"\x01", b"\x03", b"\0\x01\0\0\0\x02\x02\0\0\0"), schema)
    assert "".join(change_record(row, schema, ORIGIN)) == (
        '{"_op":"update","_db":"shop","_table":"orders","_ts":1700000000123456,"_gtid":"uuid:7",'
        '"_file":"binlog.000003","_pos":1234,"_seq":"14855280471771903420050440192","_server_id":42,'
        '"before":{"id":1},"after":{"id":2,"n\\"":null}}'
    )
    assert sequence(3, 1234, 0) == 3 << 92 | 1234 << 48
    bare = Origin("b", 1, 4, None, None, 0)
    record = json.loads("".join(change_record(row, schema, bare, 5)))
    assert (record["_ts"], record["_gtid"]) == (None, None)
    assert record["_seq"] == str(1 << 92 | 4 << 48 | 5)


@each_case(
    ("column", "value", "text"),
    [
        (spec(T.LONGLONG), -(2**63), "-9223372036854775808"),
        (spec(T.YEAR), 0, "0"),
        (spec(T.BIT, 64), 2**64 - 1, "18446744073709551615"),
        (spec(T.FLOAT, 4), 0.10000000149011612, "0.1"),
        (spec(T.DOUBLE, 8), 0.1, "0.1"),
        (spec(T.DOUBLE, 8), 1e300, "1e+300"),
        (spec(T.DATE), "0000-00-00", '"0000-00-00"'),
        (spec(T.VARCHAR, 20, collation=45), 'é"\n', '"é\\"\\n"'),
        (spec(T.BLOB, 2, collation=63), b"\x00\xff", '"AP8="'),
        (spec(T.ENUM, 1), 2, "2"),
        (spec(T.ENUM, 1, members=(b"a",)), "a", '"a"'),
        (spec(T.VECTOR, 4), (1.0, 0.10000000149011612), "[1.0,0.1]"),
        (spec(T.JSON, 4), '{"a": 1}', '{"a": 1}'),
        (spec(T.NULL), None, "null"),
    ],
)
def test_values(column, value, text):
    assert written(column, value) == text


def test_small_decimals_have_no_exponent():
    schema = resolve_table(TableMap((spec(T.NEWDECIMAL, 30 << 8 | 30),)), Flavour.MYSQL)
    (row,) = RowSet(rows_event("insert", None, b"\x01", b"\0\x80" + bytes(12) + b"\x01"), schema)
    assert image_json(row.after) == f'{{"c1":"0.{"0" * 29}1"}}'


@each_case(
    ("value", "text"),
    [
        ('[1,\r\n "a"]', '[1,   "a"]'),
        ("NaN", '"NaN"'),
        ("[1", '"[1"'),
        ("[" * 100_000, None),
    ],
)
def test_declared_json(value, text):
    """MariaDB's JSON is text: it stands as it is if it is JSON, else as a string."""
    definition = ColumnDefinition("j", "json", logical=Logical.JSON, collation=46)
    expected = json.dumps(value) if text is None else text
    assert written(spec(T.BLOB, 4), value, definition) == expected


@each_case("value", [float("nan"), float("inf")])
@each_case("kind", [T.FLOAT, T.DOUBLE])
def test_what_json_has_not(kind, value):
    with pytest.raises(EventDecodeError, match="JSON"):
        written(spec(kind, 4), value)


def test_partial_json_without_its_document():
    (row,) = RowSet(partial(b"\0\x01\0\0\0", b"\x01\x01" + AFTER, b"\x01"), JSON_SCHEMA)
    record = json.loads("".join(change_record(row, JSON_SCHEMA, ORIGIN)))
    assert "a" not in record["after"]
    assert list(record["_diff"]) == ["after.a"]


@each_case(
    ("kind", "value"),
    [
        ("longblob", bytes(range(256)) * (17 << 12)),
        ("longtext character set utf8mb4", 'a"\n\u00e9\u20ac\U0001f600' * 600_000),
        ("longtext character set latin1", "a\\\u00e9" * 2_000_000),
        ("longtext character set sjis", "a\u6771" * 2_000_000),
        ("json", json.dumps(["a" * (5 << 20), None])),
    ],
)
def test_large_values_in_pieces(tmp_path, kind, value):
    """The pieces together are the same JSON as of a value that is whole."""
    path = tmp_path / "log.000001"
    table = tailrace.Table.parse(f"create table d.t (id int, body {kind}, n int)", flavour="mysql")
    with tailrace.create(path, flavour="mysql", server_id=1) as log, log.transaction() as change:
        change.insert(table, [(1, value, None), (2, None, 3)])
    read = Changes(Reader(find(path)[0]))
    changes = iter(read)
    (large,) = next(changes).json_records()
    assert not isinstance(large, str)
    pieces = list(large)
    assert max(map(len, pieces)) <= 2 * PIECE
    expected = {"longblob": lambda: b64encode(value).decode(), "json": lambda: json.loads(value)}
    body = expected.get(kind, lambda: value)()
    assert json.loads("".join(pieces))["after"] == {"id": 1, "body": body, "n": None}
    (small,) = next(changes).json_records()
    assert json.loads("".join(small))["after"] == {"id": 2, "body": None, "n": 3}
    assert not read.escapes.count


def test_a_large_text_that_is_none(tmp_path):
    """The error says where, and comes before anything was written."""
    path = tmp_path / "log.000001"
    create = "create table d.t (id int, body longtext character set utf8mb4)"
    log = tailrace.create(path, flavour="mysql", server_id=1, checksum="none")
    with log, log.transaction() as change:
        change.insert(tailrace.Table.parse(create, flavour="mysql"), [(1, "a" * (5 << 20))])
    data = bytearray(path.read_bytes())
    data[-1 << 20] = 0xFF
    path.write_bytes(data)
    (change,) = Changes(Reader(find(path)[0]))
    with pytest.raises(EventDecodeError, match=r"log\.000001.*d\.t\.body: .* 0xff616161 at \d{7}"):
        next(change.json_records())
