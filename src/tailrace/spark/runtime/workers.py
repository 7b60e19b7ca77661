"""Where jobs run: on Spark, or in this process where they are too small to be worth Spark's time.

A Spark job costs 100 to 200 ms however little it does, so a batch of some rows, once a second, is
done here, by the same functions.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Final

from tailrace.spark.runtime.session import session
from tailrace.spark.runtime.tasks import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from tailrace.spark.runtime.tasks import Argument, Result

    SparkGiven = SparkSession | Callable[[], SparkSession] | None

SMALL_BYTES: Final = 8 << 20
"""Jobs that read up to so many bytes altogether are done in this process, where allowed."""


class Workers:
    """Runs jobs; Spark is started when `start` says so, or the first job needs it.

    ``spark`` is a session, or a function that gives one; by default a local one is started.
    ``here`` allows small jobs to be done in this process. ``starting`` is called when Spark is.
    """

    def __init__(
        self, spark: SparkGiven, *, here: bool, starting: Callable[[], None] = lambda: None
    ) -> None:
        self._spark = session if spark is None else spark if callable(spark) else lambda: spark
        self._here = here
        self._say = starting
        self._starting: Future[SparkSession] = Future()
        self._thread: threading.Thread | None = None
        self._threads: ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Start Spark in the background; a process that ends does not wait for that."""
        if self._thread is None:
            self._say()
            self._thread = threading.Thread(target=self._start, name="start-spark", daemon=True)
            self._thread.start()

    def start_for(self, size: int) -> None:
        """Start Spark if it is to read ``size`` bytes."""
        if size and not self.is_here(size):
            self.start()

    def _start(self) -> None:
        try:
            self._starting.set_result(self._spark())
        except BaseException as error:  # noqa: BLE001 - `session` raises it
            self._starting.set_exception(error)

    def session(self) -> SparkSession:
        """The session; waits until it runs."""
        self.start()
        return self._starting.result()

    def is_here(self, size: int) -> bool:
        """Whether jobs that read ``size`` bytes altogether are done in this process."""
        return self._here and size <= SMALL_BYTES

    def run(
        self,
        job: Callable[[Argument], Result],
        arguments: Sequence[Argument],
        size: int,
        progress: Callable[[int], None] = lambda _finished: None,
    ) -> list[Result]:
        """`tailrace.spark.runtime.tasks.run`; the jobs read ``size`` bytes altogether."""
        if not arguments:
            return []
        if not self.is_here(size):
            return run(self.session(), job, arguments, progress)
        if self._threads is None:  # new threads for each batch would each leave memory unfreed
            self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="job")
        futures = [self._threads.submit(job, each) for each in arguments]
        for finished, _ in enumerate(as_completed(futures), 1):  # all, also where one fails
            progress(finished)
        return [future.result() for future in futures]
