"""Jobs as Spark tasks: results in order, progress, and errors that come back as they were."""

import os
import pickle
import sys
import zipimport

import pyarrow as pa
import pytest

from tailrace.errors import ChecksumMismatch, PipelineError
from tailrace.spark.tasks import Report, Sealed, _work, cause_of, run


def double(argument, report):
    report.final(argument)
    return argument * 2, os.getpid()


def fail(argument, _report):
    if argument == 1:
        raise ChecksumMismatch("bad", file="binlog.000001", offset=4, event_type="XID")


def crash(_argument, _report):
    return {}["nothing"]


def test_results_in_order_from_other_processes(spark, tmp_path):
    told = []
    results = run(spark, double, [5, 1, 3], tmp_path / "run", told.append)
    assert [value for value, _ in results] == [10, 2, 6]
    assert os.getpid() not in {process for _, process in results}
    assert told[-1] == 9
    assert told == sorted(told)


def archives(_argument, _report):
    """The archives that `importlib.invalidate_caches`, with which a task begins, reads again."""
    finders = sys.path_importer_cache.items()
    found = [entry for entry, finder in finders if isinstance(finder, zipimport.zipimporter)]
    return [*found, *(entry for entry in sys.path if entry.endswith(".jar"))]


def test_no_archives_of_sparks_on_the_workers_path(spark, tmp_path):
    assert run(spark, archives, [0], tmp_path / "run") == [[]]


def test_nothing_to_do(spark, tmp_path):
    assert run(spark, double, [], tmp_path / "run") == []


def test_our_errors_come_back_whole(spark, tmp_path):
    with pytest.raises(ChecksumMismatch) as caught:
        run(spark, fail, [0, 1], tmp_path / "run")
    assert str(caught.value) == "binlog.000001 at 4 (XID): bad"


def test_other_errors_are_told_on_a_line(spark, tmp_path):
    with pytest.raises(PipelineError) as caught:
        run(spark, crash, [0], tmp_path / "run")
    assert str(caught.value) == "a Spark task failed: KeyError: 'nothing'"


def test_a_folder_that_cannot_be_made(spark, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot write"):
        run(spark, double, [1], tmp_path / "file" / "run")


class Runs:
    """A value whose pickle runs a command."""

    def __init__(self, command):
        self._command = command

    def __reduce__(self):
        return os.system, (self._command,)


def plant(argument, report):
    """A task's neighbour writes an error file of its own before the task fails."""
    folder, there = argument
    with (folder / "0.error").open("wb") as file:
        pickle.dump(Runs(f"touch {there}"), file)
    raise RuntimeError("failed")


def test_an_error_that_others_wrote_runs_nothing(spark, tmp_path):
    there = tmp_path / "there"
    with pytest.raises(PipelineError, match=r"0\.error was not written by this run"):
        run(spark, plant, [(tmp_path / "run", there)], tmp_path / "run")
    assert not there.exists()


def test_a_job_that_others_wrote_runs_nothing(tmp_path):
    there = tmp_path / "there"
    sealed = Sealed(tmp_path, b"k" * 32)
    sealed.put("0.job", 4)
    sealed.put("1.job", 5)
    numbers = [pa.record_batch({"id": pa.array([0])})]
    (row,) = next(_work(double, sealed, iter(numbers))).column(1).to_pylist()
    assert pickle.loads(row)[0] == 8
    planted = pickle.dumps(Runs(f"touch {there}"))
    for content in (planted, b"", b"\0" * 32 + planted, (tmp_path / "1.job").read_bytes()):
        (tmp_path / "0.job").write_bytes(content)
        with pytest.raises(PipelineError, match=r"0\.job was not written by this run"):
            next(_work(double, sealed, iter(numbers)))
    assert not there.exists()
    assert "0.job was not written" in str(cause_of(sealed, RuntimeError("other")))


def test_progress_follows_no_link(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "0.done").symlink_to(mine)
    Report(tmp_path / "0.done").final(5)
    assert mine.read_text() == "mine"
