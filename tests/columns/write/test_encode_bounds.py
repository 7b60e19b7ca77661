"""The kernels that write rows read no byte behind their input and write none behind their room.

Both end where a page begins that may be neither read nor written.
"""

import json
import random

import numpy as np
import pyarrow as pa
import pytest

from tailrace.columns import text_output
from tailrace.columns.write import rows as encode
from tailrace.columns.write.json import text_to_jsonb
from tailrace.columns.write.rows import encode_rows
from tailrace.columns.write.text import from_utf8
from tailrace.columns.write.types import Rejected
from tailrace.constants import ColumnType as T
from tailrace.values.schema import Column, Logical, TableSchema
from tests.cases import each_case
from tests.columns.guarded import Guarded, Room
from tests.columns.test_json_text import random_document
from tests.columns.write.test_encode import PREFIX
from tests.columns.write.test_encode_text import column as text_column
from tests.columns.write.test_encode_types import FITTING


@pytest.fixture(scope="module")
def guarded():
    return Guarded(64)


@pytest.fixture(scope="module")
def room():
    return Guarded(64)


def at_the_edge(array, which, guarded):
    """The same array with one of its buffers at the end of what may be read."""
    buffers = array.buffers()
    if which >= len(buffers) or buffers[which] is None or pa.types.is_nested(array.type):
        return array
    size = len(array)
    if which == 0:
        data = buffers[0].to_pybytes()[: (array.offset + size + 7) // 8]
    elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        ends = np.frombuffer(buffers[1], np.int32)[: array.offset + size + 1]
        data = ends.tobytes() if which == 1 else buffers[2].to_pybytes()[: int(ends[-1])]
    else:
        data = buffers[1].to_pybytes()[: (array.offset + size) * (array.type.bit_width // 8)]
    buffers[which] = guarded.buffer(data)
    return pa.Array.from_buffers(array.type, size, buffers, array.null_count, array.offset)


def schema_of(col):
    return TableSchema("shop", "t", (col,))


@each_case("case", range(len(FITTING)))
def test_input_that_ends_at_a_page(guarded, case):
    col, array, _ = FITTING[case]
    told = {"prefix": PREFIX, "most": 80}
    whole = encode_rows(schema_of(col), "insert", None, pa.table({"c": array}), **told)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        return
    for which in range(3):
        if pa.types.is_boolean(array.type) or pa.types.is_large_string(array.type):
            continue
        rows = pa.table({"c": at_the_edge(array, which, guarded)})
        found = encode_rows(schema_of(col), "insert", None, rows, **told)
        assert bytes(found.data) == bytes(whole.data)


def mixed(rng):
    """A table of some columns, strings of all sizes among them."""
    kinds = [FITTING[rng.randrange(len(FITTING))] for _ in range(rng.randrange(1, 9))]
    columns, arrays = [], []
    for at, (col, array, _) in enumerate(kinds):
        told = [getattr(col, each) for each in Column.__slots__[2:]]
        columns.append(Column(at, f"c{at}", *told))
        values = array.to_pylist()
        arrays.append(pa.array([rng.choice(values) for _ in range(12)], array.type))
    at = len(columns)
    columns.append(Column(at, f"c{at}", T.BLOB, 2, True, False, 63, None, Logical.BINARY))
    arrays.append(pa.array([rng.randbytes(rng.choice([0, 7, 31, 32, 33, 400])) for _ in range(12)]))
    return (
        TableSchema("shop", "t", tuple(columns)),
        pa.table(arrays, names=[col.name for col in columns]),
    )


@each_case("seed", range(60))
def test_room_that_ends_at_a_page(room, monkeypatch, seed):
    """Whatever room there is, it is enough or more is asked for; the bytes are the same."""
    rng = random.Random(seed)
    schema, rows = mixed(rng)
    told = {"prefix": PREFIX, "most": rng.choice([1, 100, 1000, 1 << 20])}
    whole = encode_rows(schema, "update", rows, rows, **told)
    step = rng.choice([1, 7, 64, 300])
    made = []

    def small(size, *, resizable=False):
        made.append(Room(room, size))
        return made[-1]

    def grow(writer, more):
        del more
        writer._buffer.resize(writer._buffer.size + rng.randrange(1, step + 1))

    def finish(writer, _rows):
        return writer._buffer.bytes()[: writer._frame[encode.f.USED]]

    with monkeypatch.context() as patch:
        patch.setattr(encode._Writer, "_grow", grow)
        patch.setattr(encode._Writer, "finish", finish)
        allocate = pa.allocate_buffer
        patch.setattr(
            encode.pa,
            "allocate_buffer",
            lambda size, **told: small(size) if not made else allocate(size, **told),
        )
        found = encode_rows(schema, "update", rows, rows, **told)
    assert found == bytes(whole.data)


def guarded_text(value, guarded):
    return guarded.array([value], pa.string())


def test_json_texts(guarded, room, monkeypatch):
    """Whole, cut and broken ones, into room that grows from little."""
    rng = random.Random(7)
    made = []
    monkeypatch.setattr(text_output.pa, "allocate_buffer", allocator(room, rng, made))
    for _ in range(1500):
        text = json.dumps(random_document(rng), ensure_ascii=rng.random() < 0.5)
        data = text.encode()[: rng.randrange(1, 3000)]
        if rng.random() < 0.3:
            at = rng.randrange(len(data))
            data = data[:at] + rng.choice([b'"', b"\\", b"\\u12", b"[", b"1e"]) + data[at:]
        try:
            text_to_jsonb(guarded_text(data, guarded))
        except (Rejected, TypeError):  # no array is made of that room
            continue
    assert made


def allocator(room, rng, made):
    """What gives guarded room for what a kernel writes, and plain memory for the rest."""
    allocate = pa.allocate_buffer

    def give(size, *, resizable=False):
        if not resizable:
            return allocate(size)
        made.append(Room(room, rng.randrange(256, 700)))
        return made[-1]

    return give


@each_case("charset", ["latin1", "gbk", "gb18030", "utf16", "utf32"])
def test_charsets(guarded, room, monkeypatch, charset):
    rng = random.Random(8)
    made = []
    monkeypatch.setattr(text_output.pa, "allocate_buffer", allocator(room, rng, made))
    for _ in range(200):
        text = "".join(rng.choice("aé日ж") for _ in range(rng.randrange(1, 400)))
        try:
            from_utf8(guarded_text(text.encode(), guarded), text_column(charset))
        except (Rejected, TypeError):
            continue
    assert made
