"""A column of each type: Python's values for it, and what the server is told for the same value.

A `Sample` says how the column is declared, which values it takes (a hypothesis strategy), the
literal of a value in SQL, and the type of an Arrow column of them.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.servers import Server

_LATIN1: Final = "".join(map(chr, (*range(1, 128), *range(0xA0, 0x100)))) + "€Žœ"
_GBK: Final = "abc xyz中文测试汉字。"
_POINT: Final = "<IBIdd"
_MEMBERS: Final = ("a", "b c", "it's", "ü", "日本", "x", "Z")
_SHORT: Final = 40
_EXACT: Final = Context(prec=100)


@dataclass(frozen=True)
class Sample:
    """A column's type; its values, their literals, and their Arrow type."""

    declared: str
    values: st.SearchStrategy[Any]
    literal: Callable[[Any], str]
    arrow: pa.DataType


def _integer(declared: str, bits: int, arrow: pa.DataType, *, unsigned: bool = False) -> Sample:
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return Sample(declared, st.integers(low, high), str, arrow)


def _decimal(precision: int, scale: int) -> Sample:
    most = 10**precision - 1
    values = st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-scale, _EXACT))
    arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.string()
    return Sample(f"DECIMAL({precision},{scale})", values, lambda value: f"{value:f}", arrow)


def _hex(data: bytes) -> str:
    return f"x'{data.hex()}'"


def _text(declared: str, alphabet: st.SearchStrategy[str] | str, longest: int) -> Sample:
    values = st.text(alphabet, max_size=min(longest, _SHORT))
    return Sample(declared, values, _utf8, pa.string())


def _utf8(value: str) -> str:
    return f"_utf8mb4 {_hex(value.encode())}" if value else "''"


def _bytes(declared: str, longest: int) -> Sample:
    values = st.binary(max_size=min(longest, _SHORT))
    return Sample(declared, values, _hex, pa.binary())


def _moment(value: datetime) -> str:
    return f"'{value.replace(tzinfo=None).isoformat(sep=' ')}'"


def _cut(digits: int) -> Callable[[datetime], datetime]:
    step = 10 ** (6 - digits)
    return lambda value: value.replace(microsecond=value.microsecond // step * step)


def _datetime(digits: int) -> Sample:
    return Sample(
        f"DATETIME({digits})", st.datetimes().map(_cut(digits)), _moment, pa.timestamp("us")
    )


def _timestamp(digits: int) -> Sample:
    values = st.datetimes(datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19, 3, 14, 7))  # noqa: DTZ001 - hypothesis wants them so
    aware = values.map(_cut(digits)).map(lambda value: value.replace(tzinfo=UTC))
    return Sample(f"TIMESTAMP({digits}) NULL", aware, _moment, pa.timestamp("us", "UTC"))


def _time(digits: int) -> Sample:
    step = 10 ** (6 - digits)
    most = (838 * 3600 + 59 * 60 + 59) * 1_000_000 // step
    values = st.integers(-most, most).map(lambda number: timedelta(microseconds=number * step))
    return Sample(f"TIME({digits})", values, _clock, pa.duration("us"))


def _clock(value: timedelta) -> str:
    sign = "-" if value < timedelta(0) else ""
    seconds, fraction = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    return f"'{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}'"


_DOCUMENTS: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=200),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)


def json_text(value: Any) -> str:
    """A document's text; of a str, which is that already, itself."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _spelled(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else value


def _geometry(value: bytes) -> str:
    return f"ST_GeomFromWKB({_hex(value[4:])}, {int.from_bytes(value[:4], 'little')})"


def _point(x: float, y: float) -> bytes:
    return struct.pack(_POINT, 0, 1, 1, x, y)


_COORDINATES: Final = st.floats(-1e9, 1e9)
_FLOATS: Final = st.floats(width=32, allow_nan=False, allow_infinity=False)
_DOUBLES: Final = st.floats(allow_nan=False, allow_infinity=False)
_VECTORS: Final = st.lists(st.floats(-(2.0**50), 2.0**50, width=32), min_size=3, max_size=3)
"""MariaDB takes no vector whose length is more than a number can say."""


def _real(value: float) -> str:
    """With an exponent: else it is a DECIMAL, and has no -0."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _packed(value: list[float]) -> str:
    return _hex(struct.pack("<3f", *value))


