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
UTC = dt.UTC


@dataclass
class Kind:
    """A column type: its Arrow type, its values, and what the object path makes of such a value."""

    type: T
    metadata: int
    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    of_object: Any = None
    logical: Logical = Logical.PLAIN
    members: tuple[str, ...] | None = None

    def expected(self, value):
        """The object path's JSON of a value."""
        if value is None:
            return "null"
        return json_writer_of(column(0, "c", self))(
            self.of_object(value) if self.of_object else value
        )


def clock(seconds, micros, digits):
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{micros:06}"[: len(text) + 1 + digits] if digits else text


def span(value, digits):
    micros = value // dt.timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    return sign + clock(*divmod(abs(micros), 1_000_000), digits)


def moment(value, digits):
    midnight = value.replace(hour=0, minute=0, second=0, microsecond=0)
    seconds = (value - midnight) // dt.timedelta(seconds=1)
    return f"{value.date().isoformat()} {clock(seconds, value.microsecond, digits)}"


def integers(bits, signed=True):
    low = -(1 << bits - 1) if signed else 0
    return st.integers(low, low + (1 << bits) - 1) | st.sampled_from(
        [low, 0, low + (1 << bits) - 1]
    )


def decimals(precision, scale):
    whole = 10**precision - 1
    return (st.integers(-whole, whole) | st.integers(-min(whole, 1000), min(whole, 1000))).map(
        lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    )


def kinds_of_time(digits):
    days = st.dates(dt.date(1, 1, 1))
    moments = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))  # noqa: DTZ001 - DATETIME has no zone
    spans = st.timedeltas(dt.timedelta(hours=-838), dt.timedelta(hours=838))

    def cut(value):
        return value.replace(
            microsecond=value.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
        )

    def cut_span(value):
        unit = dt.timedelta(microseconds=10 ** (6 - digits))
        return value // unit * unit

    return [
        Kind(T.DATE, 0, pa.date32(), days, lambda value: value.isoformat()),
        Kind(
            T.DATETIME2, digits, pa.timestamp("us"), moments.map(cut), lambda v: moment(v, digits)
        ),
        Kind(
            T.TIMESTAMP2,
            digits,
            pa.timestamp("us", "UTC"),
            moments.map(cut).map(lambda value: value.replace(tzinfo=UTC)),
            lambda value: moment(value.replace(tzinfo=None), digits),
        ),
        Kind(T.TIME2, digits, pa.duration("us"), spans.map(cut_span), lambda v: span(v, digits)),
    ]


FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
# Where the object path prints more digits than a 32-bit float needs: see test_shortest_float.
TAME32 = FLOAT32.filter(
    lambda v: v == 0 or (abs(v) > 1.2e-38 and math.frexp(v)[0] not in (0.5, -0.5))
)
JSON_TEXT = st.recursive(
    st.sampled_from(["null", "true", " 1 ", "-0.5e+7", '"a\\u00e9\\n"', "\r\n2"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda v: f"[{','.join(v)}]")
        | st.lists(inner, max_size=3).map(lambda v: "{" + ", ".join(f'"k" :{x}' for x in v) + "}\n")
    ),
    max_leaves=8,
)
KINDS = [
    Kind(T.TINY, 0, pa.int8(), integers(8)),
    Kind(T.SHORT, 0, pa.int16(), integers(16)),
    Kind(T.LONG, 0, pa.int32(), integers(32)),
    Kind(T.LONGLONG, 0, pa.int64(), integers(64)),
    Kind(T.LONGLONG, 0, pa.decimal128(20, 0), integers(64, signed=False)),
    Kind(T.BIT, 64, pa.decimal128(20, 0), integers(64, signed=False)),
    Kind(T.YEAR, 0, pa.int16(), st.integers(1901, 2155) | st.just(0)),
    Kind(T.FLOAT, 4, pa.float32(), TAME32),
    Kind(T.DOUBLE, 8, pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    *(
        Kind(
            T.NEWDECIMAL,
            precision << 8 | scale,
            pa.decimal128(precision, scale),
            decimals(precision, scale),
        )
        for precision, scale in (
            *((1, 0), (10, 2), (18, 18), (19, 0), (20, 19)),
            *((38, 0), (38, 30), (30, 30), (38, 38)),
        )
    ),
    *(kind for digits in (0, 1, 3, 6) for kind in kinds_of_time(digits)),
    Kind(T.VARCHAR, 80, pa.string(), st.text(), logical=Logical.TEXT),
    Kind(T.ENUM, 1, pa.string(), st.text(max_size=3), members=("",)),
    Kind(T.ENUM, 1, pa.int32(), st.integers(0, 65535)),
    Kind(T.SET, 8, pa.decimal128(20, 0), integers(64, signed=False)),
    Kind(T.STRING, 16, pa.string(), st.uuids().map(str), logical=Logical.UUID),
    Kind(T.NEWDECIMAL, 65 << 8 | 30, pa.string(), decimals(65, 30).map("{:f}".format), Decimal),
    Kind(T.BLOB, 2, pa.binary(), st.binary(max_size=70), logical=Logical.BINARY),
    Kind(T.JSON, 4, pa.string(), JSON_TEXT.map(str.split).map("".join), JsonText),
    Kind(T.BLOB, 4, pa.string(), JSON_TEXT | st.text(), JsonText, Logical.JSON),
    Kind(T.VECTOR, 4, pa.list_(pa.float32()), st.lists(TAME32, max_size=5), tuple, Logical.VECTOR),
    Kind(T.NULL, 0, pa.null(), st.none()),
]
NAMES = st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable()) | st.just('a"\\b')


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


