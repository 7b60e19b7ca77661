"""Histories of real servers' tables, replayed at moments, against what SELECT said then."""

import random

import pytest

from tests.spark.history.making import OURS, Histories, Told, plain
from tests.spark.replay import check_rows, tell

DATABASE = "replayed"
MILLION = 1_000_000
MOMENTS = 20

DDL = (
    "ALTER TABLE t ADD extra INT NOT NULL DEFAULT 7",
    "ALTER TABLE t CHANGE v text VARCHAR(40)",
    "UPDATE t SET id = id + 1000 WHERE id < 5",
    "ALTER TABLE t DROP COLUMN k",
    "TRUNCATE TABLE u",
    "ALTER TABLE t MODIFY id BIGINT",
    "RENAME TABLE u TO w",
    "CREATE TABLE u (a INT, b VARCHAR(5), n DECIMAL(8,2), PRIMARY KEY (a, b))",
    "ALTER TABLE t ADD other VARCHAR(40) DEFAULT 'x'",
    "ALTER TABLE t CHANGE text other VARCHAR(40), CHANGE other text VARCHAR(40)",
    "DROP TABLE w",
)


class Story(Told):
    """Random changes and statements on a server, and what SELECT said at moments between."""

    def __init__(self, server, seed, folder):
        super().__init__(server, DATABASE)
        self.rng = random.Random(seed)
        self.do("CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20))")
        self.do("CREATE TABLE u (a INT, b VARCHAR(5), n DECIMAL(8,2), PRIMARY KEY (a, b))")
        statements = list(DDL)
        for moment in range(MOMENTS):
            for _ in range(self.rng.randint(1, 8)):
                self.change()
            if moment % 2 and statements:
                self.do(statements.pop(0))
            self.note()
        server.execute("SET TIMESTAMP = DEFAULT")
        self.log = self.copy_log(folder)

    def change(self):
        """A few changes of a table at random keys, often the same ones twice."""
        tables = [row[0] for row in self.server.query("SHOW TABLES")]
        table = self.rng.choice(tables)
        columns = [row[0] for row in self.server.query(f"SHOW COLUMNS FROM {table}")]
        self.do(*(self.statement(table, columns) for _ in range(self.rng.randint(1, 4))))

    def statement(self, table, columns):
        rng = self.rng
        kind = rng.choice(["replace", "replace", "update", "delete", "move"])
        key = ("id",) if table == "t" else ("a", "b")
        values = {name: str(rng.randint(0, 9)) for name in columns}
        where = f"{key[0]} IN ({rng.randint(0, 9)}, {rng.randint(0, 9)})"
        if kind == "replace":
            names = ", ".join(values)
            return f"REPLACE INTO {table} ({names}) VALUES ({', '.join(values.values())})"
        if kind == "delete":
            return f"DELETE FROM {table} WHERE {where} LIMIT 1"
        if kind == "move":
            return f"UPDATE IGNORE {table} SET {key[0]} = {rng.randint(0, 9)} WHERE {where} LIMIT 1"
        name = rng.choice([each for each in columns if each not in key] or list(key))
        return f"UPDATE IGNORE {table} SET {name} = {values[name]} WHERE {where}"


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_replayed_at_moments(server, image, tmp_path):
    server.execute(f"SET SESSION binlog_row_image = {image}")
    story = Story(server, 5, tmp_path / "logs")
    server.execute("SET SESSION binlog_row_image = FULL")
    made = Histories(tmp_path / "one").take_log(tmp_path / "logs")
    for name, built in made.built.items():
        assert built.rows.refused is None, name
        assert built.rows.unseen == 0
    check(made, story)
    pieces = Histories(tmp_path / "pieces").take_log(tmp_path / "logs", sizes=[1, 3, 2, 7])
    assert pieces.batches > 20
    for name in made.built:
        assert plain(pieces.versions(name)) == plain(made.versions(name)), name


def check(made, story):
    compared = 0
    assert len(story.said) == MOMENTS
    for micros, tables in story.said.items():
        names = {name for name in made.built if name.startswith(f"{DATABASE}.")}
        assert set(tables) <= names
        for name in names:
            found, expected = made.at(name, micros), tables.get(name)
            check_rows(found, expected, (name, micros))
            if found is not None and expected is not None:
                compared += found.num_rows
                for column in set(found.schema.names) - {*expected["columns"], *OURS}:
                    assert found.column(column).null_count == found.num_rows, (name, column)
    assert compared > 50


def test_the_time_of_a_statement(server, tmp_path):
    story = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2); COMMIT; TRUNCATE t"
    (log,) = tell(server, DATABASE, story, tmp_path / "logs").iterdir()
    made = Histories(tmp_path / "made").take_log(tmp_path / "logs")
    ends = {row["_valid_to"] for row in made.versions(f"{DATABASE}.t").to_pylist()}
    (end,) = ends
    if server.flavour == "mysql":
        text = server.mysqlbinlog(log).stdout.decode()
        assert f"original_commit_timestamp={round(end.timestamp() * MILLION)}" in text
    else:
        assert end.microsecond == 0
    assert made.built[f"{DATABASE}.t"].rows.files == (None,)
