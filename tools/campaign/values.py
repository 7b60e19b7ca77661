"""Random values of each kind, as SQL literals: edges as often as plain ones."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

TEXTS = (
    "",
    " ",
    "a",
    "trailing  ",
    "plain ASCII ~ {}",
    'it\'s "quoted" `so` \\ back',
    "line\nbreak\ttab\r\0nul",
    "àéîõüÿ ÄÖÜß ñ £ ¥ €",
    "Příliš žluťoučký kůň",
    "Съешь же ещё; їєґ",
    "Ταχίστη αλώπηξ",
    "שלום עולם",
    "مرحبا بالعالم",
    "สวัสดีชาวโลก",
    "日本語テキスト、表示ソ能 ｶﾀｶﾅ",
    "简体中文测试 汉字",
    "繁體中文測試 漢字",
    "한국어 텍스트",
    "😀 𝄞 𠀀",
    "\u2028\ufeff\x7f",
)
_FLOATS = ("0", "-0.0", "1", "-1.5", "0.1", "16777217", "3.40282347e38", "1.17549435e-38", "1e-45")
_DOUBLES = ("0", "-0.0", "0.1", "1e15", "1e17", "1e22", "1.7976931348623157e308", "5e-324", "1e-5")
_DATES = ("0000-00-00", "2024-00-00", "2024-02-00", "0000-01-01", "0001-01-01", "9999-12-31")
_FRACTIONS = ("000000", "000001", "999999", "500000", "100000", "123456")
_ZERO = "'0000-00-00 00:00:00'"
_SQL = str.maketrans({"\\": "\\\\", "'": "''", "\0": "\\0", "\x1a": "\\Z"})
_JSON_TEXT_DEPTH = 3


def quoted(text: str) -> str:
    """A string literal."""
    return f"'{text.translate(_SQL)}'"


def integer(rng: random.Random, bits: int, unsigned: bool) -> str:
    """A whole number that so many bits hold."""
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if rng.random() < 0.4:
        return str(rng.choice((low, high, 0, 1, high // 2, high // 2 + 1, low // 2, low + 1)))
    return str(max(low, min(high, rng.getrandbits(rng.randint(1, bits)) * rng.choice((1, -1)))))


def decimal(rng: random.Random, precision: int, scale: int, unsigned: bool) -> str:
    """A decimal of at most so many digits."""
    whole = precision - scale
    pick = rng.random()
    if pick < 0.2:
        digits = "9" * precision
    elif pick < 0.3:
        digits = "0" * (precision - 1) + "1"
    elif pick < 0.4:
        digits = "1" + "0" * (precision - 1)
    else:
        shown = rng.randint(0, precision)
        digits = "".join(rng.choices("0123456789", k=shown)).rjust(precision, "0")
    sign = "-" if not unsigned and rng.random() < 0.4 else ""
    return f"{sign}{digits[:whole] or '0'}{'.' if scale else ''}{digits[whole:]}"


def float32(rng: random.Random, unsigned: bool) -> str:
    """A FLOAT."""
    if rng.random() < 0.3:
        text = rng.choice(_FLOATS)
    elif rng.random() < 0.5:
        text = repr(round(rng.uniform(-1e4, 1e4), rng.randint(0, 5)))
    else:
        (value,) = struct.unpack("<f", rng.randbytes(4))
        text = repr(value) if math.isfinite(value) else "1.25"
    return text.lstrip("-") if unsigned else text


def float64(rng: random.Random, unsigned: bool) -> str:
    """A DOUBLE."""
    if rng.random() < 0.3:
        text = rng.choice(_DOUBLES)
    elif rng.random() < 0.4:
        text = repr(round(rng.uniform(-1e9, 1e9), rng.randint(0, 8)))
    else:
        (value,) = struct.unpack("<d", rng.randbytes(8))
        text = repr(value) if math.isfinite(value) else "1.25"
    return text.lstrip("-") if unsigned else text


def date(rng: random.Random) -> str:
    """A DATE, zero and partial ones among them."""
    if rng.random() < 0.3:
        return f"'{rng.choice(_DATES)}'"
    return f"'{rng.randint(1, 9999):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}'"


def _clock(rng: random.Random, digits: int) -> str:
    hour, minute, second = rng.choice((0, 23, rng.randint(0, 23))), rng.randint(0, 59), 59
    text = f"{hour:02}:{minute:02}:{rng.choice((0, second, rng.randint(0, 59))):02}"
    return f"{text}.{rng.choice(_FRACTIONS)[:digits]}" if digits else text


def datetime(rng: random.Random, digits: int) -> str:
    """A DATETIME with so many digits of a fraction."""
    day = date(rng)
    if day == "'0000-00-00'":
        return _ZERO
    return f"{day[:-1]} {_clock(rng, digits)}'"


def timestamp(rng: random.Random, digits: int, last_year: int) -> str:
    """A TIMESTAMP (UTC) up to the end of 2037, or ``last_year`` where that is less far."""
    if rng.random() < 0.1:
        return _ZERO
    if rng.random() < 0.1:
        return "'1970-01-01 00:00:01'"
    year = rng.randint(1971, last_year)
    return f"'{year}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02} {_clock(rng, digits)}'"


def time(rng: random.Random, digits: int) -> str:
    """A TIME, negative and long ones among them."""
    hour = rng.choice((0, 0, 1, 837, rng.randint(0, 837)))
    text = f"{rng.choice(('', '-'))}{hour:02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    return f"'{text}.{rng.choice(_FRACTIONS)[:digits]}'" if digits else f"'{text}'"


def year(rng: random.Random) -> str:
    """A YEAR."""
    return rng.choice(("0", "1901", "2155", str(rng.randint(1901, 2155))))


def text(rng: random.Random, longest: int) -> str:
    """A text of at most so many characters."""
    if rng.random() < 0.15:
        size = rng.choice((longest, longest // 2, min(longest, 255), min(longest, 256)))
        piece = rng.choice("aé日x ")
        return f"REPEAT('{piece}', {min(size, 70_000)})"
    words = "".join(rng.choices(TEXTS, k=rng.randint(0, 3)))
    return quoted(words[:longest])


def binary(rng: random.Random, longest: int) -> str:
    """Bytes, often with zeros at their end."""
    if rng.random() < 0.1:
        return f"REPEAT(x'{rng.randbytes(1).hex()}', {min(longest, 70_000)})"
    data = rng.randbytes(rng.randint(0, min(longest, 40))) + bytes(rng.choice((0, 0, 1, 3)))
    return f"x'{data[:longest].hex()}'"


def json_value(rng: random.Random, depth: int = 0) -> Any:
    """A document."""
    pick = rng.random()
    if depth < _JSON_TEXT_DEPTH and pick < 0.25:
        return [json_value(rng, depth + 1) for _ in range(rng.randint(0, 5))]
    if depth < _JSON_TEXT_DEPTH and pick < 0.5:
        keys = [rng.choice(("a", "b", "é", "", "key", 'q"', "z" * 9)) for _ in range(4)]
        keys += [f"k{number}" for number in range(rng.choice((0, 0, 3)))]
        return {key: json_value(rng, depth + 1) for key in keys[: rng.randint(0, 7)]}
    if pick < 0.65:
        return rng.choice((*TEXTS, "x" * 127, "ü" * 200))
    if pick < 0.75:
        return rng.choice((None, True, False))
    if pick < 0.85:
        return float(float64(rng, unsigned=False))
    return int(integer(rng, rng.choice((16, 17, 32, 33, 64)), rng.random() < 0.5))


_OPAQUE = (
    "CAST(CAST('2024-02-29' AS DATE) AS JSON)",
    "CAST(CAST('-838:59:59.000001' AS TIME(6)) AS JSON)",
    "CAST(CAST('2024-02-29 23:59:58.123456' AS DATETIME(6)) AS JSON)",
    "CAST(CAST(-1.10 AS DECIMAL(5,2)) AS JSON)",
    "CAST(x'00FF80' AS JSON)",
    "CAST(b'1010' AS JSON)",
    "CAST(CAST(2024 AS YEAR) AS JSON)",
    "JSON_OBJECT('d', CAST('2024-01-02' AS DATE), 'n', JSON_ARRAY(12.50, x'01', TRUE))",
)


def document(rng: random.Random, mysql: bool) -> str:
    """A JSON literal, or, on MySQL, an expression that makes opaque values."""
    if mysql and rng.random() < 0.2:
        return rng.choice(_OPAQUE)
    separators = rng.choice(((",", ":"), (", ", ": ")))
    ascii_only = rng.random() < 0.3
    return quoted(json.dumps(json_value(rng), ensure_ascii=ascii_only, separators=separators))


def _point(rng: random.Random) -> str:
    return f"{rng.randint(-80, 80)} {round(rng.uniform(-80, 80), 4)}"


def geometry(rng: random.Random, kind: str) -> str:
    """A geometry, with SRID 0 or 4326."""
    if kind == "GEOMETRY":
        kind = rng.choice(("POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "GEOMETRYCOLLECTION"))
    points = [_point(rng) for _ in range(rng.randint(2, 5))]
    shapes = {
        "POINT": points[0],
        "LINESTRING": ", ".join(points),
        "POLYGON": "(0 0, 0 10, 10 10, 10 0, 0 0), (1 1, 1 2, 2 2, 1 1)",
        "MULTIPOINT": ", ".join(points),
        "GEOMETRYCOLLECTION": f"POINT({points[0]}), LINESTRING({points[0]}, {points[1]})",
    }
    srid = rng.choice(("", ", 4326"))
    return f"ST_GeomFromText('{kind}({shapes[kind]})'{srid})"


def vector(rng: random.Random, size: int, mysql: bool) -> str:
    """A VECTOR."""
    numbers = ", ".join(repr(round(rng.uniform(-9, 9), rng.randint(0, 9))) for _ in range(size))
    return f"{'STRING_TO_VECTOR' if mysql else 'VEC_FromText'}('[{numbers}]')"


def uuid(rng: random.Random) -> str:
    """A UUID, with zeros at its end at times."""
    digits = rng.randbytes(16).hex()
    digits = digits[: rng.choice((32, 32, 16, 0))].ljust(32, "0")
    return f"'{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}'"


def inet4(rng: random.Random) -> str:
    """An INET4."""
    return f"'{'.'.join(str(rng.choice((0, 10, 32, 255))) for _ in range(4))}'"


def inet6(rng: random.Random) -> str:
    """An INET6."""
    if rng.random() < 0.2:
        return f"'::ffff:{inet4(rng)[1:-1]}'"
    return f"'{':'.join(f'{rng.choice((0, 0, 0, 1, 0x2020, 0xFFFF)):x}' for _ in range(8))}'"
