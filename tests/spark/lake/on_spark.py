"""Run by test_spark.py in a process of its own, since a session has its jars from the start.

Reads a lake's two tables with Spark, merges into the current one, and compacts the changelog; or,
of a table with patches, merges and deletes beside its files. Prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys

from tailrace.spark import session, settings


def started(name, lake):
    # A snapshot of Delta's is a shuffle to 50 tasks otherwise, and each statement makes a few.
    return session(
        1, conf={**settings(name, lake), "spark.databricks.delta.snapshotPartitions": "1"}
    )


def patched(name, current, rows):
    """Rows are updated and deleted as the table's format has it for such tables."""

    def seen():
        return rows(f"SELECT id, name FROM {current} ORDER BY id")

    found = {"current": seen(), "one": rows(f"SELECT id, name FROM {current} WHERE id = 5")}
    found["count"] = rows(f"SELECT count(*) AS n, max(id) AS most FROM {current}")
    if name == "iceberg":
        for kind in ("delete", "merge", "update"):
            rows(f"ALTER TABLE {current} SET TBLPROPERTIES ('write.{kind}.mode' = 'merge-on-read')")
    rows(
        f"MERGE INTO {current} t USING (SELECT 4 AS id UNION ALL SELECT 1000) c ON t.id = c.id"
        " WHEN MATCHED THEN UPDATE SET name = 'merged'"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (c.id, 'merged')"
    )
    rows(f"DELETE FROM {current} WHERE id IN (5, 6)")
    found["merged"] = seen()
    if name == "iceberg":
        table = "table => 'shop.orders'"
        for call in ("rewrite_position_delete_files", "rewrite_data_files"):
            every = "options => map('rewrite-all', 'true')"
            rows(f"CALL lake.system.{call}({table}, {every})")
    else:
        rows(f"OPTIMIZE {current}")
    found["compacted"] = seen()
    return found


def main(name, lake, what="merge"):
    spark = started(name, lake)
    current, log = "lake.shop.orders", "lake.shop.orders_changelog"
    if name == "delta":
        current, log = (
            f"delta.`{lake}/{each}`" for each in ("shop.orders", "shop.orders_changelog")
        )

    def rows(text):
        return [json.loads(each) for each in spark.sql(text).toJSON().collect()]

    if what == "patched":
        print(json.dumps(patched(name, current, rows)))
        return
    seen = {
        "current": rows(f"SELECT * FROM {current} ORDER BY id"),
        "log": rows(f"SELECT after.* FROM {log} ORDER BY _seq"),
        "skipped": rows(
            f"SELECT id FROM {current} WHERE seen = TIMESTAMP'2024-01-01 00:00:05Z' AND price = 5.25"
            " AND at = TIMESTAMP_NTZ'2020-01-01 05:00:00.123456' AND big = 18446744073709551610"
            " AND born = DATE'2000-01-06'"
        ),
    }
    spark.sql(
        f"MERGE INTO {current} t USING (SELECT 3 AS id UNION ALL SELECT 1000) c ON t.id = c.id"
        " WHEN MATCHED THEN UPDATE SET name = 'merged'"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (c.id, 'new')"
    )
    if name == "delta":
        spark.sql(f"OPTIMIZE {log}")
    else:
        spark.sql(
            "CALL lake.system.rewrite_data_files(table => 'shop.orders_changelog',"
            " options => map('min-input-files', '2'))"
        )
    seen["merged"] = rows(
        f"SELECT id, name FROM {current} WHERE name IN ('merged', 'new') ORDER BY id"
    )
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
