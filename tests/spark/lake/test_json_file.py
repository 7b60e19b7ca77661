"""JSON of a lake's folder: what is rejected before it takes memory, and numbers that are none."""

import json
import resource

import pyarrow as pa
import pytest

from tailrace.errors import PipelineError
from tailrace.spark.input.offset import Offset
from tailrace.spark.lake.delta.log import write_version
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.iceberg.tidy import NAME as LEFTOVERS
from tailrace.spark.lake.iceberg.tidy import Left, Leftovers
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.tables import Merge, Step, steps_of, whole_json
from tailrace.spark.manifest import json_file
from tailrace.spark.manifest.document import load
from tailrace.spark.manifest.json_file import check_size, parse, read_json
from tailrace.spark.manifest.manifest import Manifest, SourceState
from tailrace.spark.manifest.names import check_plain
from tailrace.spark.manifest.on_disk import write_file
from tests.spark.lake.journals import come_back
from tests.spark.lake.making import batch


def test_many_values_are_rejected_before_they_are_made():
    """`[],` 7 million times is 20 MB, and would take 500 MB."""
    content = b"[" + b"[]," * 7_000_000 + b"0]"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="more values"):
        parse(content)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10
    with pytest.raises(PipelineError, match="more values than any file of Tailrace's"):
        load("x", content + b"\n")


def test_what_counts(monkeypatch):
    """Lists, objects and members; nothing that is in a text, whatever is escaped there."""
    monkeypatch.setattr(json_file, "_MOST", 5)
    texts = {"a": ',,[[{{"\\' * 50, '"': ",[" * 50, "b": ["\\", ",,,"]}  # 5 in all
    assert parse(json.dumps(texts).encode()) == texts
    for more in (b"[[[[[[", b'["\\\\",1,2,3,4,5]', b'{"a":{},"b":{},"c":{}}'):
        with pytest.raises(ValueError, match="more values"):
            check_size(more)
    check_size(b'"' + b'\\"' * 200_000 + b"[,{")  # a text without an end takes no longer


def test_numbers_that_are_not_finite(tmp_path):
    path = tmp_path / "making.json"
    for number in ("Infinity", "-Infinity", "NaN", "1e999"):
        path.write_text(f'{{"version": {number}}}')
        with pytest.raises(ValueError, match="is not a number of JSON"):
            read_json(path)
    path.write_text('{"version": 1.5}')
    assert read_json(path) == {"version": 1.5}
    for given in ({"position": float("inf")}, {"behind": {"bytes": float("inf")}}):
        offset = {"file": "binlog.000001", "position": 4, "mark": "", **given}
        with pytest.raises(PipelineError, match="which is none of format binlog"):
            Offset.of(offset)


def test_a_lake_of_tables_with_such_a_number(tmp_path):
    with open_store(tmp_path, "delta") as store:
        store.commit(batch(store, 0))
    path = tmp_path / "_tailrace" / "making.1.x.json"
    path.write_text('{"version": Infinity, "files": []}')
    with (
        pytest.raises(PipelineError, match=r"making\.1\.x\.json cannot be read .*: Infinity"),
        open_store(tmp_path, "delta"),
    ):
        pass


def test_files_follow_no_link(tmp_path):
    """Neither the file nor the draft of it that a writer makes first."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for name in (
        "a.jsonl",
        "a.jsonl.tmp",
        f"{LEFTOVERS}.tmp",
        "_delta_log/.00000000000000000000.json.tmp",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(mine)
    write_file(tmp_path / "a.jsonl", ["one\n", "two\n"])
    assert (tmp_path / "a.jsonl").read_text() == "one\ntwo\n"
    left = Leftovers(tmp_path)
    left.note([Left(1, 1, ("a", "b"))])
    left.keep(["a"])
    assert write_version(tmp_path, 0, [{"a": 1}])
    assert mine.read_text() == "mine"


def test_steps_with_all_their_members():
    columns = pa.schema([("a", pa.int64())])
    merges, files = (Merge("b", ("c", "d")),), frozenset("hi")
    step = Step("t", ("a",), "", merges, "7", {}, True, ("e",), columns, {"f": "g"}, files)
    assert steps_of(json.loads(json.dumps(whole_json([step])))) == [step]


def test_leftovers_are_added_to_no_link(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("")
    (tmp_path / LEFTOVERS).symlink_to(mine)
    with pytest.raises(OSError, match="symbolic links"):
        Leftovers(tmp_path).note([Left(1, 1, ("a",))])
    assert mine.read_text() == ""


def test_a_table_that_cannot_be_written(tmp_path):
    """That is no damage, so nothing of it is said."""
    (tmp_path / "shop.orders").mkdir()
    (tmp_path / "shop.orders" / "_delta_log").touch()
    step = Step("shop.orders", goes="", schema=pa.schema([("a", pa.int64())]))
    with pytest.raises(PipelineError, match=r"shop\.orders in .* cannot be written: ") as caught:
        DeltaTables(tmp_path).commit(step, 1)
    assert "altered" not in str(caught.value)


def test_names_of_files_are_plain():
    """The rule is that of files next to logs."""
    for name in ("", ".", "../x", "a/b", "a\\b", "a..b", " a", "a\nb", "x" * 256):
        with pytest.raises(ValueError, match=r"a folder: .* is not a file name"):
            check_plain(name, "a folder")


def test_a_log_that_was_read_may_have_any_name(tmp_path):
    state = SourceState(" a..b\\c.000001", 500, {" ..000001": 9}, "h", "t", {"version": 1})
    assert come_back(tmp_path, Manifest(1, sources={"mysql": state})).sources == {"mysql": state}
