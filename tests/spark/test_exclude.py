"""``exclude`` of `mirror` and of the data source: a way around a table that cannot be decoded."""

from __future__ import annotations

import json

import pytest

from tailrace.errors import PipelineError, TailraceError
from tailrace.spark import mirror, register
from tailrace.spark.manifest.manifest import Manifest
from tests.cli.damaged import damaged, sound


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return damaged(tmp_path_factory.mktemp("bad") / "mariadb")


@pytest.fixture(scope="module")
def others():
    return sound()


def test_mirror(logs, others, spark, tmp_path):
    lake = tmp_path / "lake"
    with pytest.raises(TailraceError):
        mirror(logs, tmp_path / "none", spark=spark)
    report = mirror(logs, lake, spark=spark, exclude="stock")
    assert {table.name: sum(table.changes.values()) for table in report.tables} == others
    assert mirror(logs, lake, spark=spark, exclude=["stock"]).log_bytes == 0
    assert mirror(logs, lake, spark=spark).log_bytes == 0
    for again, says in (
        ({"exclude": "x"}, "with --exclude stock, and --exclude x is given"),
        ({"tables": "*"}, r"without --tables, and --tables \* is given"),
    ):
        with pytest.raises(PipelineError, match=f"was created {says}"):
            mirror(logs, lake, spark=spark, **again)


def test_a_lake_of_before_had_no_exclude(tmp_path):
    Manifest(version=1, patterns=("a.*",), exclude=("a.b",)).write(tmp_path)
    path = tmp_path / "manifest.json"
    assert Manifest.read(tmp_path).mirrored("a", "b") is False
    content = json.loads(path.read_text())
    del content["exclude"]
    path.write_text(json.dumps(content))
    assert Manifest.read(tmp_path).mirrored("a", "b") is True


def test_data_source(logs, others, spark, tmp_path):
    register(spark)
    for load in (spark.read, spark.readStream):
        found = (
            load.format("binlog").option("path", str(logs)).option("exclude", "a.b, stock").load()
        )
        if found.isStreaming:
            query = (
                found.writeStream.format("memory")
                .queryName("kept")
                .option("checkpointLocation", str(tmp_path / "state"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            found = spark.table("kept")
        rows = found.groupBy("_db", "_table").count().collect()
        assert {f"{row._db}.{row._table}": row["count"] for row in rows} == others
