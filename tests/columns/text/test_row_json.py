from __future__ import annotations

import datetime as dt
import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.columns.text.record_json import _raw_texts
from tailrace.columns.text.row_json import images_to_json
from tailrace.constants import ColumnType as T
from tailrace.errors import EventDecodeError, UnsupportedType
from tailrace.values.family import text_json
from tailrace.values.jsonb import JsonText
from tailrace.values.registry import json_writer_of
from tailrace.values.schema import Column, Logical, TableSchema
from tests.cases import each_case

PRESENT = pa.struct([("before", pa.binary()), ("after", pa.binary())])
RAW = pa.map_(pa.string(), pa.string())


@dataclass
class Kind:
    """A column type: its Arrow type, and what the object path makes of such a value."""

    type: T
    metadata: int
    arrow: pa.DataType
    of_object: Any = None
    logical: Logical = Logical.PLAIN
    members: tuple[str, ...] | None = None

    def expected(self, value):
        """The object path's JSON of a value."""
        return json_writer_of(column(0, "c", self))(
            self.of_object(value) if self.of_object else value
        )


JSON_TEXT = st.recursive(
    st.sampled_from(["null", "true", " 1 ", "-0.5e+7", '"a\\u00e9\\n"', "\r\n2"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda v: f"[{','.join(v)}]")
        | st.lists(inner, max_size=3).map(lambda v: "{" + ", ".join(f'"k" :{x}' for x in v) + "}\n")
    ),
    max_leaves=8,
)
TEXT = Kind(T.VARCHAR, 80, pa.string(), logical=Logical.TEXT)
BLOB = Kind(T.BLOB, 2, pa.binary(), logical=Logical.BINARY)
DECLARED = Kind(T.BLOB, 4, pa.string(), JsonText, Logical.JSON)
KINDS = [
    Kind(T.TINY, 0, pa.int8()),
    Kind(T.SHORT, 0, pa.int16()),
    Kind(T.LONG, 0, pa.int32()),
    Kind(T.LONGLONG, 0, pa.int64()),
    Kind(T.LONGLONG, 0, pa.decimal128(20, 0)),
    Kind(T.BIT, 64, pa.decimal128(20, 0)),
    Kind(T.YEAR, 0, pa.int16()),
    Kind(T.FLOAT, 4, pa.float32()),
    Kind(T.DOUBLE, 8, pa.float64()),
    *(
        Kind(T.NEWDECIMAL, precision << 8 | scale, pa.decimal128(precision, scale))
        for precision, scale in (
            *((1, 0), (10, 2), (18, 18), (19, 0), (20, 19)),
            *((38, 0), (38, 30), (30, 30), (38, 38)),
        )
    ),
    Kind(T.DATE, 0, pa.date32()),
    *(
        Kind(code, digits, arrow)
        for digits in (0, 1, 3, 6)
        for code, arrow in (
            (T.DATETIME2, pa.timestamp("us")),
            (T.TIMESTAMP2, pa.timestamp("us", "UTC")),
            (T.TIME2, pa.duration("us")),
        )
    ),
    TEXT,
    BLOB,
    DECLARED,
    Kind(T.ENUM, 1, pa.string(), members=("",)),
    Kind(T.ENUM, 1, pa.int32()),
    Kind(T.SET, 8, pa.decimal128(20, 0)),
    Kind(T.STRING, 16, pa.string(), logical=Logical.UUID),
    Kind(T.NEWDECIMAL, 65 << 8 | 30, pa.string()),
    Kind(T.JSON, 4, pa.string()),
    Kind(T.VECTOR, 4, pa.list_(pa.float32()), logical=Logical.VECTOR),
    Kind(T.NULL, 0, pa.null()),
]


def column(index, name, kind):
    return Column(
        index=index,
        name=name,
        type=kind.type,
        metadata=kind.metadata,
        nullable=True,
        unsigned=False,
        collation=None,
        members=kind.members,
        logical=kind.logical,
    )


def schema_of(*columns):
    return TableSchema("db", "t", columns)


def batch_of(images):
    rows = len(images)
    beside = pa.nulls(rows, PRESENT), pa.nulls(rows, RAW), pa.nulls(rows, images.type)
    return pa.RecordBatch.from_arrays(
        [*beside, images], names=["_present", "_raw", "before", "after"]
    )


def one(kind, *values):
    """The documents of a table of one column, c."""
    array = pa.array(values, kind.arrow)
    images = pa.StructArray.from_arrays([array], ["c"])
    return images_to_json(batch_of(images), schema_of(column(0, "c", kind)), "after").to_pylist()


def test_a_name_is_escaped():
    kind, name = Kind(T.LONG, 0, pa.int32()), 'a"\\b\nü'
    images = pa.StructArray.from_arrays([pa.array([1], pa.int32())], [name])
    (text,) = images_to_json(
        batch_of(images), schema_of(column(0, name, kind)), "after"
    ).to_pylist()
    assert text == f"{{{text_json(name)}:1}}"


def test_no_columns():
    images = pa.array([{}, None], pa.struct([]))
    assert images_to_json(batch_of(images), schema_of(), "after").to_pylist() == ["{}", None]


