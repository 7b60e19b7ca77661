"""What a stream can hold, and what it says of damage."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace import generators
from tailrace.errors import (
    BadMagic,
    ChecksumMismatch,
    EventDecodeError,
    LogError,
    TruncatedEvent,
    UsageError,
)
from tailrace.events.transaction import XaName
from tailrace.generators.materialise import layout, register_record
from tailrace.position import Position
from tailrace.values.json_diff import JsonDiff, JsonDiffs, Operation
from tailrace.values.jsonb import JsonText
from tests.generators.materialise.test_calls import exact

GOLDEN = Path(__file__).parent / "version1.bin"
TABLE = generators.ModifiedTable(
    "shop",
    "orders",
    (
        generators.TableColumn("id", "long", nullable=False),
        generators.TableColumn("note", "varchar", nullable=True, charset="utf8mb4"),
    ),
    ("id",),
)
VALUES = {
    "none": None,
    "flags": [True, False],
    "integers": [0, 1, 127, 128, -1, -128, -129, 1 << 63, -(1 << 64), 10**60],
    "floats": [0.0, -0.0, 1.5, float("inf"), 5e-324],
    "text": ["", "é", "\ud800 lone", "x" * 300],
    "bytes": [b"", b"\0\xff", bytes(range(256)) * 3],
    "decimals": [Decimal("1.50"), Decimal("-0"), Decimal("1E+30"), Decimal("NaN")],
    "json": JsonText('{"a": [1, null]}'),
    "changes": JsonDiffs([JsonDiff(Operation.REMOVE, "$.a", b"")]),
    "dates": [date(1, 2, 3), time(1, 2, 3, 4), datetime(2026, 11, 26, 1, 2, 3, 4, fold=1)],  # noqa: DTZ001
    "zones": [datetime(2026, 1, 1, tzinfo=UTC), time(1, tzinfo=timezone(timedelta(hours=-5)))],
    "duration": timedelta(days=-3, seconds=5, microseconds=7),
    "nested": ((), [[]], {}, {"a": {"b": (1, None)}}, {1: "x", b"k": []}, ("a", "b")),
    "position": Position("binlog.000001", 1 << 40),
    "xa": XaName(1, b"g", b"\0b"),
    "gtid": generators.GlobalTransactionId("0-1", 7),
    "variable": generators.UserVariable("v", Decimal("1.0"), "utf8mb4_bin", unsigned=True),
    "vector": (1.0, 2.5),
    "table": TABLE,
    "after_image": {"id": 1, "note": "é"},
}


class Given(generators.Context):
    def __init__(self, values):
        self.values = values

    @property
    def extra(self):
        return tuple(self.values)

    def read(self, accessor):
        return self.values.get(accessor)


def event(**values):
    return generators.RowWrite(Given(values))


def passed(made):
    return generators.de_materialise(made.materialise())


def test_every_sort_of_value_comes_back_as_it_was():
    """The default format holds all that accessors give, with its class."""
    made = event(**VALUES)
    again = passed(made)
    assert type(again) is generators.RowWrite
    assert {key: exact(value) for key, value in again.values().items()} == {
        key: exact(value) for key, value in made.values().items()
    }


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.decimals()
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.timedeltas(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.integers() | st.binary(), inner)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(ANY)
def test_values_that_nobody_chose_come_back(value):
    again = passed(event(value=value)).values()["value"]
    assert exact(again) == exact(value)


def test_a_float_keeps_its_bits():
    for bits in (0x7FF8000000000001, 0xFFF0000000000000, 0x8000000000000000):
        value = struct.unpack("<d", struct.pack("<Q", bits))[0]
        again = passed(event(value=value)).values()["value"]
        assert struct.unpack("<Q", struct.pack("<d", again))[0] == bits


def test_what_cannot_be_held_is_named():
    with pytest.raises(UsageError, match=r"row_write\.value: a value of class object"):
        event(value=object()).materialise()


class Fact(NamedTuple):
    what: str
    many: int


def test_a_record_of_another_package_is_read_by_its_names():
    """Self-describing: a class that is not known here is shown, and passed on unchanged."""
    data = event(value=Fact("x", 2)).materialise()
    again = generators.de_materialise(data)
    found = again.values()["value"]
    assert isinstance(found, generators.Record)
    assert (found.what, found.many, found.fields) == ("x", 2, ("what", "many"))
    assert passed(again).values()["value"] == found
    register_record(Fact)
    assert generators.de_materialise(data).values()["value"] == Fact("x", 2)
    with pytest.raises(UsageError, match="another class"):
        register_record(generators.UserVariable, "tailrace.TableColumn")


def test_a_reader_of_each_earlier_version():
    """Durable formats are versioned: the stream of version 1, as it was first written."""
    with GOLDEN.open("rb") as file:
        stream = generators.materialise.NativeReader(file)
        first, second = stream.events()
    assert {key: exact(value) for key, value in first.values().items() if value is not None} == {
        key: exact(value) for key, value in VALUES.items() if value is not None
    }
    assert (second.name, second.operation) == ("row_batch", "insert")
    assert second.after_images == [{"id": 1, "note": "a"}, {"id": 2, "note": None}]
    assert second.is_rolled_back


def test_a_later_version_is_an_error_that_says_so():
    data = bytearray(event(value=1).materialise())
    data[12] = 9
    with pytest.raises(BadMagic, match="of version 9, of which this release reads those up to 1"):
        generators.de_materialise(data)


def stream_of(*values):
    out = bytearray()
    with generators.Materialiser(out) as written:
        for value in values:
            written.write(event(value=value, local_transaction_id=3))
            written.flush()
    return bytes(out)


def test_a_stream_that_is_cut_off_is_an_error_with_its_offset():
    data = stream_of("a", "b")
    for size in range(len(data)):
        with pytest.raises(LogError) as failed:
            list(generators.materialise.NativeReader(data[:size]).events())
        assert isinstance(failed.value, TruncatedEvent)
        assert failed.value.offset is not None
        assert failed.value.offset <= size
    assert len(list(generators.materialise.NativeReader(data).events())) == 2


def test_every_bit_that_is_flipped_is_found():
    data = stream_of("a", "b")
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        if place in range(14, 16):  # the depth only says which numbers are free
            continue
        with pytest.raises(LogError) as failed:
            list(generators.materialise.NativeReader(damaged).events())
        assert isinstance(failed.value, (BadMagic, ChecksumMismatch, TruncatedEvent))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_bytes_that_lie_raise_errors_of_logs_only(data):
    """Frames whose checksums fit, and whose contents do not: no other errors, no endless work."""
    stream = bytearray(event(**VALUES).materialise())
    start = layout.STREAM.size + layout.BLOCK_HEAD
    size, count, _ = layout.BLOCK.unpack_from(stream, layout.STREAM.size)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(start, start + size - 1))
        stream[place] = data.draw(st.integers(0, 255))
    head = layout.BLOCK.pack(size, count, zlib.crc32(stream[start : start + size]))
    stream[layout.STREAM.size : start] = head + layout.CHECK.pack(zlib.crc32(head))
    with suppress(LogError):
        for each in generators.materialise.NativeReader(stream).events():
            repr(each)
            each.values()


def test_nesting_has_a_limit():
    value = []
    for _ in range(200):
        value = [value]
    with pytest.raises(EventDecodeError, match="more than 100"):
        passed(event(value=value)).values()
