"""A process that commits is killed at each of its steps: the next one finds all or nothing."""

import os
import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tailrace.spark.lake.delta import vectors
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.iceberg.catalog import OwnCatalog
from tailrace.spark.lake.iceberg.tables import IcebergTables
from tailrace.spark.lake.lake import Lake, open_store
from tailrace.spark.manifest import journal
from tests.spark.history.landing import READERS
from tests.spark.lake import patching
from tests.spark.lake.making import batch, begun
from tests.spark.lake.patching import NAME
from tests.spark.lake.test_tables import as_rows, expected
from tests.spark.replay import run

STEPS = ("hardlink_to", "symlink_to", "replace", "rename", "mkdir", "unlink", "write_text")


def seen(lake, name):
    """The changelog's numbers and the current rows; none of either before the first batch."""
    read = READERS[name]
    log = sorted(int(seq) for seq in read(lake, "shop.orders_changelog")["_seq"].to_pylist())
    return log, as_rows(read(lake, "shop.orders"))


class CrashError(BaseException):
    """Stands for the end of the process: nothing that it does afterwards has an effect."""


class Fatal:
    """Steps of which all fail from one on."""

    def __init__(self, fatal):
        self.fatal = fatal
        self.count = 0

    def __call__(self, original):
        def step(*arguments, **options):
            if self.count >= self.fatal:
                raise CrashError
            self.count += 1
            return original(*arguments, **options)

        return step


def crashing(lake, name, fatal, make):
    """A batch that ends before a step: in this process all steps fail from there on.

    Gives how many steps there were, or None if it ended before.
    """
    dying = Fatal(fatal)
    with pytest.MonkeyPatch.context() as patch:
        try:
            with open_store(lake, name) as store:
                work = make(store, store.manifest.version)
                for each in STEPS:
                    patch.setattr(Path, each, dying(getattr(Path, each)))
                patch.setattr(os, "fsync", dying(os.fsync))
                patch.setattr(Lake, "_finish", dying(Lake._finish))
                patch.setattr(DeltaTables, "commit", dying(DeltaTables.commit))
                patch.setattr(IcebergTables, "commit", dying(IcebergTables.commit))
                for each in ("commit_table", "create_table", "publish"):
                    patch.setattr(OwnCatalog, each, dying(getattr(OwnCatalog, each)))
                patch.setattr(shutil, "rmtree", dying(shutil.rmtree))
                store.commit(work)
                patch.undo()
        except CrashError:
            return None
    return dying.count


def kills(lake, name, make=batch, stride=1):
    """A batch ends before each of its steps, then is finished or done again, once.

    Gives how many batches are there, each time, and when all is done.
    """
    done, fatal, undone, finished = 1, 0, 0, 0
    while (steps := crashing(lake, name, fatal, make)) is None:
        with open_store(lake, name) as store:
            now = store.manifest.version
        assert now in {done, done + 1}
        undone += now == done
        finished += now == done + 1
        yield now
        done = now
        fatal += stride
    assert fatal - stride <= steps <= fatal
    assert undone * stride > 5
    assert finished * stride > 5
    yield done + 1


def test_killed_at_each_step(tmp_path, name, monkeypatch):
    """Processes that are killed: `tools.campaign.mirrored`. Checkpoints are written often here."""
    monkeypatch.setattr(journal, "_MOST", 3)
    lake = begun(tmp_path, name)
    for now in kills(lake, name):
        names = [each.name for each in (lake / "_tailrace" / "journal").iterdir()]
        assert len(names) < 12
        left = {each.name for each in (lake / "_tailrace").iterdir()}
        assert left <= {"journal", "claims", "staging", "sources"}
        log, rows = seen(lake, name)
        assert log == list(range(1, 10 * now + 1))
        assert rows == expected(range(10 * now))
        files = (lake / "shop.orders_changelog").rglob("part-*")
        counts = [pq.read_metadata(each).num_rows for each in files]
        assert counts.count(10) == now  # others have the rows of several


ROWS = 12_000
GONE = 100
"""Rows that a batch deletes: after some batches their vectors are too large for the log."""


KEYS = random.Random(5).sample(range(1000, ROWS), ROWS - 1000)
"""Those that batches delete, in this order: a bitmap has few bytes for a run of them."""


def work(store, number):
    gone = KEYS[number * GONE : (number + 1) * GONE]
    rows = patching.new(number, ROWS + number)
    return patching.patch(store, rows, gone, first=ROWS + 10 * number)


def test_killed_with_rows_beside_their_files(tmp_path, name):
    lake = begun(tmp_path, name, rows=ROWS)
    for now in kills(lake, name, work):
        with open_store(lake, name) as store:
            patching.check_deleted(store)
            store.refresh(run)
            assert store.manifest.version == now
        gone = KEYS[GONE : now * GONE]
        fresh = range(ROWS + 1, ROWS + now)
        rows = patching.expected({*range(ROWS), *fresh} - {*gone}, {*range(1, now), *fresh})
        assert patching.names(patching.READERS[name](lake, NAME)) == rows
    if name == "delta":
        assert len(list((lake / NAME).glob(vectors.ANY_FILE))) > 1
