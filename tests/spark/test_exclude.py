"""``exclude`` of `mirror` and of the data source: a way around a table that cannot be decoded."""

import pytest

from tailrace.errors import PipelineError, TailraceError
from tailrace.spark import mirror, register
from tests.cli.damaged import damaged, sound
from tests.spark.streaming import run_all


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return damaged(tmp_path_factory.mktemp("bad") / "mariadb")


@pytest.fixture(scope="module")
def others():
    return sound()


def test_mirror(logs, others, spark, lake, tmp_path):
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


def test_data_source(logs, others, spark, tmp_path):
    register(spark)
    for load in (spark.read, spark.readStream):
        found = (
            load.format("binlog").option("path", str(logs)).option("exclude", "a.b, stock").load()
        )
        if found.isStreaming:
            run_all(found.writeStream.format("memory").queryName("kept"), tmp_path / "state")
            found = spark.table("kept")
        rows = found.groupBy("_db", "_table").count().collect()
        assert {f"{row._db}.{row._table}": row["count"] for row in rows} == others
