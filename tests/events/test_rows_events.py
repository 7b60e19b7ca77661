import pickle
import struct
import zlib

import pytest

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, LogError, MissingTableMap, UnsupportedType
from tailrace.events import (
    DecodeContext,
    DeleteRowsEvent,
    PartialRowDataEvent,
    PartialUpdateRowsEvent,
    PreGaRowsEvent,
    RowsEvent,
    RowsExtra,
    UpdateRowsEvent,
    WriteRowsEvent,
)
from tests.cases import each_case
from tests.events.made import MYSQL_ARRAY, context, raw_event, raw_format, table_map_body

E = EventType
STMT_END = 1
ROWS = b"\0\1\0\0\0\0\2\0\0\0"


def ready(flavour="mysql", columns=b"\3\3"):
    made = context(flavour)
    made.decode(raw_event(E.TABLE_MAP, table_map_body(columns)))
    return made


def rows_body(
    bitmaps=b"\3",
    rows=ROWS,
    *,
    flags=0,
    extra=b"",
    width=b"\2",
    table_id=7,
):
    head = table_id.to_bytes(6, "little") + struct.pack("<H", flags)
    if extra is not None:
        head += struct.pack("<H", 2 + len(extra)) + extra
    return head + width + bitmaps + rows


def decode(made, code, body):
    """The event, all decoded but its rows: what is wrong in it is raised."""
    event = made.decode(raw_event(code, body), file="binlog.000001", offset=4)
    assert isinstance(event, RowsEvent)
    event.fields()
    return event


@each_case(
    ("code", "kind", "cls"),
    [
        (E.WRITE_ROWS, "insert", WriteRowsEvent),
        (E.DELETE_ROWS, "delete", DeleteRowsEvent),
        (E.WRITE_ROWS_V1, "insert", WriteRowsEvent),
        (E.DELETE_ROWS_V1, "delete", DeleteRowsEvent),
    ],
)
def test_inserts_and_deletes(code, kind, cls):
    v1 = code in {E.WRITE_ROWS_V1, E.DELETE_ROWS_V1}
    event = decode(ready(), code, rows_body(extra=None if v1 else b""))
    assert type(event) is cls
    assert (event.kind, event.partial, event.compressed) == (kind, False, False)
    assert (event.table_id, event.width, event.row_data) == (7, 2, ROWS)
    assert (event.present_before, event.present_after) == (
        (None, b"\3") if kind == "insert" else (b"\3", None)
    )
    assert event.table_map.table == "orders"
    assert event.stmt_end is False
    assert pickle.loads(pickle.dumps(event)) == event


@each_case(
    ("code", "partial"),
    [(E.UPDATE_ROWS, False), (E.UPDATE_ROWS_V1, False), (E.PARTIAL_UPDATE_ROWS, True)],
)
def test_updates_have_two_bitmaps(code, partial):
    extra = None if code == E.UPDATE_ROWS_V1 else b""
    event = decode(ready(), code, rows_body(b"\1\2", extra=extra))
    assert isinstance(event, UpdateRowsEvent)
    assert isinstance(event, PartialUpdateRowsEvent) == partial
    assert (event.kind, event.partial) == ("update", partial)
    assert (event.present_before, event.present_after) == (b"\1", b"\2")
    assert event.row_data == ROWS


@each_case(
    ("code", "kind"),
    [
        (E.WRITE_ROWS_COMPRESSED_V1, "insert"),
        (E.UPDATE_ROWS_COMPRESSED_V1, "update"),
        (E.DELETE_ROWS_COMPRESSED_V1, "delete"),
        (E.WRITE_ROWS_COMPRESSED, "insert"),
        (E.UPDATE_ROWS_COMPRESSED, "update"),
        (E.DELETE_ROWS_COMPRESSED, "delete"),
    ],
)
def test_compressed_rows(code, kind):
    block = b"\x81\x0a" + zlib.compress(ROWS)
    extra = b"" if code >= E.WRITE_ROWS_COMPRESSED else None
    bitmaps = b"\3\3" if kind == "update" else b"\3"
    event = decode(ready("mariadb"), code, rows_body(bitmaps, block, extra=extra))
    assert (event.kind, event.compressed, event.row_data) == (kind, True, ROWS)
    damaged = decode(ready("mariadb"), code, rows_body(bitmaps, b"\x81junk", extra=extra))
    with pytest.raises(EventDecodeError, match=r"binlog\.000001 at 4"):
        _ = damaged.row_data
    with pytest.raises(EventDecodeError, match=r"binlog\.000001 at 4"):
        damaged.check()


@each_case(
    ("code", "extra", "parsed"),
    [
        (E.WRITE_ROWS, "", RowsExtra()),
        (E.WRITE_ROWS, "01 0300", RowsExtra(partition_id=3)),
        (E.UPDATE_ROWS, "01 0300 0200", RowsExtra(3, 2)),
        (E.WRITE_ROWS, "00 05 09 616263", RowsExtra(ndb_format=9, ndb_info=b"abc")),
        (E.WRITE_ROWS, "00 03 00 78 01 0100", RowsExtra(1, None, 0, b"x")),
        (E.WRITE_ROWS, "01 0300 77 deadbeef", RowsExtra(3, unknown=b"\x77\xde\xad\xbe\xef")),
    ],
)
def test_extra_headers(code, extra, parsed):
    bitmaps = b"\3\3" if code == E.UPDATE_ROWS else b"\3"
    event = decode(ready(), code, rows_body(bitmaps, extra=bytes.fromhex(extra)))
    assert event.extra == parsed
    assert event.row_data == ROWS


