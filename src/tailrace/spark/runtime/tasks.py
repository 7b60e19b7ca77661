"""Running a list of jobs on Spark, each as a task of its own; arguments and results are rows.

A row has a job's number and its pickled argument, compressed: splits of a log have much in common.
It is a partition by itself, so a task receives its own job alone, however many there are.
`mapInArrow` runs the job, and its result comes back as a row. A `TailraceError` of a job comes back
in the same way: Spark would run the job again, and then return the error's text alone. Only a lost
connection is worth that, so `run` does it.
"""

from __future__ import annotations

import pickle
import threading
import uuid
import zlib
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from tailrace.errors import ConnectionLost, PipelineError, TailraceError
from tailrace.spark.runtime.memory import Tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_JOB: Final = pa.schema([("task", pa.int32()), ("argument", pa.binary())])
_OUTCOME: Final = pa.schema([("task", pa.int32()), ("failed", pa.bool_()), ("value", pa.binary())])
_COLUMNS: Final = "task int, failed boolean, value binary"
_PERIOD: Final = 0.2
_TRIES: Final = 3
_GROUP: Final = "spark.jobGroup.id"
_PLANNED: Final = "spark.sql.execution.arrow.localRelationThreshold"
"""Spark puts an Arrow table of up to so many bytes into the plan, and divides it by its cores. Of a
larger one, each chunk is a partition."""
_creating: Final = threading.Lock()
_tidy: Final = Tidy()
"""Of each of Spark's workers, which run many jobs."""


class Job(Protocol):
    """What a `Runner` runs."""

    @property
    def reads(self) -> int:
        """About the bytes that it reads: few are read right here, and not in tasks."""


Given = TypeVar("Given", bound="Job | tuple[Job, ...]")


class Runner(Protocol):
    """Runs a job for each of some arguments, in tasks or right here; the results in their order."""

    def __call__(
        self, job: Callable[[Given], Result], arguments: Sequence[Given]
    ) -> list[Result]: ...


def in_turn(job: Callable[[Argument], Result], arguments: Sequence[Argument]) -> list[Result]:
    """A `Runner` without tasks."""
    return [job(each) for each in arguments]


def run(
    spark: SparkSession,
    job: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    progress: Callable[[int], None] | None = None,
) -> list[Result]:
    """Run ``job(argument)`` for each argument as a Spark task; the results in their order.

    ``job`` is a function of a module, arguments and results pickle. ``progress`` is called with the
    number of finished jobs, and not which these are: at the end, and from another thread while they
    run, but not under Spark Connect or in a job group of the caller's. Jobs that lost a connection
    run again, up to three times in all, unless a job failed with another error.

    Raises the `TailraceError` of the first job that failed, or `PipelineError` if Spark fails.
    """
    if not arguments:
        return []
    found = _outcomes(spark, job, arguments, progress)
    for _ in range(_TRIES - 1):
        failed = [number for number, (is_error, _) in enumerate(found) if is_error]
        if not failed or not all(isinstance(found[each][1], ConnectionLost) for each in failed):
            break
        again = _outcomes(spark, job, [arguments[each] for each in failed], None)
        for number, outcome in zip(failed, again, strict=True):
            found[number] = outcome
    for is_error, value in found:
        if is_error:
            raise value
    if progress is not None:
        progress(len(found))
    return [value for _, value in found]


def _outcomes(
    spark: SparkSession,
    job: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    progress: Callable[[int], None] | None,
) -> list[tuple[bool, Any]]:
    """For each argument, whether its job failed; and its result or error."""
    from py4j.protocol import (  # type: ignore[import-untyped] # noqa: PLC0415 - with Spark only
        Py4JError,
    )
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    work = partial(_work, job)
    try:
        outcomes = _partitions(spark, arguments).mapInArrow(work, _COLUMNS)
        with _watching(spark, progress):
            rows = outcomes.collect()
    except (PySparkException, Py4JError) as error:
        raise _failure(error) from error
    found = {row["task"]: (row["failed"], pickle.loads(row["value"])) for row in rows}  # noqa: S301 - made by our own tasks
    return [found[number] for number in range(len(arguments))]


def _partitions(spark: SparkSession, arguments: Sequence[object]) -> DataFrame:
    """A row for each argument, each a partition of its own."""
    rows = [
        pa.record_batch([[number], [zlib.compress(pickle.dumps(each), 1)]], schema=_JOB)
        for number, each in enumerate(arguments)
    ]
    table = pa.Table.from_batches(rows)
    with _creating, _by_chunk(spark) as by_chunk:
        found = spark.createDataFrame(table)
    return found if by_chunk else found.repartitionById(len(rows), "task")


@contextmanager
def _by_chunk(spark: SparkSession) -> Iterator[bool]:
    """Have Spark make a partition of each chunk of an Arrow table; False where it does not.

    Under Spark Connect the setting has no effect, and a session may not allow to change it.
    """
    before = None
    if hasattr(spark, "sparkContext"):
        with suppress(Exception):  # if Spark has ended, what follows raises it
            now = str(spark.conf.get(_PLANNED))
            spark.conf.set(_PLANNED, "0")
            before = now
    try:
        yield before is not None
    finally:
        if before is not None:
            spark.conf.set(_PLANNED, before)


def _work(job: Callable[[Any], Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in a Spark task: the jobs of the rows that the task receives."""
    for batch in batches:
        for row in batch.to_pylist():
            failed = False
            try:
                value = job(pickle.loads(zlib.decompress(row["argument"])))  # noqa: S301 - of this very run
            except TailraceError as error:
                value, failed = error, True
            _tidy()
            yield pa.record_batch([[row["task"]], [failed], [pickle.dumps(value)]], schema=_OUTCOME)


def _failure(error: Exception) -> PipelineError:
    """What Spark reports of a task that died, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if "Error: " in line or line.startswith("MemoryError")]
    java = [line.rpartition("Exception: ")[2] for line in lines if "Exception: " in line]
    text = [*python[-1:], *java, *lines, type(error).__name__][0]
    return PipelineError(f"a Spark task failed: {text}")


@contextmanager
def _watching(spark: SparkSession, progress: Callable[[int], None] | None) -> Iterator[None]:
    """Call ``progress`` with the finished tasks of the Spark job that this thread runs meanwhile.

    Spark finds them by a job group. A caller who has set one may cancel it: there it stays.
    """
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if progress is None or context is None or context.getLocalProperty(_GROUP) is not None:
        yield
        return
    tracker, group = context.statusTracker(), uuid.uuid4().hex
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_PERIOD):
            with suppress(Exception):  # of a Spark that ends: `run` raises it
                jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
                stages = [tracker.getStageInfo(one) for job in jobs if job for one in job.stageIds]
                progress(sum(stage.numCompletedTasks for stage in stages if stage))

    thread = threading.Thread(target=watch, daemon=True)
    context.setLocalProperty(_GROUP, group)
    thread.start()
    try:
        yield
    finally:
        context.setLocalProperty(_GROUP, None)
        over.set()
        thread.join()
