"""Numbers: integers, DECIMAL, FLOAT, DOUBLE, BIT."""

# ruff: noqa: SIM905 - a line of numbers reads better than a list of strings

from __future__ import annotations

from tools.corpus.case import Recorder, add, add_with_metadata

_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}

# (precision, scale): each leftover digit count before and after the point, the limits, plain ones.
_DECIMALS = (
    *((digits, 0) for digits in range(1, 11)),
    *((digits, digits) for digits in range(1, 11)),
    *((10, 2), (12, 2), (18, 9), (19, 4), (20, 10), (27, 18), (30, 30), (38, 9), (40, 15)),
    *((65, 0), (65, 30), (64, 29), (63, 27), (60, 28), (35, 30), (31, 30)),
)

_FLOATS = (
    "0 -0.0 1 -1 1.5 0.1 -0.1 0.333333 3.14159274 100 1000000 999999 9999999 16777216 16777217 "
    "123456 1234567 12345678 123456789 1e10 1e14 1e15 1e16 1e17 1e20 1e37 3.40282347e38 "
    "-3.40282347e38 1.17549435e-38 1e-5 1e-4 0.00012345 1.4e-45 1e-10 1e-15 1e-16 1e-20 2.5e-7 "
    "0.001 8388608.5 1e5 1e6 1e7 65504 0.5 0.25 2097152.25"
).split()
_DOUBLES = (
    "0 -0.0 1 -1 0.1 0.2 0.30000000000000004 1.1 3.141592653589793 2.718281828459045 1e14 1e15 "
    "1e16 1e17 1e20 1e21 1e22 1e23 123456789012345680 9007199254740993 1e100 1e308 "
    "1.7976931348623157e308 -1.7976931348623157e308 2.2250738585072014e-308 5e-324 1e-4 1e-5 1e-6 "
    "1e-7 1e-15 1e-16 1e-300 123456.789 0.000123 1234567890123456 12345678901234567 "
    "999999999999999 9999999999999999 0.1e-5 4.35 1e14 100000000000000000 1.5e300 -2.5e-10 "
    "18446744073709551615 4503599627370496.5"
).split()
_BITS = (1, 2, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33, 40, 47, 48, 55, 56, 63, 64)


def integers(recorder: Recorder) -> None:
    columns, low, high, odd = {}, [], [], []
    for name, bits in _INTEGERS.items():
        columns[name[:3].lower()] = name
        columns[f"{name[:3].lower()}_u"] = f"{name} UNSIGNED"
        low += [str(-(1 << bits - 1)), "0"]
        high += [str((1 << bits - 1) - 1), str((1 << bits) - 1)]
        odd += [str(-(1 << bits - 2) - 3), str((1 << bits - 1) + 5)]
    columns["b"] = "BOOLEAN"
    rows = [
        [*low, "FALSE"],
        [*high, "TRUE"],
        [*odd, "-1"],
        ["0", "0"] * 5 + ["0"],
        ["-1", "1"] * 5 + ["1"],
        ["1", "127"] * 5 + ["1"],
        ["127", "128"] * 5 + ["1"],
    ]
    recorder.table("integers", columns, rows)


def decimals(recorder: Recorder) -> None:
    columns, rows = {}, [[] for _ in range(8)]  # type: tuple[dict[str, str], list[list[str]]]
    sizes = list(_DECIMALS)
    if not recorder.mysql:
        sizes += [(38, 38), (65, 38), (50, 33)]
    for precision, scale in sizes:
        columns[f"d{precision}_{scale}"] = f"DECIMAL({precision},{scale})"
        whole, point = precision - scale, "." if scale else ""
        most = f"{'9' * whole or '0'}{point}{'9' * scale}"
        least = f"0.{'0' * (scale - 1)}1" if scale else "1"
        digits = ("1234567890" * 7)[:precision]
        mixed = f"{digits[:whole] or '0'}{point}{digits[whole:]}"
        one_group = f"{'1' + '0' * (whole - 1) if whole else '0'}{point}{'0' * scale}"
        values = (most, f"-{most}", least, f"-{least}", mixed, f"-{mixed}", "0", one_group)
        for row, value in zip(rows, values, strict=True):
            row.append(value)
    columns["unsigned"] = "DECIMAL(20,6) UNSIGNED"
    for row in rows:
        row.append("12345678901234.567890")
    recorder.table("decimals", columns, rows)


def floats(recorder: Recorder) -> None:
    columns = {"f": "FLOAT", "fu": "FLOAT UNSIGNED"}
    rows = [[value, value.lstrip("-")] for value in _FLOATS]
    recorder.table("floats", columns, rows)
    columns = {"d": "DOUBLE", "du": "DOUBLE UNSIGNED"}
    rows = [[value, value.lstrip("-")] for value in _DOUBLES]
    recorder.table("doubles", columns, rows)


def bits(recorder: Recorder) -> None:
    columns = {f"b{size}": f"BIT({size})" for size in _BITS}
    patterns = (0, ~0, 1, 0xA5A5A5A5A5A5A5A5, 0x0123456789ABCDEF, 1 << 63)
    rows = [[str(pattern & ((1 << size) - 1)) for size in _BITS] for pattern in patterns]
    rows.append([str(1 << size - 1) for size in _BITS])
    recorder.table("bits", columns, rows)


def displayed(recorder: Recorder) -> None:
    """Types whose SELECT shows something that only the CREATE TABLE knows."""
    recorder.table(
        "displayed",
        {
            "z": "INT(8) UNSIGNED ZEROFILL",
            "f": "FLOAT(7,3)",
            "d": "DOUBLE(12,4)",
            "dz": "DECIMAL(10,2) ZEROFILL",
        },
        [["42", "3.14159", "2.5", "7.5"], ["123456789", "1234.5", "-1.23456", "0"]],
    )


add_with_metadata("integers", "all integer types, their limits", integers, insert_only=True)
add_with_metadata("decimals", "DECIMAL of many sizes, their limits", decimals, insert_only=True)
add_with_metadata("floats", "FLOAT and DOUBLE", floats, insert_only=True)
add_with_metadata("bits", "BIT(1) to BIT(64)", bits, insert_only=True)
add(
    "displayed",
    "ZEROFILL and FLOAT(M,D), which SELECT shows as only the CREATE TABLE knows",
    displayed,
    settings={"binlog_row_metadata": "FULL"},
    insert_only=True,
)
