from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.columns import text_output
from tailrace.columns.json_text import jsonb_to_text
from tailrace.errors import EventDecodeError
from tailrace.values.jsonb import load_json
from tests.cases import each_case
from tests.columns.jsonb_made import jsonb, opaque
from tests.values.replay import logged_json

if TYPE_CHECKING:
    from tools.servers import Server

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(-40000, 70000)
    | st.text()
    | st.text(st.characters(max_codepoint=127))
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=8),
    max_leaves=30,
)

NUMBERS = """
1e20 1.0 0.1 1e-7 1.7976931348623157e308 -0.0 123456789012345680.0 1e14 1e15 1e16 1e-14 1.5e-14
1.2345678901234567e-14 -1.2345678901234567e-14 1.2345678901234567e-15 -1.2345678901234567e-15
5e-324 0.000001 12345678901234567000.0 999999999999999.9 1234567890123456.7 18446744073709551615
18446744073709551616 -9223372036854775808 9007199254740993.0 4.35 2.2250738585072014e-308 1e22
1e23 123456.75
"""
EXPRESSIONS = [
    *(f"'{number}'" for number in NUMBERS.split()),
    "JSON_OBJECT('d', CAST('2024-02-29' AS DATE))",
    "JSON_OBJECT('d', CAST('9999-12-31' AS DATE), 'e', STR_TO_DATE('0000-00-00', '%Y-%m-%d'))",
    "JSON_ARRAY(CAST('-838:59:58.123456' AS TIME(6)), CAST('12:00:00' AS TIME))",
    "JSON_ARRAY(MAKETIME(0, 0, 0), CAST('-00:00:00.5' AS TIME(1)), CAST('100:1:2' AS TIME))",
    "JSON_OBJECT('d', TIMESTAMP'2024-01-01 10:11:12.5')",
    "CAST(CAST('2024-01-01 00:00:00' AS DATETIME) AS JSON)",
    "CAST(CAST('1000-12-31 23:59:59.999999' AS DATETIME(6)) AS JSON)",
    "JSON_ARRAY(1.50, -0.05, 0.00, 100000000, 1000000000.5, .5, -1, 1000000001.000000001)",
    "JSON_ARRAY(12345678901234567890.123456789012345678901234567890, 99999999999999999999.5)",
    "JSON_ARRAY(-99999999999999999999999999999999999.999999999999999999999999999999)",
    "CAST(CAST('10000000000000000000' AS DECIMAL(65, 2)) AS JSON)",
    "CAST(CAST('-0.000000000000000000000000000001' AS DECIMAL(30, 30)) AS JSON)",
    "JSON_ARRAY(b'101', x'00ff', CAST('abc' AS BINARY), x'')",
    "JSON_ARRAY(REPEAT(x'fa', 57), REPEAT(x'fb', 58), REPEAT(x'fc', 114), REPEAT(x'fd', 115))",
    "CAST(REPEAT(x'e1', 100000) AS JSON)",
    "JSON_ARRAY(CAST(2024 AS YEAR), POINT(1, 2.5))",
    "JSON_ARRAY(122222222222222222222222222222222222.111111111111111111111111111111)",  # (66,30)
    "JSON_ARRAY(-999999999999999999999999999999999999999999999999999999999999999999999999999999999)",
    "JSON_ARRAY(0.1111111111111111111111111111111111111111, 1/3)",
    "(SELECT JSON_ARRAY(AVG(122222222222222222222222222222222222.11111111111111111111111111)))",
    "JSON_ARRAY(CONVERT('a\"b' USING utf16), CONVERT('x' USING utf32), CONVERT('' USING ucs2))",
    "JSON_OBJECT('k', CONVERT(REPEAT('ab\\n', 50) USING ucs2))",
    r"""JSON_QUOTE('a\\b"\n/\t<>&''')""",
    "JSON_ARRAY(CONVERT(x'0001020305070809090a0b0c0d0e0f101f207f22' USING utf8mb4))",
    "JSON_ARRAY(true, false, null)",
    "'{}'",
    "'[]'",
    "'\"\"'",
    "'null'",
    "CONCAT(REPEAT('[', 100), REPEAT(']', 100))",
    "CONCAT(REPEAT('[', 99), '1', REPEAT(']', 99))",
    "CONCAT(REPEAT('{\"a\":', 99), '1', REPEAT('}', 99))",
    "JSON_ARRAY(REPEAT('é', 70000), REPEAT('x', 127), REPEAT('x', 128), REPEAT('y', 16384))",
    "JSON_OBJECT(REPEAT('k', 65535), 1, REPEAT('€', 20000), 70000, 'a', -70000)",
]


def text(*values: bytes | None) -> list[str | None]:
    return jsonb_to_text(pa.array(values, pa.binary())).to_pylist()


