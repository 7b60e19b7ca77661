"""What does not fit together is an error of one line."""

from __future__ import annotations

import importlib.metadata
import re
from importlib.metadata import PackageNotFoundError

import pytest

from tailrace.errors import MissingExtra
from tailrace.extras import hint
from tailrace.spark import fit, mirror
from tailrace.spark.options import FORMATS


def test_what_is_installed_fits():
    for name in FORMATS:
        fit.check(name)
    fit.check_spark(java=True)


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
            fit.check("delta") if extra == "delta" else fit.check_spark(java=False)

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
