"""A mirror carries out what foreign keys do below the log: the lake is what SELECT gives."""

import copy
import random
import shutil

import pyarrow.parquet as pq
import pytest

from tailrace.cli.mirror.command import mirror as command
from tailrace.errors import PipelineError, UsageError
from tailrace.spark import mirror, verify
from tailrace.spark.runtime.workers import Workers
from tailrace.spark.state.cascade import build
from tailrace.spark.state.current import patching
from tailrace.storage import find
from tests.spark.cascade.workload import Workload
from tests.spark.following import read
from tests.spark.history.landing import FORMATS, failing, land
from tests.spark.replay import run_twice
from tools.campaign.mirrored_lake import LakeReader

DATABASE = "carried"
ALL = ("changelog", "current", "history")
TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, code VARCHAR(9) UNIQUE, n INT)",
    (
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, v VARCHAR(20), CONSTRAINT cp"
        " FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE g (c INT, line INT, up INT, PRIMARY KEY (c, line), FOREIGN KEY (c)"
        " REFERENCES c (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE s (id INT PRIMARY KEY, code VARCHAR(9), up INT,"
        " FOREIGN KEY (code) REFERENCES p (code) ON DELETE SET NULL ON UPDATE CASCADE,"
        " FOREIGN KEY (up) REFERENCES s (id) ON DELETE SET NULL)"
    ),
)
ROWS = (
    "INSERT INTO p VALUES (1,'one',1),(2,'Two',2),(3,'three',3),(4,NULL,4),(5,'5',5)",
    "INSERT INTO c VALUES (10,1,'a'),(11,1,'b'),(20,2,'c'),(30,3,'d'),(40,NULL,'e'),(50,5,'f')",
    "INSERT INTO g VALUES (10,1,0),(10,2,0),(20,1,0),(30,1,0),(50,1,0)",
    "INSERT INTO s VALUES (1,'ONE',NULL),(2,'tWO',1),(3,'three',2),(4,NULL,1),(5,'5',4)",
)
WORK = (
    "DELETE FROM p WHERE id = 1",
    "UPDATE p SET id = 200, code = 'TWO' WHERE id = 2",
    "UPDATE c SET id = 21 WHERE p = 200",
    "UPDATE p SET n = 9",
    "REPLACE INTO p VALUES (3, 'three', 33)",
    "SET foreign_key_checks = 0",
    "DELETE FROM p WHERE id = 5",
    "SET foreign_key_checks = 1",
    "DELETE FROM s WHERE id IN (1, 2)",
)
"""What a cascade must do, and what it must not: checks are off for a while."""
AGAIN = (
    "INSERT INTO p VALUES (1,'one',1)",
    "INSERT INTO c VALUES (10,1,'again')",
    "DELETE FROM p WHERE id = 1",
    "INSERT INTO p VALUES (1,'one',1)",
    "INSERT INTO c VALUES (10,1,'third')",
    "INSERT INTO g VALUES (10,7,0)",
    "UPDATE p SET id = 2 WHERE id = 1",
    "DELETE FROM p WHERE id = 200",
)


def plain(value):
    """A value as both sides have it."""
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)


class Story:
    """A server, and a lake that is made of its log."""

    def __init__(self, server, lake, kind="parquet", **options):
        self.server, self.lake, self.kind = server, lake, kind
        self.said = []
        self.options = {"tables": f"{DATABASE}.*", "notice": self.said.append, "format": kind}
        self.options |= {"cascades": "apply", "keep": ALL, **options}
        self.report = None
        server.execute("SET foreign_key_checks = 0")
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.execute("SET foreign_key_checks = 1")
        server.execute(
            "RESET MASTER" if server.flavour == "mariadb" else "RESET BINARY LOGS AND GTIDS"
        )
        self.run(f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}")

    def run(self, *statements):
        for sql in statements:
            self.server.execute(sql)

    def land(self, **more):
        self.report = land(self.server.data, self.lake, **self.options, **more)
        return self.report

    def rows(self, table, part="current"):
        """A table's rows in the lake."""
        name = f"{DATABASE}.{table}"
        reader = LakeReader(self.lake, self.kind)
        found = reader.current(name) if part == "current" else reader.history(name)
        if found is None:
            return []  # it has not had a row yet
        if part == "history":
            found = found.filter(found.column("_is_current"))
        columns = self.server.query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = "
            f"'{DATABASE}' AND table_name = '{table}' ORDER BY ordinal_position"
        )
        values = zip(*(found.column(name).to_pylist() for (name,) in columns), strict=True)
        return sorted(tuple(map(plain, row)) for row in values)

    def check(self, *tables, parts=("current", "history")):
        for table in tables or ("p", "c", "g", "s"):
            rows = self.server.query(f"SELECT * FROM {DATABASE}.{table}")
            wanted = sorted(tuple(map(plain, row)) for row in rows)
            for part in parts:
                assert self.rows(table, part) == wanted, (table, part)


