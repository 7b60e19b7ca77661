"""JSONB to text: as MySQL prints it, and no harm from what is none."""

import random
import struct

import pytest

from tailrace.errors import EventDecodeError
from tailrace.values.jsonb import JsonText, double_text, load_json
from tests.cases import each_case
from tests.values.replay import changes

SMALL = b"\x02\x02\x00\x0d\x00\x05\x01\x00\x0c\x0a\x00\x02ab"  # [1, "ab"]


def test_small_array():
    assert load_json(SMALL) == '[1, "ab"]'
    assert isinstance(load_json(SMALL), JsonText)


def test_no_bytes_are_null():
    assert load_json(b"") == "null"


@each_case(
    ("data", "message"),
    [
        (b"\x0d", "type 13"),
        (b"\x04\x03", "literal 3"),
        (b"\x04", "beyond"),
        (b"\x0b" + struct.pack("<d", float("nan")), "nan is no number"),
        (b"\x0b" + struct.pack("<d", float("-inf")), "-inf is no number"),
        (b"\x0c\xff\xff\xff\xff\xff\x01", "more than 32 bits"),
        (b"\x0c\x02\xc3\x28", "not utf8mb4"),
        (b"\x0f\xf6\x01\x05", "without precision"),
        (b"\x0f\xf6\x03\x52\x00\x80", "no number has 82 digits"),
        (b"\x0f\x0c\x01\x05", "instead of 8"),
        (b"\x0f\x0c\x08" + b"\xff" * 8, "before year 0"),
        (b"\x02\xff\xff\x04\x00", "65535 values"),
        (b"\x02\x01\x00\x07\x00\x0c\x01\x00", "outside of its container"),
        (b"\x00\x01\x00\x0c\x00\x01\x00\x01\x00\x04\x00\x00k", "before its container's values"),
    ],
)
def test_malformed(data, message):
    with pytest.raises(EventDecodeError, match=message):
        load_json(data)


def test_shared_values_do_not_blow_up():
    """Sixty arrays whose elements both are the next one: 2**60 values, if they were followed."""
    data = b"\x02"
    for _ in range(60):
        data += struct.pack("<HHBHBH", 2, 10 + 5 * 200, 2, 10, 2, 10)
    data += struct.pack("<HH", 0, 4) + bytes(2000)
    with pytest.raises(EventDecodeError):
        load_json(data)


def test_doubles_are_what_mysql_prints(mysql97):
    chance = random.Random(5)
    values = [chance.uniform(-1, 1) * 10 ** chance.uniform(-20, 20) for _ in range(500)]
    values += [
        float(f"{chance.randint(1, 9)}.{chance.randrange(10**digits):0{digits}}e{exponent}")
        for exponent in (*range(-18, -12), *range(12, 19))
        for digits in range(1, 17)
    ]
    values += [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(500)]
    values = [value for value in values if abs(value) < float("inf")]
    calls = ", ".join(
        f"JSON_ARRAY({value!r}{'' if 'e' in repr(value) else 'e0'})" for value in values
    )
    (printed,) = mysql97.query(f"SELECT {calls}")
    assert [f"[{double_text(value)}]" for value in values] == list(printed)


UPDATES = [
    "c = JSON_SET(c, '$.a[0]', 9)",
    "c = JSON_SET(c, '$.a[2].b', 'd'), e = JSON_SET(e, '$[0]', 7)",
    "c = JSON_SET(c, '$.\"x y\".z[1]', CAST(1.50 AS DECIMAL(5,2))), f = f + 1",
    "c = JSON_REMOVE(c, '$.k')",
    "c = JSON_SET(c, '$.é.q', 'w\\\\n\"')",
    'c = JSON_SET(c, \'$."q\\\\"uote"\', 1)',
    "c = JSON_REPLACE(c, '$.\"q\\\\\"uote\"', DATE'2024-01-02')",
    "c = JSON_SET(c, '$.new', 'v')",
    "c = JSON_REMOVE(JSON_SET(c, '$.a[1]', JSON_OBJECT('deep', JSON_ARRAY(1, 2))), '$.a[0]')",
    "c = JSON_SET(c, '$.\"x y\".z[last]', 3)",
    "e = JSON_SET(e, '$[5]', 1)",
    "f = f + 1",
]


@each_case("image", ["FULL", "MINIMAL"])
def test_partial_updates_are_what_select_gives(mysql97, image):
    server = mysql97
    server.execute("DROP DATABASE IF EXISTS partials")
    server.execute("CREATE DATABASE partials")
    server.rotate()
    server.execute("CREATE TABLE partials.t (id INT PRIMARY KEY, c JSON, e JSON, f INT)")
    selected = []
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET binlog_row_value_options = PARTIAL_JSON")
        cursor.execute(f"SET binlog_row_image = {image}")
        cursor.execute(
            'INSERT INTO partials.t VALUES (1, \'{"a": [1, 2, {"b": "cc"}], "k": "aaaaaaaaa",'
            ' "x y": {"z": [1, 2.50, 1e300]}, "é": {"q": "1\\\\n"}}\', \'[1, 2, true]\', 5)'
        )
        for update in UPDATES:
            cursor.execute(f"UPDATE partials.t SET {update}")
            cursor.execute("SELECT c, e FROM partials.t")
            selected += cursor.fetchall()
    rows = [row for _, row in changes(server.rotate())]
    c, e = rows[0].after.at(1), rows[0].after.at(2)
    for row, expected in zip(rows[1:], selected, strict=True):
        after = row.after.as_dict()
        if "c" in row.after:
            c = after["c"] if isinstance(after["c"], str) else after["c"].apply(c)
        if "e" in row.after:
            e = after["e"] if isinstance(after["e"], str) else after["e"].apply(e)
        assert (c, e) == expected
        assert image == "MINIMAL" or isinstance(after["c"], JsonText)
