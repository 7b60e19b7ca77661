"""The text kernels read no byte behind their input: it ends where a page begins that may not be read."""

import random
import struct
from decimal import Decimal

import pyarrow as pa
import pytest

from tailrace.columns.charsets import to_utf8
from tailrace.columns.json_text import jsonb_to_text
from tailrace.columns.text.row_json import images_to_json
from tailrace.constants import ColumnType as T
from tailrace.errors import EventDecodeError
from tests.cases import each_case
from tests.columns.guarded import PAGE, Guarded, Room
from tests.columns.jsonb_made import jsonb, opaque
from tests.columns.test_json_text import random_document
from tests.columns.text.test_row_json import (
    DECLARED,
    KINDS,
    TEXT,
    batch_of,
    column,
    schema_of,
)


@pytest.fixture(scope="module")
def guarded():
    return Guarded()


def test_jsonb(guarded):
    rng = random.Random(7)
    for _ in range(3000):
        value = jsonb(random_document(rng))[:PAGE]
        if rng.random() < 0.3:
            value = opaque(rng.choice([7, 10, 11, 12, 15, 246]), rng.randbytes(rng.randrange(20)))
        value = value[: rng.randrange(1, len(value) + 1)]
        if rng.random() < 0.7:
            at = rng.randrange(len(value))
            value = value[:at] + rng.randbytes(1) + value[at + 1 :]
        try:
            jsonb_to_text(guarded.array([value], pa.binary()))
        except EventDecodeError:
            continue


@each_case("charset", ["latin1", "gbk", "gb18030", "ujis", "sjis", "utf16", "utf32"])
@pytest.mark.slow
def test_charsets(guarded, charset):
    rng = random.Random(8)
    for _ in range(1500):
        value = rng.choice([b"plain ", b"", b"a" * 30]) + rng.randbytes(rng.randrange(6))
        try:
            to_utf8(guarded.array([b"x", value], pa.binary()), charset)
        except EventDecodeError:
            continue


def test_documents(guarded):
    rng = random.Random(9)
    texts = ["", "a", "é" * 9, '{"a": [1, "\\u00e9", null]}', "-", "[1e", '"\\', "tru", " " * 17]
    for _ in range(1500):
        values = [rng.choice(texts).encode() for _ in range(rng.randrange(1, 4))]
        for kind in (TEXT, DECLARED):
            images = pa.StructArray.from_arrays([guarded.array(values, pa.string())], ["c"])
            images_to_json(batch_of(images), schema_of(column(0, "c", kind)), "after")


def test_vectors(guarded):
    floats = struct.pack("<5f", 1, 2.5, -3, 1e20, 1e-20)
    for count in range(6):
        raw = guarded.array([floats[: 4 * count]], pa.binary()).buffers()[2]
        values = pa.Array.from_buffers(pa.float32(), count, [None, raw])
        lists = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values)
        images = pa.StructArray.from_arrays([lists], ["c"])
        kind = next(each for each in KINDS if each.arrow == pa.list_(pa.float32()))
        images_to_json(batch_of(images), schema_of(column(0, "c", kind)), "after")


class Finished(Exception):
    pass


class Page(Room):
    """Room that is one page at most; what is written is not looked at."""

    def resize(self, size, *, shrink_to_fit=None):
        if shrink_to_fit is not None or size > PAGE:
            raise Finished
        super().resize(size)


def test_writes(guarded, monkeypatch):
    """No write goes behind the room either, whatever its size."""
    rng = random.Random(10)
    allocate = pa.allocate_buffer

    def small(size, *, resizable=False):
        return Page(guarded, rng.randrange(256, 700)) if resizable else allocate(size)

    documents = [random_document(rng) for _ in range(600)]
    documents += [["\x01" * rng.randrange(700)] for _ in range(300)]
    monkeypatch.setattr(pa, "allocate_buffer", small)
    for document in documents:
        with pytest.raises(Finished):
            jsonb_to_text(pa.array([jsonb(document)], pa.binary()))
        with pytest.raises(Finished):
            to_utf8(pa.array([str(document).encode("utf-16-be")], pa.binary()), "utf16")
        with pytest.raises(Finished):
            to_utf8(pa.array([str(document).encode("gbk", "ignore") + b"\xb0\xa1"]), "gbk")
        columns = [rng.choice(KINDS) for _ in range(8)]
        arrays = [pa.array([rng.choice(samples(kind)), None], kind.arrow) for kind in columns]
        names = [f"a column with quite a long name, number {i}" for i in range(8)]
        images = pa.StructArray.from_arrays(arrays, names)
        schema = schema_of(
            *(column(i, *pair) for i, pair in enumerate(zip(names, columns, strict=True)))
        )
        with pytest.raises(Finished):
            images_to_json(batch_of(images), schema, "after")


def samples(kind):
    """Some values of a column type, long ones among them."""
    if pa.types.is_string(kind.arrow):
        return ["", '"' * 90, "\x01" * 50, "é" * 200, "[ 1, 2 ]"]
    if pa.types.is_binary(kind.arrow):
        return [b"", b"abc" * 100]
    if pa.types.is_list(kind.arrow):
        return [[], [1e-30] * 90]
    if pa.types.is_decimal(kind.arrow):
        if kind.type is not T.NEWDECIMAL:
            return [2**64 - 1]
        return [Decimal((1, (9,) * kind.arrow.precision, -kind.arrow.scale))]
    return [None if pa.types.is_null(kind.arrow) else 1]