@pytest.fixture
def mariadb(running):
    return running("mariadb-11.8")


@pytest.fixture
def story(mariadb, lake):
    return Story(mariadb, lake)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_lake_is_what_select_gives(mariadb, tmp_path, kind):
    """In one batch with the tables' making, over batches, and with rows that come again."""
    story = Story(mariadb, tmp_path / "lake", kind)
    story.run(*TABLES, *ROWS)
    if kind != "parquet":
        story.land()
    story.run(*WORK)
    assert story.land().cascades == {}
    story.check()
    assert story.rows("c")
    story.run(*AGAIN)
    story.land()
    story.check()
    assert story.said == []


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_of_files_that_are_deleted_since(mariadb, tmp_path, kind, monkeypatch):
    """A file keeps the rows that later batches changed or deleted: a cascade finds none of them."""
    monkeypatch.setattr(patching, "DEFAULT_PATCHES", patching.Patches(least=0, share=1))
    story = Story(mariadb, tmp_path / "lake", kind)
    story.run(*TABLES, *ROWS)
    story.land()
    story.run("UPDATE c SET p = 3 WHERE id = 10", "DELETE FROM c WHERE id = 20")
    story.land()
    story.run("DELETE FROM p WHERE id IN (1, 2)", "INSERT INTO c VALUES (20, 4, 'later')")
    story.land()
    story.check()
    assert {row[0] for row in story.rows("c")} == {"10", "20", "30", "40", "50"}


def test_tasks_that_spark_repeats(story, monkeypatch):
    monkeypatch.setattr(Workers, "run", lambda _self, job, some, *_: run_twice(job, some))
    story.run(*TABLES, *ROWS, *WORK)
    story.land()
    story.check()


def test_verify_finds_no_difference(spark, mariadb, tmp_path):
    """Of a running server, by Spark's own jobs; the option is the lake's from then on."""
    story = Story(mariadb, tmp_path / "unused")
    story.run(*TABLES, *ROWS, *WORK)
    lake, url = tmp_path / "lake", f"mysql://root@127.0.0.1:{mariadb.port}"
    options = {"spark": spark, "tables": f"{DATABASE}.*"}
    assert mirror(url, lake, cascades="apply", **options).cascades == {}
    story.run(*AGAIN)
    assert command(url, into=str(lake)) == 0
    assert [each.name for each in verify(url, lake, spark=spark).tables if each.differing] == []
    with pytest.raises(PipelineError, match="with --cascades apply, and --cascades name is given"):
        mirror(url, lake, spark=spark, cascades="name")
    with pytest.raises(UsageError, match="add current to keep"):
        mirror(url, tmp_path / "other", spark=spark, cascades="apply", keep="changelog")


@pytest.mark.parametrize(
    ("settings", "logged"),
    [
        ({}, True),
        ({"innodb_native_foreign_keys": "ON"}, False),
        ({"innodb_native_foreign_keys": "ON", "binlog_transaction_compression": "ON"}, False),
    ],
)
def test_mysql(fresh_server, tmp_path, settings, logged):
    """What its log has is not done twice; what it has not, also of rows in payloads, is done."""
    server = fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"} | settings)
    story = Story(server, tmp_path / "lake")
    story.run(*TABLES, *ROWS)
    story.run("BEGIN", *WORK[:3], *WORK[4:], "COMMIT")
    story.run("BEGIN", *AGAIN, "COMMIT")
    story.land()
    story.check()
    marks = [row for row in marked(story, "c") if row["_raw"]]
    assert bool(marks) is not logged


def marked(story, table):
    """The changes in a table's changelog, file by file, and the keys that made those that did."""
    files = (story.lake / f"{DATABASE}.{table}" / "changelog").glob("*.parquet")
    rows = [pq.ParquetFile(file).read().to_pylist() for file in files]
    return [row for each in sorted(rows, key=lambda each: each[0]["_seq"]) for row in each]