def samples(server: Server) -> dict[str, Sample]:
    """A column of each type that the server has, by name."""
    mysql = server.flavour == "mysql"
    unicode = st.characters(codec="utf-8")
    if not mysql:  # MariaDB's SQL has no -0
        floats, doubles = (values.map(lambda value: value + 0.0) for values in (_FLOATS, _DOUBLES))
    else:
        floats, doubles = _FLOATS, _DOUBLES
    members = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}'" for name in _MEMBERS)
    columns = {
        "i8": _integer("TINYINT", 8, pa.int8()),
        "u8": _integer("TINYINT UNSIGNED", 8, pa.uint8(), unsigned=True),
        "i16": _integer("SMALLINT", 16, pa.int64()),
        "u16": _integer("SMALLINT UNSIGNED", 16, pa.int32(), unsigned=True),
        "i24": _integer("MEDIUMINT", 24, pa.int32()),
        "u24": _integer("MEDIUMINT UNSIGNED", 24, pa.int64(), unsigned=True),
        "i32": _integer("INT", 32, pa.int64()),
        "u32": _integer("INT UNSIGNED", 32, pa.uint32(), unsigned=True),
        "i64": _integer("BIGINT", 64, pa.int64()),
        "u64": _integer("BIGINT UNSIGNED", 64, pa.uint64(), unsigned=True),
        "bit1": _integer("BIT(1)", 1, pa.int64(), unsigned=True),
        "bit64": _integer("BIT(64)", 64, pa.uint64(), unsigned=True),
        "d9": _decimal(9, 2),
        "d38": _decimal(38, 10),
        "d65": _decimal(65, 30),
        "f32": Sample("FLOAT", floats, _real, pa.float32()),
        "f64": Sample("DOUBLE", doubles, _real, pa.float64()),
        "y": Sample(
            "YEAR", st.sampled_from((0, 1901, 2155)) | st.integers(1901, 2155), str, pa.int16()
        ),
        "day": Sample("DATE", st.dates(), lambda value: f"'{value}'", pa.date32()),
        "moment": _datetime(0),
        "moment6": _datetime(6),
        "stamp": _timestamp(0),
        "stamp3": _timestamp(3),
        "span": _time(0),
        "span6": _time(6),
        "c": _text("CHAR(20) CHARACTER SET utf8mb4", unicode, 20),
        "latin": _text("VARCHAR(60) CHARACTER SET latin1", _LATIN1, 60),
        "chinese": _text("VARCHAR(30) CHARACTER SET gbk", _GBK, 30),
        "wide": _text("VARCHAR(40) CHARACTER SET utf16", unicode, 40),
        "v": _text("VARCHAR(400) CHARACTER SET utf8mb4", unicode, 400),
        "short_text": _text("TINYTEXT CHARACTER SET utf8mb4", unicode, 60),
        "long_text": _text("LONGTEXT CHARACTER SET utf8mb4", unicode, 400),
        "b": _bytes("BINARY(12)", 12),
        "vb": _bytes("VARBINARY(300)", 300),
        "bl": _bytes("BLOB", 300),
        "lb": _bytes("LONGBLOB", 300),
        "e": Sample(
            f"ENUM({members}) CHARACTER SET utf8mb4", st.sampled_from(_MEMBERS), _utf8, pa.string()
        ),
        "s": Sample(
            f"SET({members}) CHARACTER SET utf8mb4",
            st.sets(st.sampled_from(_MEMBERS)).map(
                lambda names: ",".join(name for name in _MEMBERS if name in names)
            ),
            _utf8,
            pa.string(),
        ),
        "p": Sample("POINT", st.builds(_point, _COORDINATES, _COORDINATES), _geometry, pa.binary()),
    }
    if mysql:
        columns["j"] = Sample(
            "JSON",
            _DOCUMENTS.map(_spelled),
            lambda value: _utf8(json_text(value)),
            pa.string(),
        )
    else:
        columns["j"] = Sample("JSON", _DOCUMENTS.map(_spelled).map(json_text), _utf8, pa.string())
        columns["id128"] = Sample(
            "UUID",
            (st.uuids(version=1) | st.uuids(version=4)).map(str),
            lambda value: f"'{value}'",
            pa.string(),
        )
        columns["host4"] = Sample(
            "INET4", st.ip_addresses(v=4).map(str), lambda value: f"'{value}'", pa.string()
        )
        columns["host6"] = Sample(
            "INET6", st.ip_addresses(v=6).map(str), lambda value: f"'{value}'", pa.string()
        )
        columns["packed"] = _text("VARCHAR(400) COMPRESSED CHARACTER SET utf8mb4", unicode, 400)
        columns["packed_blob"] = _bytes("BLOB COMPRESSED", 300)
    if server.name != "mariadb-10.11":
        columns["w"] = Sample("VECTOR(3)", _VECTORS, _packed, pa.list_(pa.float32()))
    return columns
