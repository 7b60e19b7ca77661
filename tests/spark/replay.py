"""A mirror without Spark, its jobs run here; and rows of a lake as a server's SELECT shows them."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.columns import plan_splits
from tailrace.errors import PipelineError
from tailrace.spark.manifest.making import Making
from tailrace.spark.mirror.decode import SplitJob, write_split
from tailrace.spark.parquet.deleted import NO_ROWS, joined
from tailrace.spark.parquet.file import DataFolder
from tailrace.spark.state.current.build import build
from tailrace.spark.state.source_changes import SourceChanges
from tailrace.storage import find
from tailrace.table_filter import TableFilter
from tools.campaign.mirrored_lake import compare
from tools.campaign.process import Wrong


def run(job, arguments):
    return [job(argument) for argument in arguments]


def run_twice(job, arguments):
    """Jobs whose tasks Spark repeats."""
    return [[job(argument) for _ in range(2)][1] for argument in arguments]


def change_files(splits, folder, statements="error"):
    """What jobs write of splits, in a new folder: the files of each table, in the log's order."""
    files = {}
    folder.mkdir(parents=True, exist_ok=True)
    to = Making(folder, folder, 0, 0, plain=False)
    jobs = [SplitJob(split, TableFilter(), statements, folder, to) for split in splits]
    for written in run(write_split, jobs):
        for _, cause in written.failed:
            raise PipelineError(cause.reason)
        for file in sorted(written.files, key=lambda each: each.first):
            files.setdefault(file.name, []).append(file)
    return files


def source_changes(splits, files, committed, place, **more):
    """A source's changes, whose tables' files go to a folder below ``place``."""

    def out(part, _name, _columns):
        return DataFolder(place / part)

    return SourceChanges(splits, files, committed, out=out, **more)


def by_name(built):
    """What was built of a source's tables, by their names."""
    return {table.name: each for table, each in built.items()}


def tell(server, database, statements, folder, image="FULL"):
    """Run statements in a database of their own; their log alone, copied into a folder."""
    server.execute(f"DROP DATABASE IF EXISTS {database}")
    server.execute(f"CREATE DATABASE {database}")
    server.rotate()
    server.execute(f"USE {database}")
    server.execute(f"SET SESSION binlog_row_image = {image}")
    for statement in filter(str.strip, statements.split(";")):
        server.execute(statement)
    server.execute("SET SESSION binlog_row_image = FULL")
    log = server.rotate()
    folder.mkdir(parents=True)
    shutil.copy(log, folder / log.name)
    return folder


def current_states(source, folder, statements="skip", *, keys=None, patches=None, every=False):
    """The current state of each table of a source, by name: in one batch, or ``every`` split's.

    A number is that of the splits in a batch. With ``patches`` changes may be put beside files.
    """
    states = {}
    for series in find(source):
        splits = plan_splits(series, **({"target_bytes": 1} if every else {}))
        built = {}
        size = int(every) or max(len(splits), 1)
        parts = [splits[at : at + size] for at in range(0, max(len(splits), 1), size)]
        for number, some in enumerate(parts):
            place = folder / series.name.replace("/", "_") / str(number)
            place.mkdir(parents=True)
            files = change_files(some, place / "changelog", statements)
            committed = {name: (each.rows, each.paths) for name, each in built.items()}
            more = {"deleted": deleted_in(built), "keys": keys or {}}
            changes = source_changes(some, files, committed, place, **more)
            built = with_deleted(built, by_name(build([changes], run, place, patches)))
        states |= built
    return states


@dataclass(frozen=True)
class Given:
    """Deleted rows of a file, as a lake's table would have them."""

    rows: object

    @property
    def count(self):
        return len(self.rows)

    def read(self):
        return self.rows


def deleted_in(built):
    """What gives the deleted rows of a table's files, after `with_deleted`."""
    return lambda name: {path: Given(rows) for path, rows in built[name].deleted.items()}


def with_deleted(before, built):
    """States with all deleted rows of their files: those of the batch, and those before it."""
    known = {path: rows for each in before.values() for path, rows in each.deleted.items()}
    found = {}
    for name, each in built.items():
        both = {
            path: joined(known.get(path, NO_ROWS), each.deleted.get(path, NO_ROWS))
            for path in each.paths
        }
        deleted = {path: rows for path, rows in both.items() if len(rows)}
        found[name] = replace(each, deleted=deleted)
    return found


batches = partial(current_states, statements="error", every=True)


def check_rows(rows, wanted, case):
    """Rows are what SELECT gave; of a table that is gone, or empty, there are none."""
    if rows is None or wanted is None or not wanted["rows"]:
        assert not (rows is not None and rows.num_rows), case
        assert wanted is None or not wanted["rows"], case
        return
    assert differences(rows, wanted) == [], case


def rows_of(built):
    """The live rows of a current state, as one table."""
    found = []
    for file, path in zip(built.rows.places, built.paths, strict=True):
        if path is not None:
            rows = pq.read_table(path)
            gone = set(built.deleted.get(path, NO_ROWS).tolist())
            assert len(gone) == file.deleted
            kept = [at for at in range(rows.num_rows) if at not in gone]
            found.append(rows.take(pa.array(kept, pa.int64())))
    return pa.concat_tables(found)


def differences(table, expected):
    """How rows in the lake differ from what SELECT gave; an empty list is what is wanted.

    ``expected`` is a table of an expected.json. Generated columns of tools.campaign's tables may be
    missing: MariaDB logs no virtual ones.
    """
    generated = {name for name in expected["columns"] if re.fullmatch(r"g\d+", name)}
    try:
        compare("it", table, expected, optional=generated - set(table.schema.names))
    except Wrong as error:
        return [str(error)]
    return []
