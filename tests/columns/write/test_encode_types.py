"""Which Arrow types a column takes, and what is refused: always with the column and the row."""

# ruff: noqa: DTZ001 - Arrow's timestamps without a zone are what is written

import random
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from tailrace.constants import ColumnType as T
from tailrace.errors import UnsupportedType, ValueRejected
from tailrace.values.schema import Logical
from tests.cases import each_case
from tests.columns.write.test_encode import LATIN1, SJIS, UTF8MB3, column, expected, text, written

FITTING = [
    (column(T.LONGLONG), pa.array([1, None, -3], pa.int8()), [1, None, -3]),
    (column(T.LONGLONG), pa.array([1, None], pa.uint64()), [1, None]),
    (column(T.LONGLONG, unsigned=True), pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
    (column(T.TINY), pa.array([True, None]), [1, None]),
    (column(T.TINY), pa.array([5.0, -7.0]), [5, -7]),
    (column(T.SHORT), pa.array(["12", None]), [12, None]),
    (column(T.LONG), pa.array([Decimal("7.00")]), [7]),
    (column(T.LONG), pa.array([7, None, 7]).dictionary_encode(), [7, None, 7]),
    (column(T.LONG), pa.nulls(2), [None, None]),
    (column(T.DOUBLE), pa.array([1, 2], pa.int32()), [1, 2]),
    (column(T.FLOAT), pa.array([0.1, None]), [0.1, None]),
    (column(T.NEWDECIMAL, 10 << 8 | 2), pa.array(["1.5", "-0.25"]), ["1.5", "-0.25"]),
    (column(T.NEWDECIMAL, 10 << 8 | 2), pa.array([3, None]), [3, None]),
    (
        column(T.NEWDECIMAL, 10 << 8 | 2),
        pa.array([Decimal("1.500")], pa.decimal256(50, 3)),
        [Decimal("1.5")],
    ),
    (
        column(T.NEWDECIMAL, 65 << 8 | 30),
        pa.array([Decimal("-1E-30"), Decimal(3)], pa.decimal256(65, 30)),
        [Decimal("-1E-30"), 3],
    ),
    (column(T.NEWDECIMAL, 50 << 8 | 5), pa.array([12, -1]), [12, -1]),
    (column(T.NEWDECIMAL, 50 << 8 | 5), pa.array(["1.5e3", "+0.10"]), ["1500", "0.1"]),
    (column(T.DATE), pa.array([date(2024, 2, 29)], pa.date64()), [date(2024, 2, 29)]),
    (column(T.DATE), pa.array([datetime(2024, 2, 29)]), [date(2024, 2, 29)]),
    (column(T.DATE), pa.array(["0001-01-01", "9999-12-31"]), ["0001-01-01", "9999-12-31"]),
    (
        column(T.DATETIME2, 3),
        pa.array([datetime(2024, 2, 29, 1, 2, 3, 4000)], pa.timestamp("ns")),
        ["2024-02-29 01:02:03.004"],
    ),
    (column(T.DATETIME2, 0), pa.array([date(2024, 2, 29)]), ["2024-02-29 00:00:00"]),
    (
        column(T.TIMESTAMP2, 0),
        pa.array([datetime(2024, 2, 29, 1)], pa.timestamp("s", "Europe/Vienna")),
        ["2024-02-29 01:00:00"],
    ),
    (column(T.TIMESTAMP2, 0), pa.array([datetime(2024, 2, 29)]), ["2024-02-29 00:00:00"]),
    (column(T.TIME2, 0), pa.array([time(1, 2, 3)]), ["01:02:03"]),
    (column(T.TIME2, 2), pa.array([-90_500], pa.duration("ms")), ["-00:01:30.50"]),
    (text(), pa.array(["é", None], pa.large_string()), ["é", None]),
    (text(120), pa.array(["a text that is not inlined", ""], pa.string_view()), None),
    (text(), pa.array(["x", "y", "x", None]).dictionary_encode(), ["x", "y", "x", None]),
    (text(), pa.array([b"abc"]), ["abc"]),
    (text(20, LATIN1), pa.array(["é", "plain"], pa.large_string()), ["é", "plain"]),
    (
        column(T.BLOB, 2, Logical.BINARY),
        pa.array([b"abc", b"xyz"], pa.binary(3)),
        [b"abc", b"xyz"],
    ),
    (column(T.BLOB, 2, Logical.BINARY), pa.array([b"abc", None], pa.binary_view()), [b"abc", None]),
    (
        column(T.VECTOR, 4, Logical.VECTOR),
        pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
        [[1.0, 2.0], None],
    ),
    (column(T.VECTOR, 4, Logical.VECTOR), pa.array([[1.0]], pa.large_list(pa.float32())), [[1.0]]),
    (column(T.JSON, 4, Logical.JSON), pa.array(['{"a": 1}'], pa.large_string()), ['{"a": 1}']),
    (column(T.BIT, 3), pa.array([5], pa.uint8()), [5]),
    (column(T.ENUM, 1, members=("a", "b")), pa.array(["b", "", "b"]).dictionary_encode(), None),
]


@each_case("case", range(len(FITTING)))
def test_arrow_types_that_fit(case):
    col, array, values = FITTING[case]
    values = array.to_pylist() if values is None else values
    assert written(col, array) == expected(col, values)
    doubled = pa.concat_arrays([array, array]) if len(array) else array
    cut_out = doubled.slice(len(array) - 1, 2)
    assert written(col, cut_out) == expected(col, [values[-1], values[0]])
    pieces = pa.chunked_array([array, array.slice(1), array])
    assert written(col, pieces) == expected(col, [*values, *values[1:], *values])


REFUSED = [
    (column(T.TINY), pa.array([1, 128]), "row 1 .*128"),
    (column(T.TINY, unsigned=True), pa.array([1, 2, -1]), "row 2 .*-1"),
    (column(T.TINY, unsigned=True), pa.array([256], pa.int16()), "row 0 .*256"),
    (column(T.INT24), pa.array([0, 1 << 23], pa.int32()), "row 1 "),
    (column(T.INT24, unsigned=True), pa.array([-1], pa.int32()), "row 0 "),
    (column(T.LONG, unsigned=True), pa.array([1 << 32]), "row 0 "),
    (column(T.LONGLONG, unsigned=True), pa.array([Decimal(-1)]), "row 0 "),
    (column(T.LONGLONG), pa.array([1.5]), "row 0 .*1.5"),
    (column(T.LONG), pa.array(["1", "x"]), "row 1 .*'x'"),
    (column(T.LONG), pa.array([datetime(2024, 1, 1)]), "timestamp"),
    (column(T.LONG, nullable=False), pa.array([1, None]), "row 1 "),
    (column(T.DOUBLE), pa.array([1.0, float("nan")]), "row 1 .*nan"),
    (column(T.FLOAT), pa.array([1e300]), "row 0 "),
    (column(T.FLOAT, unsigned=True), pa.array([-1.0], pa.float32()), "row 0 "),
    (column(T.NEWDECIMAL, 4 << 8 | 2), pa.array([Decimal("100.00")]), "row 0 "),
    (column(T.NEWDECIMAL, 4 << 8 | 2), pa.array([Decimal("1.005")]), "row 0 "),
    (column(T.NEWDECIMAL, 4 << 8 | 2), pa.array([1.005]), "row 0 "),
    (column(T.NEWDECIMAL, 4 << 8 | 2), pa.array(["1.00", "1.005"]), "row 1 "),
    (column(T.DOUBLE), pa.array(["1", "inf"]), "row 1 "),
    (column(T.NEWDECIMAL, 4 << 8 | 2, unsigned=True), pa.array([Decimal(-1)]), "row 0 "),
    (column(T.NEWDECIMAL, 50 << 8 | 2), pa.array(["1", "1.2.3"]), "row 1 "),
    (column(T.NEWDECIMAL, 50 << 8 | 2), pa.array(["0.001"]), "row 0 "),
    (column(T.NEWDECIMAL, 50 << 8 | 2), pa.array(["1e48"]), "row 0 "),
    (column(T.DATE), pa.array([datetime(2024, 1, 1, 1)]), "row 0 "),
    (column(T.DATE), pa.array([-800000], pa.date32()), "row 0 "),
    (column(T.DATETIME2, 3), pa.array([datetime(2024, 1, 1, 0, 0, 0, 1)]), "row 0 .*finer"),
    (column(T.DATETIME2, 6), pa.array([1], pa.timestamp("ns")), "row 0 "),
    (column(T.DATETIME2, 0), pa.array([datetime(2024, 1, 1, tzinfo=UTC)]), "zone"),
    (column(T.DATETIME2, 0), pa.array([20240101]), "cast it"),
    (column(T.TIMESTAMP2, 0), pa.array([datetime(1969, 1, 1)]), "row 0 "),
    (column(T.TIMESTAMP2, 0), pa.array([datetime(1970, 1, 1)]), "row 0 "),
    (column(T.TIMESTAMP2, 0), pa.array([datetime(2106, 2, 7, 6, 28, 16)]), "row 0 "),
    (column(T.TIME2, 0), pa.array([timedelta(hours=839)]), "row 0 "),
    (column(T.TIME2, 1), pa.array([timedelta(milliseconds=150)]), "row 0 .*finer"),
    (column(T.YEAR), pa.array([1900]), "row 0 "),
    (column(T.BIT, 3), pa.array([8]), "row 0 "),
    (column(T.BIT, 60), pa.array([Decimal(1 << 60)]), "row 0 "),
    (text(8), pa.array(["ab", "abc"]), "row 1 .*longer"),
    (text(3), pa.array(["", "a"]), "row 1 .*longer"),
    (text(8, type_=T.STRING), pa.array(["ab  ", "abc"]), "row 1 .*longer"),
    (text(8, LATIN1), pa.array(["123456789"]), "row 0 .*characters"),
    (text(8, LATIN1), pa.array(["ok", "日"]), "row 1 .*latin1"),
    (text(8, SJIS), pa.array(["123", "12345"]), "row 1 .*characters"),
    (text(9, UTF8MB3), pa.array(["a", "😀"]), "row 1 .*utf8mb3"),
    (text(), pa.array([b"\xff"]), "row 0 "),
    (text(), pa.array([1]), "cast it"),
    (text(), pa.array([1.5]), "cast it"),
    (text(255, type_=T.BLOB), pa.array(["a"]), "BLOB with metadata 255"),
    (column(T.BLOB, 1, Logical.BINARY), pa.array([b"x" * 256]), "row 0 .*longer"),
    (column(T.STRING, 3, Logical.BINARY), pa.array([b"abcd"]), "row 0 .*longer"),
    (column(T.ENUM, 1, members=("a", "b")), pa.array(["a", "c"]), "row 1 .*'c'"),
    (column(T.SET, 1, members=("a", "b")), pa.array(["a,b", "a,,b"]), "row 1 "),
    (column(T.ENUM, 1), pa.array([256]), "row 0 "),
    (column(T.SET, 2), pa.array([1 << 16]), "row 0 "),
    (column(T.JSON, 4, Logical.JSON), pa.array(["1", "{"]), "row 1 "),
    (column(T.STRING, 16, Logical.UUID), pa.array(["12-34"]), "row 0 "),
    (column(T.STRING, 4, Logical.INET4), pa.array(["1.2.3.4", "1.2.3.256"]), "row 1 "),
    (column(T.STRING, 16, Logical.INET6), pa.array(["::1", "1::2::3"]), "row 1 "),
    (column(T.GEOMETRY, 4, Logical.GEOMETRY), pa.array([b"", b"abc"]), "row 1 .*geometry"),
    (column(T.VECTOR, 4, Logical.VECTOR), pa.array([[1.0], [float("nan")]]), "row 1 "),
    (column(T.VECTOR, 4, Logical.VECTOR), pa.array([[1.0, None]]), "row 0 "),
]


NETWORK = {
    Logical.UUID: ["123e4567-e89b-12d3-a456-426614174000", "0" * 32, "FFFFFFFF" * 4],
    Logical.INET4: ["0.0.0.0", "1.20.255.0", "255.255.255.255"],
    Logical.INET6: ["::", "::1", "1::", "fe80::1:0", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1::8:7"],
}


@each_case("logical", NETWORK)
@pytest.mark.slow
def test_addresses_are_spelled_as_by_objects(logical):
    rng = random.Random(1)
    col = column(T.STRING, 4 if logical is Logical.INET4 else 16, logical)
    taken = 0
    for _ in range(4000):
        spelled = rng.choice(NETWORK[logical])
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(spelled) + 1)
            spelled = spelled[:at] + rng.choice("0123456789aF:.-g") + spelled[at + 1 :]
        try:
            by_hand = expected(col, [spelled])
        except ValueRejected:
            by_hand = None
        if by_hand is None:
            with pytest.raises(ValueRejected, match="row 0"):
                written(col, pa.array([spelled]))
        else:
            taken += 1
            assert written(col, pa.array([spelled])) == by_hand
    assert taken > 500


@each_case("case", range(len(REFUSED)))
def test_what_does_not_fit_is_refused(case):
    col, array, message = REFUSED[case]
    with pytest.raises((ValueRejected, UnsupportedType), match="shop") as error:
        written(col, array)
    assert re.search(message, str(error.value)), error.value
    assert re.search(r"\bc\b", str(error.value))
