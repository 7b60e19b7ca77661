"""Run by test_spark.py in a process of its own, since a session has its jars from the start.

It is given what to do, and with which lake, as lines of JSON, and answers each with a line of what
it saw: so one session, which takes long to start and to read its first table, does all of a format.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from tailrace.spark import session, settings
from tailrace.spark.lake.delta import vectors
from tailrace.spark.lake.lake import open_store
from tests.spark.lake.making import batch
from tests.spark.lake.patching import NAME, new, patch
from tests.spark.replay import run

ROWS = 9000


class OnSpark:
    """A lake of a format, in a session that has its catalogue."""

    def __init__(self, spark, name, lake):
        self.name, self.lake = name, Path(lake)
        self.spark = spark.newSession()
        for key, value in settings(name, lake).items():
            if key.startswith("spark.sql.catalog."):
                self.spark.conf.set(key, value)
        self.current, self.log = "lake.shop.orders", "lake.shop.orders_changelog"
        if name == "delta":
            self.current, self.log = (
                f"delta.`{lake}/{each}`" for each in (NAME, f"{NAME}_changelog")
            )

    def rows(self, text):
        return [json.loads(each) for each in self.spark.sql(text).toJSON().collect()]

    def merge(self, key, named, other, added):
        """Change the row of a key and insert one of another."""
        self.spark.sql(
            f"MERGE INTO {self.current} t USING (SELECT {key} AS id UNION ALL SELECT {other}) c"
            f" ON t.id = c.id WHEN MATCHED THEN UPDATE SET name = '{named}'"
            f" WHEN NOT MATCHED THEN INSERT (id, name) VALUES (c.id, '{added}')"
        )

    def merged(self):
        """Reads the lake's two tables, merges into the current one, and compacts the changelog."""
        seen = {
            "current": self.rows(f"SELECT * FROM {self.current} ORDER BY id"),
            "log": self.rows(f"SELECT after.* FROM {self.log} ORDER BY _seq"),
            "skipped": self.rows(
                f"SELECT id FROM {self.current} WHERE seen = TIMESTAMP'2024-01-01 00:00:05Z'"
                " AND price = 5.25 AND at = TIMESTAMP_NTZ'2020-01-01 05:00:00.123456'"
                " AND big = 18446744073709551610 AND born = DATE'2000-01-06'"
            ),
        }
        self.merge(3, "merged", 1000, "new")
        if self.name == "delta":
            self.spark.sql(f"OPTIMIZE {self.log}")
        else:
            self.spark.sql(
                "CALL lake.system.rewrite_data_files(table => 'shop.orders_changelog',"
                " options => map('min-input-files', '2'))"
            )
        seen["merged"] = self.rows(
            f"SELECT id, name FROM {self.current} WHERE name IN ('merged', 'new') ORDER BY id"
        )
        return seen

    def patched(self):
        """Of a table with delete files: rows are updated and deleted beside its files."""

        def seen():
            return self.rows(f"SELECT id, name FROM {self.current} ORDER BY id")

        found = {"current": seen()}
        found["one"] = self.rows(f"SELECT id, name FROM {self.current} WHERE id = 5")
        found["count"] = self.rows(f"SELECT count(*) AS n, max(id) AS most FROM {self.current}")
        for kind in ("delete", "merge", "update"):
            self.spark.sql(
                f"ALTER TABLE {self.current}"
                f" SET TBLPROPERTIES ('write.{kind}.mode' = 'merge-on-read')"
            )
        self.merge(4, "merged", 1000, "merged")
        self.spark.sql(f"DELETE FROM {self.current} WHERE id IN (5, 6)")
        found["merged"] = seen()
        for call in ("rewrite_position_delete_files", "rewrite_data_files"):
            every = "options => map('rewrite-all', 'true')"
            self.spark.sql(f"CALL lake.system.{call}(table => 'shop.orders', {every})")
        found["compacted"] = seen()
        return found

    def vectors(self):
        """A table with deletion vectors is read, merged into, deleted from and optimised.

        Each time it is gone on with by a batch of ours, and seen behind that.
        """
        stages = {}

        def see(stage):
            # From the log alone, where it says enough.
            about = self.spark.sql(f"SELECT count(*), min(id), max(id) FROM {self.current}").first()
            rows = self.spark.sql(f"SELECT id, name FROM {self.current} ORDER BY id").collect()
            few = f"SELECT id, name FROM {self.current} WHERE id < 5 ORDER BY id"
            assert tuple(about) == (len(rows), rows[0][0], rows[-1][0])
            stages[stage] = {
                "named": {row[0]: row[1] for row in rows if not row[1].startswith("n")}
                | {row[0]: row[1] for row in rows if row[1] == "new"},
                "ids": [row[0] for row in rows],
                "few": [list(row) for row in self.spark.sql(few).collect()],
            }

        def ours(make):
            with open_store(self.lake, "delta") as store:
                store.refresh(run)
                store.commit(make(store))

        ours(lambda store: batch(store, 0, rows=ROWS))
        ours(lambda store: patch(store, new(3, ROWS), gone=[0, 7]))
        see("inline")
        ours(lambda store: patch(store, new(4), gone=range(10, 8010, 2)))
        assert list((self.lake / NAME).glob(vectors.ANY_FILE))
        see("file")
        self.merge(3, "merged", 20000, "inserted")
        ours(lambda store: patch(store, new(4, 5)))
        see("after merge")
        ours(lambda store: patch(store, new(6)))
        self.spark.sql(f"DELETE FROM {self.current} WHERE id IN (5, 11, 8999)")
        ours(lambda store: patch(store, new(1, 8999)))
        see("after delete")
        ours(lambda store: patch(store, new(2)))
        self.spark.sql(f"OPTIMIZE {self.current}")
        ours(lambda store: patch(store, new(1), gone=[2]))
        see("after optimize")
        return stages


def main(name, lake):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Java prints is no answer
    # A snapshot of Delta's is a shuffle to 50 tasks otherwise, and each statement makes a few.
    conf = {**settings(name, lake), "spark.databricks.delta.snapshotPartitions": "1"}
    spark = session(1, conf=conf)
    for line in sys.stdin:
        what, lake = json.loads(line)
        try:
            answer = {"seen": getattr(OnSpark(spark, name, lake), what)()}
        except Exception:  # noqa: BLE001 - the test says it
            answer = {"failed": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
