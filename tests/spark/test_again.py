"""A lake is opened again without the options that it was created with."""

from __future__ import annotations

import pytest

from tailrace.errors import PipelineError
from tailrace.spark import mirror
from tailrace.spark.lake.open import format_of, open_store
from tests.spark import replay

SHOP = replay.SHOP / "mysql"
ASKED = {
    "tables": ["shop.orders", "shop.customers"],
    "exclude": "shop.x",
    "keep": ["current", "history"],
    "keys": {"shop.orders": ["id"]},
    "shards": True,
    "update_mode": "copy-on-write",
}


def state(lake, kind):
    with open_store(lake, kind) as store:
        return store.manifest


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_the_options_are_the_lakes(kind, tmp_path):
    lake = tmp_path / "lake"
    assert format_of(lake) is None
    mirror(SHOP, lake, format=kind, **ASKED)
    before = state(lake, kind)
    assert (before.format, before.shards, before.keep) == (kind, True, ("current", "history"))
    assert format_of(lake) == kind
    for again in ({}, {"format": kind}, ASKED, {"tables": ["shop.customers", "shop.orders"]}):
        assert mirror(SHOP, lake, **again).log_bytes == 0
    other = "delta" if kind == "parquet" else "parquet"
    for differs, says in (
        ({"format": other}, f"with --format {kind}, and --format {other} is given"),
        ({"keep": ["current"]}, "with --keep current,history, and --keep current is given"),
        (
            {"tables": "shop.*"},
            r"with --tables shop.customers,shop.orders, and --tables shop.\* is given",
        ),
        ({"exclude": "shop.y"}, "with --exclude shop.x, and --exclude shop.y is given"),
        ({"shards": False}, "with --shards, and no --shards is given"),
        (
            {"keys": {"shop.orders": ["id", "n"]}},
            "with --keys shop.orders=id, and --keys shop.orders=id,n is given",
        ),
    ):
        with pytest.raises(PipelineError, match=f"was created {says}: leave that out"):
            mirror(SHOP, lake, **differs)
    assert state(lake, kind) == before


def test_more_of_the_log_goes_by_them_too(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    names = sorted(path.name for path in SHOP.glob("binlog.0*"))
    for name in names[:1]:
        (logs / name).write_bytes((SHOP / name).read_bytes())
    lake, whole = tmp_path / "lake", tmp_path / "whole"
    mirror(logs, lake, format="delta", tables="shop.orders", keep=["changelog"])
    for name in names[1:]:
        (logs / name).write_bytes((SHOP / name).read_bytes())
    report = mirror(logs, lake)
    assert [table.name for table in report.tables] == ["shop.orders"]
    mirror(logs, whole, format="delta", tables="shop.orders", keep=["changelog"])
    ours, theirs = state(lake, "delta"), state(whole, "delta")
    assert ours.tables["shop.orders"].current is None
    assert rows(ours) == rows(theirs) > 0


def rows(manifest):
    return sum(file.rows for file in manifest.tables["shop.orders"].changelog)


def test_a_folder_that_an_earlier_tailrace_left_has_no_format(tmp_path):
    lake = tmp_path / "lake"
    (lake / "_tailrace" / "versions").mkdir(parents=True)
    (lake / "_tailrace" / "lock").touch()
    mirror(SHOP, lake, format="delta", tables="shop.orders")
    assert format_of(lake) == "delta"