def as_server(value: Any) -> str:
    """Python's own printer, with keys in the server's order."""
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode()))
        return "{" + ", ".join(f"{as_server(k)}: {as_server(v)}" for k, v in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_server, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def random_document(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 5 else 7)
    if kind >= 7:
        children = [random_document(rng, depth + 1) for _ in range(rng.choice((0, 1, 3, 8)))]
        if kind == 7:
            return children
        return {random_text(rng)[: rng.randrange(40)]: child for child in children}
    if kind < 3:
        return rng.choice((None, True, False, 0, -1, 1.5, "", 2**63, -(2**31), 40000))
    if kind == 3:
        number = struct.unpack("<d", rng.randbytes(8))[0]
        return number if abs(number) < 1e308 else 1e-300  # neither infinite nor NaN
    if kind == 4:
        return rng.choice((round(rng.random() * 10 ** rng.randrange(18), rng.randrange(9)), 1e15))
    if kind == 5:
        return rng.randrange(-(2 ** rng.randrange(1, 64)), 2 ** rng.randrange(1, 65))
    return random_text(rng)


def random_text(rng: random.Random) -> str:
    alphabet = rng.choice(("abc xyz", 'a"\\\n\t\x01\x1f\x7f', "äé€日本😀a", "𐀀\ud7ff\ue000\uffff"))
    return "".join(rng.choices(alphabet, k=rng.choice((0, 3, 15, 16, 17, 40, 200))))


class TestServer:
    def test_expressions(self, mysql97: Server) -> None:
        """What SQL can put into JSON, against SELECT."""
        mysql97.execute("SET sql_mode=''")
        self.make_table(mysql97)
        for number, expression in enumerate(EXPRESSIONS):
            mysql97.execute(f"INSERT INTO json_text.j VALUES ({number}, {expression})")
        self.compare(mysql97)

    def test_updated_in_place(self, mysql97: Server) -> None:
        """The server writes new values over old ones: holes, and values not in their keys' order."""
        self.make_table(mysql97)
        rng = random.Random(4)
        base = {f"key{i}": "v" * 30 for i in range(12)} | {"list": ["a" * 20, {"b": "c" * 9}] * 4}
        for number in range(60):
            mysql97.execute("INSERT INTO json_text.j VALUES (%s, %s)", (number, json.dumps(base)))
            for _ in range(6):
                path = rng.choice([f"$.key{rng.randrange(12)}", f"$.list[{rng.randrange(8)}]"])
                call = rng.choice(["JSON_SET(j, %s, %s)", "JSON_REPLACE(j, %s, %s)"])
                value = rng.choice(["w" * rng.randrange(40), 5, 70000, 1.5])
                arguments: tuple[Any, ...] = (path, value, number)
                if rng.random() < 0.2:
                    call, arguments = "JSON_REMOVE(j, %s)", (path, number)
                mysql97.execute(f"UPDATE json_text.j SET j = {call} WHERE id = %s", arguments)
        self.compare(mysql97)

    def make_table(self, server: Server) -> None:
        server.execute("DROP DATABASE IF EXISTS json_text")
        server.execute("CREATE DATABASE json_text")
        server.execute("CREATE TABLE json_text.j (id INT PRIMARY KEY, j JSON)")
        server.rotate()

    def compare(self, server: Server) -> None:
        logged = logged_json(server.rotate())
        selected = dict(server.query("SELECT id, j FROM json_text.j"))
        assert logged.keys() == selected.keys()
        assert len(logged) > 0
        for number, got in zip(logged, text(*logged.values()), strict=True):
            assert got == selected[number]


class TestArrays:
    @given(st.lists(st.none() | DOCUMENTS.map(lambda value: (value,)), max_size=20), st.data())
    @settings(max_examples=150, deadline=None)
    def test_like_python(self, documents: list[tuple[Any] | None], data: Any) -> None:
        """Any documents, nulls between them, as a slice of a larger array."""
        values = [None if each is None else jsonb(each[0]) for each in documents]
        expected = [None if each is None else as_server(each[0]) for each in documents]
        start = data.draw(st.integers(0, len(values)))
        got = jsonb_to_text(pa.array(values, pa.binary()).slice(start))
        got.validate(full=True)
        assert got.to_pylist() == expected[start:]
        assert got.null_count == expected[start:].count(None)

    def test_empty_value_is_null(self) -> None:
        assert text(b"", None, b"\x04\x00") == ["null", None, "null"]

    def test_no_rows(self) -> None:
        assert text() == []

    def test_grows(self) -> None:
        """Text many times as long as the bytes: escapes."""
        documents = ["\x01" * 5000] * 50
        assert text(*map(jsonb, documents)) == [json.dumps(each) for each in documents]

    def test_too_much_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """More than 32-bit offsets reach, which is made less here."""
        monkeypatch.setattr(text_output, "LARGEST", 10_000)
        small = jsonb("a" * 900)
        assert text(*[small] * 9)[8] == json.dumps("a" * 900)
        with pytest.raises(EventDecodeError, match=r"row 10 of a batch: .* take more than 2 GiB"):
            text(*[small] * 12)


class TestMalformed:
    def test_every_cut(self) -> None:
        whole = jsonb({"a": [1, 70000, 1.5, None, "text" * 40], "b": {"c": True, "d": 2**60}})
        for size in range(1, len(whole)):
            with pytest.raises(EventDecodeError, match="row 1 of a batch"):
                text(jsonb(None), whole[:size])

    @given(st.binary(min_size=1, max_size=60))
    @settings(max_examples=400, deadline=None)
    def test_noise(self, data: bytes) -> None:
        self.check(data)

    @given(DOCUMENTS.map(jsonb), st.data())
    @settings(max_examples=400, deadline=None)
    def test_flipped(self, whole: bytes, data: Any) -> None:
        at = data.draw(st.integers(0, len(whole) - 1))
        byte = data.draw(st.integers(0, 255))
        self.check(whole[:at] + bytes([byte]) + whole[at + 1 :])

    @given(st.sampled_from([7, 10, 11, 12, 15, 246, 253]), st.binary(max_size=10))
    @settings(max_examples=300, deadline=None)
    def test_sql_types(self, field: int, data: bytes) -> None:
        self.check(opaque(field, data))

    @given(st.integers(1, 82), st.integers(0, 82), st.binary(min_size=40, max_size=40))
    @settings(max_examples=300, deadline=None)
    def test_decimals(self, precision: int, scale: int, data: bytes) -> None:
        precision = max(precision, scale)
        whole = precision - scale
        size = 4 * (whole // 9 + scale // 9) + (whole % 9 + 1) // 2 + (scale % 9 + 1) // 2
        self.check(opaque(246, bytes([precision, scale]) + data[:size]))
        small = bytes(byte & 0x0F for byte in data[1:size])
        self.check(opaque(246, bytes([precision, scale]) + b"\x80" + small))

    def check(self, data: bytes) -> None:
        """The object path's text, or errors of both; never more than the bytes account for."""
        try:
            expected = load_json(data)
        except EventDecodeError:
            with pytest.raises(EventDecodeError, match="row 0 of a batch"):
                text(data)
        else:
            assert text(data) == [expected]
            assert len(expected) <= 40 * len(data)

    def test_too_deep(self) -> None:
        deep: Any = []
        for _ in range(99):
            deep = [deep]
        assert text(jsonb(deep)) == ["[" * 100 + "]" * 100]
        with pytest.raises(EventDecodeError, match="nested deeper than 100"):
            text(jsonb([deep]))

    def test_shared_values(self) -> None:
        """An array whose elements are all the same, level by level: 18 KB that would be 10**18."""
        inner = b"\x00\x00\x04\x00"
        for _ in range(6):
            count = 1000
            head = struct.pack("<HH", count, 4 + 3 * count + len(inner))
            inner = head + (b"\x02" + struct.pack("<H", 4 + 3 * count)) * count + inner
            if len(inner) > 50000:
                break
        with pytest.raises(EventDecodeError, match="parts that overlap"):
            text(b"\x02" + inner)

    @each_case(
        "data",
        [
            b"\x04\x03",  # a literal that is none
            b"\x0d\x00",  # a type that is none
            b"\x0c\x01\xff",  # not UTF-8
            b"\x0c\x03\xed\xa0\x80",  # a surrogate
            b"\x0c\x04\xf4\x90\x80\x80",  # past U+10FFFF
            b"\x0c\x02\xc1\xbf",  # overlong
            b"\x0c\x80\x80\x80\x80\x80\x01",  # a length of six bytes
            b"\x0c\xff\xff\xff\xff\x7f",  # a length of 35 bits
            struct.pack("<Bd", 11, float("inf")),
            struct.pack("<Bd", 11, float("nan")),
            opaque(246, b"\x05"),
            opaque(246, b"\x05\x06\x80"),  # scale above precision
            opaque(246, b"\x52\x00" + bytes(37)),  # 82 digits
            opaque(246, b"\x42\x01" + bytes(33)),  # ten groups
            opaque(246, b"\x02\x00\xff"),  # 127 in two digits
            opaque(10, b"\x00" * 7),
            opaque(12, struct.pack("<q", 25 << 36)),  # 25 o'clock
            opaque(12, struct.pack("<q", 1000000)),  # a million microseconds
            opaque(12, struct.pack("<q", -1)),
            opaque(11, struct.pack("<q", 60 << 24)),  # 60 seconds
        ],
    )
    def test_refused(self, data: bytes) -> None:
        with pytest.raises(EventDecodeError, match="row 0 of a batch"):
            text(data)