def test_changes_are_in_the_changelog(story):
    """Each next to the change that made it, whose place and time it has, and with its key."""
    story.run(*TABLES, *ROWS, *WORK, *AGAIN)
    story.land()
    made = [row for row in marked(story, "c") if row["_raw"]]
    causes = {row["_seq"]: row for row in marked(story, "p")}
    for row in made:
        assert dict(row["_raw"]) == {
            "cascade": f"(p) REFERENCES {DATABASE}.p (id) ON DELETE CASCADE ON UPDATE CASCADE"
        }
        cause = causes[row["_seq"]]
        for name in ("_op", "_ts", "_gtid", "_file", "_pos", "_server_id"):
            assert row[name] == cause[name], name
    changes = [
        (row["_op"], row["before"]["id"], row["after"] and row["after"]["p"]) for row in made
    ]
    assert changes == [
        ("delete", 10, None),
        ("delete", 11, None),
        ("update", 20, 200),
        ("delete", 30, None),
        ("delete", 10, None),
        ("update", 10, 2),
        ("delete", 21, None),
    ]
    seqs = [row["_seq"] for row in marked(story, "c")]
    assert seqs == sorted(seqs)
    history = read(story.lake, f"{DATABASE}.c", "history")
    versions = [row for row in history.to_pylist() if row["id"] == 10]
    assert sorted((row["v"], row["p"], row["_is_current"]) for row in versions) == [
        ("a", 1, False),
        ("again", 1, False),
        ("third", 1, False),
        ("third", 2, True),
    ]


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_images_that_are_not_full(story, image):
    story.run(f"SET SESSION binlog_row_image = '{image}'", *TABLES, *ROWS)
    story.land()
    story.run("UPDATE c SET p = 3 WHERE id = 10", "UPDATE c SET v = 'z' WHERE id = 10")
    story.run("DELETE FROM p WHERE id = 3", "UPDATE p SET id = 200 WHERE id = 2")
    story.run("SET SESSION binlog_row_image = 'FULL'")
    story.land()
    aside = story.report.set_aside
    if image == "MINIMAL":  # by the before image alone nobody knows which code was deleted
        assert set(aside) == {f"{DATABASE}.{name}" for name in "cgs"}
        assert "binlog_row_image=FULL has them" in aside[f"{DATABASE}.s"].reason
        story.check("p")
    else:
        assert aside == {}
        story.check()


