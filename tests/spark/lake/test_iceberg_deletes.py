"""Rows of an Iceberg table that are deleted beside its files, by position delete files."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, ManifestContent

import tailrace
from tailrace.spark import mirror
from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.iceberg.files import read_deletes, taken_up, write_deletes
from tailrace.spark.lake.lake import open_store
from tailrace.spark.state.built import Built
from tailrace.spark.state.current import jobs
from tests.spark.lake.making import COLUMNS, begun, made, row, state
from tests.spark.lake.patching import NAME, expected, iceberg_rows, names, patch


def seen(lake):
    return names(iceberg_rows(lake, NAME))


def delete_files(lake):
    """The delete files of the table, as its manifests list them."""
    table = own_catalog(lake).load_table(NAME)
    return [
        entry.data_file
        for manifest in table.current_snapshot().manifests(table.io)
        if manifest.content == ManifestContent.DELETES
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def with_current(store, current, paths):
    """A batch that makes the current state so."""
    return made(store, {}, {NAME: Built(current, tuple(paths))}, 1000 + store.manifest.version)


def test_buckets_that_are_written_anew_leave_no_deletes_behind(tmp_path):
    lake = begun(tmp_path, "iceberg")
    with open_store(lake, "iceberg") as store:
        store.commit(patch(store, [], gone=[1, 2, 3]))
        assert len(delete_files(lake)) == 1
        rows = [0, *range(4, 10)]
        fresh = state(store.staging / "x", [row(each) for each in rows], COLUMNS)
        for bucket in (0, 1):
            current = store.manifest.tables[NAME].current
            files, paths = list(current.files), list(store.paths(NAME, "current"))
            files[bucket], paths[bucket] = fresh.rows.files[bucket], fresh.paths[bucket]
            # a batch empties staging, so the other bucket's is made again
            store.commit(with_current(store, replace(current, files=tuple(files)), paths))
            assert seen(lake) == expected(rows)
            fresh = state(store.staging / "x", [row(each) for each in rows], COLUMNS)
        assert delete_files(lake) == []
        assert store.tables.content(NAME).deleted == {}


def test_delete_files_hold_what_they_were_given(tmp_path):
    rows = {
        "file:///b": np.array([0, 5, 2**33], np.int64),
        "file:///a": np.arange(100_000, dtype=np.int64) * 3,
    }
    path = tmp_path / "deletes.parquet"
    file = write_deletes(path, path.as_uri(), rows)
    assert file.content == DataFileContent.POSITION_DELETES
    assert file.record_count == 100_003
    assert path.stat().st_size < 100_000
    found = read_deletes(file.file_path)
    assert {name: each.tolist() for name, each in found.items()} == {
        name: each.tolist() for name, each in rows.items()
    }
    table = pq.read_table(path)
    assert table["file_path"].to_pylist() == ["file:///a"] * 100_000 + ["file:///b"] * 3
    ids = [field.metadata[b"PARQUET:field_id"] for field in pq.read_schema(path)]
    assert ids == [b"2147483546", b"2147483545"]


def test_a_delete_file_takes_up_those_that_are_not_larger():
    def rows(count):
        return {"a": np.arange(count, dtype=np.int64)}

    there = {"large": rows(9), "small": rows(2), "other": {"gone": np.arange(50)}}
    found, gone = taken_up({"b": np.arange(3)}, there, {"a", "b"})
    assert gone == ["other", "small"]
    assert {name: len(each) for name, each in found.items()} == {"a": 2, "b": 3}
    found, gone = taken_up({"b": np.arange(7)}, there, {"a", "b"})
    assert gone == ["other", "small", "large"]
    assert {name: len(each) for name, each in found.items()} == {"a": 9, "b": 7}
    assert taken_up({}, there, {"a", "b"}) == ({}, ["other"])


def test_readers_skip_no_file_by_the_bounds_of_texts(tmp_path, monkeypatch):
    """Parquet has no bounds of a row group with a text over 4,096 bytes: then no file has any."""
    monkeypatch.setattr(jobs, "ROW_GROUP", 2)
    created = "CREATE TABLE shop.t (k TEXT NOT NULL, PRIMARY KEY (k(100)))"
    table = tailrace.Table.parse(created, flavour="mysql")
    logs = tmp_path / "logs"
    logs.mkdir()
    with (
        tailrace.create(logs / "binlog.000001", flavour="mysql", server_id=1) as log,
        log.transaction() as trx,
    ):
        trx.query(created, database="shop")
        trx.insert(table, [("a",), ("b",), ("c",), ("d" * 5000,)])
    mirror(logs, tmp_path / "lake", format="iceberg", keep=("current",))
    found = own_catalog(tmp_path / "lake").load_table("shop.t")
    for kept, count in (("k = 'c'", 1), ("k > 'b'", 2), ("k = 'a'", 1)):
        assert found.scan(row_filter=kept).to_arrow().num_rows == count
