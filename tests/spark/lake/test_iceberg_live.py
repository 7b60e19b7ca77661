"""A mirror into Iceberg under random load, in many small batches, each beside the tables' files."""

from __future__ import annotations

import re

import pytest

from tailrace.spark.current import patching
from tailrace.spark.current.patching import Patches
from tailrace.spark.lake.iceberg_catalog import own_catalog
from tests.spark.following import Follow, mark, url_of
from tests.spark.lake.patching import iceberg_rows
from tests.spark.lake.test_shop import with_times
from tests.spark.replay import differences
from tools.dumps import dump_databases
from tools.load import Load

SHARED = re.compile(r"(innodb|myisam|aria)_\d+")


def marks(lake):
    """The marks that the lake has."""
    if not own_catalog(lake).table_exists("follow.marks"):
        return []
    return iceberg_rows(lake, "follow.marks")["n"].to_pylist()


def hidden_in(lake):
    """How many batches hid rows beside the files of the tables that all clients change."""
    catalog = own_catalog(lake)
    if not catalog.namespace_exists("random_load"):
        return 0
    names = [name for name in catalog.list_tables("random_load") if SHARED.fullmatch(name[-1])]
    return sum(
        "added-position-deletes" in snapshot.summary.additional_properties
        for name in names
        for snapshot in catalog.load_table(name).metadata.snapshots
    )


@pytest.mark.slow
def test_random_load(fresh_server, tmp_path, monkeypatch):
    monkeypatch.setattr(patching, "DEFAULT_PATCHES", Patches(least=0, share=1, together=3))
    server = fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})
    lake = tmp_path / "lake"
    keep = ("changelog", "current", "history")
    with Follow(url_of(server), lake, format="iceberg", keep=keep, trigger=0.1) as following:
        with Load(server, seed=5, rate=60, large=0.0, huge=0) as load:
            following.wait_for(lambda: following.moments)
            while load.counts.total() <= 200 or hidden_in(lake) <= 5:
                done = load.counts.total()
                following.wait_for(lambda done=done: load.counts.total() > done + 20)
                with load.paused():  # batches stay small on a slow machine, too
                    last = mark(server)
                    following.wait_for(lambda last=last: last in marks(lake))
        wanted = dump_databases(server, "random_load")
        last = mark(server)
        following.wait_for(lambda: last in marks(lake))
    report = following.report
    refused = {table.name for table in report.tables if table.refused}
    catalog = own_catalog(lake)
    compared = hidden = 0
    for table, rows in wanted.items():
        if table in refused or not catalog.table_exists(table):
            assert table in refused or not rows["count"], table
            continue
        assert differences(with_times(iceberg_rows(lake, table), rows), rows) == [], table
        compared += 1
        for snapshot in catalog.load_table(table).metadata.snapshots:
            hidden += "added-position-deletes" in snapshot.summary.additional_properties
        if catalog.table_exists(f"{table}_changelog"):  # not of a table renamed at the very end
            seqs = iceberg_rows(lake, f"{table}_changelog")["_seq"].to_pylist()
            assert len(seqs) == len(set(seqs))
        history = iceberg_rows(lake, f"{table}_history")
        assert history.filter(history["_is_current"]).num_rows == rows["count"]
    assert compared
    assert hidden > 5
