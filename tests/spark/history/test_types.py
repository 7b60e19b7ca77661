"""A name that is taken anew with another type: every reader gets all versions, in all formats."""

import shutil

import pytest

from tests.spark.history.landing import FORMATS, READERS, land
from tests.spark.history.making import Told
from tests.spark.lake.test_foreign import COMPACT
from tests.spark.replay import check_rows
from tools.campaign.mirrored_checks import at

DATABASE = "retyped"
MYSQL = pytest.mark.parametrize("server", ["mysql-9.7"], indirect=True)
TABLE = f"{DATABASE}.t"
OURS = ("_valid_from", "_valid_to", "_is_current", "_seq")
STEPS = (
    (
        "CREATE TABLE t (id INT PRIMARY KEY, price INT, gone INT, Born DATE)",
        "INSERT INTO t VALUES (1, 10, 5, '2024-01-01'), (2, 20, 6, '2024-01-02')",
        "UPDATE t SET price = 11 WHERE id = 1",
        "ALTER TABLE t DROP COLUMN gone",
        "UPDATE t SET price = 12 WHERE id = 1",
    ),
    (
        "DROP TABLE t",
        "CREATE TABLE t (id INT PRIMARY KEY, price VARCHAR(10), born DECIMAL(6,2))",
        "INSERT INTO t VALUES (1, 'ten', 1.25), (3, 'thirty', 2.5)",
        "UPDATE t SET price = 'eleven' WHERE id = 1",
    ),
    (
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t MODIFY born VARCHAR(20)",
        "INSERT INTO t VALUES (4, 'four', 'long ago')",
    ),
    (
        "DROP TABLE t",
        "CREATE TABLE t (id VARCHAR(5) PRIMARY KEY, price BIGINT, born DATE)",
        "INSERT INTO t VALUES ('a', 5000000000, '2024-02-29')",
        "UPDATE t SET born = NULL WHERE id = 'a'",
    ),
)


class Story(Told):
    """The steps, a log for each of them, and what SELECT said after each statement."""

    def __init__(self, server, folder):
        super().__init__(server, DATABASE)
        self.logs = []
        for step in STEPS:
            for statement in step:
                self.do(statement)
                self.note()
            self.logs.append(self.copy_log(folder))
        server.execute("SET TIMESTAMP = DEFAULT")


def check(rows, story):
    """The versions of each moment are what SELECT said then, whatever a name's case is."""
    compared = 0
    rows = rows.rename_columns([name.lower() for name in rows.schema.names])
    for micros, said in story.said.items():
        wanted, found = said.get(TABLE), at(rows, micros)
        if wanted is not None:
            wanted = wanted | {"columns": [name.lower() for name in wanted["columns"]]}
        check_rows(found, wanted, micros)
        compared += found.num_rows
    assert compared > 15


@pytest.fixture(scope="module")
def story(server, tmp_path_factory):
    return Story(server, tmp_path_factory.mktemp("story") / "logs")


@pytest.mark.parametrize(
    ("server", "kind"),
    [*(("mysql-9.7", kind) for kind in FORMATS), ("mariadb-11.8", "parquet")],
    indirect=["server"],
)
def test_all_versions_are_read(story, tmp_path, kind):
    options = {"format": kind, "keep": ["changelog", "history"], "tables": [f"{DATABASE}.*"]}
    land(story.logs[0].parent, tmp_path / "once", **options)
    logs = tmp_path / "growing"
    logs.mkdir()
    for log in story.logs:
        shutil.copy(log, logs / log.name)
        land(logs, tmp_path / "steps", **options)
    both = [READERS[kind](tmp_path / each, TABLE, "history") for each in ("once", "steps")]
    columns = [set(rows.schema.names) - {*OURS, "_raw"} for rows in both]
    expected = {"id", "price", "gone", "Born", "price__string", "born__decimal_6_2", "born__string"}
    assert columns == [{*expected, "id__string"}] * 2
    for rows in both:
        assert len(set(rows.column("_seq").to_pylist())) > 8
        check(rows, story)
    for lake in ("once", "steps"):
        log = READERS[kind](tmp_path / lake, TABLE, "changelog")
        prices = [
            (row["price"], row["price__string"])
            for row in log.sort_by("_seq").column("after").to_pylist()
            if row is not None
        ]
        assert prices[:4] == [(10, None), (20, None), (11, None), (12, None)]
        assert (None, "ten") in prices
        assert prices[-1][0] == 5_000_000_000


@MYSQL
@pytest.mark.parametrize("kind", COMPACT)
def test_files_that_others_put_together(story, tmp_path, kind):
    """Open versions have columns of other names in the table; ours again, they are gone on with."""
    logs, lake = tmp_path / "growing", tmp_path / "lake"
    logs.mkdir()
    options = {"format": kind, "keep": ["history"], "tables": [f"{DATABASE}.*"]}
    for log in story.logs:
        shutil.copy(log, logs / log.name)
        land(logs, lake, **options)
        if log != story.logs[-1]:
            COMPACT[kind](lake, f"{TABLE}_history")
    check(READERS[kind](lake, TABLE, "history"), story)


@MYSQL
def test_spark_reads_all_versions_of_a_parquet_lake(story, tmp_path, spark):
    options = {"keep": ["changelog", "history"], "tables": [f"{DATABASE}.*"]}
    land(story.logs[0].parent, tmp_path / "lake", **options)
    found = spark.read.parquet(str(tmp_path / "lake" / TABLE / "history"))
    wanted = READERS["parquet"](tmp_path / "lake", TABLE, "history")
    assert set(found.columns) == set(wanted.schema.names)
    columns = [each for each in wanted.schema.names if each != "_raw"]
    seen = found.select(columns).toArrow().to_pylist()
    said = wanted.select(columns).to_pylist()
    assert sorted(map(repr, seen)) == sorted(map(repr, said))
    log = spark.read.parquet(str(tmp_path / "lake" / TABLE / "changelog"))
    assert log.where("after.price__string = 'ten'").count() == 1
