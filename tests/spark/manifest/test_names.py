"""Tables and lakes with names that file systems, URLs and catalogues have trouble with."""

import json
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.errors import UsageError
from tailrace.spark import mirror
from tailrace.spark.jars import settings
from tailrace.spark.lake.open import open_store
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.verify import verify
from tests.spark.following import url_of
from tests.spark.history.landing import FORMATS, READERS
from tests.spark.replay import SHOP

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
    server.connection.commit()


def content(spark, lake, kind, state):
    """The current rows as the format's own reader gives them: id to text."""
    if kind == "parquet":
        found = spark.read.parquet(str(lake / state.folder / "current")).toArrow()
    else:
        found = READERS[kind](lake, state.parts["current"])
    rows = pa.table(found).select(["id", "größe %41"]).to_pylist()
    return {row["id"]: row["größe %41"] for row in rows}


@pytest.mark.parametrize("kind", FORMATS)
def test_odd_names(spark, server, tmp_path, kind):
    """Mirrored twice, equal to the server, and found by other readers; no two in one folder."""
    for database in DATABASES:
        for table in TABLES:
            server.execute(f"TRUNCATE TABLE {quoted(database, table)}")
    lake = tmp_path / ("my lake ü#?" if kind == "delta" else "my lake ü%20") / CJK
    lake.parent.mkdir()
    options = {"format": kind, "keep": ["changelog", "current", "history"]}
    for first in (1, 3):
        fill(server, first)
        mirror(url_of(server), lake, **options)
        report = verify(url_of(server), lake)
        assert report.verdict == "equal"
        assert len(report.tables) == len(DATABASES) * len(TABLES)
    states = LakeView.open(lake).manifest.tables.values()
    for state in states:
        name = f"{state.database}/{state.table}"
        assert content(spark, lake, kind, state) == {2: name, 3: name, 4: "x"}, name
    folders = [each.name for each in lake.iterdir()]
    folded = {unicodedata.normalize("NFKC", name).casefold() for name in folders}
    assert len(folded) == len(folders)
    assert max(len(name.encode()) for name in folders) <= 240
    told = json.loads((lake / "_tailrace" / "now" / "manifest.json").read_text())["tables"]
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
