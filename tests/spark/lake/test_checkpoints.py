"""Checkpoints of a Delta log that others make: in several parts, and V2 with sidecars.

delta-rs makes checkpoints of one file only; here that file is taken apart as the protocol says
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#checkpoints), and delta-rs lists the
files of the table for comparison.
"""

import json
import os
import uuid
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tailrace.errors import PipelineError
from tailrace.spark.lake.delta import actions, log, vectors
from tailrace.spark.lake.delta.table import Table
from tailrace.spark.lake.delta.tables import DeltaTables

LAST = 4
FEATURES = ("deletionVectors", "v2Checkpoint")


@pytest.fixture
def table(tmp_path):
    """A table of three files, one with a deletion vector in a file, and its log's folder."""
    folder = tmp_path / "t"
    for start in (0, 10_000, 20_000):
        rows = pa.table({"a": pa.array(range(start, start + 10_000))})
        write_deltalake(folder, rows, mode="append")
    names = DeltaTable(folder).file_uris()
    name = names[0].rpartition("/")[2]
    rows = np.flatnonzero(np.random.default_rng(1).integers(0, 2, 10_000))
    found = vectors.write({name: rows}, folder, "test")[name].descriptor
    assert found["storageType"] == "u"
    entry = folder / log.LOG / f"{0:020}.json"
    known = next(
        action["add"]
        for number in range(3)
        for line in (entry.with_name(f"{number:020}.json")).read_text().splitlines()
        if (action := json.loads(line)).get("add", {}).get("path") == name
    )
    stats = json.dumps(json.loads(known["stats"]) | {"tightBounds": False})
    versions = (
        [actions.protocol(FEATURES, ("appendOnly", "invariants", *FEATURES), vectors=True)],
        [actions.remove(name), {"add": known | {"stats": stats, "deletionVector": found}}],
    )
    for number, some in enumerate(versions, 3):
        assert log.write_version(folder, number, some)
    DeltaTable(folder).create_checkpoint()
    return folder


def in_parts(table, file):
    """Two parts, each with some of the files."""
    rows = pq.read_table(file)
    whole = json.loads((file.parent / log.LAST).read_text())
    (file.parent / log.LAST).write_text(json.dumps(whole | {"parts": 2}))
    half = rows.num_rows - 2
    assert rows.slice(half).column("add").null_count < 2
    for number, part in enumerate((rows.slice(0, half), rows.slice(half)), 1):
        pq.write_table(part, file.with_name(f"{LAST:020}.checkpoint.{number:010}.{2:010}.parquet"))


def with_sidecars(file):
    """Two sidecars with the files; what the checkpoint keeps, and actions that name them."""
    rows = pq.read_table(file)
    rows = rows.drop_columns([each for each in ("sidecar",) if each in rows.column_names])
    adds, others = (
        rows.filter(column)
        for column in (rows["add"].is_valid(), pa.compute.invert(rows["add"].is_valid()))
    )
    folder = file.parent / "_sidecars"
    folder.mkdir()
    sidecars = []
    for part in (adds.slice(0, 1), adds.slice(1)):
        path = folder / f"{uuid.uuid4()}.parquet"
        pq.write_table(part.select([e for e in ("add", "remove") if e in part.schema.names]), path)
        found = path.stat()
        sidecars.append(
            {
                "path": path.name,
                "sizeInBytes": found.st_size,
                "modificationTime": found.st_mtime_ns // 1_000_000,
            }
        )
    (file.parent / log.LAST).unlink()
    return others, sidecars


