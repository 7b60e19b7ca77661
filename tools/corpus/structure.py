"""Tables of odd make: very wide, generated and invisible columns, partitions, odd names."""

from __future__ import annotations

from tools.corpus.case import MARIADB, MYSQL, Recorder, add, add_with_metadata

_KINDS = ("INT", "TINYINT UNSIGNED", "VARCHAR(5)", "DECIMAL(6,2)", "DATETIME(3)", "BIT(3)")
_VALUES = ("-7", "200", "'w'", "-1.25", "'2026-01-02 03:04:05.678'", "5")


def wide(recorder: Recorder) -> None:
    columns = {f"column_{n}": _KINDS[n % len(_KINDS)] for n in range(300)}
    full = [_VALUES[n % len(_VALUES)] for n in range(300)]
    gaps = [value if n % 7 else "NULL" for n, value in enumerate(full)]
    recorder.table("wide", columns, [full, gaps, full[:1] + ["NULL"] * 298 + full[299:]])
    recorder.run(
        "SET binlog_row_image = MINIMAL",
        "UPDATE wide SET column_299 = 1, column_5 = NULL WHERE id = 1",
        "DELETE FROM wide WHERE id = 4",
    )


def generated(recorder: Recorder) -> None:
    recorder.run(
        "CREATE TABLE computed (id INT PRIMARY KEY, a INT, s INT AS (a * 2) STORED, "
        "v VARCHAR(20) AS (CONCAT('v', a)) VIRTUAL, z INT)",
        "INSERT INTO computed (id, a, z) VALUES (1, 10, 1), (2, NULL, 2)",
        "UPDATE computed SET a = 11 WHERE id = 1",
        "CREATE TABLE hidden (id INT PRIMARY KEY, secret INT DEFAULT 5 INVISIBLE, v INT)",
        "INSERT INTO hidden VALUES (1, 2)",
        "INSERT INTO hidden (id, secret, v) VALUES (2, 6, 3)",
    )


def mysql_hidden(recorder: Recorder) -> None:
    """Columns that MySQL makes itself: of functional and multi-valued indexes, and keys."""
    recorder.run(
        "CREATE TABLE functional (id INT PRIMARY KEY, n INT, j JSON, KEY by_sum ((n + id)), "
        "KEY by_tag ((CAST(j->'$.tags' AS UNSIGNED ARRAY))))",
        "INSERT INTO functional VALUES (1, 5, '{\"tags\": [1, 2]}'), (2, NULL, NULL)",
        "UPDATE functional SET n = 6, j = '{\"tags\": []}' WHERE id = 1",
        "SET sql_generate_invisible_primary_key = ON",
        "CREATE TABLE keyless (v VARCHAR(10))",
        "INSERT INTO keyless VALUES ('one'), ('two')",
        "UPDATE keyless SET v = 'zwei' WHERE v = 'two'",
        "SET sql_generate_invisible_primary_key = OFF",
        "CREATE TABLE instant (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO instant VALUES (1, 1, 1)",
        "ALTER TABLE instant ADD COLUMN c INT DEFAULT 9 AFTER id, ALGORITHM=INSTANT",
        "ALTER TABLE instant DROP COLUMN a, ALGORITHM=INSTANT",
        "UPDATE instant SET b = 2",
        "INSERT INTO instant VALUES (2, 3, 4)",
    )


def mariadb_hidden(recorder: Recorder) -> None:
    """System versioning, sequences."""
    recorder.run(
        "CREATE TABLE versioned (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
        "INSERT INTO versioned VALUES (1, 1), (2, 2)",
        "UPDATE versioned SET v = 10 WHERE id = 1",
        "DELETE FROM versioned WHERE id = 2",
        "CREATE SEQUENCE seq START WITH 5 INCREMENT BY 2 CACHE 3",
        "CREATE TABLE numbered (id INT DEFAULT (NEXT VALUE FOR seq) PRIMARY KEY, v INT)",
        *("INSERT INTO numbered (v) VALUES (1), (2)", "INSERT INTO numbered (v) VALUES (3), (4)"),
        "SELECT SETVAL(seq, 100)",
    )


def partitions(recorder: Recorder) -> None:
    recorder.run(
        "CREATE TABLE parts (id INT PRIMARY KEY, v VARCHAR(10)) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), "
        "PARTITION p2 VALUES LESS THAN MAXVALUE)",
        "INSERT INTO parts VALUES (1, 'a'), (11, 'b'), (21, 'c'), (12, 'd')",
        "UPDATE parts SET id = id + 10 WHERE id = 12",
        "UPDATE parts SET v = 'z'",
        "DELETE FROM parts WHERE id = 11",
        "ALTER TABLE parts TRUNCATE PARTITION p0",
        "ALTER TABLE parts DROP PARTITION p1",
        "INSERT INTO parts VALUES (30, 'e')",
    )


def names(recorder: Recorder) -> None:
    longest = "n" * 64
    recorder.run(
        "CREATE TABLE `tablé 日本` (`cölumn` INT PRIMARY KEY, `a.b` INT, `q``q` INT, `  x` INT)",
        "INSERT INTO `tablé 日本` VALUES (1, 2, 3, 4)",
        f"CREATE TABLE `{longest}` (`{'é' * 64}` INT PRIMARY KEY)",
        f"INSERT INTO `{longest}` VALUES (1)",
        "CREATE TABLE `_op` (`_op` INT PRIMARY KEY, `_table` INT, `before` INT, `after` INT)",
        "INSERT INTO `_op` VALUES (1, 2, 3, 4)",
        "CREATE TABLE one_column (id INT PRIMARY KEY)",
        "INSERT INTO one_column VALUES (1), (2)",
        "DELETE FROM one_column WHERE id = 1",
    )


add_with_metadata("wide", "300 columns", wide)
add_with_metadata("generated", "generated and invisible columns", generated)
add_with_metadata("mysql-hidden", "functional indexes, generated keys", mysql_hidden, MYSQL)
add_with_metadata("versioned", "system versioning, sequences", mariadb_hidden, MARIADB)
add("partitions", "a partitioned table", partitions)
add_with_metadata("names", "odd and long names", names)
