"""Current states of stories with DDL where a batch takes a transaction or a few, not all."""

from __future__ import annotations

import pytest

import tailrace.spark.current.plan as planning
from tailrace.spark.current.patching import Patches
from tests.spark.current.test_given_keys import batches
from tests.spark.replay import differences, rows_of
from tests.spark.test_current_servers import DATABASE, REFUSED, STORIES, tell
from tools.dumps import dump_databases


@pytest.mark.parametrize("patches", [None, Patches(least=0, share=1, together=2)])
@pytest.mark.parametrize("story", list(STORIES))
def test_current_state_after_ddl_batch_by_batch(server, story, patches, tmp_path):
    logs = tell(server, STORIES[story], "FULL", tmp_path / "logs")
    states = batches(logs, tmp_path / "states", patches=patches)
    wanted = dump_databases(server, DATABASE)
    assert {name for name in states if name.startswith(DATABASE)} == set(wanted)
    for name, table in wanted.items():
        assert states[name].current.refused is None
        rows = rows_of(states[name]) if any(states[name].paths) else None
        if rows is None:
            assert not table["count"]
            continue
        assert differences(rows, table) == []


@pytest.mark.parametrize("story", list(REFUSED))
def test_what_is_refused_batch_by_batch(server, story, tmp_path):
    statements, reason = REFUSED[story]
    logs = tell(server, statements, "FULL", tmp_path / "logs")
    assert reason in batches(logs, tmp_path / "states")[f"{DATABASE}.t"].current.refused


TEXTS = """
    CREATE TABLE t (id INT PRIMARY KEY);
    INSERT INTO t VALUES (1);
    ALTER TABLE t ADD c DATE DEFAULT '0000-05-01', ADD d DATETIME(3) DEFAULT '0000-02-28 01:02:03.5';
    ALTER TABLE t ADD e DATETIME(2) NOT NULL, ADD f DATETIME DEFAULT '0000-00-00';
    INSERT INTO t (id, e) VALUES (2, '0000-00-00')
"""


def test_defaults_that_are_texts_are_as_those_of_rows(server, tmp_path):
    """Days that no typed value is, with as many digits as their columns have."""
    logs = tell(
        server, f"SET sql_mode = ''; {TEXTS}; SET sql_mode = DEFAULT", "FULL", tmp_path / "l"
    )
    rows = rows_of(batches(logs, tmp_path / "states")[f"{DATABASE}.t"])
    assert sorted(rows["id"].to_pylist()) == [1, 2]
    first, second = rows["_raw"].to_pylist()
    assert first == second
    assert [name for name, _ in first] == ["c", "d", "e", "f"]
    assert all(rows[name].null_count == 2 for name in "cdef")


EMPTIED = {
    "delete": "CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 2), (2, 3); DELETE FROM t",
    "truncate": "CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 2); TRUNCATE t",
}


@pytest.mark.parametrize("emptied", list(EMPTIED))
def test_a_table_that_is_empty_in_the_lake_gets_a_large_batch(
    server, emptied, tmp_path, monkeypatch
):
    """Its file of no rows is cut into buckets as the changes are."""
    monkeypatch.setattr(planning, "BUCKET_BYTES", 512)
    rows = ", ".join(f"({number}, {number})" for number in range(400))
    statements = f"{EMPTIED[emptied]}; INSERT INTO t VALUES {rows}"
    logs = tell(server, statements, "FULL", tmp_path / "logs")
    built = batches(logs, tmp_path / "states")[f"{DATABASE}.t"]
    assert len(built.current.files) > 1
    assert differences(rows_of(built), dump_databases(server, DATABASE)[f"{DATABASE}.t"]) == []
