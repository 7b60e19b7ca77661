"""What fits together: settings of a Spark that goes on from a lake, and installed versions."""

import fcntl
import importlib.metadata
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pyspark
import pytest

from tailrace.errors import MissingExtra, PipelineError
from tailrace.extras import hint
from tailrace.spark import mirror, settings
from tailrace.spark.lake import jars
from tailrace.spark.manifest.lake_options import FORMATS
from tailrace.spark.runtime.session import check_installed, check_spark, one_at_a_time


def test_an_iceberg_lake_is_the_catalogue_lake(tmp_path):
    found = settings("iceberg", tmp_path)
    assert found["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:{tmp_path}/catalog.db"
    assert found["spark.sql.catalog.lake.warehouse"] == tmp_path.as_uri()
    found = settings("iceberg", tmp_path / "my lake")
    assert found["spark.sql.catalog.lake.warehouse"] == f"file://{tmp_path}/my lake"
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


def test_what_is_installed_fits():
    for name in FORMATS:
        check_installed(name)
    check_spark("a mirror", java=True)


def test_versions_are_those_of_the_extra(monkeypatch):
    for package, found, fits in (
        ("deltalake", "0.25.5", False),
        ("deltalake", "1.5.9", False),
        ("deltalake", "1.6.0", True),
        ("deltalake", "2.0.0rc1", False),
        ("pyspark", "3.5.6", False),
        ("pyspark", "4.2.0.dev1", True),
        ("pyspark", "5.0.0", False),
    ):
        versions = {"pyspark": "4.1.4", "deltalake": "1.6.6"} | {package: found}
        monkeypatch.setattr(importlib.metadata, "version", versions.__getitem__)
        extra = {"deltalake": "delta", "pyspark": "spark"}[package]

        def check(extra=extra):
            check_installed("delta") if extra == "delta" else check_spark("it", java=False)

        if fits:
            check()
            continue
        with pytest.raises(MissingExtra, match=rf"needs {package}.*, and {found} is") as said:
            check()
        assert str(said.value).endswith(hint(extra))


def test_what_is_missing_is_said_before_anything_runs(tmp_path, monkeypatch):
    def version(package):
        if package == "pyiceberg":
            raise PackageNotFoundError
        return "4.1.4"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(MissingExtra, match=re.escape(hint("iceberg"))):
        mirror("mysql://root@127.0.0.1:1", tmp_path / "lake", format="iceberg", follow=True)
    assert not (tmp_path / "lake").exists()