MOVED = (
    "CREATE TABLE p (id INT PRIMARY KEY)",
    "CREATE TABLE r (id INT PRIMARY KEY)",
    (
        "CREATE TABLE c (p INT, line INT, q INT, PRIMARY KEY (p, line), CONSTRAINT cp FOREIGN KEY"
        " (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE, CONSTRAINT cr FOREIGN KEY (q)"
        " REFERENCES r (id) ON DELETE {})"
    ),
    (
        "CREATE TABLE g (id INT PRIMARY KEY, p INT, line INT,"
        " FOREIGN KEY (p, line) REFERENCES c (p, line) ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    "INSERT INTO p VALUES (1), (3), (7)",
    "INSERT INTO r VALUES (8), (9)",
    "INSERT INTO c VALUES (1, 5, 8), (1, 6, 8), (7, 1, 9)",
    "INSERT INTO g VALUES (100, 1, 5), (101, 1, 6), (102, 7, 1)",
    "UPDATE p SET id = 2 WHERE id = 1",
)
"""Foreign keys of which one gives rows another primary key."""


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
@pytest.mark.parametrize(
    "work",
    [
        ("UPDATE c SET q = 9 WHERE p = 2 AND line = 5", "DELETE FROM r WHERE id = 8"),
        ("DELETE FROM c WHERE p = 2 AND line = 5", "UPDATE p SET id = 4 WHERE id = 2"),
        (
            "SET foreign_key_checks = 0",
            "UPDATE c SET p = 3 WHERE p = 2 AND line = 5",
            "SET foreign_key_checks = 1",
            "DELETE FROM p WHERE id = 2",
        ),
        (
            "UPDATE c SET line = 9 WHERE p = 2 AND line = 5",
            "UPDATE p SET id = 4 WHERE id = 2",
            "UPDATE c SET q = 9 WHERE p = 4 AND line = 9",
            "DELETE FROM r WHERE id = 8",
        ),
    ],
)
def test_changes_of_rows_whose_key_came_of_a_foreign_key(story, action, image, work):
    """The log has them under a key that neither the lake nor another logged change has."""
    story.run(f"SET SESSION binlog_row_image = '{image}'")
    story.run(*(sql.format(action) for sql in MOVED[:-1]))
    story.land()
    story.run(MOVED[-1], *work, "SET SESSION binlog_row_image = 'FULL'")
    assert story.land().set_aside == {}
    story.check("p", "r", "c", "g")


def test_an_image_with_a_part_of_a_foreign_key(story):
    """The rest of the key is what the row had, and a row with its new value is to be found."""
    story.run("SET SESSION binlog_row_image = 'MINIMAL'", *(sql.format("CASCADE") for sql in MOVED))
    story.land()
    story.run("INSERT INTO c VALUES (7, 5, 9)", "UPDATE g SET p = 7 WHERE id = 100")
    story.run("DELETE FROM c WHERE p = 7 AND line = 5", "SET SESSION binlog_row_image = 'FULL'")
    assert story.land().set_aside == {}
    story.check("c", "g")
    assert [row[0] for row in story.rows("g")] == ["101", "102"]


def test_more_rounds_than_a_batch_may_take(story, monkeypatch):
    """Nothing is done by halves: the tables are set aside."""
    monkeypatch.setattr(build, "_ROUNDS", 1)
    story.run(*TABLES, *ROWS, *WORK)
    aside = story.land().set_aside
    assert set(aside) == {f"{DATABASE}.{name}" for name in "cgs"}
    assert "take more than 1 rounds" in aside[f"{DATABASE}.c"].reason


def test_keys_that_change_between(story):
    """Each key counts from the statement that makes it to the one that drops it, in one run."""
    story.run(*TABLES, *ROWS)
    story.run("DELETE FROM p WHERE id = 1", "ALTER TABLE c DROP FOREIGN KEY cp")
    story.run("DELETE FROM p WHERE id = 2", "DELETE FROM c WHERE p = 2")
    story.run("ALTER TABLE c RENAME COLUMN p TO parent, ADD COLUMN more INT DEFAULT 3 FIRST")
    story.run(
        "ALTER TABLE c ADD FOREIGN KEY (parent) REFERENCES p (id) ON DELETE SET NULL",
        "DELETE FROM p WHERE id = 3",
        "INSERT INTO c VALUES (4, 60, 5, 'g')",
        "RENAME TABLE p TO q, c TO d",
        "DELETE FROM q WHERE id = 5",
        "CREATE TABLE c (id INT PRIMARY KEY, d INT, FOREIGN KEY (d) REFERENCES d (id)"
        " ON DELETE CASCADE)",
        "INSERT INTO c VALUES (1, 60), (2, 40)",
        "DELETE FROM d WHERE id = 60",
    )
    story.land()
    story.check("q", "d", "c", "g", "s")
    assert len(story.rows("d")) == 3
    story.run("SET foreign_key_checks = 0", "TRUNCATE TABLE d", "SET foreign_key_checks = 1")
    story.run("INSERT INTO d VALUES (1, 2, NULL, 'n')", "DELETE FROM d")
    story.land()
    story.check("q", "d", "c", "g", "s")


def test_what_cannot_be_carried_out_is_named(mariadb, tmp_path):
    story = Story(mariadb, tmp_path / "lake", exclude=f"{DATABASE}.left_out")
    story.run(
        *TABLES,
        "CREATE TABLE left_out (id INT PRIMARY KEY)",
        "CREATE TABLE o (id INT PRIMARY KEY, l INT,"
        " FOREIGN KEY (l) REFERENCES left_out (id) ON DELETE CASCADE)",
        "CREATE TABLE day (d DATE PRIMARY KEY)",
        "CREATE TABLE of_day (id INT PRIMARY KEY, d DATE,"
        " FOREIGN KEY (d) REFERENCES day (d) ON DELETE CASCADE)",
        *ROWS,
        *WORK,
    )
    story.land()
    story.check()
    assert story.report.cascades == {
        f"{DATABASE}.o": (
            (
                f"(l) REFERENCES {DATABASE}.left_out (id) ON DELETE CASCADE: "
                f"{DATABASE}.left_out is not mirrored"
            ),
        ),
        f"{DATABASE}.of_day": (
            (
                f"(d) REFERENCES {DATABASE}.day (d) ON DELETE CASCADE: "
                "how the values of d (date) are compared is not known"
            ),
        ),
    }
    (line,) = story.said
    assert line.startswith(f"{DATABASE}.o, {DATABASE}.of_day: foreign keys change rows there")


@pytest.mark.parametrize("code", ["three", "th"])
def test_values_that_an_alter_table_cut(story, code):
    """In the batch of a change of the parent: what the child had before is not what it has."""
    key = "CONSTRAINT cp FOREIGN KEY (code) REFERENCES p (code) ON DELETE CASCADE ON UPDATE CASCADE"
    story.run(
        "CREATE TABLE p (id INT PRIMARY KEY, code VARCHAR(9) UNIQUE)",
        f"CREATE TABLE c (id INT PRIMARY KEY, code VARCHAR(9), {key})",
        "CREATE TABLE g (c INT PRIMARY KEY, FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE)",
        "INSERT INTO p VALUES (1,'three'), (2,'xx'), (3,'th')",
        "INSERT INTO c VALUES (10,'three'), (11,'xx')",
        "INSERT INTO g VALUES (10), (11)",
    )
    story.land()
    story.check("p", "c", "g")
    story.run(
        *("SET sql_mode = ''", "ALTER TABLE c DROP FOREIGN KEY cp"),
        *("ALTER TABLE c MODIFY code VARCHAR(2)", "SET foreign_key_checks = 0"),
        *(f"ALTER TABLE c ADD {key}", "SET foreign_key_checks = 1", "SET sql_mode = DEFAULT"),
        f"DELETE FROM p WHERE code = '{code}'",
    )
    assert story.land().set_aside.keys() == {f"{DATABASE}.c", f"{DATABASE}.g"}
    story.check("p")
    assert story.rows("g") == [("10",), ("11",)]


def test_text_of_which_it_is_not_known_what_it_is_equal_to(story):
    """Only what a batch would need of it counts; then the table is set aside, and those after it."""
    story.run(*TABLES, *ROWS, "INSERT INTO p VALUES (6, 'é', 6)", "INSERT INTO s VALUES (6,'é',1)")
    story.land()
    assert story.report.set_aside == {}
    story.run("DELETE FROM p WHERE id = 1")
    story.land()
    aside = story.report.set_aside
    assert set(aside) == {f"{DATABASE}.{name}" for name in "cgs"}
    assert "has the value 'é'" in aside[f"{DATABASE}.s"].reason
    story.check("p")


@pytest.mark.parametrize("value", [r"_ucs2 x'DE00'", "NULL"])
def test_a_referenced_text_with_surrogates(story, value):
    """No typed column holds it; where it changes, the tables that refer to it are set aside."""
    kind = "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    story.run(
        f"CREATE TABLE p (id INT PRIMARY KEY, code {kind} UNIQUE)",
        f"CREATE TABLE s (id INT PRIMARY KEY, code {kind}, CONSTRAINT ps"
        " FOREIGN KEY (code) REFERENCES p (code) ON UPDATE CASCADE)",
        "INSERT INTO p VALUES (1, _ucs2 x'D83D')",
        "INSERT INTO s VALUES (1, _ucs2 x'D83D')",
    )
    story.land()
    assert story.report.set_aside == {}
    story.run(f"UPDATE p SET code = {value}")
    changed = story.server.query(f"SELECT HEX(code) FROM {DATABASE}.s")
    assert changed == story.server.query(f"SELECT HEX(code) FROM {DATABASE}.p")
    aside = story.land().set_aside
    assert "has a value of no type in" in aside[f"{DATABASE}.s"].reason


