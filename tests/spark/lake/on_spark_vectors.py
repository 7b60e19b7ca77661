"""Run by test_patched_spark.py in a process of its own, since a session has its jars from the start.

A table with deletion vectors is read by Spark, merged into, deleted from and optimised, and each
time gone on with by a batch of ours. Prints what Spark saw behind each, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tailrace.spark.lake import vectors
from tailrace.spark.lake.open import open_store
from tests.spark.lake.making import batch
from tests.spark.lake.on_spark import started
from tests.spark.lake.patching import NAME, new, patch

ROWS = 9000


def main(lake):
    lake = Path(lake)
    spark = started("delta", lake)
    table = f"delta.`{lake}/{NAME}`"
    stages = {}

    def see(stage):
        # From the log alone, where it says enough.
        about = spark.sql(f"SELECT count(*), min(id), max(id) FROM {table}").collect()[0]
        rows = spark.sql(f"SELECT id, name FROM {table} ORDER BY id").collect()
        few = spark.sql(f"SELECT id, name FROM {table} WHERE id < 5 ORDER BY id").collect()
        assert tuple(about) == (len(rows), rows[0][0], rows[-1][0])
        stages[stage] = {
            "named": {row[0]: row[1] for row in rows if not row[1].startswith("n")}
            | {row[0]: row[1] for row in rows if row[1] == "new"},
            "ids": [row[0] for row in rows],
            "few": [list(row) for row in few],
        }

    def ours(make):
        with open_store(lake, "delta") as store:
            store.refresh()
            store.commit(make(store))

    ours(lambda store: batch(store, 0, rows=ROWS))
    ours(lambda store: patch(store, new(3, ROWS), gone=[0, 7]))
    see("inline")
    ours(lambda store: patch(store, new(4), gone=range(10, 8010, 2)))
    assert list((lake / NAME).glob(vectors.ANY_FILE))
    see("file")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 3 AS id UNION ALL SELECT 20000) c ON t.id = c.id"
        " WHEN MATCHED THEN UPDATE SET name = 'merged'"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (c.id, 'inserted')"
    )
    see("merged")
    ours(lambda store: patch(store, new(4, 5)))
    see("after merge")
    ours(lambda store: patch(store, new(6)))
    spark.sql(f"DELETE FROM {table} WHERE id IN (5, 11, 8999)")
    see("deleted")
    ours(lambda store: patch(store, new(1, 8999)))
    see("after delete")
    ours(lambda store: patch(store, new(2)))
    spark.sql(f"OPTIMIZE {table}")
    see("optimized")
    ours(lambda store: patch(store, new(1), gone=[2]))
    see("after optimize")
    print(json.dumps(stages))


if __name__ == "__main__":
    main(*sys.argv[1:])