def test_shortest_float():
    """FLOAT: the fewest digits, also where the neighbours are not equally far."""
    kind = Kind(T.FLOAT, 4, pa.float32())
    pairs = {
        1.401298464324817e-45: "1e-45",
        1.1754943508222875e-38: "1.1754944e-38",
        3.4028234663852886e38: "3.4028235e+38",
        16777216.0: "16777216.0",
        0.10000000149011612: "0.1",
        1e-5: "1e-05",
        -0.0: "-0.0",
        2.0**-96: "1.2621775e-29",
    }
    for value, text in pairs.items():
        packed = struct.unpack("<f", struct.pack("<f", value))[0]
        assert one(kind, packed) == [f'{{"c":{text}}}']
        assert struct.pack("<f", float(text)) == struct.pack("<f", value)


def test_dates_from_year_zero():
    """Every day of 400 years, in which the calendar comes round; of the others, days of each."""
    kind = Kind(T.DATE, 0, pa.date32())
    first, end = -719162, 2932897
    days = [*range(first, first + 146_097), *range(first + 146_097, end - 366, 53)]
    days += range(end - 366, end)
    expected = [dt.date.fromordinal(day + 719163).isoformat() for day in days]
    assert one(kind, *days) == [f'{{"c":"{text}"}}' for text in expected]
    assert one(kind, -719528, -719498, -719497, -719469, -719468) == [
        f'{{"c":"0000-{text}"}}' for text in ("01-01", "01-31", "02-01", "02-29", "03-01")
    ]


@each_case(
    ("kind", "value"),
    [
        (Kind(T.FLOAT, 4, pa.float32()), math.inf),
        (Kind(T.DOUBLE, 8, pa.float64()), math.nan),
        (Kind(T.VECTOR, 4, pa.list_(pa.float32())), [1.0, math.inf]),
        (Kind(T.LONGLONG, 0, pa.decimal128(38, 0)), Decimal(2**64)),
        (Kind(T.DATE, 0, pa.date32()), 2932897),
        (Kind(T.TIME2, 0, pa.duration("us")), 839 * 3600 * 10**6),
    ],
)
def test_refused(kind, value):
    with pytest.raises(EventDecodeError, match=r"^column c: row 1 of a batch: "):
        one(kind, None, value)


def test_unknown_type():
    with pytest.raises(UnsupportedType, match="column c: bool"):
        one(Kind(T.BIT, 1, pa.bool_()), True)


def test_long_values_grow():
    """Escapes, base64 and line ends over many times the first guess of room."""
    long = ["\x02" * 100_000, "é\n" * 50_000, ""]
    assert one(TEXT, *long) == [f'{{"c":{text_json(value)}}}' for value in long]
    many = [bytes(range(256)) * 500, b"", b"a", b"ab"]
    assert one(BLOB, *many) == [f'{{"c":{BLOB.expected(value)}}}' for value in many]


@each_case(
    "text",
    [
        "", " ", "nul", "nullx", "tru", "True", "01", "-", "-01", "1.", ".5", "1e", "1e+", "+1", "1 2",
        "[1,]", "[,1]", "[1", "]", "{", "{}", "[]", "{1:2}", '{"a"}', '{"a":}', '{"a":1,}', '{"a":1]',
        '"', '"a', '"\\', '"\\x"', '"\\u12g4"', '"\\u123', '"\t"', '"\\/"', "NaN", "Infinity", "-Infinity",
        "1.5E-3", "0", "-0", '"\ud7ff"', "\ufeff1", " [ ] ", '{"a" : [ {} , null ] }', "1" * 4300, "1" * 4301,
        "1" * 5000 + ".5", "[" * 100 + "]" * 100, '{"a":' * 100 + "1" + "}" * 100, '"é"', "é", "[1]\n\n",
    ],
)  # fmt: skip
def test_declared_json(text):
    """MariaDB's JSON is text: it stands as it is where Python's parser takes it."""
    assert one(DECLARED, text) == [f'{{"c":{DECLARED.expected(text)}}}']


@given(JSON_TEXT, st.data())
@settings(max_examples=150, deadline=None)
def test_declared_json_damaged(text, data):
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(st.sampled_from('{}[]",:\\ \n01-.eEtrue\x01')) + text[at + 1 :]
    assert one(DECLARED, text) == [f'{{"c":{DECLARED.expected(text)}}}']


def test_kernels_may_read_past_the_last_text():
    """They copy 32 bytes at a time: what is made for them alone has room for the last step."""
    images = pa.StructArray.from_arrays([pa.array(["null", "1", None, "null"])], ["c"])
    kind = Kind(T.JSON, 4, pa.string(), logical=Logical.JSON)
    texts = _raw_texts(batch_of(images), schema_of(column(0, "c", kind)))
    assert texts is not None
    assert texts.to_pylist()[:4] == [
        '"_raw":{"after.c":"null"},',
        "",
        "",
        '"_raw":{"after.c":"null"},',
    ]
    _, offsets, data = texts.buffers()
    end = struct.unpack_from("<5i", offsets)[4]
    assert data.size - end >= 31
