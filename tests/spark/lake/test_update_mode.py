"""Which update mode a lake has, and what a batch does where others write to its tables meanwhile."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from tailrace.errors import LakeChanged, PipelineError, UsageError
from tailrace.spark.lake.lake import open_store
from tailrace.spark.manifest.lake_options import LakeOptions
from tailrace.spark.manifest.manifest import Manifest
from tailrace.spark.mirror.batch import Batch
from tailrace.spark.mirror.batches import Batches
from tests.spark.history.landing import land
from tools.shop import SHOP


def test_a_new_lake_has_its_formats_mode():
    for kind, mode in {
        "parquet": "copy-on-write",
        "delta": "merge-on-read",
        "iceberg": "merge-on-read",
    }.items():
        assert LakeOptions.of({"format": kind}).update_mode == mode
        plain = LakeOptions.of({"format": kind, "update_mode": "copy-on-write"})
        assert plain.update_mode == "copy-on-write"


def test_a_lake_keeps_its_mode(tmp_path):
    kept = {"format": "delta", "tables": "shop.reviews", "update_mode": "copy-on-write"}
    land(SHOP / "mysql", tmp_path / "lake", **kept)
    land(SHOP / "mysql", tmp_path / "lake")
    with pytest.raises(PipelineError, match="created with --update-mode copy-on-write"):
        land(SHOP / "mysql", tmp_path / "lake", update_mode="merge-on-read")
    with open_store(tmp_path / "lake", "delta") as store:
        assert store.manifest.options == LakeOptions.of(kept)


def test_modes_that_cannot_be():
    with pytest.raises(UsageError, match="merge-on-read is for delta and iceberg"):
        LakeOptions.of({"update_mode": "merge-on-read"})
    with pytest.raises(UsageError, match="not 'merge-on-write'"):
        LakeOptions.of({"update_mode": "merge-on-write"})


def batches(monkeypatch, failures):
    """Batches of which the first ones meet others' writing; and how many were tried."""
    tried = []

    def run(batch, _seconds):
        tried.append(batch)
        if len(tried) <= failures:
            raise LakeChanged("others have written to it")
        return batch.taken

    monkeypatch.setattr(Batch, "run", run)
    made = LakeOptions.of({"format": "delta"})
    store = SimpleNamespace(manifest=Manifest(), discard=lambda: None)
    others = dict.fromkeys(each.name for each in fields(Batches) if each.init)
    return Batches(**{**others, "store": store, "options": made}), tried


def test_a_batch_is_made_again_where_others_were_first(monkeypatch):
    work, tried = batches(monkeypatch, 2)
    assert work.commit({}) == {}
    assert len(tried) == 3
    work, tried = batches(monkeypatch, 3)
    with pytest.raises(LakeChanged):
        work.commit({})
    assert len(tried) == 3
