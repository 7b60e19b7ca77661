"""How far a reader is behind a log, and how fast it reads."""

from tailrace.spark.input import lag
from tailrace.spark.input.lag import Rate


def test_a_rate_is_that_of_the_last_seconds(monkeypatch):
    now = 100.0
    monkeypatch.setattr(lag.time, "monotonic", lambda: now)
    rate = Rate(10.0)
    assert rate.add(2.0, 100, 10) == [50, 5]  # what the first batch took counts
    now = 103.0
    assert rate.add(1.0, 100, 0) == [40, 2]
    now = 111.0
    assert rate.add(1.0, 0, 9) == [100 / 9, 1]  # the first is too long ago
