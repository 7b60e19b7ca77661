"""Durations and sizes: with a unit everywhere; a bare number is seconds, or bytes."""

import pytest

from tailrace.durations import seconds_of
from tailrace.errors import UsageError
from tailrace.sizes import bytes_of
from tests.cases import each_case


@each_case(
    ("given", "seconds"),
    [
        ("500ms", 0.5),
        ("10s", 10),
        ("10", 10),
        ("0", 0),
        ("1.5 m", 90),
        ("2h", 7200),
        ("7d", 604800),
        ("1w", 604800),
        (2, 2),
        (0.25, 0.25),
        (3e6, 3e6),
        (1e-05, 1e-05),
    ],
)
def test_units(given, seconds):
    assert seconds_of(given, "trigger") == pytest.approx(seconds)


@each_case("given", ["", "soon", "10 parsecs", "-1s", "1e", "inf", "10S", None])
def test_what_is_no_duration(given):
    with pytest.raises(UsageError) as raised:
        seconds_of(given, "--trigger")
    assert str(raised.value) == (
        f"--trigger is a duration such as 500ms, 10s, 2m or 1h, not {str(given)!r}"
    )


@each_case(
    ("given", "message"),
    [
        ("0", "retry is a duration from 10ms to 365d, not 0"),
        ("366d", "retry is a duration from 10ms to 365d, not 366d"),
    ],
)
def test_bounds(given, message):
    with pytest.raises(UsageError) as raised:
        seconds_of(given, "retry", least=0.01)
    assert str(raised.value) == message


@each_case(
    ("given", "size"),
    [("20GB", 20 * 10**9), ("1.5 kB", 1500), ("64MiB", 64 << 20), ("7", 7), (7, 7), ("2b", 2)],
)
def test_sizes(given, size):
    assert bytes_of(given, "size") == size


@each_case("given", ["", "0", "0.4", "-1", "much", "5s", "1e9", None])
def test_what_is_no_size(given):
    with pytest.raises(UsageError) as raised:
        bytes_of(given, "--spool-limit")
    assert str(raised.value) == (
        f"--spool-limit is a size such as 500MB, 20GB or 64MiB, not {str(given)!r}"
    )
