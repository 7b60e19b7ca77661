"""Statements logged as such, and DDL of many kinds."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tools.corpus.case import MYSQL, Recorder, add


def statement_format(recorder: Recorder) -> None:
    recorder.run(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n DOUBLE, s VARCHAR(200), "
        "at TIMESTAMP(6) NULL)",
        "SET binlog_format = STATEMENT, timestamp = 1767225600.123456",
        "INSERT INTO t (n) VALUES (1), (2)",
        "INSERT INTO t (n, s, at) VALUES (RAND(), 'rand', NOW(6))",
        "INSERT INTO t (n) VALUES (LAST_INSERT_ID())",
        "SET @s = 'it''s é😀', @i = -5, @u = 18446744073709551615, @r = 1.5e10, "
        "@d = -12345.678900, @n = NULL, @b = x'00FF'",
        "INSERT INTO t (s) VALUES (@s), (@i), (@u), (@r), (@d), (@n), (HEX(@b))",
        "SET @latin = CONVERT('é' USING latin1) COLLATE latin1_german1_ci",
        "INSERT INTO t (s) VALUES (CONCAT(@latin, @`odd ``name`))",
        "SET auto_increment_increment = 10, auto_increment_offset = 3",
        "INSERT INTO t (s) VALUES ('auto')",
        "SET auto_increment_increment = 1, auto_increment_offset = 1",
        "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT', lc_time_names = 'fr_FR'",
        "INSERT INTO t (s) VALUES ('a' || DATE_FORMAT('2026-02-03', '%W'))",
        "SET sql_mode = '', foreign_key_checks = 0, unique_checks = 0, lc_time_names = 'en_US'",
        "UPDATE t SET s = 'flags' WHERE id = 1",
        "SET foreign_key_checks = 1, unique_checks = 1, time_zone = 'SYSTEM'",
        "INSERT INTO t (at) VALUES (FROM_UNIXTIME(1000000000))",
        "SET NAMES latin1",
        "INSERT INTO t (s) VALUES ('charset')",
        "SET NAMES utf8mb4, timestamp = DEFAULT",
        *("BEGIN", "INSERT INTO t (n) VALUES (7)", "DELETE FROM t WHERE n = 2", "COMMIT"),
        *("CREATE TEMPORARY TABLE tmp (id INT)", "INSERT INTO tmp VALUES (1), (2)"),
        "INSERT INTO t (n) SELECT id FROM tmp",
        "DROP TEMPORARY TABLE tmp",
    )


def load_data(recorder: Recorder) -> None:
    """LOAD DATA of files shorter and longer than a block (the server's read_buffer_size)."""
    recorder.run("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(100))")
    with tempfile.TemporaryDirectory() as folder:
        path, long = Path(folder) / "rows.tsv", Path(folder) / "long.tsv"
        path.write_text("".join(f"{n}\trow {n} é\n" for n in range(20)), "utf-8")
        long.write_text("".join(f"{n}\trow {n} é {'x' * 80}\n" for n in range(120)), "utf-8")
        load = f"LOAD DATA LOCAL INFILE '{path}' {{}} INTO TABLE t CHARACTER SET utf8mb4"
        recorder.run("SET binlog_format = STATEMENT", load.format(""))
        # The server reads this one itself, in blocks, and logs each as it comes.
        in_blocks = load.replace(path.name, long.name).format("REPLACE").replace("LOCAL ", "")
        recorder.run(in_blocks + " SET s = UPPER(s)")
        recorder.run(load.format("IGNORE") + " FIELDS TERMINATED BY ';' (id) SET s = 'set'")
        recorder.run("DELETE FROM t WHERE id < 95")
        recorder.run("SET binlog_format = ROW", load.format("IGNORE"))


def mixed_format(recorder: Recorder) -> None:
    recorder.run(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(60))",
        "SET binlog_format = MIXED",
        "INSERT INTO t (s) VALUES ('a statement')",
        "INSERT INTO t (s) VALUES (UUID())",
        *("BEGIN", "UPDATE t SET s = 'both' WHERE id = 1", "UPDATE t SET s = UUID() LIMIT 1"),
        "COMMIT",
    )


