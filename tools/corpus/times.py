"""Dates and times, zero and partial ones among them."""

# ruff: noqa: SIM905 - a line of numbers reads better than a list of strings

from __future__ import annotations

from tools.corpus.case import MARIADB, Recorder, add, add_with_metadata
from tools.servers import NAMES

_FSP = range(7)


def _with_fraction(value: str, digits: str, fsp: int) -> str:
    """The literal with the first `fsp` digits of a fraction, so that nothing is rounded."""
    return f"'{value}.{digits[:fsp]}'" if fsp else f"'{value}'"


def _of_each_fsp(kind: str) -> dict[str, str]:
    return {f"f{fsp}": f"{kind}({fsp})" for fsp in _FSP}


def _rows(values: list[tuple[str, str]]) -> list[list[str]]:
    return [[_with_fraction(value, digits, fsp) for fsp in _FSP] for value, digits in values]


def dates(recorder: Recorder) -> None:
    days = (
        "0000-00-00 2024-00-00 2024-02-00 0000-01-01 0001-01-01 1000-01-01 1970-01-01 1999-12-31 "
        "2000-02-29 2024-02-29 2026-11-21 9999-12-31 0000-12-00 9999-00-31"
    ).split()
    years = ("0", "1901", "2155", "1970", "2000", "2026", "1999", "'0000'", "'70'", "'69'")
    years_padded = (*years, *("1950" for _ in range(len(days) - len(years))))
    rows = [[f"'{day}'", year] for day, year in zip(days, years_padded, strict=True)]
    recorder.table("dates", {"d": "DATE", "y": "YEAR"}, rows)


def clock(recorder: Recorder) -> None:
    values = [
        ("00:00:00", "000000"),
        ("00:00:00", "000001"),
        ("-00:00:00", "000001"),
        ("-00:00:00", "900000"),
        ("00:00:01", "500000"),
        ("-00:00:01", "500000"),
        ("-00:00:01", "000000"),
        ("-00:00:01", "999999"),
        ("12:34:56", "789012"),
        ("-12:34:56", "789012"),
        ("-12:34:56", "100000"),
        ("23:59:59", "999999"),
        ("100:00:00", "120000"),
        ("-100:59:59", "010203"),
        ("837:59:59", "999999"),
        ("-837:59:59", "999999"),
        ("838:59:59", "000000"),
        ("-838:59:59", "000000"),
        ("00:59:00", "255255"),
        ("-00:59:00", "256256"),
    ]
    recorder.table("times", _of_each_fsp("TIME"), _rows(values))


def datetimes(recorder: Recorder) -> None:
    values = [
        ("0000-00-00 00:00:00", "000000"),
        ("2024-00-00 00:00:00", "000000"),
        ("2024-00-15 12:13:14", "151617"),
        ("2024-12-00 23:59:59", "999999"),
        ("0000-01-01 00:00:00", "000000"),
        ("1000-01-01 00:00:00", "000000"),
        ("1969-12-31 23:59:59", "999999"),
        ("2024-02-29 23:59:58", "123456"),
        ("2026-11-21 09:08:07", "000001"),
        ("2026-11-21 09:08:07", "100000"),
        ("9999-12-31 23:59:59", "999999"),
    ]
    recorder.table("datetimes", _of_each_fsp("DATETIME"), _rows(values))


def timestamps(recorder: Recorder) -> None:
    values = [
        ("0000-00-00 00:00:00", "000000"),
        ("1970-01-01 00:00:01", "000000"),
        ("1970-01-01 00:00:01", "999999"),
        ("2001-09-09 01:46:40", "500000"),
        ("2024-02-29 23:59:58", "123456"),
        ("2026-11-21 09:08:07", "000001"),
        ("2038-01-19 03:14:07", "999999"),
    ]
    if recorder.server.name == "mariadb-11.8":  # 64-bit time there
        values += [("2038-01-19 03:14:08", "000000"), ("2106-02-07 06:28:15", "999999")]
    recorder.table("timestamps", _of_each_fsp("TIMESTAMP"), _rows(values))


def old_temporal(recorder: Recorder) -> None:
    """MariaDB's formats from before 5.6, which take no metadata."""
    columns = {"t": "TIME", "d": "DATETIME", "s": "TIMESTAMP"}
    rows = [
        ["'00:00:00'", "'0000-00-00 00:00:00'", "'0000-00-00 00:00:00'"],
        ["'838:59:59'", "'9999-12-31 23:59:59'", "'2038-01-19 03:14:07'"],
        ["'-838:59:59'", "'1000-01-01 00:00:00'", "'1970-01-01 00:00:01'"],
        ["'-00:00:01'", "'2024-00-15 12:13:14'", "'2026-11-21 09:08:07'"],
    ]
    recorder.table("old_temporal", columns, rows)


def old_temporal_fractions(recorder: Recorder) -> None:
    """The old formats with fractions: without the schema they can't be read."""
    for fsp in range(1, 7):
        columns = {"t": f"TIME({fsp})", "d": f"DATETIME({fsp})", "s": f"TIMESTAMP({fsp})"}
        rows = [
            ["'-12:34:56.789012'", "'2024-02-29 23:59:58.123456'", "'2024-02-29 23:59:58.123456'"],
            ["'00:00:00.5'", "'0000-00-00 00:00:00'", "'2001-09-09 01:46:40.5'"],
        ]
        recorder.table(f"old_fractions_{fsp}", columns, rows)


add_with_metadata("dates", "DATE and YEAR, zero and partial dates", dates, insert_only=True)
add_with_metadata("times", "TIME(0) to TIME(6), negative and long", clock, insert_only=True)
add_with_metadata("datetimes", "DATETIME(0) to DATETIME(6)", datetimes, insert_only=True)
add_with_metadata(
    *("timestamps", "TIMESTAMP(0) to TIMESTAMP(6)", timestamps), servers=NAMES, insert_only=True
)
_OLD = {"mysql56_temporal_format": "OFF"}
add_with_metadata(
    *("old-temporal", "TIME, DATETIME and TIMESTAMP in MariaDB's old format", old_temporal),
    servers=MARIADB,
    settings=_OLD,
    insert_only=True,
)
add(
    *("old-temporal-fractions", "MariaDB's old formats with fractions: need the schema"),
    old_temporal_fractions,
    servers=MARIADB,
    settings=_OLD,
    with_text=False,  # mariadb-binlog can't read them either
    insert_only=True,
)
