"""Settings of a Spark that goes on from a lake; tests/spark/lake/test_spark.py runs with them."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pyspark
import pytest

from tailrace.errors import PipelineError
from tailrace.spark import jars, settings
from tailrace.spark.session import one_at_a_time


def test_an_iceberg_lake_is_the_catalogue_lake(tmp_path):
    found = settings("iceberg", tmp_path)
    assert found["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:{tmp_path}/catalog.db"
    assert found["spark.sql.catalog.lake.warehouse"] == tmp_path.as_uri()
    with pytest.raises(PipelineError, match="say which folder"):
        settings("iceberg")


def test_what_spark_has_is_not_fetched():
    there = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").iterdir()}
    for group, name in {
        "com.github.luben": "zstd-jni",
        "org.apache.hadoop": "hadoop-client-runtime",
        "org.apache.parquet": "parquet-hadoop",
    }.items():
        assert f"{group}:*" in settings("delta")["spark.jars.excludes"].split(",")
        assert any(each.startswith(f"{name}-") for each in there)


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        (
            "delta",
            "4.0.1",
            "Spark reads delta with PySpark 4.1 or 4.2, and 4.0 is installed: .*'pyspark==4.2.[*]'$",
        ),
        (
            "iceberg",
            "4.3.0",
            "Spark reads iceberg with PySpark 4.1, and 4.3 is installed: .*'pyspark==4.1.[*]'$",
        ),
        ("parquet", "4.1.4", "format is delta or iceberg, and not 'parquet'"),
    ],
)
def test_the_error_names_the_version_to_install(monkeypatch, name, version, message):
    monkeypatch.setattr(jars, "version", lambda _: version)
    with pytest.raises(PipelineError, match=message):
        settings(name)


def test_packages_are_fetched_by_one_session_at_a_time(tmp_path):
    # Two that start at once with an empty folder both fail: Ivy has no lock of its own.
    with (
        one_at_a_time(str(tmp_path / "ivy")),
        (tmp_path / "ivy/lock").open() as lock,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "ivy/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
