"""Transaction payloads: whole, damaged, in several frames, larger than memory should be."""

import pickle
import struct
import tracemalloc
from contextlib import suppress

import pytest
import zstandard

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, LogError, TruncatedEvent
from tailrace.events import QueryEvent, RowsEvent, TransactionPayloadEvent, XidEvent
from tests.cases import each_case
from tests.events.made import checked, context, query_body, raw_event, raw_format, table_map_body

E = EventType
INNER = [
    raw_event(E.QUERY, query_body(b"BEGIN")),
    raw_event(E.TABLE_MAP, table_map_body(b"\3")),
    raw_event(E.WRITE_ROWS, bytes.fromhex("070000000000 0100 0200 01 01 00 01000000")),
    raw_event(E.XID, struct.pack("<Q", 5)),
]
PLAIN = b"".join(INNER)
ZSTD, NONE = 0, 255


def payload_body(payload, compression=ZSTD, claimed=None):
    kind = b"\xfc\xff\0" if compression == NONE else bytes([compression])
    size = b"\xfd" + len(payload).to_bytes(3, "little")
    fields = b"\2" + bytes([len(kind)]) + kind + b"\1" + bytes([len(size)]) + size
    if claimed is not None:
        fields += b"\3\x09\xfe" + struct.pack("<Q", claimed)
    return fields + b"\0" + payload


def event(payload, compression=ZSTD, claimed=None):
    raw = raw_event(
        E.TRANSACTION_PAYLOAD, payload_body(payload, compression, claimed), checksum=True
    )
    made = context(checksums=True).decode(raw, file="binlog.000001", offset=1 << 33)
    assert isinstance(made, TransactionPayloadEvent)
    return made


def compress(plain):
    return zstandard.compress(plain)


def test_the_events_inside():
    made = event(compress(PLAIN), claimed=len(PLAIN))
    assert (made.compression.name, made.uncompressed_size) == ("ZSTD", len(PLAIN))
    assert list(made.raw_events()) == INNER
    inner = list(made)
    assert [one.name for one in inner] == ["QUERY", "TABLE_MAP", "WRITE_ROWS", "XID"]
    assert inner == list(made.events())
    assert [one.inner_index for one in inner] == [0, 1, 2, 3]
    for one in inner:
        assert (one.file, one.offset, one.end_offset) == (made.file, made.offset, made.end_offset)
        assert one.checksum is None
        assert pickle.loads(pickle.dumps(one)) == one
    begin, _, rows, xid = inner
    assert isinstance(begin, QueryEvent)
    assert isinstance(rows, RowsEvent)
    assert isinstance(xid, XidEvent)
    assert (begin.sql, rows.table_map.table, rows.row_data, xid.xid) == (
        "BEGIN",
        "orders",
        b"\0\1\0\0\0",
        5,
    )
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert list(again) == inner


def test_not_compressed():
    assert list(event(PLAIN, NONE).raw_events()) == INNER


@each_case("cut", [1, 30, len(INNER[0]), len(PLAIN) - 1])
def test_several_frames(cut):
    """A frame may end anywhere, also inside an event; and its size need not be in it."""
    second = zstandard.ZstdCompressor(write_content_size=False).compress(PLAIN[cut:])
    made = event(compress(PLAIN[:cut]) + second)
    assert list(made.raw_events()) == INNER
    empty = event(compress(b"") + compress(PLAIN) + compress(b""))
    assert list(empty.raw_events()) == INNER


def test_a_claimed_size_is_only_informational():
    for claimed in (0, 1 << 60):
        assert len(list(event(compress(PLAIN), claimed=claimed))) == 4


def test_each_truncation_of_the_payload():
    packed = compress(PLAIN)
    for size in range(len(packed)):
        with pytest.raises(LogError, match=r"binlog\.000001 at 8589934592 \(TRANSACTION_PAYLOAD\)"):
            list(event(packed[:size]))
        damaged = bytearray(packed)
        damaged[size] ^= 0x41
        with suppress(LogError):
            list(event(bytes(damaged)))


@each_case("size", range(19, len(PLAIN)))
def test_each_truncation_of_the_content(size):
    edges = {sum(map(len, INNER[:count])) for count in (1, 2, 3)}
    made = event(compress(PLAIN[:size]))
    if size in edges:
        assert len(list(made)) < 4
    else:
        with pytest.raises(TruncatedEvent, match="ends inside an event"):
            list(made)


def test_bytes_behind_the_payload():
    with pytest.raises(EventDecodeError, match="is damaged"):
        list(event(compress(PLAIN) + b"junk"))


def test_an_empty_payload():
    for empty in (b"", compress(b"")):
        with pytest.raises(EventDecodeError, match="holds no event"):
            list(event(empty))


def test_what_may_not_be_inside():
    nested = raw_event(E.TRANSACTION_PAYLOAD, payload_body(compress(PLAIN)))
    for inner in (nested, raw_format()):
        with pytest.raises(EventDecodeError, match=f"holds an event of type {inner[4]}"):
            list(event(compress(inner)))
    with pytest.raises(EventDecodeError, match="an event has 19 to 1073741824 bytes, not 5"):
        list(event(compress(b"\0" * 9 + b"\5" + b"\0" * 30)))
    event(compress(PLAIN)).check()
    with pytest.raises(EventDecodeError, match="XID"):
        event(compress(INNER[0] + raw_event(E.XID, b"\5"))).check()


@each_case(
    ("body", "words"),
    [
        (b"", "a field's type"),
        (b"\0", "compression None is not known"),
        (b"\2\1\7\0", "compression 7 is not known"),
        (b"\2\1\0\1\1\x05\0abc", "a payload of 5 bytes, 3 are there"),
        (b"\2\1\0\1\1\x02\0abc", "a payload of 2 bytes, 3 are there"),
        (b"\2\5\0", "a field needs 5"),
        (b"\2\0\0", "a field's value"),
    ],
)
def test_fields_that_are_refused(body, words):
    with pytest.raises(EventDecodeError, match=words):
        checked(context(), raw_event(E.TRANSACTION_PAYLOAD, body))


def test_unknown_fields_are_stepped_over():
    body = b"\x09\3abc" + payload_body(compress(PLAIN))
    made = context().decode(raw_event(E.TRANSACTION_PAYLOAD, body))
    assert isinstance(made, TransactionPayloadEvent)
    assert len(list(made)) == 4


def test_memory_is_bounded_whatever_the_payload_holds():
    """1 GiB of small events in a few KiB: read through without holding it."""
    small = raw_event(E.ROWS_QUERY, b"\0" + bytes((1 << 20) - 20)) * 64
    packed = zstandard.ZstdCompressor(level=1).compress(small) * 16
    assert len(packed) < 1 << 20
    made = event(packed)
    tracemalloc.start()
    try:
        count = sum(1 for _ in made.raw_events())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 64 * 16
    assert peak < 150 << 20
