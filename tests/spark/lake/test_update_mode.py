"""Which update mode a lake has, and what a batch does where others write to its tables meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tailrace.errors import LakeChanged, PipelineError, UsageError
from tailrace.spark import mirror
from tailrace.spark.batch import Batches
from tailrace.spark.lake.open import open_store
from tailrace.spark.manifest.manifest import Manifest
from tailrace.spark.options import Options, check_lake
from tailrace.table_filter import TableFilter
from tests.spark.test_follow import SHOP, no_spark


def options(mode=None, kind="delta"):
    return Options.of(
        TableFilter(), ["current"], "error", None, shards=False, update_mode=mode, format=kind
    )


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("parquet", "copy-on-write"), ("delta", "merge-on-read"), ("iceberg", "merge-on-read")],
)
def test_a_new_lake_has_its_formats_mode(kind, mode):
    assert check_lake("lake", Manifest(), options(None, kind), kind).update_mode == mode
    plain = check_lake("lake", Manifest(), options("copy-on-write", kind), kind)
    assert plain.update_mode == "copy-on-write"


def test_a_text_is_one_table_one_kind_and_one_column():
    wanted = TableFilter.of("shop.orders")
    found = Options.of(wanted, "current", "error", {"shop.orders": "id"}, shards=False)
    assert found.tables.only == ("shop.orders",)
    assert found.keep == ("current",)
    assert found.keys == (("shop.orders", ("id",)),)


def test_a_lake_keeps_its_mode():
    begun = Manifest(version=1, keep=("current",), update_mode="copy-on-write", format="delta")
    assert check_lake("lake", begun, options(), "delta").update_mode == "copy-on-write"
    with pytest.raises(PipelineError, match="created with --update-mode copy-on-write"):
        check_lake("lake", begun, options("merge-on-read"), "delta")


def test_modes_that_cannot_be():
    with pytest.raises(UsageError, match="merge-on-read is for delta and iceberg"):
        options("merge-on-read", "parquet")
    with pytest.raises(UsageError, match="not 'merge-on-write'"):
        options("merge-on-write")


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_the_mode_is_kept_in_the_lake(tmp_path, mode):
    lake = tmp_path / "lake"
    stop = threading.Event()
    mirror(
        SHOP / "mysql",
        lake,
        spark=no_spark,
        format="delta",
        update_mode=mode,
        follow=True,
        trigger=0.1,
        stop=stop,
        on_moment=lambda moment: stop.set() if moment.batches else None,
    )
    with open_store(lake, "delta") as store:
        assert store.manifest.update_mode == mode


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
    return Batches(None, made, None, lambda *_: None), tried


def test_a_batch_is_made_again_where_others_were_first(monkeypatch):
    work, tried = batches(monkeypatch, 2)
    assert work.run({"a": 1}) == ({"a": 1}, None)
    assert len(tried) == 3
    work, tried = batches(monkeypatch, 3)
    with pytest.raises(LakeChanged):
        work.run({"a": 1})
    assert len(tried) == 3
