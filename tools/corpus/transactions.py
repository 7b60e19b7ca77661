"""Transactions: GTIDs, XA, savepoints, several tables in one statement."""

from __future__ import annotations

from tools.corpus.case import MARIADB, MYSQL, Recorder, add

_TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(30))"
_OTHER = "11111111-2222-3333-4444-555555555555"


def xa(recorder: Recorder) -> None:
    recorder.run(
        _TABLE,
        *("XA START 'gtrid', 'bqual', 7", "INSERT INTO t VALUES (1, 'committed')"),
        *("XA END 'gtrid', 'bqual', 7", "XA PREPARE 'gtrid', 'bqual', 7"),
        "XA COMMIT 'gtrid', 'bqual', 7",
        *("XA START x'00FF', x'', 1", "INSERT INTO t VALUES (2, 'one phase')"),
        *("XA END x'00FF', x'', 1", "XA COMMIT x'00FF', x'', 1 ONE PHASE"),
        *("XA START 'rolled'", "INSERT INTO t VALUES (3, 'rolled back')"),
        *("XA END 'rolled'", "XA PREPARE 'rolled'", "XA ROLLBACK 'rolled'"),
        *("XA START 'first'", "INSERT INTO t VALUES (4, 'first')"),
        *("XA END 'first'", "XA PREPARE 'first'"),
    )
    with recorder.connect() as second, second.cursor() as cursor:  # between prepare and commit
        cursor.execute("INSERT INTO t VALUES (5, 'between')")
    recorder.run("XA COMMIT 'first'")


def savepoints(recorder: Recorder) -> None:
    recorder.run(
        *(_TABLE, "CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(30)) ENGINE=MyISAM"),
        *("BEGIN", "INSERT INTO t VALUES (1, 'kept')", "SAVEPOINT a"),
        *("INSERT INTO t VALUES (2, 'gone')", "ROLLBACK TO a", "INSERT INTO t VALUES (3, 'kept')"),
        *("RELEASE SAVEPOINT a", "COMMIT"),
        *("BEGIN", "INSERT INTO t VALUES (4, 'kept')", "SAVEPOINT `s p`"),
        *("INSERT INTO m VALUES (1, 'stays')", "INSERT INTO t VALUES (5, 'gone')"),
        *("ROLLBACK TO `s p`", "INSERT INTO t VALUES (6, 'kept')", "COMMIT"),
        *("BEGIN", "INSERT INTO t VALUES (7, 'gone')", "INSERT INTO m VALUES (2, 'stays')"),
        *("ROLLBACK", "INSERT INTO m VALUES (3, 'by itself')"),
        *("BEGIN", "INSERT INTO t VALUES (8, 'gone')", "ROLLBACK", "BEGIN", "COMMIT"),
        *("UPDATE m SET v = 'changed' WHERE id = 2", "DELETE FROM m WHERE id = 3"),
    )


def several_tables(recorder: Recorder) -> None:
    recorder.run(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE b (id INT PRIMARY KEY, a_id INT, v INT)",
        "CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(30))",
        "CREATE TRIGGER a_log AFTER UPDATE ON a FOR EACH ROW "
        "INSERT INTO log (what) VALUES (CONCAT('a ', NEW.id))",
        "CREATE TABLE parent (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT c FOREIGN KEY (p) "
        "REFERENCES parent (id) ON UPDATE RESTRICT) ENGINE=InnoDB",
        "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO b VALUES (10, 1, 0), (11, 1, 0), (12, 2, 0), (13, NULL, 0)",
        "UPDATE a JOIN b ON b.a_id = a.id SET a.v = a.v * 10, b.v = a.v + 1",
        "DELETE a, b FROM a JOIN b ON b.a_id = a.id WHERE a.id = 1",
        "INSERT INTO parent VALUES (1), (2)",
        "INSERT INTO child VALUES (1, 1), (2, 2), (3, NULL)",
        *("BEGIN", "UPDATE a SET v = 0", "INSERT INTO b VALUES (20, 3, 3)", "DELETE FROM child"),
        *("DELETE FROM parent WHERE id = 2", "INSERT INTO a VALUES (4, 4)", "COMMIT"),
    )


def _gtid_next(value: str, statement: str) -> tuple[str, str, str]:
    return f"SET gtid_next = '{value}'", statement, "SET gtid_next = 'AUTOMATIC'"


def gtids(recorder: Recorder) -> None:
    recorder.run(
        _TABLE,
        "INSERT INTO t VALUES (1, 'own')",
        *_gtid_next(f"{_OTHER}:7", "INSERT INTO t VALUES (2, 'other')"),
        "SET gtid_next = 'aaaaaaaa-0000-0000-0000-000000000001:9223372036854775806'",
        *("BEGIN", "COMMIT", "SET gtid_next = 'AUTOMATIC'"),
        *_gtid_next(f"{_OTHER}:9", "CREATE TABLE u (id INT PRIMARY KEY)"),
        "FLUSH BINARY LOGS",
        "INSERT INTO t VALUES (3, 'after rotation')",
        "DELETE FROM t WHERE id = 1",
    )


