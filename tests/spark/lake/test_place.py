"""Where a lake may be: in a folder, and not behind the URL of an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.errors import UsageError
from tailrace.spark import mirror, settings
from tailrace.spark.lake.open import open_store
from tailrace.spark.verify import verify

SHOP = Path(__file__).resolve().parents[3] / "examples" / "shop"
ELSEWHERE = ("s3://bucket/lake", "hdfs://host/lake", "S3A://bucket", Path("s3://bucket/lake"))


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("into", ELSEWHERE)
def test_a_lake_is_no_url(into, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="a lake is a folder"):
        mirror(SHOP / "mysql", into, format=kind)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lake", ELSEWHERE)
def test_nor_is_one_that_is_read(lake):
    with pytest.raises(UsageError, match="a lake is a folder"):
        verify("mysql://root@127.0.0.1:1/", lake)
    with pytest.raises(UsageError, match="a lake is a folder"):
        settings("iceberg", lake)


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_file_url_is_its_path(kind, tmp_path):
    with open_store(f"file://{tmp_path}/a%20lake", kind):
        assert (tmp_path / "a lake" / "_tailrace").is_dir()
