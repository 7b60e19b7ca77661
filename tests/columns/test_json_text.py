import json
import struct

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
from tests.columns.random_columns import DOCUMENTS


def text(*values):
    return jsonb_to_text(pa.array(values, pa.binary())).to_pylist()


def random_document(rng, depth=0):
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


def random_text(rng):
    alphabet = rng.choice(("abc xyz", 'a"\\\n\t\x01\x1f\x7f', "äé€日本😀a", "𐀀\ud7ff\ue000\uffff"))
    return "".join(rng.choices(alphabet, k=rng.choice((0, 3, 15, 16, 17, 40, 200))))


class TestArrays:
    @given(st.lists(st.none() | DOCUMENTS.map(lambda value: (value,)), max_size=20), st.data())
    @settings(max_examples=150, deadline=None)
    @pytest.mark.slow
    def test_like_the_object_path(self, documents, data):
        """Any documents, nulls between them, as a slice of a larger array."""
        values = [None if each is None else jsonb(each[0]) for each in documents]
        expected = [None if each is None else load_json(each) for each in values]
        start = data.draw(st.integers(0, len(values)))
        got = jsonb_to_text(pa.array(values, pa.binary()).slice(start))
        got.validate(full=True)
        assert got.to_pylist() == expected[start:]
        assert got.null_count == expected[start:].count(None)

    def test_empty_value_is_null(self):
        assert text(b"", None, b"\x04\x00") == ["null", None, "null"]

    def test_no_rows(self):
        assert text() == []

    def test_grows(self):
        """Text many times as long as the bytes: escapes."""
        documents = ["\x01" * 5000] * 50
        assert text(*map(jsonb, documents)) == [json.dumps(each) for each in documents]

    def test_too_much_text(self, monkeypatch):
        """More than 32-bit offsets reach, which is made less here."""
        monkeypatch.setattr(text_output, "LARGEST", 10_000)
        small = jsonb("a" * 900)
        assert text(*[small] * 9)[8] == json.dumps("a" * 900)
        with pytest.raises(EventDecodeError, match=r"row 10 of a batch: .* take more than 2 GiB"):
            text(*[small] * 12)


class TestMalformed:
    def test_every_cut(self):
        whole = jsonb({"a": [1, 70000, 1.5, None, "text" * 40], "b": {"c": True, "d": 2**60}})
        for size in range(1, len(whole)):
            with pytest.raises(EventDecodeError, match="row 1 of a batch"):
                text(jsonb(None), whole[:size])
            with pytest.raises(EventDecodeError):
                load_json(whole[:size])

    @given(st.binary(min_size=1, max_size=60))
    @settings(max_examples=400, deadline=None)
    def test_noise(self, data):
        self.check(data)

    @given(DOCUMENTS.map(jsonb), st.data())
    @settings(max_examples=400, deadline=None)
    @pytest.mark.slow
    def test_flipped(self, whole, data):
        at = data.draw(st.integers(0, len(whole) - 1))
        byte = data.draw(st.integers(0, 255))
        self.check(whole[:at] + bytes([byte]) + whole[at + 1 :])

    @given(st.sampled_from([7, 10, 11, 12, 15, 246, 253]), st.binary(max_size=10))
    @settings(max_examples=300, deadline=None)
    def test_sql_types(self, field, data):
        self.check(opaque(field, data))

    @given(st.integers(1, 82), st.integers(0, 82), st.binary(min_size=40, max_size=40))
    @settings(max_examples=300, deadline=None)
    def test_decimals(self, precision, scale, data):
        precision = max(precision, scale)
        whole = precision - scale
        size = 4 * (whole // 9 + scale // 9) + (whole % 9 + 1) // 2 + (scale % 9 + 1) // 2
        self.check(opaque(246, bytes([precision, scale]) + data[:size]))
        small = bytes(byte & 0x0F for byte in data[1:size])
        self.check(opaque(246, bytes([precision, scale]) + b"\x80" + small))

    def check(self, data):
        """The object path's text, or errors of both; never more than the bytes account for."""
        try:
            expected = load_json(data)
        except EventDecodeError:
            with pytest.raises(EventDecodeError, match="row 0 of a batch"):
                text(data)
        else:
            assert text(data) == [expected]
            json.loads(expected)
            assert len(expected) <= 40 * len(data)

    def test_too_deep(self):
        deep = jsonb([])
        for _ in range(100):
            fits, deep = deep, struct.pack("<BHHBH", 2, 1, 6 + len(deep), deep[0], 7) + deep[1:]
        for read in (load_json, lambda data: text(data)[0]):
            assert read(fits) == "[" * 100 + "]" * 100
            with pytest.raises(EventDecodeError, match="deeper than 100"):
                read(deep)

    def test_shared_values(self):
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
    def test_refused(self, data):
        with pytest.raises(EventDecodeError, match="row 0 of a batch"):
            text(data)
