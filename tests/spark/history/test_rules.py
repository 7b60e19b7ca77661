"""The rules of docs/guide/lake-types.md and lake-history.md, row by row, on a server of each flavour."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from tests.spark.history.landing import FORMATS, READERS, land
from tests.spark.replay import differences
from tools.dumps import dump_databases

DATABASE = "ruled"


@pytest.fixture(params=["mysql97", "mariadb118"])
def server(request):
    return request.getfixturevalue(request.param)


class Told:
    """Statements on a server, and the lake that is made of their log."""

    def __init__(self, server, folder, kind, statements, keep=("changelog", "current", "history")):
        self.lake, self.kind, self.keep = folder / "lake", kind, keep
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.execute(f"CREATE DATABASE {DATABASE}")
        server.rotate()
        server.execute(f"USE {DATABASE}")
        for statement in statements.split(";"):
            if statement.strip():
                server.execute(statement)
        server.connection.commit()
        log = server.rotate()
        (folder / "logs").mkdir()
        shutil.copy(log, folder / "logs" / log.name)
        options = {"format": kind, "keep": list(keep), "tables": [f"{DATABASE}.*"]}
        self.report = land(folder / "logs", self.lake, **options)
        self.refused = {table.name: table.refused for table in self.report.tables if table.refused}
        self.said = dump_databases(server, DATABASE)
        for name, wanted in self.said.items():
            if name not in self.refused:
                assert differences(self.rows("current", name.partition(".")[2]), wanted) == []

    def rows(self, part, table="t"):
        """A table by its format's own reader."""
        return READERS[self.kind](self.lake, f"{DATABASE}.{table}", part)

    def after(self, *columns):
        """The images behind the changes of t, in log order."""
        rows = self.rows("changelog").sort_by("_seq").column("after").to_pylist()
        return [row and tuple(row[each] for each in columns) for row in rows]

    def versions(self, *columns, table="t"):
        """All versions, in the order in which they began: their values, and whether they are open."""
        rows = self.rows("history", table)
        rows = rows.sort_by([("_seq", "ascending"), (columns[0], "ascending")]).to_pylist()
        assert all(row["_is_current"] == (row["_valid_to"] is None) for row in rows)
        return [(*(row[each] for each in columns), row["_is_current"]) for row in rows]


@pytest.fixture(params=FORMATS)
def tell(request, server, tmp_path):
    return lambda statements, **more: Told(server, tmp_path, request.param, statements, **more)


BEGIN = "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10), (2, 20);"


def test_a_column_is_added(tell):
    told = tell(f"{BEGIN} ALTER TABLE t ADD w INT DEFAULT 7; INSERT INTO t VALUES (3, 30, 8)")
    assert told.after("id", "w") == [(1, None), (2, None), (3, 8)]
    ended = [(1, None, False), (2, None, False)]
    assert told.versions("id", "w") == [*ended, (1, 7, True), (2, 7, True), (3, 8, True)]


def test_a_column_is_dropped(tell):
    told = tell(f"{BEGIN} ALTER TABLE t DROP COLUMN v; INSERT INTO t VALUES (3)")
    assert "v" not in told.rows("current").schema.names
    assert told.after("id", "v") == [(1, 10), (2, 20), (3, None)]
    ended = [(1, 10, False), (2, 20, False)]
    assert told.versions("id", "v") == [*ended, (1, None, True), (2, None, True), (3, None, True)]


@pytest.mark.parametrize("how", ["RENAME COLUMN v TO w", "CHANGE v w INT"])
def test_a_column_is_renamed(tell, how):
    told = tell(f"{BEGIN} ALTER TABLE t {how}; INSERT INTO t VALUES (3, 30)")
    assert told.after("v", "w") == [(10, None), (20, None), (None, 30)]
    ended = [(1, 10, None, False), (2, 20, None, False)]
    begun = [(1, None, 10, True), (2, None, 20, True), (3, None, 30, True)]
    assert told.versions("id", "v", "w") == [*ended, *begun]


def test_a_column_is_renamed_in_case_alone(tell):
    told = tell(f"{BEGIN} ALTER TABLE t CHANGE v V INT; INSERT INTO t VALUES (3, 30)")
    assert told.after("v") == [(10,), (20,), (30,)]
    assert [row[1] for row in told.versions("id", "v") if row[2]] == [10, 20, 30]


def test_a_type_is_widened(tell):
    told = tell(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, x FLOAT, d DECIMAL(5,2));"
        "INSERT INTO t VALUES (1, 10, 0.5, 1.25), (2, 20, 1.5, 2.5); DELETE FROM t WHERE id = 2;"
        "ALTER TABLE t MODIFY v BIGINT, MODIFY x DOUBLE, MODIFY d DECIMAL(9,2);"
        "INSERT INTO t VALUES (3, 5000000000, 0.1, 1234567.25)"
    )
    (image,) = (each for each in told.rows("changelog").schema if each.name == "after")
    for schema in (told.rows("current").schema, told.rows("history").schema, pa.schema(image.type)):
        found = [schema.field(each).type for each in ("v", "x", "d")]
        assert found == [pa.int64(), pa.float64(), pa.decimal128(9, 2)]
    assert [row[0] for row in told.after("v") if row] == [10, 20, 5_000_000_000]
    rows = [(1, 10, True), (2, 20, False), (3, 5_000_000_000, True)]
    assert told.versions("id", "v") == rows


