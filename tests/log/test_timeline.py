"""Changes over time, in a bounded number of intervals."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tailrace.log import timeline
from tailrace.log.timeline import Timeline

TIMES = st.integers(0, 1 << 31) | st.integers(1_700_000_000, 1_700_000_400)
ADDED = st.lists(st.tuples(st.sampled_from("abcdef"), TIMES, st.integers(1, 9), st.integers(0, 99)))


def counted(added):
    found = Timeline()
    for each in added:
        found.add(*each)
        found.add_definition(each[1])
    return found


@given(added=ADDED, cut=st.integers(0, 20), most=st.sampled_from([3, 1 << 16]))
def test_parts_give_the_counts_of_the_whole(added, cut, most):
    before, timeline._MOST_CELLS = timeline._MOST_CELLS, most
    try:
        whole, merged = counted(added), counted(added[cut:])
        merged.merge(counted(added[:cut]))
    finally:
        timeline._MOST_CELLS = before
    assert merged.width == whole.width
    assert merged.tables() == whole.tables()
    assert merged.definitions() == whole.definitions()
    tables = whole.tables()
    assert sum(map(len, tables.values())) <= most + len(tables)


@given(added=ADDED, most=st.sampled_from([1, 7, 240]))
def test_each_change_is_in_its_interval(added, most):
    found = counted(added).within(most)
    starts = Counter()
    for table, second, changes, size in added:
        start = second // found.width * found.width
        starts[table, start, "changes"] += changes
        starts[table, start, "bytes"] += size
    seen = {
        (table, each.start, what): getattr(each, what)
        for table, intervals in found.tables().items()
        for each in intervals
        for what in ("changes", "bytes")
    }
    assert seen == dict(starts)
    assert len({start for _, start, _ in starts}) <= found.intervals <= most
    assert sum(number for _, number in found.definitions()) == len(added)


def test_seconds_of_a_short_log_are_kept():
    found = Timeline()
    for second in range(240):
        found.add("shop.orders", second, 1, 10)
    assert found.width == 1
    assert found.intervals == 240
    found.add("shop.orders", 240, 1, 10)
    assert found.width == 5
    assert found.tables()["shop.orders"][0] == (0, 5, 50)
