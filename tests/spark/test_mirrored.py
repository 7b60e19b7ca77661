"""Mirrors are followed and killed under load (`tools.campaign.mirrored`), and what that would find.

TAILRACE_KILLS makes it more than one kill of each; ``--size full`` of the campaign has a hundred of
each format.
"""

import os
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from tools.campaign.mirrored import SIZES, pairs, run
from tools.campaign.mirrored_checks import replay
from tools.campaign.mirrored_lake import Wrong, compare
from tools.servers import available

SMALL = replace(SIZES["small"], kills=int(os.environ.get("TAILRACE_KILLS", "1")))
DUMP = {
    "columns": ["id", "name"],
    "types": ["int", "varchar(9)"],
    "key": ["id"],
    "rows": [["1", "one"], ["2", None]],
}
RAW = pa.map_(pa.string(), pa.string())
IMAGE = pa.struct([("id", pa.int32()), ("name", pa.string())])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "format"), pairs(SMALL, None, None))
def test_killed_under_load(name, format):  # noqa: A002 - what the campaign calls it
    if reason := available(name):
        pytest.skip(reason)
    report = run(name, format, SMALL, seed=1)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.places.total() == SMALL.kills
    assert report.found.moments == SMALL.moments
    assert report.found.tables >= 6
    assert report.found.verified == report.found.tables
    assert report.found.replayed >= 4
    assert report.found.versions > 0


# --- what it would find --------------------------------------------------------------------------


def rows(*values):
    return pa.table(
        {
            "id": pa.array([number for number, _ in values], pa.int32()),
            "name": pa.array([name for _, name in values], pa.string()),
            "_raw": pa.nulls(len(values), RAW),
        }
    )


def test_rows_that_are_not_as_select_said():
    compare("t", rows((2, None), (1, "one")), DUMP)
    for wrong in (
        rows((1, "one")),
        rows((1, "one"), (2, "two")),
        rows((1, "one"), (1, "one")),
        rows((1, "one"), (2, None), (3, None)),
        rows((1, "one"), (2, None)).drop_columns("name"),
    ):
        with pytest.raises(Wrong):
            compare("t", wrong, DUMP)


def test_a_column_that_goes_on_in_another_type():
    other = rows((1, None), (2, None))
    other = other.append_column("name__string", pa.array(["one", None]))
    compare("t", other, DUMP)
    with pytest.raises(Wrong):
        compare("t", other.rename_columns(["id", "name", "_raw", "name_string"]), DUMP)


def test_texts_are_kept_of_what_no_type_holds_alone():
    dump = DUMP | {"columns": ["id", "at"], "types": ["int", "datetime(1)"]}
    for text, outcome in {
        "2024-02-31 10:00:00": nullcontext(),
        "0000-01-01 00:00:00": nullcontext(),
        "2024-02-29 10:00:00.5": pytest.raises(Wrong, match="_raw"),
    }.items():
        at, raw = pa.array([None], pa.timestamp("us")), pa.array([[("at", text)]], RAW)
        with outcome:
            compare(
                "t", pa.table({"id": [1], "at": at, "_raw": raw}), dump | {"rows": [["1", text]]}
            )


def changes(*steps):
    """Changes: (file, offset, operation, before, after), numbered in their order."""
    columns = {
        "_file": pa.array([step[0] for step in steps], pa.string()),
        "_pos": pa.array([step[1] for step in steps], pa.int64()),
        "_seq": pa.array([Decimal(number) for number in range(len(steps))], pa.decimal128(38, 0)),
        "_op": pa.array([step[2] for step in steps], pa.string()),
        "before": pa.array([step[3] for step in steps], IMAGE),
        "after": pa.array([step[4] for step in steps], IMAGE),
        "_raw": pa.nulls(len(steps), RAW),
    }
    return pa.table(columns)


def image(number, name):
    return {"id": number, "name": name}


FIRST = ("log.1", 90, "insert", None, image(7, "before TRUNCATE"))
STEPS = [
    ("log.1", 100, "insert", None, image(1, "a")),
    ("log.1", 200, "update", image(1, "a"), image(2, "a")),
    ("log.2", 50, "insert", None, image(1, "one")),
    ("log.2", 60, "update", image(2, "a"), image(2, None)),
    ("log.2", 70, "insert", None, image(3, "x")),
    ("log.2", 80, "delete", image(3, "x"), None),
]


def played(*steps):
    found = replay("t", changes(*steps), ["id"], "log.1", 90)
    compare("t", found, DUMP, image="after.")


def test_changes_that_are_missing_or_there_twice():
    """That the one is there twice that sets what is set, ``_seq`` would tell."""
    played(FIRST, *STEPS)
    for number in range(len(STEPS)):
        with pytest.raises(Wrong):
            played(FIRST, *STEPS[:number], *STEPS[number + 1 :])
    for number in (0, 1, 2, 4, 5):
        with pytest.raises(Wrong):
            played(FIRST, *STEPS[: number + 1], *STEPS[number:])
