"""JSONB to text: as MySQL prints it, and no harm from what is none."""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING

import pytest

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError
from tailrace.values.jsonb import JsonText, double_text, load_json
from tests.cases import each_case
from tests.values.replay import CORPUS, Case, changes

if TYPE_CHECKING:
    from tools.servers import Server


def documents() -> list[bytes]:
    """The JSONB of the corpus."""
    case = Case(CORPUS / "mysql-9.7.json-full", {"server": "9.7"})
    found = [
        row.after.raw(column.index) or b""
        for schema, row in changes(case)
        for column in schema.columns
        if column.type is ColumnType.JSON
    ]
    assert len(found) > 10
    return found


SMALL = b"\x02\x02\x00\x0d\x00\x05\x01\x00\x0c\x0a\x00\x02ab"  # [1, "ab"]


def test_small_array() -> None:
    assert load_json(SMALL) == '[1, "ab"]'
    assert isinstance(load_json(SMALL), JsonText)


def test_no_bytes_are_null() -> None:
    assert load_json(b"") == "null"


@each_case("size", range(1, len(SMALL)))
def test_truncated(size: int) -> None:
    with pytest.raises(EventDecodeError):
        load_json(SMALL[:size])


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
def test_malformed(data: bytes, message: str) -> None:
    with pytest.raises(EventDecodeError, match=message):
        load_json(data)


def nested(depth: int) -> bytes:
    value = b"\x02\x00\x00\x04\x00"
    for _ in range(depth - 1):
        size = 4 + 3 + len(value) - 1
        value = b"\x02\x01\x00" + struct.pack("<H", size) + b"\x02\x07\x00" + value[1:]
    return value


def test_depth_is_limited_as_in_mysql() -> None:
    assert load_json(nested(100)) == "[" * 100 + "]" * 100
    with pytest.raises(EventDecodeError, match="deeper than 100"):
        load_json(nested(101))


def test_shared_values_do_not_blow_up() -> None:
    """Sixty arrays whose elements both are the next one: 2**60 values, if they were followed."""
    data = b"\x02"
    for _ in range(60):
        data += struct.pack("<HHBHBH", 2, 10 + 5 * 200, 2, 10, 2, 10)
    data += struct.pack("<HH", 0, 4) + bytes(2000)
    with pytest.raises(EventDecodeError):
        load_json(data)


def test_every_truncation_and_flip_is_a_document_or_an_error_of_ours() -> None:
    chance = random.Random(7)
    for document in documents():
        places = range(len(document))
        if len(document) > 200:
            places = chance.sample(places, 200)
        for place in places:
            for damaged in (
                document[:place],
                document[:place]
                + bytes([document[place] ^ chance.randrange(1, 256)])
                + document[place + 1 :],
            ):
                try:
                    text = load_json(damaged)
                except EventDecodeError:
                    continue
                assert isinstance(json.loads(text), object)


def random_value(chance: random.Random, depth: int = 0) -> object:
    kind = chance.randrange(8 if depth < 5 else 6)
    if kind == 0:
        return chance.choice([0, 1, -5, 70000, -70000, 2**33, 2**63, -(2**63), 32768, 65536])
    if kind == 1:
        return chance.choice([chance.random(), chance.random() * 10 ** chance.randint(-300, 300)])
    if kind == 2:
        return "".join(chance.choice('aé\\"\n€😀/\x01\x7f') for _ in range(chance.randrange(12)))
    if kind == 6:
        return [random_value(chance, depth + 1) for _ in range(chance.randrange(7))]
    if kind == 7:
        keys = ("".join(chance.choice("abé") for _ in range(chance.randrange(6))) for _ in range(5))
        return {key: random_value(chance, depth + 1) for key in keys}
    return chance.choice([True, False, None])


EXPRESSIONS = [
    "JSON_ARRAY(CAST(1.10 AS DECIMAL(5,2)), -0.0e0, 1e15, 1e14, CAST(-99.99 AS DECIMAL(65,30)))",
    "JSON_ARRAY(CAST('-838:59:59' AS TIME(6)), TIME'-00:00:00.5', DATE'2024-01-02')",
    "JSON_ARRAY(CAST('2024-01-02 03:04:05.1' AS DATETIME(1)), TIMESTAMP'2024-01-02 03:04:05.678')",
    "JSON_ARRAY(x'00ff', REPEAT(x'41', 57), REPEAT(x'41', 58), b'1010', CAST('a' AS BINARY))",
    "JSON_ARRAY(REPEAT('x', 127), REPEAT('x', 128), REPEAT('x', 70000))",
    "JSON_OBJECT(REPEAT('k', 65535), 1)",
    "CAST(CONCAT('[', REPEAT('1,100000,3000000000,', 5000), 'true]') AS JSON)",
    "CAST(CONCAT('[', REPEAT('[', 99), REPEAT(']', 99), ']') AS JSON)",
    "CAST(ST_GeomFromText('POINT(1 2)') AS JSON)",
    "JSON_ARRAY(122222222222222222222222222222222222.111111111111111111111111111111)",  # (66,30)
    "JSON_ARRAY(-999999999999999999999999999999999999999999999999999999999999999999999999999999999)",
    "JSON_ARRAY(0.1111111111111111111111111111111111111111, 1/3)",
    "(SELECT JSON_ARRAY(AVG(122222222222222222222222222222222222.11111111111111111111111111)))",
    "JSON_ARRAY(CONVERT('a\"b' USING utf16), CONVERT('x' USING utf32), CONVERT('' USING ucs2))",
    "JSON_OBJECT('k', CONVERT(REPEAT('ab\\n', 50) USING ucs2))",
    "CAST('null' AS JSON)",
]


def test_documents_are_what_select_gives(mysql97: Server) -> None:
    chance = random.Random(3)
    server = mysql97
    server.execute("DROP DATABASE IF EXISTS documents")
    server.execute("CREATE DATABASE documents")
    server.execute("CREATE TABLE documents.t (id INT PRIMARY KEY, j JSON)")
    server.rotate()
    texts = [json.dumps(random_value(chance), ensure_ascii=False) for _ in range(300)]
    server.execute(
        f"INSERT INTO documents.t VALUES {', '.join(['(%s, %s)'] * len(texts))}",
        [part for pair in enumerate(texts) for part in pair],
    )
    for number, expression in enumerate(EXPRESSIONS, len(texts)):
        server.execute(f"INSERT INTO documents.t VALUES ({number}, {expression})")
    log = server.rotate()
    selected = dict(server.query("SELECT id, j FROM documents.t"))
    decoded = dict(row.values for _, row in changes(Case(log, {"server": "9.7"})))
    assert decoded == selected


def test_doubles_are_what_mysql_prints(mysql97: Server) -> None:
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
def test_partial_updates_are_what_select_gives(mysql97: Server, image: str) -> None:
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
    rows = [row for _, row in changes(Case(server.rotate(), {"server": "9.7"}))]
    c, e = rows[0].after.at(1), rows[0].after.at(2)
    for row, expected in zip(rows[1:], selected, strict=True):
        after = row.after.as_dict()
        if "c" in row.after:
            c = after["c"] if isinstance(after["c"], str) else after["c"].apply(c)
        if "e" in row.after:
            e = after["e"] if isinstance(after["e"], str) else after["e"].apply(e)
        assert (c, e) == expected
        assert image == "MINIMAL" or isinstance(after["c"], JsonText)