def definitions(recorder: Recorder) -> None:
    recorder.run(
        "CREATE TABLE `t one` (`id` INT PRIMARY KEY COMMENT 'it''s; a -- comment', `select` INT)",
        "CREATE TABLE IF NOT EXISTS `t one` (x INT)",
        "CREATE TABLE likewise LIKE `t one`",
        "INSERT INTO likewise VALUES (1, 2)",
        "ALTER TABLE likewise ADD `s` VARCHAR(10) CHARACTER SET latin1 DEFAULT 'x' AFTER id, "
        "ADD KEY by_s (s)",
        "INSERT INTO likewise VALUES (2, 'é', 3)",
        "ALTER TABLE likewise CHANGE `select` chosen BIGINT UNSIGNED NOT NULL DEFAULT 5",
        "ALTER TABLE likewise MODIFY chosen BIGINT UNSIGNED NULL FIRST, ALGORITHM=COPY",
        "INSERT INTO likewise VALUES (18446744073709551615, 3, 'z')",
        "ALTER TABLE likewise DROP COLUMN s, ADD e ENUM('x', 'y') NOT NULL DEFAULT 'y'",
        "INSERT INTO likewise VALUES (1, 4, 'x')",
        "CREATE TABLE selected AS SELECT id, CONCAT('n', id) AS label FROM likewise",
        "CREATE TABLE tmp_swap (id INT, v VARCHAR(5))",
        "RENAME TABLE selected TO selected_old, tmp_swap TO selected",
        "INSERT INTO selected VALUES (1, 'new')",
        "ALTER TABLE selected RENAME TO renamed",
        "INSERT INTO renamed VALUES (2, 'ren')",
        "CREATE INDEX i ON renamed (v)",
        "DROP INDEX i ON renamed",
        "TRUNCATE TABLE renamed",
        "INSERT INTO renamed VALUES (3, 'trunc')",
        "CREATE VIEW w AS SELECT * FROM renamed",
        "CREATE TRIGGER tr BEFORE INSERT ON renamed FOR EACH ROW SET NEW.v = CONCAT(NEW.v, '!')",
        "INSERT INTO renamed VALUES (4, 'tr')",
        "CREATE PROCEDURE p() BEGIN INSERT INTO renamed VALUES (5, 'a;b'); DELETE FROM renamed "
        "WHERE id = 3; END",
        "CALL p()",
        "CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC RETURN x + 1",
        "INSERT INTO renamed VALUES (f(5), 'f')",
        "CREATE EVENT ev ON SCHEDULE EVERY 1 YEAR DISABLE DO DELETE FROM renamed",
        "CREATE USER someone@localhost IDENTIFIED BY 'secret'",
        "GRANT SELECT ON corpus.* TO someone@localhost",
        "DROP USER someone@localhost",
        *("DROP EVENT ev", "DROP FUNCTION f", "DROP PROCEDURE p", "DROP VIEW w", "DROP TRIGGER tr"),
        "CREATE DATABASE other CHARACTER SET latin1",
        "CREATE TABLE other.far (v VARCHAR(20))",
        "INSERT INTO other.far VALUES ('ü')",
        "ALTER TABLE other.far RENAME TO near",
        "ALTER DATABASE other CHARACTER SET utf8mb4",
        "DROP DATABASE other",
        "/* leading */ CREATE /* inner */ TABLE -- to the end\n commented (`a``b` INT)",
        "INSERT INTO commented VALUES (1)",
        "ALTER TABLE near CONVERT TO CHARACTER SET utf8mb4",
        "DROP TABLE IF EXISTS `t one`, missing",
        "ANALYZE TABLE renamed",
        "OPTIMIZE TABLE renamed",
        "FLUSH TABLES",
    )


add(
    *("statement-format", "STATEMENT: INTVAR, RAND, USER_VAR, status variables", statement_format),
    rows_complete=False,
)
add(
    "mixed-format",
    "MIXED: statements and rows in a transaction",
    mixed_format,
    rows_complete=False,
)
add("ddl", "DDL of many kinds, rows between", definitions)
add(
    *("payload-statements", "statements in compressed transactions", statement_format, MYSQL),
    settings={"binlog_transaction_compression": "ON"},
    rows_complete=False,
)
