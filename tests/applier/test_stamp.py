"""Which transactions a log allows to be executed at the same time."""

from tailrace.applier.transaction import Stamp
from tests.cases import each_case


@each_case(
    ("stamp", "others"),
    [
        (Stamp(number=5, after=2), [Stamp(number=3, after=2), Stamp(number=4, after=1)]),
        (Stamp(group=(1, 7)), [Stamp(group=(1, 7))]),
    ],
)
def test_with_these(stamp, others):
    assert all(map(stamp.allows, others))


@each_case(
    ("stamp", "others"),
    [
        (Stamp(number=5, after=2), [Stamp(number=2), Stamp(number=1), Stamp(number=5)]),
        (Stamp(number=1, after=0), [Stamp(number=9, after=8)]),  # another file's
        (Stamp(group=(1, 7)), [Stamp(group=(1, 6)), Stamp()]),
    ],
)
def test_with_none_of_these(stamp, others):
    assert not any(map(stamp.allows, others))
