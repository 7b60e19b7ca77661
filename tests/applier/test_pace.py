"""Whether workers or one connection apply the next transactions."""

from tailrace.applier.server.workers import Pace


def test_both_are_tried_and_then_the_faster_and_now_and_then_the_other():
    pace = Pace()
    chosen = []
    for _ in range(32):
        by_workers = pace.by_workers()
        pace.took(2.0 if by_workers else 1.0, by_workers=by_workers)
        chosen.append(by_workers)
    assert chosen[:3] == [True, False, False]
    assert [number for number, each in enumerate(chosen) if each] == [0, 15, 31]


def test_it_changes_when_the_other_has_become_faster():
    pace = Pace()
    for number in range(64):
        by_workers = pace.by_workers()
        workers = 2.0 if number < 20 else 0.5
        pace.took(workers if by_workers else 1.0, by_workers=by_workers)
    assert pace.by_workers()
