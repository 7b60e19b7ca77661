"""Generated columns in a lake, of servers that do not log them in every update."""

import pytest

from tests.spark.history.landing import Logged, parquet_rows

DATABASE = "computed"
TABLES = {
    "v": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g INT AS (b + 1) VIRTUAL",
    "vi": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g INT AS (b + 1) VIRTUAL, KEY (g)",
    "vt": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g TEXT AS (CONCAT(a, 'x')) VIRTUAL",
    "s": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g INT AS (b + 1) STORED",
    "st": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g TEXT AS (CONCAT(a, 'x')) STORED",
    "sb": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g BLOB AS (CONCAT(a, 'x')) STORED",
    "sj": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g JSON AS (JSON_ARRAY(a)) STORED",
    "k": "id INT, b INT, a VARCHAR(9), g INT AS (id + b) STORED, PRIMARY KEY (id, b, a)",
}
LACKING = {
    "mysql-9.7": {"FULL": "", "MINIMAL": "", "NOBLOB": ""},
    "mariadb-10.11": {"FULL": "", "MINIMAL": "v vt", "NOBLOB": "vt"},
    "mariadb-11.8": dict.fromkeys(("FULL", "FULL_NODUP", "MINIMAL", "NOBLOB"), " ".join(TABLES)),
}
"""The tables of which updates lack the generated column."""


@pytest.mark.parametrize(("name", "image"), [(n, i) for n, all_ in LACKING.items() for i in all_])
def test_a_generated_column_is_right_or_left_out(running, tmp_path, name, image):
    server = running(name)
    logged = Logged(server, tmp_path, keep=("current", "history"))
    logged.begin(DATABASE)
    logged.say(f"USE {DATABASE}")
    for table, columns in TABLES.items():
        logged.say(
            f"CREATE TABLE {table} ({columns})",
            f"INSERT INTO {table} (id, a, b) VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)",
        )
    logged.take()
    assert not logged.land().set_aside
    logged.say(f"SET SESSION binlog_row_image = {image}")
    for table in TABLES:
        logged.say(
            f"UPDATE {table} SET a = 'ONE', b = 10 WHERE id = 1",
            f"UPDATE {table} SET a = 'II' WHERE id = 2",
            f"UPDATE {table} SET b = 30 WHERE id = 3",
        )
    logged.say("SET SESSION binlog_row_image = FULL")
    logged.take()
    assert not logged.land().set_aside
    lacking = set()
    for table in TABLES:
        rows = parquet_rows(logged.lake, f"{DATABASE}.{table}")
        versions = parquet_rows(logged.lake, f"{DATABASE}.{table}", "history")
        versions = versions.filter(versions["_is_current"])
        names = [each for each in ("id", "a", "b", "g") if each in rows.schema.names]
        if "g" not in names:
            lacking.add(table)
        select = f"SELECT {', '.join(names)} FROM {DATABASE}.{table} ORDER BY id"
        wanted = [tuple(map(text, row)) for row in server.query(select)]
        for found in (rows, versions):
            shown = found.select(names).sort_by("id").to_pylist()
            assert [tuple(map(text, row.values())) for row in shown] == wanted, table
        if "g" not in names and "g" in versions.schema.names:  # of versions that ended before
            assert versions["g"].null_count == versions.num_rows
    assert lacking == set(LACKING[name][image].split())


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