def batch_of(images, present=None, raw=None):
    rows = len(images)
    nothing = pa.nulls(rows, images.type)
    present = pa.nulls(rows, PRESENT) if present is None else present
    raw = pa.nulls(rows, RAW) if raw is None else raw
    return pa.RecordBatch.from_arrays(
        [present, raw, nothing, images], names=["_present", "_raw", "before", "after"]
    )


def one(kind, *values):
    """The documents of a table of one column, c."""
    array = pa.array(values, kind.arrow)
    images = pa.StructArray.from_arrays([array], ["c"])
    return images_to_json(batch_of(images), schema_of(column(0, "c", kind)), "after").to_pylist()


@given(st.data())
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_like_the_object_path(data):
    """Random tables: NULLs, absent columns, rows without image, slices, some columns only."""
    kinds = data.draw(st.lists(st.sampled_from(KINDS), max_size=6))
    names = data.draw(
        st.lists(NAMES, min_size=len(kinds), max_size=len(kinds), unique_by=str.casefold)
    )
    columns = [column(i, *pair) for i, pair in enumerate(zip(names, kinds, strict=True))]
    rows = data.draw(st.integers(1, 8))
    values = [[data.draw(st.none() | kind.values) for _ in range(rows)] for kind in kinds]
    exists = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    bitmaps = [data.draw(st.none() | st.integers(0, 2 ** len(kinds) - 1)) for _ in range(rows)]
    wanted = [i for i in range(len(kinds)) if data.draw(st.booleans())]

    size = (len(kinds) + 7) // 8
    expected = []
    for row in range(rows):
        parts = []
        for i in wanted:
            bitmap = bitmaps[row]
            if bitmap is not None and not bitmap >> i & 1:
                continue
            value = values[i][row]
            parts.append(f"{text_json(names[i])}:{kinds[i].expected(value)}")
        expected.append("{" + ",".join(parts) + "}" if exists[row] else None)

    children = [pa.array(values[i], kinds[i].arrow) for i in wanted]
    valid = pa.array([not each for each in exists])
    fields = [pa.field(names[i], kinds[i].arrow) for i in wanted]
    if fields:
        images = pa.StructArray.from_arrays(children, fields=fields, mask=valid)
    else:
        images = pa.array([{} if each else None for each in exists], pa.struct([]))
    present = pa.array(
        [
            None if b is None else {"before": None, "after": b.to_bytes(size, "little")}
            for b in bitmaps
        ],
        PRESENT,
    )
    batch = batch_of(images, present)
    start = data.draw(st.integers(0, rows))
    for part, texts in ((batch, expected), (batch.slice(start), expected[start:])):
        got = images_to_json(part, schema_of(*columns), "after")
        got.validate(full=True)
        assert got.to_pylist() == texts
        assert images_to_json(part, schema_of(*columns), "before").null_count == len(texts)


def test_shortest_float():
    """FLOAT: the fewest digits, also where the neighbours are not equally far."""
    kind = Kind(T.FLOAT, 4, pa.float32(), FLOAT32)
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
    kind = Kind(T.DATE, 0, pa.date32(), st.none())
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
        (Kind(T.FLOAT, 4, pa.float32(), st.none()), math.inf),
        (Kind(T.DOUBLE, 8, pa.float64(), st.none()), math.nan),
        (Kind(T.VECTOR, 4, pa.list_(pa.float32()), st.none()), [1.0, math.inf]),
        (Kind(T.LONGLONG, 0, pa.decimal128(38, 0), st.none()), Decimal(2**64)),
        (Kind(T.DATE, 0, pa.date32(), st.none()), 2932897),
        (Kind(T.TIME2, 0, pa.duration("us"), st.none()), 839 * 3600 * 10**6),
    ],
)
def test_refused(kind, value):
    with pytest.raises(EventDecodeError, match=r"^column c: row 1 of a batch: "):
        one(kind, None, value)


def test_unknown_type():
    with pytest.raises(UnsupportedType, match="column c: bool"):
        one(Kind(T.BIT, 1, pa.bool_(), st.none()), True)


def test_long_values_grow():
    """Escapes, base64 and line ends over many times the first guess of room."""
    blob = Kind(T.BLOB, 4, pa.binary(), st.none(), logical=Logical.BINARY)
    long = ["\x02" * 100_000, "é\n" * 50_000, ""]
    assert one(TEXT, *long) == [f'{{"c":{text_json(value)}}}' for value in long]
    many = [bytes(range(256)) * 500, b"", b"a", b"ab"]
    assert one(blob, *many) == [f'{{"c":{blob.expected(value)}}}' for value in many]


TEXT = Kind(T.VARCHAR, 80, pa.string(), st.none(), logical=Logical.TEXT)
DECLARED = Kind(T.BLOB, 4, pa.string(), st.none(), JsonText, Logical.JSON)


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
    kind = Kind(T.JSON, 4, pa.string(), st.none(), logical=Logical.JSON)
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