@each_case("extra", ["01", "01 03", "00", "00 01", "00 02", "00 09 01 78"])
def test_extra_headers_that_are_cut(extra):
    with pytest.raises(EventDecodeError):
        decode(ready(), E.WRITE_ROWS, rows_body(extra=bytes.fromhex(extra)))


@each_case("size", [0, 1])
def test_an_extra_header_smaller_than_its_length(size):
    body = bytearray(rows_body())
    body[8] = size
    with pytest.raises(EventDecodeError, match=f"extra header of {size} bytes"):
        decode(ready(), E.WRITE_ROWS, bytes(body))


@each_case("code", [E.WRITE_ROWS, E.UPDATE_ROWS, E.WRITE_ROWS_V1])
def test_every_truncation(code):
    bitmaps = b"\3\3" if code == E.UPDATE_ROWS else b"\3"
    extra = {E.WRITE_ROWS: b"\1\1\0", E.UPDATE_ROWS: b"\1\1\0\1\0"}.get(E(code))
    body = rows_body(bitmaps, extra=extra)
    for size in range(len(body) - len(ROWS)):
        with pytest.raises(LogError):
            decode(ready(), code, body[:size])
    for size in range(len(body) - len(ROWS), len(body)):
        assert decode(ready(), code, body[:size]).row_data == ROWS[: size - len(body) + len(ROWS)]


def test_wide_tables():
    columns = b"\1" * 300
    made = context()
    body = table_map_body(b"\1")
    at = body.index(b"orders\0") + 7
    made.decode(raw_event(E.TABLE_MAP, body[:at] + b"\xfc\x2c\x01" + columns + b"\0" + bytes(38)))
    event = decode(made, E.WRITE_ROWS, rows_body(b"\xff" * 38, width=b"\xfc\x2c\x01"))
    assert event.width == 300
    assert event.present_after == b"\xff" * 38


def test_a_width_that_is_not_the_tables():
    with pytest.raises(
        EventDecodeError, match=r"3 columns, but 2 in the table map of shop\.orders"
    ):
        decode(ready(), E.WRITE_ROWS, rows_body(width=b"\3"))


def test_a_missing_table_map():
    with pytest.raises(MissingTableMap, match=r"at 4 \(WRITE_ROWS\): no table map.*table id 8"):
        decode(ready(), E.WRITE_ROWS, rows_body(table_id=8))


def test_the_statements_end_frees_the_table_maps():
    made = ready()
    decode(made, E.WRITE_ROWS, rows_body())
    assert made.table_maps
    event = decode(made, E.WRITE_ROWS, rows_body(flags=STMT_END))
    assert event.stmt_end
    assert not made.table_maps
    assert event.table_map.database == "shop"
    with pytest.raises(MissingTableMap):
        decode(made, E.WRITE_ROWS, rows_body())


def test_the_dummy_ends_the_statement_and_has_no_table():
    made = ready()
    event = decode(
        made, E.WRITE_ROWS, rows_body(b"\0", b"", flags=STMT_END, width=b"\1", table_id=0xFFFFFF)
    )
    assert event.is_dummy
    assert event.row_data == b""
    assert not made.table_maps
    with pytest.raises(MissingTableMap, match="only ends the statement"):
        _ = event.table_map


def test_layouts_follow_the_format_description():
    array = bytearray(MYSQL_ARRAY)
    made = DecodeContext()
    for size, length in ((6, 4), (8, 6)):
        array[E.WRITE_ROWS_V1 - 1] = size
        made.decode(raw_format(array=bytes(array)))
        made.decode(raw_event(E.TABLE_MAP, table_map_body(b"\3\3")))
        body = rows_body(extra=None)
        event = decode(made, E.WRITE_ROWS_V1, body[:length] + body[6:])
        assert (event.table_id, event.row_data) == (7, ROWS)
    array[E.WRITE_ROWS_V1 - 1] = 9
    made.decode(raw_format(array=bytes(array)))
    with pytest.raises(EventDecodeError, match="9 bytes"):
        decode(made, E.WRITE_ROWS_V1, rows_body(extra=None))


@each_case("code", [20, 21, 22, 172])
def test_rows_that_cannot_be_read_are_not_passed_over(code):
    event = decode(ready(), code, struct.pack("<IIB", 2, 2, 0) + b"chunk")
    assert isinstance(event, (PreGaRowsEvent, PartialRowDataEvent))
    assert not event.stmt_end
    for read in (lambda: event.row_data, lambda: event.table_map):
        with pytest.raises(UnsupportedType, match=r"at 4 \(\w+\): the rows of this event type"):
            read()
    repr(event)
    if isinstance(event, PartialRowDataEvent):
        assert (event.parts, event.part, event.original_size, event.chunk) == (2, 2, None, b"chunk")