def test_a_type_has_fewer_digits(tell):
    """What the server rounds, or cuts, is what it was before until then."""
    told = tell(
        "CREATE TABLE t (id INT PRIMARY KEY, d DATETIME(6), x DOUBLE);"
        "INSERT INTO t VALUES (1, '2024-01-01 00:00:00.123456', 0.126);"
        "ALTER TABLE t MODIFY d DATETIME(3), MODIFY x DOUBLE(9,2)"
    )
    rows = [(x, d.microsecond, now) for x, d, now in told.versions("x", "d")]
    assert rows == [(0.126, 123456, False), (0.13, 123000, True)]


def test_a_type_is_changed_so_that_the_log_tells_the_values(tell):
    told = tell(f"{BEGIN} ALTER TABLE t MODIFY v VARCHAR(9); INSERT INTO t VALUES (3, 'x')")
    assert told.rows("current").schema.field("v").type == pa.string()
    assert told.after("v", "v__string") == [(10, None), (20, None), (None, "x")]
    assert told.versions("id", "v") == [(1, "10", True), (2, "20", True), (3, "x", True)]


def test_a_type_is_changed_so_that_it_does_not(tell):
    told = tell(
        "CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE); INSERT INTO t VALUES (1, 1.5);"
        "ALTER TABLE t MODIFY v VARCHAR(20); INSERT INTO t VALUES (2, 'x');"
        "CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1)"
    )
    assert list(told.refused) == [f"{DATABASE}.t"]
    assert "v was changed from double to string" in told.refused[f"{DATABASE}.t"]
    assert told.after("v", "v__string") == [(1.5, None), (None, "x")]
    assert told.versions("id", "v") == [(1, 1.5, False)]
    assert told.versions("id", table="u") == [(1, True)]


def test_what_a_history_lacks_is_told(tell):
    told = tell(
        "CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE); INSERT INTO t VALUES (1, 1.5);"
        "ALTER TABLE t MODIFY v VARCHAR(20); INSERT INTO t VALUES (2, 'x'); DROP TABLE t"
    )
    assert not told.refused
    assert told.versions("id", "v") == [(1, 1.5, False)]
    ((table, note),) = ((table, note) for table in told.report.tables for note in table.notes)
    assert table.name == f"{DATABASE}.t"
    assert table.dropped
    assert note.startswith("its history has not all versions until 20")
    assert "v was changed from double to string" in note


def test_create_after_drop(tell):
    told = tell(
        f"{BEGIN} DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (2)"
    )
    ended = [(1, 10, False), (2, 20, False)]
    assert told.versions("id", "v") == [*ended, (2, None, True)]


def test_tables_of_alternating_shapes(tell):
    number = "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10)"
    text = "CREATE TABLE t (id INT PRIMARY KEY, w VARCHAR(9)); INSERT INTO t VALUES (1, 'x')"
    told = tell(f"{number}; DROP TABLE t; {text}; DROP TABLE t; {number}; DROP TABLE t; {text}")
    rows = [(1, 10, None, False), (1, None, "x", False)]
    assert told.versions("id", "v", "w") == [*rows, rows[0], (1, None, "x", True)]
    assert not any(table.notes for table in told.report.tables)


@pytest.mark.parametrize("how", ["DROP TABLE t", "TRUNCATE TABLE t"])
def test_all_versions_end(tell, how):
    told = tell(f"{BEGIN} CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1); {how}")
    assert told.versions("id", "v") == [(1, 10, False), (2, 20, False)]
    assert told.versions("id", table="u") == [(1, True)]
    (table,) = (each for each in told.report.tables if each.name == f"{DATABASE}.t")
    assert table.dropped == (how == "DROP TABLE t")


def test_a_database_is_dropped(tell):
    told = tell(
        f"{BEGIN} CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1);"
        f"DROP DATABASE {DATABASE}"
    )
    assert told.versions("id", "v") == [(1, 10, False), (2, 20, False)]
    assert told.versions("id", table="u") == [(1, False)]
    assert all(table.dropped for table in told.report.tables)


@pytest.mark.parametrize("how", ["RENAME TABLE t TO u", "ALTER TABLE t RENAME TO u"])
def test_a_table_is_renamed(tell, how):
    told = tell(f"{BEGIN} {how}; UPDATE u SET v = 11 WHERE id = 1")
    assert told.versions("id", "v") == [(1, 10, False), (2, 20, False)]
    begun = [(1, 10, False), (2, 20, True), (1, 11, True)]
    assert told.versions("id", "v", table="u") == begun


def test_another_primary_key(tell):
    told = tell(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO t VALUES (1, 10), (2, 20);"
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v); UPDATE t SET id = 3 WHERE v = 10"
    )
    rows = told.versions("id", "v")
    assert [row for row in rows if row[2]] == [(2, 20, True), (3, 10, True)]
    assert (1, 10, False) in rows