def tagged_gtids(recorder: Recorder) -> None:
    recorder.run(
        *(_TABLE, "INSERT INTO t VALUES (1, 'untagged')"),
        *_gtid_next("AUTOMATIC:orders", "INSERT INTO t VALUES (2, 'tagged')"),
        *_gtid_next("AUTOMATIC:orders", "INSERT INTO t VALUES (3, 'tagged again')"),
        *_gtid_next(f"{_OTHER}:a_tag_of_thirty_two_characters__:5", "INSERT INTO t VALUES (4, '')"),
        *_gtid_next(f"{_OTHER}:x:200", "UPDATE t SET v = 'x' WHERE id = 1"),
        *_gtid_next(f"{_OTHER}:200", "CREATE TABLE u (id INT PRIMARY KEY)"),
        *_gtid_next("ffffffff-8080-7f7f-0000-ff00ff00ff00:z:1", "INSERT INTO t VALUES (6, 'ff')"),
        "FLUSH BINARY LOGS",
        *_gtid_next("AUTOMATIC:other", "DELETE FROM t WHERE id = 3"),
        "INSERT INTO t VALUES (5, 'untagged')",
    )


def query_texts(recorder: Recorder) -> None:
    recorder.run(
        _TABLE,
        "INSERT /* a comment: é 😀 */ INTO t VALUES (1, 'short')",
        f"INSERT /* {'long ' * 80}*/ INTO t VALUES (2, 'longer than 255')",
        *("BEGIN", "INSERT INTO t VALUES (3, 'a')", "UPDATE t SET v = 'b' WHERE id = 3", "COMMIT"),
        "DELETE FROM t WHERE id = 2",
    )


def switches(recorder: Recorder) -> None:
    """Metadata and images that change within a log, and a table that changes between rows."""
    recorder.run(
        *(_TABLE, "INSERT INTO t VALUES (1, 'before')"),
        "SET GLOBAL binlog_row_metadata = FULL",
        "UPDATE t SET v = 'names' WHERE id = 1",
        "ALTER TABLE t ADD COLUMN n INT UNSIGNED FIRST, MODIFY v VARBINARY(300)",
        "INSERT INTO t VALUES (4294967295, 2, x'00FF00')",
        "SET binlog_row_image = MINIMAL",
        "UPDATE t SET v = 'm' WHERE id = 2",
        "ALTER TABLE t DROP COLUMN v, RENAME COLUMN n TO amount",
        "UPDATE t SET amount = 5 WHERE id = 1",
        "SET GLOBAL binlog_row_metadata = MINIMAL",
        *("INSERT INTO t VALUES (7, 3)", "RENAME TABLE t TO renamed"),
        "INSERT INTO renamed VALUES (8, 4)",
        "SET GLOBAL binlog_row_metadata = DEFAULT",
    )


def interleaved(recorder: Recorder) -> None:
    """Two connections and a temporary table."""
    recorder.run(_TABLE, "CREATE TEMPORARY TABLE tmp (id INT)", "INSERT INTO tmp VALUES (1)")
    with recorder.connect() as second, second.cursor() as cursor:
        recorder.run("BEGIN", "INSERT INTO t VALUES (1, 'first connection')")
        cursor.execute("SET foreign_key_checks = 0, unique_checks = 0")
        cursor.execute("INSERT INTO t VALUES (2, 'second connection')")
        recorder.run("INSERT INTO t SELECT id + 10, 'from tmp' FROM tmp", "COMMIT")
        cursor.execute("SET time_zone = '+02:00', lc_time_names = 'de_DE'")
        cursor.execute("INSERT INTO t VALUES (3, NOW())")
    recorder.run("DROP TEMPORARY TABLE tmp")


add("xa", "XA: prepared, committed, rolled back, one phase", xa)
# On MySQL, GTIDs forbid what the case is about: own_server.py records it without them.
add("savepoints", "savepoints, rollbacks, MyISAM in a transaction", savepoints, MARIADB)
add("several-tables", "several tables in a statement: joins, triggers, keys", several_tables)
add("gtids", "GTIDs of other servers, holes, an empty transaction", gtids, MYSQL)
add("tagged-gtids", "GTIDs with tags", tagged_gtids, MYSQL)
add(
    *("rows-query", "binlog_rows_query_log_events=ON", query_texts, MYSQL),
    settings={"binlog_rows_query_log_events": "ON"},
)
add("switches", "settings and tables that change within a log", switches)
add("interleaved", "two connections, session flags", interleaved)
