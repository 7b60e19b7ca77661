"""Jobs as Spark tasks: results in order, progress, and errors that come back as they were."""

import os
import sys
import time
import zipimport

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException

from tailrace.errors import ChecksumMismatch, ConnectionLost, PipelineError
from tailrace.spark.runtime.tasks import run
from tailrace.spark.runtime.workers import Workers


def double(argument):
    context = TaskContext.get()
    return argument * 2, os.getpid(), context and context.partitionId()


def fail(argument):
    path, number = argument
    path.with_name(f"{number}.begun").touch()
    if number % 2:
        raise ChecksumMismatch("bad", file="binlog.000001", offset=number, event_type="XID")
    time.sleep(0.5)
    path.with_name(f"{number}.finished").touch()


def die(argument):
    if argument == 1:
        os._exit(3)


def crash(_argument):
    return {}["nothing"]


def test_results_in_order_of_a_task_each(spark):
    told = []
    results = run(spark, double, [5, 1, 3, b"x" * 2_000_000, 4], told.append)
    assert [value for value, *_ in results] == [10, 2, 6, b"x" * 4_000_000, 8]
    assert os.getpid() not in {process for _, process, _ in results}
    assert [partition for *_, partition in results] == [0, 1, 2, 3, 4]
    assert told[-1] == 5
    assert told == sorted(told)


def test_progress_while_jobs_run(spark):
    count = 4 * spark.sparkContext.defaultParallelism
    told = []
    run(spark, time.sleep, [0.7] * count, told.append)
    assert any(0 < finished < count for finished in told), told
    assert told[-1] == count


def test_jobs_in_the_callers_job_group(spark):
    context, told = spark.sparkContext, []
    context.setJobGroup("mine", "jobs that the caller can cancel")
    try:
        run(spark, double, [1, 2], told.append)
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert told == [2]
    assert len(context.statusTracker().getJobIdsForGroup("mine")) == 1


def archives(_argument):
    """The archives that `importlib.invalidate_caches`, with which a task begins, reads again."""
    finders = sys.path_importer_cache.items()
    found = [entry for entry, finder in finders if isinstance(finder, zipimport.zipimporter)]
    return [*found, *(entry for entry in sys.path if entry.endswith(".jar"))]


def test_no_archives_of_sparks_on_the_workers_path(spark):
    assert run(spark, archives, [0]) == [[]]


def test_nothing_to_do(spark):
    assert run(spark, double, []) == []


def in_tasks(spark):
    return lambda job, arguments: run(spark, job, arguments)


def in_this_process(_spark):
    return lambda job, arguments: Workers(None, here=True).run(job, arguments, 0)


@pytest.mark.parametrize("runner", [in_tasks, in_this_process])
def test_the_first_jobs_error_once_all_have_ended(spark, tmp_path, runner):
    arguments = [(tmp_path / "it", number) for number in range(4)]
    with pytest.raises(ChecksumMismatch) as caught:
        runner(spark)(fail, arguments)
    error = caught.value
    assert (error.file, error.offset, error.event_type) == ("binlog.000001", 1, "XID")
    assert str(error) == "binlog.000001 at 1 (XID): bad"
    begun, finished = (
        sorted(each.stem for each in tmp_path.glob(f"*.{name}")) for name in ("begun", "finished")
    )
    assert (begun, finished) == (["0", "1", "2", "3"], ["0", "2"])


def lose(argument):
    path, losses = argument
    with path.open("a") as file:
        file.write("x")
    if path.stat().st_size <= losses:
        raise ConnectionLost("it is away", code=1053)
    return losses


@pytest.mark.parametrize(("losses", "tries"), [((0, 2, 1), (1, 3, 2)), ((0, 5, 1), (1, 3, 2))])
def test_jobs_that_lose_their_connection_run_again(spark, tmp_path, losses, tries):
    arguments = [(tmp_path / str(number), each) for number, each in enumerate(losses)]
    told = []
    if max(losses) < 3:
        assert run(spark, lose, arguments, told.append) == list(losses)
        assert told == sorted(told)
        assert told[-1] == 3
    else:
        with pytest.raises(ConnectionLost, match="it is away") as caught:
            run(spark, lose, arguments)
        assert caught.value.code == 1053
    assert tuple(path.stat().st_size for path, _ in arguments) == tries


def lose_or_crash(argument):
    return lose(argument) if argument[1] else fail((argument[0], 1))


def test_nothing_runs_again_after_another_error(spark, tmp_path):
    with pytest.raises(ConnectionLost):
        run(spark, lose_or_crash, [(tmp_path / "a", 5), (tmp_path / "b", 0)])
    assert (tmp_path / "a").stat().st_size == 1


def test_a_session_that_does_not_let_settings_be_changed(spark, monkeypatch):
    def locked(*_arguments):
        raise PySparkException("you must not")

    monkeypatch.setattr(type(spark.conf), "set", locked)
    results = run(spark, double, [5, 1, 3])
    assert [(value, partition) for value, _, partition in results] == [(10, 0), (2, 1), (6, 2)]


def test_other_errors_are_told_on_a_line(spark):
    with pytest.raises(PipelineError) as caught:
        run(spark, crash, [0])
    assert str(caught.value) == "a Spark task failed: KeyError: 'nothing'"


def test_a_task_that_dies(spark):
    with pytest.raises(PipelineError, match=r"a Spark task failed: .*crashed") as caught:
        run(spark, die, [0, 1])
    assert "\n" not in str(caught.value)
    assert run(spark, double, [1])[0][0] == 2


def test_progress_in_this_process():
    told = []
    results = Workers(None, here=True).run(double, [1, 2, 3], 0, told.append)
    assert [(value, process) for value, process, _ in results] == [
        (2 * each, os.getpid()) for each in (1, 2, 3)
    ]
    assert told == [1, 2, 3]
