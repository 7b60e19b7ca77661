"""The lives of tables, by what statements did."""

import pyarrow as pa

from tailrace.columns import TableChange
from tailrace.spark.manifest.manifest import TableRows
from tailrace.spark.state.current.plan import has_begun, plan_table
from tailrace.spark.state.current.timeline import lives, stages
from tailrace.spark.state.source_changes import SourceChanges

STATE = (TableRows(pa.schema([("a", pa.int64())]), ("a",), (None,)), (None,))


def test_a_table_that_is_emptied_in_each_of_many_transactions():
    """As a table for imports is, in a log of weeks."""
    changes = [TableChange(number, "truncate", "d.t") for number in range(1, 3000)]
    life = lives(["d.t"], (), changes, lambda _: True)["d.t"]
    assert has_begun(life, {}, {"d.t": STATE})
    source = SourceChanges((), {}, {}, out=None)
    assert plan_table(life, source, {"d.t": STATE}).target.columns.names == ["a"]
    assert stages(["d.t"], (), changes, lambda _: True)[-1].depth == 2999


def test_a_table_that_had_a_name_which_is_not_mirrored_is_there():
    """Also if a table of that name was there before."""
    changes = [
        TableChange(1, "create", "e.x"),
        TableChange(2, "drop", "e.x"),
        TableChange(3, "rename", "d.t", "e.x"),
        TableChange(4, "rename", "e.x", "d.t"),
    ]
    life = lives(["d.t"], (), changes, lambda name: name != "e.x")["d.t"]
    assert "which is not mirrored" in life.refused
    assert not life.dropped