@pytest.mark.parametrize("keep", [ALL, ("current",)])
def test_a_table_that_failed_is_taken_up(story, tmp_path, keep):
    """It gets what its parents' changes did meanwhile; and those that follow it wait for it."""
    story.options["keep"] = keep
    story.run(*TABLES, *ROWS)
    story.land()
    with failing("v"):
        story.run(*WORK)
        assert set(story.land().set_aside) == {f"{DATABASE}.c"}
        story.run("INSERT INTO g VALUES (21, 9, 9)")
        story.run(*AGAIN)
        aside = story.land().set_aside
    parts = ("current", "history") if keep == ALL else ("current",)
    assert set(aside) == {f"{DATABASE}.c", f"{DATABASE}.g"}
    assert "needs the changes of carried.c: it is set aside" in aside[f"{DATABASE}.g"].reason
    story.check("p", "s", parts=parts)
    assert story.land(retry_tables=f"{DATABASE}.c").set_aside == {}
    story.check(parts=parts)
    story.run("DELETE FROM p")
    story.land()
    story.check(parts=parts)
    if keep == ALL:
        made = sum(bool(row["_raw"]) for name in "cgs" for row in marked(story, name))
        whole = copy.copy(story)
        whole.lake = tmp_path / "whole"
        whole.land()
        assert made == sum(bool(row["_raw"]) for name in "cgs" for row in marked(whole, name))


