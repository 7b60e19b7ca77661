"""Putting what tasks wrote into a log, and the log's files where readers find them: at once.

    PATH/binlog.index                   what readers go by: replacing it is the commit
    PATH/binlog.000007                  files of a job: linked there just before
    PATH/.tailrace-write/lock
    PATH/.tailrace-write/JOB/part-…     what tasks wrote
    PATH/.tailrace-write/JOB/log/…      the log's new files in the making

A job's files are made whole in a folder of its own, with the names, positions and GTIDs that they
will have; then they are linked into place, and then the index names them all in one step. Who is
killed before that leaves files that no index names, and the next job takes them away.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import EventFlag, Flavour
from tailrace.errors import PipelineError, StorageError
from tailrace.events import QueryEvent, XidEvent
from tailrace.log_name import LogName
from tailrace.storage.index import LogIndex
from tailrace.storage.local import LocalFolder, sync
from tailrace.storage.target import logs_of
from tailrace.writing.cache import Group, cached
from tailrace.writing.create import create, dialect_of
from tailrace.writing.recover import scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.gtid import GtidState
    from tailrace.schema.table import Table
    from tailrace.writing.log import LogWriter
    from tailrace.writing.options import WriterOptions
    from tailrace.writing.parts.rows import Written

FOLDER: Final = ".tailrace-write"


@dataclass(frozen=True)
class Part:
    """What one task wrote: its partition, file and transactions."""

    partition: int
    path: str
    written: tuple[Written, ...]


@dataclass(frozen=True)
class LogOfParts:
    """The log to write: a folder, the files' base name, and all that a task must know of it.

    ``timestamp`` is in seconds UTC, ``rows`` the most that a transaction has. ``uuid`` is of
    MySQL's GTIDs (None: anonymous), ``domain`` of MariaDB's. ``ddl`` are statements that come
    before the rows. ``images``: rows come as structs before and after; else as one row's columns.
    """

    folder: Path
    base: str
    table: Table
    server_id: int
    timestamp: int
    rows: int
    checksum: str
    options: WriterOptions
    uuid: str | None
    domain: int
    ddl: tuple[str, ...]
    images: bool

    @property
    def table_name(self) -> str:
        """The table's full name."""
        return f"{self.table.database}.{self.table.name}"

    @cached_property
    def header(self) -> dict[str, Any]:
        """What every event's header says."""
        flavour, checksum = self.table.flavour, self.checksum
        form = dialect_of(flavour, server_id=self.server_id, checksum=checksum).form
        return {"timestamp": self.timestamp, "server_id": self.server_id, "form": form}

    def job(self, name: str) -> Path:
        """The folder of a job."""
        return self.folder / FOLDER / name


def assemble(target: LogOfParts, job: str, parts: Sequence[Part]) -> list[str]:
    """Make a job's rows part of the log; the names of its new files, none where there is no row.

    Raises StorageError where the log there is being written to or is of another flavour, and what
    `LogWriter.commit` raises; the log is as it was then.
    """
    parts = sorted((part for part in parts if part.written), key=lambda each: each.partition)
    for part in parts:
        size = sum(size for size, _ in part.written)
        path = Path(part.path)
        if not path.is_file() or path.stat().st_size != size:
            raise PipelineError(
                f"{path}, which a task has written, is not there as it was: {target.folder} must "
                "be a folder that all executors and the driver share"
            )
    if not parts and not target.ddl:
        return []
    with _locked(target):
        _forget_leftovers(target)
        name, gtids = _after(target)
        made = target.job(job) / "log"
        made.mkdir()
        with create(
            made / name,
            flavour=target.table.flavour,
            server_id=target.server_id,
            server_uuid=target.uuid,
            domain_id=target.domain,
            checksum=target.checksum,
            gtids=gtids,
            **asdict(target.options),
        ) as log:
            for statement in target.ddl:
                with log.transaction(timestamp=target.timestamp) as transaction:
                    transaction.query(statement, target.table.database)
            for part in parts:
                _append(log, target, part)
            files = log.files
        _publish(target, made, files)
    return files


def _append(log: LogWriter, target: LogOfParts, part: Part) -> None:
    """A task's transactions."""
    header = target.header
    is_mysql = log.flavour is Flavour.MYSQL
    begin = QueryEvent.make(
        sql="BEGIN",
        database=target.table.database,
        status=dict(log.dialect.status),
        thread_id=1,
        exec_time=0,
        error_code=0,
        header_flags=EventFlag.SUPPRESS_USE,
        **header,
    )
    with Path(part.path).open("rb") as file:
        for size, events in part.written:
            cache = log.cache()
            try:
                if is_mysql:
                    cache.append(cached(begin))
                cache.append(file.read(size), events)
                cache.append(cached(XidEvent.make(xid=log.next_xid(), **header)))
                if log.options.compress and is_mysql:
                    packed = cache.compressed(header)
                    if packed is not cache:
                        cache.close()
                        cache = packed
                group = Group(cache, None, target.server_id, target.timestamp)
                log.commit(group, lambda group: _number(log, group))
            finally:
                cache.close()


def _number(log: LogWriter, group: Group) -> None:
    group.gtid = log.dialect.gtids.choose(None)


# --- the folder ----------------------------------------------------------------------------------


@contextmanager
def _locked(target: LogOfParts) -> Iterator[None]:
    """One job at a time puts its files into the folder."""
    try:
        lock = os.open(target.folder / FOLDER / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StorageError(f"{target.folder} cannot be written to: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise StorageError(f"{target.folder}: the log cannot be written: {error}") from error
    finally:
        os.close(lock)


def _index(target: LogOfParts) -> LogIndex:
    return LogIndex(LocalFolder(target.folder), target.base)


def _forget_leftovers(target: LogOfParts) -> None:
    """Remove files that a job linked into place which was killed before the index named them."""
    listed = _index(target).names
    for made in (target.folder / FOLDER).glob("*/log/*"):
        placed = target.folder / made.name
        if made.name in listed or not placed.is_file() or not placed.samefile(made):
            continue
        placed.unlink()


def _after(target: LogOfParts) -> tuple[LogName, GtidState | None]:
    """The name of the next file, and the GTIDs that the log holds by now."""
    folder = LocalFolder(target.folder)
    logs = logs_of(folder, target.base)
    if not logs:
        return LogName.of(target.base, 1), None
    last = scan(folder, logs[-1])
    flavour = target.table.flavour
    if last.headless or last.reason or not last.closed or last.form is None:
        raise StorageError(
            f"{target.folder / logs[-1]} is still being written, or was left by a crash: only "
            "a log that is closed is gone on with (tailrace.append repairs and closes one)"
        )
    if last.form.flavour is not flavour:
        raise StorageError(
            f"{target.folder / logs[-1]} is a log of {last.form.flavour}, and rows of "
            f"{flavour} are to follow: choose another folder"
        )
    return logs[-1].next, last.gtids


def _publish(target: LogOfParts, made: Path, files: Sequence[str]) -> None:
    """Make the files seen, all in one step."""
    for name in files:
        os.link(made / name, target.folder / name)
    sync(target.folder)
    index = _index(target)
    named = [LogName(name) for name in files]
    if not index.names:
        there = logs_of(LocalFolder(target.folder), target.base)
        named = [*(log for log in there if log not in named), *named]
    index.add(*named)


def clean(target: LogOfParts, job: str) -> None:
    """Remove a job's folder, and the folder of all jobs where it was the last."""
    shutil.rmtree(target.job(job), ignore_errors=True)
