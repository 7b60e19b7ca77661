"""The comparison itself: what differs is found."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from tests.cases import each_case
from tools.campaign.replay import UNKNOWN, Replayed, ReplayError
from tools.campaign.selected import Declared, Number, canonical, from_arrow, from_json, parse


def table(**more):
    found = Replayed("t", **more)
    found.take("insert", None, {"id": "1", "v": "a"})
    found.take("insert", None, {"id": "2", "v": None})
    found.take("update", {"id": "2"}, {"v": "b"})
    return found


def test_changes_are_replayed():
    table().compare([{"id": "2", "v": "b"}, {"id": "1", "v": "a"}])


@each_case(
    "rows",
    [
        [],
        [{"id": "1", "v": "a"}],
        [{"id": "1", "v": "a"}, {"id": "2", "v": "B"}],
        [{"id": "1", "v": "a"}, {"id": "2", "v": None}],
        [{"id": "1", "v": "a"}, {"id": "1", "v": "a"}],
    ],
)
def test_what_differs_is_found(rows):
    with pytest.raises(ReplayError):
        table().compare(rows)


def test_an_update_of_nothing_is_found():
    with pytest.raises(ReplayError, match="not there"):
        table().take("update", {"id": "3"}, {"v": "b"})
    with pytest.raises(ReplayError, match="not there"):
        table().take("delete", {"id": "1", "v": "b"}, None)


def test_an_unknown_value_fits_anything_and_no_other_does():
    found = table(generated=frozenset({"g"}))
    found.compare([{"id": "2", "v": "b", "g": "7"}, {"id": "1", "v": "a", "g": None}])
    assert found.rows[0]["g"] is UNKNOWN
    with pytest.raises(ReplayError):
        found.compare([{"id": "2", "v": "x", "g": "7"}, {"id": "1", "v": "a", "g": None}])


@each_case(
    ("kind", "json", "arrow", "selected"),
    [
        ("int", "-7", -7, "-7"),
        ("bigint unsigned", "18446744073709551615", Decimal(2**64 - 1), "18446744073709551615"),
        ("int(8) unsigned zerofill", "42", 42, "00000042"),
        ("decimal(5,2)", '"-1.50"', Decimal("-1.50"), "-1.50"),
        ("double", "1e+20", 1e20, "1e20"),
        ("year", "0", 0, "0000"),
        ("bit(9)", "257", 257, "AQE="),
        (
            "datetime(3)",
            '"2026-01-02 03:04:05.670"',
            datetime(2026, 1, 2, 3, 4, 5, 670000),  # noqa: DTZ001 - a DATETIME has no time zone
            "2026-01-02 03:04:05.670",
        ),
        ("time", '"-838:59:59"', -timedelta(hours=838, minutes=59, seconds=59), "-838:59:59"),
        ("time(1)", '"00:00:00.5"', timedelta(microseconds=500000), "00:00:00.5"),
        ("blob", '"AP8="', b"\x00\xff", "AP8="),
        ("vector(2)", "[1.0,-2.5]", [1.0, -2.5], "AACAPwAAIMA="),
        ("text", '"é\\u2028"', "é\u2028", "é\u2028"),
    ],
)
def test_values_are_written_as_select_prints_them(kind, json, arrow, selected):
    column = Declared("c", kind, binary=False)
    assert from_json(column)(parse(json)) == canonical(column, selected)
    assert from_arrow(column)(arrow) == canonical(column, selected)


def test_numbers_keep_their_digits():
    assert parse("[1.10, 1e5]") == [Number("1.10"), Number("1e5")]
