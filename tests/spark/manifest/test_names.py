"""Tables and lakes with names that file systems, URLs and catalogues have trouble with."""

import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest

import tailrace
from tailrace.errors import UsageError
from tailrace.search import Index, index
from tailrace.spark import mirror
from tailrace.spark.lake.jars import settings
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.verify import verify
from tailrace.table_name import TableName
from tests.spark.following import url_of
from tests.spark.history.landing import FORMATS, READERS
from tests.spark.lake.journals import saved
from tools.shop import SHOP

CJK = "表" * 45
DATABASES = ("shop", CJK)
TABLES = ("t", "T", "größe", "a$b", "a.b/c #?%20", CJK, "%" * 45)


def quoted(*names):
    return ".".join(f"`{name}`" for name in names)


@pytest.fixture(scope="module")
def server(fresh_server):
    """MySQL with tables that differ in case alone (lower_case_table_names=0), and odd names."""
    made = fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})
    assert made.query("SELECT @@lower_case_table_names") == [(0,)]
    for database in DATABASES:
        made.execute(f"CREATE DATABASE {quoted(database)}")
        for table in TABLES:
            name = quoted(database, table)
            made.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, `größe %41` TEXT)")
    return made


def fill(server, first):
    """Two rows more in each table, that say which table it is; one row changed and one deleted."""
    for database in DATABASES:
        for table in TABLES:
            name = quoted(database, table)
            text = f"{database}/{table}".replace("'", "''")
            server.execute(f"INSERT INTO {name} VALUES ({first}, '{text}'), ({first + 1}, 'x')")
            if first > 1:
                server.execute(f"UPDATE {name} SET `größe %41` = '{text}' WHERE id = {first - 1}")
                server.execute(f"DELETE FROM {name} WHERE id = {first - 2}")


def content(spark, lake, kind, state):
    """The current rows as the format's own reader gives them: id to text."""
    if kind == "parquet":
        found = spark.read.parquet(str(lake / state.folder / "current")).toArrow()
    else:
        found = READERS[kind](lake, state.parts["current"])
    rows = pa.table(found).select(["id", "größe %41"]).to_pylist()
    return {row["id"]: row["größe %41"] for row in rows}


def test_odd_names(spark, server, tmp_path):
    """Mirrored twice, equal to the server, and found by other readers; no two in one folder."""
    lakes = {
        kind: tmp_path / kind / ("my lake ü#?" if kind == "delta" else "my lake ü%20") / CJK
        for kind in FORMATS
    }
    options = {"keep": ["changelog", "current", "history"]}
    for first in (1, 3):
        fill(server, first)
        for kind, lake in lakes.items():
            lake.parent.mkdir(parents=True, exist_ok=True)
            mirror(url_of(server), lake, format=kind, **options)
            report = verify(url_of(server), lake)
            assert report.verdict == "equal", kind
            assert len(report.tables) == len(DATABASES) * len(TABLES)
    for kind, lake in lakes.items():
        check_lake(spark, lake, kind)


def check_lake(spark, lake, kind):
    for state in LakeView.open(lake).manifest.tables.values():
        name = f"{state.database}/{state.table}"
        assert content(spark, lake, kind, state) == {2: name, 3: name, 4: "x"}, name
    folders = [each.name for each in lake.iterdir()]
    folded = {unicodedata.normalize("NFKC", name).casefold() for name in folders}
    assert len(folded) == len(folders)
    assert max(len(name.encode()) for name in folders) <= 240
    told = saved(lake)[2]
    assert {(each["database"], each["table"]) for each in told.values()} == {
        (database, table) for database in DATABASES for table in TABLES
    }
    assert len({each["folder"] for each in told.values()}) == len(told)
    assert told[f"shop.{CJK}"]["folder"] == f"shop.{CJK}"


def test_folders_that_a_formats_readers_cannot_read(tmp_path):
    with pytest.raises(UsageError, match="has '%20' in its path"):
        open_store(tmp_path / "a%20b", "delta")
    for name in ("a?b", "a#b", "a\nb"):
        with pytest.raises(UsageError, match="Iceberg's readers end a path"):
            open_store(tmp_path / name, "iceberg")
    assert list(tmp_path.iterdir()) == []


ELSEWHERE = ("s3://bucket/lake", "hdfs://host/lake", "S3A://bucket", Path("s3://bucket/lake"))


def test_a_lake_is_no_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for into in ELSEWHERE:
        for kind in FORMATS:
            with pytest.raises(UsageError, match="a lake is a folder"):
                mirror(SHOP / "mysql", into, format=kind)
        with pytest.raises(UsageError, match="a lake is a folder"):
            verify("mysql://root@127.0.0.1:1/", into)
        with pytest.raises(UsageError, match="a lake is a folder"):
            settings("iceberg", into)
    assert list(tmp_path.iterdir()) == []


def test_a_file_url_is_its_path(tmp_path):
    for kind in FORMATS:
        with open_store(f"file://{tmp_path}/a%20lake{kind}", kind):
            assert (tmp_path / f"a lake{kind}" / "_tailrace").is_dir()


NEIGHBOURS = (("co", "x.y"), ("co.x", "y"), ("co.x", "y.z"), ("co", "x.y.z"), ("co", "a,b"))


def test_names_that_are_one_when_they_are_joined_by_a_dot(fresh_server, tmp_path):
    """Each is a table of its own, also if all change in one batch, and one is emptied or renamed."""
    source = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    for database in ("co", "co.x"):
        source.execute(f"CREATE DATABASE {quoted(database)}")
    for number, name in enumerate(NEIGHBOURS):
        source.execute(f"CREATE TABLE {quoted(*name)} (id INT PRIMARY KEY, v TEXT)")
        source.execute(f"INSERT INTO {quoted(*name)} VALUES ({number}, 'word{number}')")
    options = {"keep": ["changelog", "current", "history"]}
    for kind in FORMATS:
        report = mirror(source.data, tmp_path / kind, format=kind, **options)
        names = [each.name for each in report.tables]
        assert names == sorted(str(TableName(*name)) for name in NEIGHBOURS), kind
    for name in NEIGHBOURS[1:]:
        source.execute(f"UPDATE {quoted(*name)} SET v = CONCAT(v, ' more')")
    source.execute(f"TRUNCATE {quoted('co', 'x.y')}")
    source.execute(f"RENAME TABLE {quoted('co', 'x.y.z')} TO {quoted('co.x', 'y.*')}")
    source.execute(f"INSERT INTO {quoted('co.x', 'y.*')} VALUES (9, 'nine')")
    for kind in FORMATS:
        mirror(source.data, tmp_path / kind, format=kind, **options)
        verified = verify(url_of(source), tmp_path / kind)
        assert (verified.verdict, len(verified.tables)) == ("equal", len(NEIGHBOURS)), kind
    renamed = {TableName(*name) for name in NEIGHBOURS} | {TableName("co.x", "y.*")}
    assert set(tailrace.stat(source.data).tables) == set(map(str, renamed))
    index(source.data, tmp_path / "texts")
    found = Index(tmp_path / "texts")
    counts = {name: len([*found.rows(str(name))]) for name in renamed}
    assert counts == {name: len(source_rows(source, name)) for name in renamed}


def source_rows(source, name):
    tables = source.query("SELECT table_schema, table_name FROM information_schema.tables")
    return source.query(f"SELECT * FROM {quoted(*name)}") if tuple(name) in tables else []
