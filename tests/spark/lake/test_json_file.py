"""JSON of a lake's folder: what is rejected before it takes memory, and numbers that are none."""

from __future__ import annotations

import json
import resource

import pyarrow as pa
import pytest

from tailrace.errors import PipelineError
from tailrace.spark.lake import json_file
from tailrace.spark.lake.json_file import check_size, parse, read_json
from tailrace.spark.lake.manifest import Manifest
from tailrace.spark.lake.open import open_store
from tailrace.spark.lake.steps import NAME, Step, read_steps, serialised, write_steps
from tailrace.spark.stream_offset import Offset


def test_many_values_are_rejected_before_they_are_made(tmp_path):
    """`[],` 7 million times is 20 MB, and would take 500 MB."""
    content = b"[" + b"[]," * 7_000_000 + b"0]"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="more values"):
        parse(content)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10
    for name, read in (("manifest.json", Manifest.read), ("steps.json", read_steps)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(PipelineError, match="more values than any file of Tailrace's"):
            read(tmp_path)


def test_what_counts(monkeypatch):
    """Lists, objects and members; nothing that is in a text, whatever is escaped there."""
    monkeypatch.setattr(json_file, "_MOST", 5)
    texts = {"a": ',,[[{{"\\' * 50, '"': ",[" * 50, "b": ["\\", ",,,"]}  # 5 in all
    assert parse(json.dumps(texts).encode()) == texts
    for more in (b"[[[[[[", b'["\\\\",1,2,3,4,5]', b'{"a":{},"b":{},"c":{}}'):
        with pytest.raises(ValueError, match="more values"):
            check_size(more)
    check_size(b'"' + b'\\"' * 200_000 + b"[,{")  # a text without an end takes no longer


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999"])
def test_numbers_that_are_not_finite(tmp_path, number):
    path = tmp_path / "making.json"
    path.write_text(f'{{"version": {number}}}')
    with pytest.raises(ValueError, match="is not a number of JSON"):
        read_json(path)
    path.write_text('{"version": 1.5}')
    assert read_json(path) == {"version": 1.5}


def test_a_lake_of_tables_with_such_a_number(tmp_path):
    with open_store(tmp_path, "delta"):
        pass
    path = tmp_path / "_tailrace" / "making.json"
    path.write_text('{"version": Infinity, "files": []}')
    with (
        pytest.raises(PipelineError, match=r"making\.json cannot be read: Infinity"),
        open_store(tmp_path, "delta"),
    ):
        pass


@pytest.mark.parametrize("given", [{"position": float("inf")}, {"behind": {"bytes": float("inf")}}])
def test_a_checkpoint_with_such_a_number(given):
    offset = {"file": "binlog.000001", "position": 4, "mark": "", **given}
    with pytest.raises(PipelineError, match="which is none of format binlog"):
        Offset.of(offset)


def test_steps_follow_no_link(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / NAME).symlink_to(mine)
    step = Step("shop.orders", serialised(pa.schema([("a", pa.int64())])))
    write_steps(tmp_path, [step])
    assert mine.read_text() == "mine"
    assert read_steps(tmp_path) == [step]
