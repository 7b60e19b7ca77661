"""Current states and histories after DDL on real servers: what is left is what SELECT says."""

import datetime as dt
import re
from itertools import product

import pytest

import tailrace.spark.state.current.plan as planning
from tailrace.schema import columns
from tailrace.spark.state.current.patching import Patches
from tests.spark.following import FLAVOURS
from tests.spark.history.making import EPOCH, Histories
from tests.spark.replay import batches, check_rows, current_states, differences, rows_of, tell
from tools.dumps import dump_databases
from tools.servers import NAMES

DATABASE = "altered"

# Each is (statements, tables that can have no current state).
STORIES = {
    "defaults": """
        CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10));
        INSERT INTO t VALUES (1, 'a'), (2, NULL);
        ALTER TABLE t ADD a INT NOT NULL, ADD b DECIMAL(8,3) DEFAULT -1.5, ADD c VARCHAR(9)
            NOT NULL DEFAULT 'it''s', ADD COLUMN (d DATE DEFAULT '2020-02-03', e DOUBLE DEFAULT 2.5);
        ALTER TABLE t ADD f ENUM('x', 'y') NOT NULL, ADD g TINYINT(1) DEFAULT TRUE,
            ADD h TIME(2) DEFAULT '-12:34:56.78', ADD i DATETIME(3) DEFAULT '2021-01-02 03:04:05.678',
            ADD j BIGINT UNSIGNED DEFAULT 18446744073709551615, ADD k VARBINARY(5) DEFAULT 'ab',
            ADD l SMALLINT UNSIGNED NULL COMMENT 'DEFAULT 7', ADD m YEAR NOT NULL DEFAULT 1999;
        INSERT INTO t (id, v, a, f) VALUES (3, 'c', 0, 'y');
        UPDATE t SET a = 5 WHERE id = 2;
    """,
    "renames": """
        CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10), b VARCHAR(10), c INT);
        INSERT INTO t VALUES (1, 'a', 'b', 1), (2, 'A', 'B', 2);
        ALTER TABLE t CHANGE a z VARCHAR(20) AFTER b, DROP COLUMN c, ADD d INT DEFAULT 9 FIRST;
        INSERT INTO t (id, z, b) VALUES (3, 'z', 'b');
        ALTER TABLE t CHANGE z b2 VARCHAR(20), CHANGE b z VARCHAR(10);
        DELETE FROM t WHERE id = 1;
        INSERT INTO t VALUES (8, 4, 'new', 'newer');
    """,
    "names_swapped": """
        CREATE TABLE t (id INT PRIMARY KEY, v INT);
        INSERT INTO t VALUES (1, 1), (2, 2);
        CREATE TABLE t_new LIKE t;
        ALTER TABLE t_new ADD w INT DEFAULT 7;
        INSERT INTO t_new (id, v) SELECT id, v FROM t;
        RENAME TABLE t TO t_old, t_new TO t;
        INSERT INTO t VALUES (3, 3, 3);
        DELETE FROM t_old WHERE id = 2;
    """,
    "fewer_digits": """
        CREATE TABLE t (id INT PRIMARY KEY, d DATETIME(6), s TIMESTAMP(6) NULL, a TIME(6), x DOUBLE,
            f FLOAT, y DOUBLE, k VARCHAR(20), e DATETIME);
        INSERT INTO t VALUES (1, '2024-01-31 23:59:59.999999', '2024-01-31 23:59:59.4999',
            '-00:00:01.5', 0.335, 0.1234567, -1.005, 'abc', '2024-01-01'),
            (2, '1969-12-31 23:59:59.5', NULL, '23:59:59.05', 1234567.891, 1.005, 2.5, 'abc', NULL);
        ALTER TABLE t MODIFY d DATETIME, MODIFY s TIMESTAMP(3) NULL, CHANGE a b TIME(1),
            MODIFY x DOUBLE(20,2), MODIFY y FLOAT(9,2), MODIFY k VARCHAR(3),
            MODIFY e DATETIME DEFAULT '2000-01-01';
        ALTER TABLE t MODIFY d DATETIME(6);
        INSERT INTO t VALUES (3, '2024-01-31 23:59:59.999999', NULL, '-00:00:01.5', 0.335, 0.1234567,
            1.005, 'abc', '2024-01-01');
        UPDATE t SET f = 7 WHERE id = 2;
    """,
    "back_again": """
        CREATE TABLE t (id INT PRIMARY KEY, v INT);
        INSERT INTO t VALUES (1, 1), (2, 1), (3, 1);
        ALTER TABLE t ADD w INT DEFAULT 7;
        UPDATE t SET v = 2 WHERE id = 1;
        DELETE FROM t WHERE id = 2;
        ALTER TABLE t DROP COLUMN w;
        UPDATE t SET v = 3 WHERE id = 1;
        INSERT INTO t VALUES (2, 3);
    """,
    "made_anew": """
        CREATE TABLE t (id INT PRIMARY KEY, v INT);
        INSERT INTO t VALUES (1, 1), (2, 2);
        TRUNCATE TABLE t;
        INSERT INTO t VALUES (5, 5);
        CREATE TABLE u (id INT PRIMARY KEY);
        INSERT INTO u VALUES (1);
        DROP TABLE u;
        CREATE TABLE IF NOT EXISTS u (name VARCHAR(5) PRIMARY KEY);
        INSERT INTO u VALUES ('x');
        CREATE TABLE none_left (id INT PRIMARY KEY);
        INSERT INTO none_left VALUES (1);
        TRUNCATE none_left;
    """,
    "keys": """
        CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v VARCHAR(5));
        INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
        UPDATE t SET k = 4 WHERE id = 2;
        UPDATE t SET k = 2 WHERE id = 3;
        ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (k);
        UPDATE t SET id = 9 WHERE k = 2;
        DELETE FROM t WHERE k = 1;
        UPDATE t SET k = 1 WHERE k = 4;
        INSERT INTO t VALUES (1, 4, 'd');
    """,
    "wider": """
        CREATE TABLE t (id SMALLINT PRIMARY KEY, v DECIMAL(6,2), w VARCHAR(5), x FLOAT);
        INSERT INTO t VALUES (-1, 1.25, 'a', 0.5), (2, NULL, NULL, NULL);
        ALTER TABLE t MODIFY id BIGINT, MODIFY v DECIMAL(12,4), MODIFY w TEXT, MODIFY x DOUBLE;
        INSERT INTO t VALUES (5000000000, 12345678.1234, 'b', 0.1);
        UPDATE t SET w = 'c' WHERE id = 2;
    """,
}
REFUSED = {
    "expression": (
        """
        CREATE TABLE t (id INT PRIMARY KEY);
        INSERT INTO t VALUES (1);
        ALTER TABLE t ADD v INT DEFAULT (id + 2);
        INSERT INTO t VALUES (2, 2);
        """,
        "its default is an expression",
    ),
    "partition": (
        """
        CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2;
        INSERT INTO t VALUES (1), (2);
        ALTER TABLE t TRUNCATE PARTITION p0;
        INSERT INTO t VALUES (4);
        """,
        "TRUNCATE PARTITION",
    ),
    "type": (
        """
        CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE);
        INSERT INTO t VALUES (1, 1.5);
        ALTER TABLE t MODIFY v VARCHAR(20);
        INSERT INTO t VALUES (2, 'x');
        """,
        "v was changed from double to varchar(20)",
    ),
}
BEFORE_IT = {"expression": {1}, "partition": {1, 2}, "type": {1}}
"""The rows that there were where the statement stood."""
FUTURE = (dt.datetime(2200, 1, 1, tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)


def states_of(logs, folder, *, every):
    """The current states that a log leaves, by each way of making them.

    ``every``: not in one batch alone, but also one for each transaction, with and without changes
    that are put next to a table's files.
    """
    yield "in one batch", current_states(logs, folder / "one", "error")
    if every:
        yield "batch by batch", batches(logs, folder / "each")
        patches = Patches(least=0, share=1, together=2)
        yield "next to files", batches(logs, folder / "patches", patches=patches)


def rows_left(built):
    return rows_of(built) if any(built.paths) else None


@pytest.mark.parametrize("server", NAMES, indirect=True)  # what ALTER makes of rows is a release's
def test_current_states_and_histories_after_ddl(server, tmp_path):
    """What is left is what SELECT says, and so are a history's open versions."""
    for story, image in product(STORIES, ("FULL", "MINIMAL")):
        case = f"{story} {image}"
        folder = tmp_path / case
        logs = tell(server, DATABASE, STORIES[story], folder / "logs", image)
        wanted = dump_databases(server, DATABASE)
        full = image == "FULL" and server.name in FLAVOURS
        for way, states in states_of(logs, folder, every=full):
            found = {name for name in states if name.startswith(DATABASE)}
            assert found == set(wanted), (case, way)
            for name, table in wanted.items():
                reason = states[name].rows.refused
                if image == "MINIMAL" and reason:
                    assert "inserts left columns" in reason, (case, way)
                    continue
                assert reason is None, (case, way)
                check_rows(rows_left(states[name]), table, (case, way, name))
        if full:
            made = Histories(folder / "history").take_log(logs, sizes=[1, 2])
            for name, built in made.built.items():
                assert name not in wanted or built.rows.refused is None, (case, name)
                check_rows(made.at(name, FUTURE), wanted.get(name), (case, "history", name))


def test_what_the_log_cannot_tell_is_refused(server, tmp_path):
    """That table alone, by its current state and by its history, which ends where it is not known."""
    for story, (statements, reason) in REFUSED.items():
        folder = tmp_path / story
        other = "CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1);"
        more = "; INSERT INTO u VALUES (2); DELETE FROM u WHERE id = 1"
        logs = tell(server, DATABASE, other + statements + more, folder / "logs")
        for way, states in states_of(logs, folder, every=True):
            assert reason in states[f"{DATABASE}.t"].rows.refused, (story, way)
            assert states[f"{DATABASE}.u"].rows.refused is None, (story, way)
        for sizes in (None, [1], [2]):
            made = Histories(folder / f"history {sizes}").take_log(logs, sizes=sizes)
            assert reason in made.built[f"{DATABASE}.t"].rows.refused, (story, sizes)
            rows = made.versions(f"{DATABASE}.u").sort_by("id").to_pylist()
            assert [(row["id"], row["_is_current"]) for row in rows] == [(1, False), (2, True)]
            rows = made.versions(f"{DATABASE}.t").to_pylist()
            assert {row["id"] for row in rows} == BEFORE_IT[story], (story, sizes)
            assert not any(row["_is_current"] for row in rows), (story, sizes)


OVERLAPS = """
    CREATE TABLE t (room INT, s DATE, e DATE, v INT, PERIOD FOR p (s, e),
        PRIMARY KEY (room, p WITHOUT OVERLAPS));
    INSERT INTO t VALUES (1, '2024-01-01', '2024-02-01', 1), (1, '2024-02-01', '2024-03-01', 2),
        (2, '2024-01-01', '2024-03-01', 3);
    UPDATE t SET v = 9 WHERE room = 1 AND s = '2024-02-01';
    DELETE FROM t FOR PORTION OF p FROM '2024-01-10' TO '2024-01-20' WHERE room = 2;
"""


def test_each_period_is_a_row(mariadb118, tmp_path):
    """The key is the room with both bounds, not the room, which several rows have."""
    for image in ("FULL", "MINIMAL"):
        logs = tell(mariadb118, DATABASE, OVERLAPS, tmp_path / image, image)
        states = current_states(logs, tmp_path / f"{image} states", "error")
        wanted = dump_databases(mariadb118, DATABASE)[f"{DATABASE}.t"]
        assert states[f"{DATABASE}.t"].rows.refused is None
        assert differences(rows_of(states[f"{DATABASE}.t"]), wanted) == []


TEXTS = """
    CREATE TABLE t (id INT PRIMARY KEY);
    INSERT INTO t VALUES (1);
    ALTER TABLE t ADD c DATE DEFAULT '0000-05-01', ADD d DATETIME(3) DEFAULT '0000-02-28 01:02:03.5';
    ALTER TABLE t ADD e DATETIME(2) NOT NULL, ADD f DATETIME DEFAULT '0000-00-00';
    INSERT INTO t (id, e) VALUES (2, '0000-00-00')
"""


def test_defaults_that_are_texts_are_as_those_of_rows(server, tmp_path):
    """Days that no typed value is, with as many digits as their columns have."""
    story = f"SET sql_mode = ''; {TEXTS}; SET sql_mode = DEFAULT"
    logs = tell(server, DATABASE, story, tmp_path / "l")
    rows = rows_of(batches(logs, tmp_path / "states")[f"{DATABASE}.t"])
    assert sorted(rows["id"].to_pylist()) == [1, 2]
    first, second = rows["_raw"].to_pylist()
    assert first == second
    assert [name for name, _ in first] == ["c", "d", "e", "f"]
    assert all(rows[name].null_count == 2 for name in "cdef")


def test_a_table_that_is_empty_in_the_lake_gets_a_large_batch(mysql97, tmp_path, monkeypatch):
    """Its file of no rows is cut into buckets as the changes are."""
    monkeypatch.setattr(planning, "BUCKET_BYTES", 512)
    rows = ", ".join(f"({number}, {number})" for number in range(400))
    for emptied in ("DELETE FROM t", "TRUNCATE t"):
        story = f"""CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 2), (2, 3);
            {emptied}; INSERT INTO t VALUES {rows}"""
        logs = tell(mysql97, DATABASE, story, tmp_path / emptied)
        built = batches(logs, tmp_path / f"{emptied} states")[f"{DATABASE}.t"]
        assert len(built.rows.files) > 1
        wanted = dump_databases(mysql97, DATABASE)[f"{DATABASE}.t"]
        assert differences(rows_of(built), wanted) == []


def test_a_statement_that_is_not_understood(server, tmp_path, monkeypatch):
    """A CREATE loses nothing where the log names columns; an ALTER stops its table, and is quoted."""
    monkeypatch.delitem(columns.NAMES, "int8")
    statements = """
        CREATE TABLE made (id INT8 PRIMARY KEY, v INT); INSERT INTO made VALUES (1, 1), (2, 2);
        UPDATE made SET v = 3 WHERE id = 1; CREATE TABLE IF NOT EXISTS made (id INT8);
        CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1);
        ALTER TABLE t MODIFY v INT8; INSERT INTO t VALUES (2, 2);
    """
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    logs = tell(server, DATABASE, statements, tmp_path / "logs")
    wanted = dump_databases(server, DATABASE)
    reason = r"unknown column type at 'INT8': «ALTER TABLE t MODIFY v INT8» at \S+\.\d+:\d+$"
    for way, states in states_of(logs, tmp_path, every=True):
        check_rows(rows_left(states[f"{DATABASE}.made"]), wanted[f"{DATABASE}.made"], way)
        assert re.search(reason, states[f"{DATABASE}.t"].rows.refused), way
    made = Histories(tmp_path / "history").take_log(logs, sizes=[1])
    check_rows(made.at(f"{DATABASE}.made", FUTURE), wanted[f"{DATABASE}.made"], "history")
    assert re.search(reason, made.built[f"{DATABASE}.t"].rows.refused)
