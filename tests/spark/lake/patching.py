"""Batches made by hand that are put beside a table's files: some rows replaced, some new."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.spark.parquet.deleted import deleted_rows
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.built import Built
from tests.spark.history.landing import iceberg_rows
from tests.spark.lake.making import COLUMNS, changes, made, name_of, row, state
from tools.campaign.mirrored_lake import delta_rows

NAME = "shop.orders"


READERS = {"delta": lambda lake, table: delta_rows(lake / table), "iceberg": iceberg_rows}


def patch(store, rows, gone=(), first=1000):
    """A batch of a tail with rows, which deletes those of their keys and of the keys ``gone``."""
    known, paths = store.manifest.tables[NAME].current, store.paths(NAME, "current")
    touched = {each["id"] for each in rows} | set(gone)
    before = store.deleted(NAME)
    files, deleted = [], {}
    for file, path in zip(known.places, paths, strict=True):
        if file is None:
            files.append(None)
            continue
        keys = [key for group in row_groups(path, ["id"]) for key in group["id"].to_pylist()]
        gone_before = set(deleted_rows(before, path).tolist())
        more = [at for at, key in enumerate(keys) if key in touched and at not in gone_before]
        if more:
            deleted[path] = np.array(more, np.int64)
        files.append(replace(file, deleted=file.deleted + len(more)))
    built = state(store.staging / "s", rows, COLUMNS, count=1)
    tails = [(file, path) for file, path in zip(built.rows.files, built.paths, strict=True)]
    count = len(known.files)
    current = known.__class__(
        COLUMNS,
        ("id",),
        tuple(files[:count]),
        tails=(*files[count:], *(file for file, _ in tails if rows)),
    )
    log = {NAME: [changes(store.staging / "c", rows, COLUMNS, first)]} if rows else {}
    behind = Built(current, (*paths, *(path for _, path in tails if rows)), deleted=deleted)
    return made(store, log, {NAME: behind}, 1000 + store.manifest.version)


def names(rows):
    """The rows of a table as the numbers of their keys, and their names."""
    return sorted(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


def expected(numbers, renamed=()):
    """What `names` gives of rows as `making.row` makes them; those ``renamed`` are called new."""
    return [(each, "new" if each in renamed else name_of(each)) for each in sorted(numbers)]


def new(*numbers):
    """Rows of these numbers that are called new."""
    return [row(number, name="new") for number in numbers]


def check_deleted(store, name=NAME):
    """The table has as many deleted rows in each file as the manifest says."""
    found = {each: rows.count for each, rows in store.tables.content(name).deleted.items()}
    files = store.manifest.tables[name].current.data
    wanted = {each.name: each.deleted for each in files if each.deleted}
    assert found == wanted, (found, wanted)
    for rows in store.tables.content(name).deleted.values():
        assert len(rows.read()) == rows.count
    return found
