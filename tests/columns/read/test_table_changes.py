"""What statements did to tables, as the scan that plans a log tells it."""

from itertools import chain

import pytest

import tailrace
from tailrace.columns import plan_splits
from tailrace.columns.read import blocks
from tailrace.columns.read import scan as scan_module
from tailrace.constants import GTID_TYPES
from tailrace.events.gtids import GtidEvent
from tailrace.events.query import QueryEvent
from tailrace.schema.alteration import altered
from tailrace.storage import find
from tests.recorded import CORPUS

CASES = [
    f"{server}.{case}"
    for server in ("mysql-9.7", "mariadb-11.8", "mariadb-10.11")
    for case in ("ddl", "switches", "partitions")
    if (CORPUS / f"{server}.{case}").exists()
]


def planned(case):
    """All changes of a case, with the names of their files."""
    splits = chain.from_iterable(map(plan_splits, find(CORPUS / case)))
    return [(split.file, change) for split in splits for change in split.changes]


@pytest.mark.parametrize("size", [blocks.BLOCK, 600])
@pytest.mark.parametrize("case", CASES)
def test_statements_are_told_as_the_object_path_has_them(case, size, monkeypatch):
    """With the time of the commit, also where its GTID event is in an earlier block."""
    monkeypatch.setattr(blocks, "BLOCK", size)
    wanted = {}
    for event in tailrace.open(CORPUS / case):
        if event.type in GTID_TYPES:
            begun = event
        elif isinstance(event, QueryEvent):
            micros = begun.commit_timestamp if isinstance(begun, GtidEvent) else None
            micros = micros or event.timestamp * 1_000_000
            wanted[event.file, event.offset] = (micros, begun.offset, event.sql.split()[0])
    found = planned(case)
    assert found
    for file, change in found:
        micros, began, verb = wanted[file, change.offset]
        assert (change.micros, change.began) == (micros, began)
        assert change.statement.startswith(f"«{verb}")
        assert change.statement.endswith(f"» at {file}:{change.offset}")
        assert (change.alteration is not None) == (change.kind == "alter")


def test_a_mistake_makes_one_change_unclear(monkeypatch):
    """The plan goes on, and all other changes are as they are without it."""
    right = [change for _, change in planned("mysql-9.7.ddl")]
    (bad, *_) = [each for each in right if each.kind == "alter"]

    def mistaken(*arguments):
        if bad.statement in arguments:
            raise KeyError(bad.table)
        return altered(*arguments)

    monkeypatch.setattr(scan_module, "altered", mistaken)
    found = [change for _, change in planned("mysql-9.7.ddl")]
    assert [each for each in found if each not in right] == [
        each for each in found if each.seq == bad.seq and each.kind == "unclear"
    ]
    (unclear,) = [each for each in found if each not in right]
    assert unclear.reason == f"KeyError: '{bad.table}': {bad.statement}"
    assert (unclear.table, unclear.columns) == (bad.table, bad.columns)
    assert len(found) == len(right)