def v2_in_parquet(table, file, name=None):
    others, sidecars = with_sidecars(file)
    size = len(sidecars) + 1
    rows = pa.table(
        {
            each: pa.chunked_array(
                [*column.cast(loose(column.type)).chunks, loose_nulls(column, size)]
            )
            for each, column in zip(others.column_names, others.columns, strict=True)
            if each != "checkpointMetadata"
        }
    )
    before = [None] * others.num_rows
    kind = pa.struct(
        {"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()}
    )
    rows = rows.append_column("sidecar", pa.array([*before, *sidecars, None], kind))
    meta = pa.array([*before, *[None] * len(sidecars), {"version": LAST}])
    rows = rows.append_column("checkpointMetadata", meta)
    pq.write_table(rows, file.with_name(name or f"{LAST:020}.checkpoint.{uuid.uuid4()}.parquet"))


def loose(kind):
    """The type with members that may be NULL, as they are where an action lacks."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, loose(each.type)) for each in kind])
    return kind


def loose_nulls(column, size):
    return pa.nulls(size, loose(column.type))


def v2_under_the_classic_name(table, file):
    """Readers that do not know V2 find such a checkpoint, too: it must not be misread."""
    v2_in_parquet(table, file, file.name)


def v2_in_json(table, file):
    others, sidecars = with_sidecars(file)
    lines = [{"checkpointMetadata": {"version": LAST}}]
    lines += [{"sidecar": each} for each in sidecars]
    for name, column in zip(others.column_names, others.columns, strict=True):
        if name != "checkpointMetadata":
            found = column.drop_null().to_pylist(maps_as_pydicts="strict")
            lines += [{name: _without_nulls(each)} for each in found]
    path = file.with_name(f"{LAST:020}.checkpoint.{uuid.uuid4()}.json")
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))


def _without_nulls(found):
    if not isinstance(found, dict):
        return found
    return {name: _without_nulls(each) for name, each in found.items() if each is not None}


@pytest.fixture(params=[in_parts, v2_in_parquet, v2_under_the_classic_name, v2_in_json])
def checkpointed(request, table):
    """The table, of whose log only a checkpoint of some kind is left."""
    file = table / log.LOG / f"{LAST:020}.checkpoint.parquet"
    content = file.read_bytes()
    request.param(table, file)
    if file.exists() and file.read_bytes() == content:
        file.unlink()
    for number in range(LAST):
        (table / log.LOG / f"{number:020}.json").unlink()
    return table


def test_the_files_and_vectors_in_a_checkpoint(checkpointed):
    delta = DeltaTable(checkpointed)
    expected = {unquote(each) for each in pa.table(delta.get_add_actions())["path"].to_pylist()}
    assert len(expected) == 3
    before = sorted(each.name for each in (checkpointed / log.LOG).iterdir())
    found = DeltaTables(checkpointed.parent).content("t")
    assert found.files == expected
    ((path, deleted),) = found.deleted.items()
    selections = pa.table(delta.deletion_vectors()).to_pylist()
    (there,) = (each for each in selections if not all(each["selection_vector"]))
    assert unquote(there["filepath"]).endswith(path)
    live = np.array(there["selection_vector"])
    assert deleted.read().tolist() == np.flatnonzero(~live).tolist()
    assert sorted(each.name for each in (checkpointed / log.LOG).iterdir()) == before


def test_vectors_in_use_stay(checkpointed):
    """Tidying reads all of a checkpoint before it removes files of vectors."""
    (file,) = checkpointed.glob(vectors.ANY_FILE)
    unused = file.with_name("deletion_vector_unused.bin")
    unused.write_bytes(b"")
    for each in (file, unused):
        os.utime(each, (0, 0))
    Table(checkpointed).tidy()
    assert [file] == list(checkpointed.glob(vectors.ANY_FILE))


def test_a_checkpoint_that_lacks_a_part(table):
    file = table / log.LOG / f"{LAST:020}.checkpoint.parquet"
    in_parts(table, file)
    file.unlink()
    (table / log.LOG / f"{0:020}.json").unlink()
    tables = DeltaTables(table.parent)
    assert tables.content("t") is not None
    file.with_name(f"{LAST:020}.checkpoint.{2:010}.{2:010}.parquet").unlink()
    with pytest.raises(PipelineError):
        DeltaTables(table.parent).content("t")
