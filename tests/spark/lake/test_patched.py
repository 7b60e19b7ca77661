"""Tables with deleted rows, and tails next to their files: others read them, and we continue."""

import json
import os
import random
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tailrace.errors import LakeChanged, PipelineError
from tailrace.spark.lake import lake as lakes
from tailrace.spark.lake.delta import vectors
from tailrace.spark.lake.delta.table import Table
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.plan import completed
from tailrace.spark.lake.tables import steps_of
from tailrace.spark.state.built import Built
from tailrace.spark.state.source_changes import SourceTable
from tests.spark.lake.journals import documents, rewrite, saved
from tests.spark.lake.making import COLUMNS, batch, begun, made, reopened, row, state
from tests.spark.lake.patching import NAME, READERS, check_deleted, expected, names, new, patch
from tests.spark.lake.test_foreign import DELETE, by_bucket
from tests.spark.lake.test_iceberg_deletes import delete_files
from tests.spark.replay import run


def seen(lake, name):
    return names(READERS[name](lake, NAME))


def actions(lake, version):
    text = (lake / NAME / "_delta_log" / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_rows_are_replaced_beside_their_files(tmp_path, name):
    lake = begun(tmp_path, name)
    with open_store(lake, name) as store:
        before = store.paths(NAME, "current")
        store.commit(patch(store, new(3, 5, 20), gone=[7]))
        assert store.paths(NAME, "current")[: len(before)] == before
        assert len(store.paths(NAME, "current")) == len(before) + 1
        assert store.manifest.tables[NAME].current.rows == 10
        store.refresh(run)
        assert store.manifest.version == 2
        store.commit(patch(store, new(3, 21), gone=[20]))
    rows = [0, 1, 2, 3, 4, 5, 6, 8, 9, 21]
    assert seen(lake, name) == expected(rows, [3, 5, 21])
    with reopened(lake, name) as store:
        assert store.manifest.version == 3
        assert check_deleted(store)
        store.commit(patch(store, [], gone=[0, 21]))
        assert seen(lake, name) == expected(rows[1:-1], [3, 5])
        built = state(store.staging / "x", [row(each) for each in range(4)], COLUMNS)
        store.commit(made(store, {}, {NAME: built}, 2000))
        store.refresh(run)
        assert store.manifest.version == 5
        assert store.tables.content(NAME).deleted == {}
    assert seen(lake, name) == expected(range(4))


def test_a_renamed_table_takes_deleted_rows_and_tails_along(tmp_path, name):
    lake = begun(tmp_path, name)
    with open_store(lake, name) as store:
        store.commit(patch(store, new(3), gone=[7]))
        built = Built(store.manifest.tables[NAME].current, store.paths(NAME, "current"))
        store.commit(
            made(
                store,
                {},
                {"shop.sales": built},
                2000,
                origins={"shop.sales": SourceTable("mysql", "shop.sales")},
            )
        )
    found = names(READERS[name](lake, "shop.sales"))
    assert found == expected([0, 1, 2, 3, 4, 5, 6, 8, 9], [3])
    assert READERS[name](lake, NAME).num_rows == 0


def test_many_batches_one_behind_the_other(tmp_path, name):
    """Over checkpoints; each by a process of its own, which knows nothing but what is on disk."""
    lake, chance = begun(tmp_path, name, rows=40), random.Random(7)
    rows, renamed = set(range(40)), set()
    for number in range(100, 130):
        gone, again = chance.sample(sorted(rows), 2)
        with reopened(lake, name) as store:
            assert store.manifest.version == number - 99
            store.commit(patch(store, new(again, number), gone=[gone]))
            check_deleted(store)
            assert store.manifest.tables[NAME].current.rows == 40
        rows = (rows - {gone}) | {number}
        renamed |= {again, number}
        assert seen(lake, name) == expected(rows, renamed)
        assert name == "delta" or len(delete_files(lake)) <= 6
    if name == "delta":
        assert (lake / NAME / "_delta_log" / "_last_checkpoint").exists()
    else:
        summary = own_catalog(lake).load_table(NAME).current_snapshot().summary
        files = delete_files(lake)
        assert int(summary["total-delete-files"]) == len(files)
        assert int(summary["total-position-deletes"]) == sum(each.record_count for each in files)


def test_delta_stays_plain_until_there_is_a_vector(tmp_path):
    lake = begun(tmp_path, "delta")
    with open_store(lake, "delta") as store:
        assert "deletionVectors" not in DeltaTable(lake / NAME).protocol().reader_features
        store.commit(patch(store, new(3)))
        store.commit(patch(store, new(4)))
    first, second = actions(lake, 1), actions(lake, 2)
    (protocol,) = [each["protocol"] for each in first if "protocol" in each]
    assert protocol["readerFeatures"] == ["deletionVectors", "timestampNtz"]
    (metadata,) = [each["metaData"] for each in first if "metaData" in each]
    assert metadata["configuration"]["delta.enableDeletionVectors"] == "true"
    assert not [each for each in second if "protocol" in each or "metaData" in each]
    added = [each["add"] for each in first if "add" in each and "deletionVector" in each["add"]]
    (again,) = added
    assert json.loads(again["stats"])["tightBounds"] is False
    rows = pq.read_metadata(lake / NAME / again["path"]).num_rows
    assert json.loads(again["stats"])["numRecords"] == rows
    assert again["deletionVector"]["cardinality"] == 1
    removed = [each["remove"] for each in first if "remove" in each]
    assert [each["path"] for each in removed] == [again["path"]]
    changelog = DeltaTable(lake / f"{NAME}_changelog").protocol()
    assert "deletionVectors" not in changelog.reader_features


def test_large_vectors_are_in_one_file_and_old_ones_go(tmp_path):
    lake, rng = tmp_path / "lake", np.random.default_rng(3)
    keys = rng.permutation(20_000).tolist()
    with open_store(lake, "delta") as store:
        store.commit(batch(store, 0, rows=20_000))
        store.commit(patch(store, new(*range(20_000, 20_010)), gone=keys[:3000]))
        (first,) = (lake / NAME).glob(vectors.ANY_FILE)
        store.commit(patch(store, new(*range(20_010, 20_020)), gone=keys[3000:5000]))
        files = sorted((lake / NAME).glob(vectors.ANY_FILE))
        assert len(files) == 2
        left = sorted([*keys[5000:], *range(20_000, 20_020)])
        assert [key for key, _ in seen(lake, "delta")] == left
        store.refresh(run)
        assert store.manifest.version == 3
        check_deleted(store)
        old = time.time() - 7200
        for each in files:
            os.utime(each, (old, old))
        Table(lake / NAME).tidy()
        assert sorted((lake / NAME).glob(vectors.ANY_FILE)) == files  # replaced a moment ago
        store.commit(patch(store, new(1)))
    # An hour later: what was taken out then has no entry in a checkpoint any more.
    log = lake / NAME / "_delta_log"
    for path in log.glob("*.json"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "remove" in line:
                line["remove"]["deletionTimestamp"] -= 7_200_000
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for path in log.glob("*checkpoint*"):
        path.unlink()
    Table(lake / NAME).tidy()
    now = set((lake / NAME).glob(vectors.ANY_FILE))
    assert first not in now
    assert now
    assert [key for key, _ in seen(lake, "delta")] == sorted({*left, 1})
    assert DeltaTables(lake).content(NAME).deleted


def test_vacuum_by_others_leaves_what_is_needed(tmp_path):
    lake = begun(tmp_path, "delta", rows=9000)
    with open_store(lake, "delta") as store:
        store.commit(patch(store, new(1, 2), gone=range(3, 8000, 2)))
        store.commit(patch(store, new(1, 4)))
    there = seen(lake, "delta")
    table = DeltaTable(lake / NAME)
    table.create_checkpoint()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert seen(lake, "delta") == there
    with reopened(lake, "delta") as store:
        assert store.manifest.version == 3


def test_rows_that_others_delete_beside_ours(tmp_path, name):
    """They write a file anew that has deleted rows; its rows are files of ours again."""
    lake = begun(tmp_path, name)
    with open_store(lake, name) as store:
        store.commit(patch(store, new(3), gone=[7]))
    for key in (3, 4):
        DELETE[name](lake, NAME, key)
    with reopened(lake, name) as store:
        current = store.manifest.tables[NAME].current
        assert store.manifest.version == 3
        assert (current.rows, current.tails) == (7, ())
        assert by_bucket(store) == [0, 1, 2, 5, 6, 8, 9]
        assert name == "delta" or delete_files(lake) == []
        store.commit(patch(store, new(1), gone=[8]))
        store.refresh(run)
        assert store.manifest.version == 4
    assert seen(lake, name) == expected([0, 1, 2, 5, 6, 9], [1])


def test_commits_of_others_that_change_no_row(tmp_path):
    """As VACUUM makes them: the table has another mark then, and is as it was."""
    lake = begun(tmp_path, "delta")
    with open_store(lake, "delta") as store:
        store.commit(patch(store, new(3), gone=[7]))
    for version in (2, 3):
        path = lake / NAME / "_delta_log" / f"{version:020}.json"
        path.write_text(json.dumps({"commitInfo": {"timestamp": 1, "operation": "VACUUM END"}}))
    with reopened(lake, "delta") as store:
        assert store.manifest.version == 2
        mark = store.tables.mark(NAME)
        assert store.manifest.tables[NAME].marks["current"] == mark
        store.commit(patch(store, [], gone=[8]))
        check_deleted(store)
    assert seen(lake, "delta") == expected([*range(7), 9], [3])


def test_a_table_that_cannot_be_overruled_is_set_aside(tmp_path, monkeypatch):
    """What it had is gone: the lake is opened nevertheless, and the others have the batch."""
    lake = begun(tmp_path, "delta")

    def commit(self, step, number, *, overrule):
        if step.table == NAME:
            raise PipelineError("what it had is gone") if overrule else LakeChanged("others")
        return real(self, step, number, overrule=overrule)

    real = DeltaTables.commit
    with open_store(lake, "delta") as store:
        monkeypatch.setattr(DeltaTables, "commit", commit)
        monkeypatch.setattr(lakes, "completed", lambda *given: completed(*given)[::-1])
        store.commit(patch(store, new(3), gone=[7]))
    with open_store(lake, "delta") as store:
        status = store.manifest.tables[NAME].set_aside
        assert (status.batch, "what it had is gone" in status.reason) == (2, True)
    monkeypatch.undo()
    number, whole, tables = saved(lake)
    rest = tables[NAME].pop("rest")
    rewrite(lake, number, whole, tables)
    with open_store(lake, "delta") as store:
        (failed,) = store.take_rest([NAME]).values()
        assert (
            f"the pending changes of batch 2 to {NAME} are not in the lake's journal"
            in failed.reason
        )
    tables[NAME]["rest"] = rest
    rewrite(lake, number, whole, tables)
    with open_store(lake, "delta") as store:
        assert store.take_rest([NAME]) == {}
        assert store.manifest.tables[NAME].rest == ()
    assert seen(lake, "delta") == expected([*range(7), 8, 9], [3])


@pytest.mark.parametrize("key", [5, None])
def test_a_step_overrules_others(tmp_path, name, key):
    """Files that others dropped come back; live rows and deleted ones are those of the step."""
    lake = begun(tmp_path, name)
    with open_store(lake, name) as store:
        store.commit(patch(store, [], gone=[0]))
        store.commit(patch(store, new(3), gone=[1, 2]))
        there = check_deleted(store)
        (head, *_) = documents(lake)["000003.jsonl"].read_text().split("\n")
        done = completed(steps_of(json.loads(head)["steps"]), store.manifest)
        (last,) = (each for each in done if each.table == NAME)
        for each in range(10) if key is None else [key]:
            DELETE[name](lake, NAME, each)
        assert seen(lake, name) != expected(range(3, 10), [3])
        with pytest.raises(LakeChanged):
            store.tables.commit(last, 4)
        store.tables.commit(last, 4, overrule=True)
        assert store.tables.settle()
        assert check_deleted(store) == there
    assert seen(lake, name) == expected(range(3, 10), [3])


def test_a_vector_that_others_added_is_not_ours(tmp_path):
    """The same file with more rows deleted: as Spark's DELETE leaves it."""
    lake = begun(tmp_path, "delta")
    with open_store(lake, "delta") as store:
        store.commit(patch(store, new(3)))
    log = sorted((lake / NAME / "_delta_log").glob("*.json"))
    (mine,) = [each["add"] for each in actions(lake, 1) if "deletionVector" in each.get("add", {})]
    rows = DeltaTables(lake).content(NAME).deleted[mine["path"]].read()
    more = vectors.write({"x": np.union1d(rows, [rows[0] + 1])}, lake / NAME, "x")["x"].descriptor
    gone = {"path": mine["path"], "deletionTimestamp": 1, "dataChange": True}
    lines = [
        {"remove": gone | {"deletionVector": mine["deletionVector"]}},
        {"add": mine | {"deletionVector": more}},
    ]
    (log[-1].parent / f"{len(log):020}.json").write_text("\n".join(map(json.dumps, lines)))
    theirs = seen(lake, "delta")
    assert len(theirs) == 9
    with reopened(lake, "delta") as store:
        assert store.manifest.version == 3
        assert store.manifest.tables[NAME].current.rows == 9
    assert seen(lake, "delta") == theirs


def test_tidying_is_paused_while_another_process_writes_vectors(tmp_path, monkeypatch):
    """For two hours, after the checkpoint was made."""
    lake = begun(tmp_path, "delta")
    monkeypatch.setattr(vectors, "INLINE_BYTES", 0)
    with open_store(lake, "delta") as store:
        store.commit(patch(store, new(3)))
        begin, create = time.time, DeltaTable.create_checkpoint

        def pause(table):
            create(table)
            store.commit(patch(store, new(4)))
            monkeypatch.setattr(time, "time", lambda: begin() + 7200)

        monkeypatch.setattr(DeltaTable, "create_checkpoint", pause)
        Table(lake / NAME).tidy()
    assert len(list((lake / NAME).glob(vectors.ANY_FILE))) == 2
    assert seen(lake, "delta") == expected(range(10), [3, 4])
