"""Running a list of jobs on Spark, a partition each, and bringing errors of ours back whole.

``spark.range`` with as many partitions as numbers gives each task one number, without a shuffle,
and `mapInArrow` runs under Spark Connect too. What a task is to do it reads from a file, so a plan
of thousands of jobs costs a task no more than its own; the folder must be one that tasks and driver
share, as the lake is. Tasks say there how far they are, and leave an error of ours there, since
Spark itself would only hand back its text.

Jobs and errors are pickled, and others may be able to write to the folder: tasks may run as another
user than the driver. So each of these files begins with a keyed digest (`Sealed`). The key is made
for one run and goes to the tasks with the plan, which Spark carries.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import pickle
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from tailrace.errors import PipelineError, TailraceError
from tailrace.spark.memory import Tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_RESULT: Final = pa.schema([("task", pa.int64()), ("result", pa.binary())])
_PERIOD: Final = 0.2
_tidy: Final = Tidy()
"""Of each of Spark's workers, which are there for many jobs."""
_KEY: Final = 32
_DIGITS: Final = 20
"""Of a number that says how much is done, at most."""


class Sealed:
    """Pickles in files of a folder that only who has the key of a run can have written.

    A file is the HMAC-SHA256 of its name and content, and then the content.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self.folder = folder
        self._key = key

    def put(self, name: str, value: object) -> None:
        """Write a file in one step. Raises OSError."""
        content = pickle.dumps(value)
        part = self.folder / f"{name}.{secrets.token_hex(8)}.part"
        with part.open("xb") as file:
            file.write(self._digest(name, content) + content)
        part.replace(self.folder / name)

    def get(self, name: str) -> Any:
        """What a file has; raises OSError, and `PipelineError` where somebody else wrote it."""
        path = self.folder / name
        found = path.read_bytes()
        size = hashlib.sha256().digest_size
        digest, content = found[:size], found[size:]
        if not hmac.compare_digest(digest, self._digest(name, content)):
            raise PipelineError(
                f"{path} was not written by this run: see who else may write to its folder"
            )
        return pickle.loads(content)  # noqa: S301 - of this very run

    def _digest(self, name: str, content: bytes) -> bytes:
        return hmac.digest(self._key, name.encode() + b"\0" + content, "sha256")


class Report:
    """How far a job is, told to the driver by a small file; a task calls `done` as it goes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next = 0.0

    def done(self, amount: int) -> None:
        """Say how much of the job is done by now; rarely more than five times a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PERIOD
            self.final(amount)

    def final(self, amount: int) -> None:
        """As `done`, at once."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            with open(os.open(self._path, flags, 0o666), "w") as file:  # noqa: PTH123
                file.write(str(amount))


class Runner(Protocol):
    """Runs a job for each of some arguments, in tasks or right here; the results in their order."""

    def __call__(
        self, job: Callable[[Argument, Report], Result], arguments: Sequence[Argument]
    ) -> list[Result]: ...


def run(
    spark: SparkSession,
    job: Callable[[Argument, Report], Result],
    arguments: Sequence[Argument],
    folder: Path,
    progress: Callable[[int], None] | None = None,
) -> list[Result]:
    """Run ``job(argument, report)`` for each argument as a Spark task; the results in their order.

    ``job`` is a function of a module, arguments and results pickle. ``folder`` is made, and may be
    removed afterwards. ``progress`` is called from another thread with the sum of what the jobs
    reported. Raises a job's own `TailraceError`, or `PipelineError` where Spark itself fails.
    """
    from py4j.protocol import (  # type: ignore[import-untyped] # noqa: PLC0415 - with Spark only
        Py4JError,
    )
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    sealed = Sealed(folder, secrets.token_bytes(_KEY))
    try:
        folder.mkdir(parents=True)
        for number, argument in enumerate(arguments):
            sealed.put(f"{number}.job", argument)
    except OSError as error:
        raise PipelineError(f"cannot write {folder}: {error.strerror}") from error
    count = len(arguments)
    if not count:
        return []
    numbers = spark.range(0, count, 1, count)
    work = functools.partial(_work, job, sealed)
    results = numbers.mapInArrow(work, "task long, result binary")
    with _watching(folder, progress):
        try:
            rows = results.collect()
        except (PySparkException, Py4JError) as error:
            raise cause_of(sealed, error) from error
    by_task = {row["task"]: pickle.loads(row["result"]) for row in rows}  # noqa: S301 - made by our own tasks
    return [by_task[number] for number in range(count)]


def _work(
    job: Callable[[Any, Report], Any], sealed: Sealed, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run in a Spark task: the jobs of the numbers that the task is given."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            try:
                argument = sealed.get(f"{number}.job")
                result = job(argument, Report(sealed.folder / f"{number}.done"))
            except TailraceError as error:
                with contextlib.suppress(OSError):  # then Spark's own text has to do
                    sealed.put(f"{number}.error", error)
                raise
            _tidy()
            values = [pa.array([number]), pa.array([pickle.dumps(result)])]
            yield pa.RecordBatch.from_arrays(values, schema=_RESULT)


def cause_of(sealed: Sealed, error: Exception) -> TailraceError:
    """Our own error that made Spark fail; that of the first job, if several failed."""
    numbers = [each.stem for each in sealed.folder.glob("*.error")]
    for number in sorted((each for each in numbers if each.isdecimal()), key=int):
        with contextlib.suppress(OSError):
            cause = sealed.get(f"{number}.error")
            if isinstance(cause, TailraceError):
                return cause
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if "Error: " in line or line.startswith("MemoryError")]
    text = (python or lines or [type(error).__name__])[-1 if python else 0]
    return PipelineError(f"a Spark task failed: {text}")


@contextlib.contextmanager
def _watching(folder: Path, progress: Callable[[int], None] | None) -> Iterator[None]:
    if progress is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        highest = 0  # a file that is just being written reads as empty
        while not over.wait(_PERIOD):
            highest = max(highest, _amount(folder))
            progress(highest)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    progress(_amount(folder))


def _amount(folder: Path) -> int:
    amount = 0
    for path in folder.glob("*.done"):
        with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
            amount += int(file.read(_DIGITS) or 0)
    return amount
