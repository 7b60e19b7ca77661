"""Where a lake may be: in a folder, and not behind the URL of an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.errors import UsageError
from tailrace.spark import mirror, settings
from tailrace.spark.lake.open import open_store
from tailrace.spark.options import FORMATS
from tailrace.spark.verify import verify

SHOP = Path(__file__).resolve().parents[3] / "examples" / "shop"
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