def test_a_table_whose_key_a_user_gave_is_taken_up(story):
    """The log is read for its parents' changes, too."""
    story.options["keys"] = {f"{DATABASE}.c": "id"}
    story.run(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT NOT NULL, p INT, v VARCHAR(20),"
        " FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
        "INSERT INTO p VALUES (1), (2), (3)",
        "INSERT INTO c VALUES (10, 1, 'a'), (20, 2, 'b'), (30, 3, 'c')",
    )
    assert story.land().cascades == {}
    with failing("v"):
        story.run("UPDATE c SET v = 'w' WHERE id = 30", "DELETE FROM p WHERE id = 1")
        assert set(story.land().set_aside) == {f"{DATABASE}.c"}
    assert story.land(retry_tables=f"{DATABASE}.c").set_aside == {}
    story.check("p", "c")


def test_a_table_whose_keys_changed_is_taken_up(story):
    """Part by part, as when it was read first."""
    story.run(*TABLES, *ROWS)
    story.land()
    with failing("v"):
        story.run("DELETE FROM p WHERE id = 1", "ALTER TABLE c ADD COLUMN more INT DEFAULT 1")
        story.run("DELETE FROM p WHERE id = 2", "ALTER TABLE c DROP FOREIGN KEY cp")
        story.run("DELETE FROM p WHERE id = 3", "INSERT INTO c VALUES (99, 98, 'z', 2)")
        aside = story.land().set_aside
    assert set(aside) == {f"{DATABASE}.c", f"{DATABASE}.g"}
    assert story.land(retry_tables=f"{DATABASE}.*").set_aside == {}
    story.check()


def test_a_key_that_a_table_gets_while_it_stands_still(story):
    """Its changelog stands still from there on, and has what the key did once it is taken up."""
    story.run(*TABLES, "ALTER TABLE c DROP FOREIGN KEY cp", *ROWS)
    story.land()
    with failing("v"):
        story.run("UPDATE c SET v = 'w'")
        story.land()
        logged = len(marked(story, "c"))
        story.run("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE")
        story.run("DELETE FROM p WHERE id = 1")
        assert set(story.land().set_aside) == {f"{DATABASE}.c", f"{DATABASE}.g"}
    assert len(marked(story, "c")) == logged == 12
    assert story.land(retry_tables=f"{DATABASE}.c").set_aside == {}
    story.check()
    made = [row["before"]["id"] for row in marked(story, "c") if row["_raw"]]
    assert (made, len(marked(story, "c"))) == ([10, 11], 14)


def test_shards(mariadb, tmp_path):
    """Keys hold inside of one source."""
    logs, names = tmp_path / "logs", ("one", "two")
    for name in names:
        story = Story(mariadb, tmp_path / "lake")
        story.run(*TABLES, *ROWS, *(WORK if name == "one" else ()))
        story.server.rotate()
        (logs / name).mkdir(parents=True)
        for log in find(str(story.server.data))[0].files:
            shutil.copy(log.path, logs / name)
    report = land([logs / "one", logs / "two"], story.lake, cascades="apply", shards=True)
    assert report.set_aside == {}
    found = read(story.lake, f"{DATABASE}.c").to_pylist()
    ids = {name: sorted(row["id"] for row in found if row["_source"] == name) for name in names}
    assert ids == {"one": [21, 40, 50], "two": [10, 11, 20, 30, 40, 50]}


@pytest.mark.parametrize(("seed", "altering"), [(9, 0.0), (35, 0.0), (11, 0.0), (5, 0.06)])
def test_random_tables(story, mariadb, seed, altering):
    """What the server made of random statements; `tests.spark.cascade.workload`."""
    rng = random.Random(seed)
    story.run(f"DROP DATABASE {DATABASE}")
    work = Workload(mariadb, DATABASE, rng)
    for number in range(4):
        work.make(f"t{number}")
    for _ in range(3):
        for _ in range(rng.choice((3, 15, 40))):
            if rng.random() < altering:
                work.alter()
            else:
                work.step()
        report = story.land()
        assert report.set_aside == {}
        assert report.cascades == {}
        story.check(*work.tables)
    assert any(row["_raw"] for name in work.tables for row in marked(story, name))
