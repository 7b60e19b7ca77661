"""How fast this machine is: the seconds that a fixed piece of Python work takes, at best.

`.ci/run` divides its times by this, so that runs on different machines can be compared.
"""

from __future__ import annotations

import time


def work() -> None:
    """Integer arithmetic, a dictionary and a list: what interpreters spend their time on."""
    counts: dict[int, int] = {}
    total = 0
    for number in range(2_000_000):
        total += number * number % 7
        counts[number & 1023] = total
    sorted(counts.values())


def seconds() -> float:
    """The best of seven: other programs only make it slower."""
    times = []
    for _ in range(7):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    print(f"{seconds():.3f}")
