"""A mirror under a random load with DDL that puts all it can beside its files, against SELECT."""

from __future__ import annotations

import pytest

from tailrace.spark import mirror
from tailrace.spark.current import patching
from tailrace.spark.current.patching import Patches
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.parquet import hidden
from tailrace.spark.verify import verify
from tests.spark.following import Follow, batches, loaded, no_spark, url_of
from tests.waiting import DEADLINE
from tools.load import Load

LOAD = {"rate": 40, "large": 0, "huge": 0, "clients": 3, "tables": 2}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("mysql-9.7", "delta"), ("mariadb-11.8", "iceberg")],
)
def test_a_random_load(name, kind, fresh_server, tmp_path, monkeypatch):
    monkeypatch.setattr(patching, "DEFAULT_PATCHES", Patches(least=0, share=1, together=2))
    source = fresh_server(name, {"binlog_row_metadata": "FULL"})
    lake = tmp_path / "lake"
    url = url_of(source)
    options = {"spark": no_spark, "statements": "skip", "format": kind}
    patched = set()

    def look(following):
        """Which tables have rows beside their files now; whether there were some batches of most."""
        if LakeView.is_there(lake):
            for key, table in LakeView.open(lake).manifest.tables.items():
                if table.current is not None and any(file.hidden for file in table.current.data):
                    patched.add(key)
        return patched and batches(following) >= 8 and loaded(lake) >= 5

    with Load(source, seed=11, **LOAD), Follow(url, lake, **options) as following:
        following.wait_for(lambda: look(following))
    with Follow(url, lake, **options):
        report = verify(url, lake, spark=no_spark, wait=DEADLINE)
    compared = [table for table in report.tables if table.compared]
    assert len(compared) >= 5
    assert [(table.name, table.reason, table.first) for table in compared if table.reason] == []
    assert [(table.name, table.first[:2]) for table in compared if table.differing] == []
    assert sum(table.server_rows for table in compared) > 0


def test_by_tasks_of_spark(mysql97, spark, tmp_path, monkeypatch):
    """Each run is one batch then, and all jobs are Spark's."""
    monkeypatch.setattr(patching, "DEFAULT_PATCHES", Patches(least=0, share=2, together=3))
    lake, url = tmp_path / "lake", url_of(mysql97)
    mysql97.execute("DROP DATABASE IF EXISTS by_tasks")
    mysql97.execute("CREATE DATABASE by_tasks")
    mysql97.execute("CREATE TABLE by_tasks.t (id INT PRIMARY KEY, v VARCHAR(20))")
    rows = ", ".join(f"({number}, 'value {number}')" for number in range(300))
    for statement in (
        f"INSERT INTO by_tasks.t VALUES {rows}",
        "UPDATE by_tasks.t SET v = 'other' WHERE id % 50 = 7",
        "DELETE FROM by_tasks.t WHERE id % 60 = 7",
    ):
        mysql97.execute(statement)
        mysql97.connection.commit()
        mirror(url, lake, spark=spark, format="delta", tables=["by_tasks.*"], statements="skip")
    current = LakeView.open(lake).manifest.tables["by_tasks.t"].current
    assert current.rows == 295
    assert len(current.tails) == 1
    assert sum(hidden.count(file.hidden) for file in current.data) == 6 + 5
    report = verify(url, lake, spark=spark, tables=["by_tasks.*"])
    assert (report.verdict, report.tables[0].lake_rows) == ("equal", 295)
