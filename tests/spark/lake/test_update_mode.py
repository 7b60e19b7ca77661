"""Which update mode a lake has, and what a batch does where others write to its tables meanwhile."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tailrace.errors import LakeChanged, PipelineError, UsageError
from tailrace.spark.batch import Batches
from tailrace.spark.lake.open import open_store
from tailrace.spark.manifest.manifest import Manifest
from tailrace.spark.options import Options, check_lake
from tailrace.table_filter import TableFilter
from tests.spark.history.landing import land
from tests.spark.replay import SHOP


def options(mode=None, kind="delta"):
    return Options.of(
        TableFilter(), ["current"], "error", None, shards=False, update_mode=mode, format=kind
    )


def test_a_new_lake_has_its_formats_mode():
    for kind, mode in {
        "parquet": "copy-on-write",
        "delta": "merge-on-read",
        "iceberg": "merge-on-read",
    }.items():
        assert check_lake("lake", Manifest(), options(None, kind), kind).update_mode == mode
        plain = check_lake("lake", Manifest(), options("copy-on-write", kind), kind)
        assert plain.update_mode == "copy-on-write"


def test_a_text_is_one_table_one_kind_and_one_column():
    wanted = TableFilter.of("shop.orders")
    found = Options.of(wanted, "current", "error", {"shop.orders": "id"}, shards=False)
    assert found.tables.only == ("shop.orders",)
    assert found.keep == ("current",)
    assert found.keys == (("shop.orders", ("id",)),)


def test_a_lake_keeps_its_mode(tmp_path):
    begun = Manifest(version=1, keep=("current",), update_mode="copy-on-write", format="delta")
    assert check_lake("lake", begun, options(), "delta").update_mode == "copy-on-write"
    with pytest.raises(PipelineError, match="created with --update-mode copy-on-write"):
        check_lake("lake", begun, options("merge-on-read"), "delta")
    kept = {"format": "delta", "tables": "shop.reviews", "update_mode": "copy-on-write"}
    land(SHOP / "mysql", tmp_path / "lake", **kept)
    with open_store(tmp_path / "lake", "delta") as store:
        assert store.manifest.update_mode == "copy-on-write"


def test_modes_that_cannot_be():
    with pytest.raises(UsageError, match="merge-on-read is for delta and iceberg"):
        options("merge-on-read", "parquet")
    with pytest.raises(UsageError, match="not 'merge-on-write'"):
        options("merge-on-write")


def batches(monkeypatch, failures):
    """Batches of which the first ones meet others' writing; and how many were tried."""
    tried = []

    def run(_self, taken, _again, seconds):
        tried.append(taken)
        if len(tried) <= failures:
            raise LakeChanged("others have written to it")
        return taken, seconds

    monkeypatch.setattr(Batches, "_run", run)
    made = replace(options(), update_mode="merge-on-read")
    store = SimpleNamespace(manifest=Manifest())
    return Batches(store, made, None, lambda *_: None), tried


def test_a_batch_is_made_again_where_others_were_first(monkeypatch):
    work, tried = batches(monkeypatch, 2)
    assert work.run({}) == ({}, None)
    assert len(tried) == 3
    work, tried = batches(monkeypatch, 3)
    with pytest.raises(LakeChanged):
        work.run({})
    assert len(tried) == 3
