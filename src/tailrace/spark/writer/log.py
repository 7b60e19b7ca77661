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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import EventFlag, Flavour
from tailrace.errors import PipelineError, StorageError
from tailrace.events import QueryEvent, XidEvent
from tailrace.log_name import LogName
from tailrace.spark.manifest.on_disk import to_disk
from tailrace.storage.index import LogIndex
from tailrace.storage.local import LocalFolder
from tailrace.storage.target import logs_of
from tailrace.writing import create
from tailrace.writing.cache import Group, cached
from tailrace.writing.recover import scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.gtid import GtidState
    from tailrace.spark.writer.rows import Form, Written
    from tailrace.writing import LogWriter

FOLDER: Final = ".tailrace-write"


@dataclass(frozen=True)
class Part:
    """What one task wrote: its partition, file and transactions."""

    partition: int
    path: str
    written: tuple[Written, ...]


@dataclass(frozen=True)
class Target:
    """The log to write: a folder, the files' base name, and what the writer's options say.

    ``uuid`` is of MySQL's GTIDs (None: anonymous), ``domain`` of MariaDB's. ``ddl`` are statements
    that come before the rows.
    """

    folder: Path
    base: str
    form: Form
    uuid: str | None
    domain: int
    ddl: tuple[str, ...]

    def job(self, name: str) -> Path:
        """The folder of a job."""
        return self.folder / FOLDER / name


def assemble(target: Target, job: str, parts: Sequence[Part]) -> list[str]:
    """Make a job's rows part of the log; the names of its new files, none where there is no row.

    Raises StorageError where the log there is being written to or is of another flavour, and what
    `LogWriter.commit` raises; the log is as it was then.
    """
    parts = sorted((part for part in parts if part.written), key=lambda each: each.partition)
    for part in parts:
        size = sum(each.size for each in part.written)
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
        with _new_log(target, made / name, gtids) as log:
            for statement in target.ddl:
                with log.transaction(timestamp=target.form.timestamp) as transaction:
                    transaction.query(statement, target.form.table.database)
            for part in parts:
                _append(log, target.form, part)
            files = log.files
        _publish(target, made, files)
    return files


def _new_log(target: Target, first: Path, gtids: GtidState | None) -> LogWriter:
    form = target.form
    identity: dict[str, Any] = {"server_uuid": target.uuid}
    if form.flavour is Flavour.MARIADB:
        identity = {"domain_id": target.domain}
    options = form.options
    return create(
        first,
        flavour=form.flavour,
        server_id=form.server_id,
        server_version=form.server_version,
        checksum=form.checksum,
        gtids=gtids,
        metadata=options.metadata,
        compress=options.compress,
        max_size=options.max_size,
        max_rows_event_size=options.max_rows_event_size,
        sync="none",
        **identity,
    )


def _append(log: LogWriter, form: Form, part: Part) -> None:
    """A task's transactions."""
    header: dict[str, Any] = {
        "timestamp": form.timestamp,
        "server_id": form.server_id,
        "form": log.dialect.form,
    }
    begin = QueryEvent.make(
        sql="BEGIN",
        database=form.table.database,
        status=dict(log.dialect.status),
        thread_id=1,
        exec_time=0,
        error_code=0,
        header_flags=EventFlag.SUPPRESS_USE,
        **header,
    )
    with Path(part.path).open("rb") as file:
        for each in part.written:
            cache = log.cache()
            try:
                if log.flavour is Flavour.MYSQL:
                    cache.append(cached(begin))
                cache.append(file.read(each.size), each.events)
                cache.append(cached(XidEvent.make(xid=log.next_xid(), **header)))
                if log.options.compress and log.flavour is Flavour.MYSQL:
                    packed = cache.compressed(header)
                    if packed is not cache:
                        cache.close()
                        cache = packed
                group = Group(cache, None, form.server_id, form.timestamp)
                log.commit(group, lambda group: _number(log, group))
            finally:
                cache.close()


def _number(log: LogWriter, group: Group) -> None:
    group.gtid = log.dialect.gtids.choose(None)


# --- the folder ----------------------------------------------------------------------------------


@contextmanager
def _locked(target: Target) -> Iterator[None]:
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


def _index(target: Target) -> LogIndex:
    return LogIndex(LocalFolder(target.folder), target.base)


def _forget_leftovers(target: Target) -> None:
    """Remove files that a job linked into place which was killed before the index named them."""
    listed = _index(target).names
    for made in (target.folder / FOLDER).glob("*/log/*"):
        placed = target.folder / made.name
        if made.name in listed or not placed.is_file() or not placed.samefile(made):
            continue
        placed.unlink()


def _after(target: Target) -> tuple[LogName, GtidState | None]:
    """The name of the next file, and the GTIDs that the log holds by now."""
    folder = LocalFolder(target.folder)
    logs = logs_of(folder, target.base)
    if not logs:
        return LogName.of(target.base, 1), None
    last = scan(folder, logs[-1])
    form = target.form
    if last.headless or last.reason or not last.closed or last.form is None:
        raise StorageError(
            f"{target.folder / logs[-1]} is still being written, or was left by a crash: only "
            "a log that is closed is gone on with (tailrace.append repairs and closes one)"
        )
    if last.form.flavour is not form.flavour:
        raise StorageError(
            f"{target.folder / logs[-1]} is a log of {last.form.flavour}, and rows of "
            f"{form.flavour} are to follow: choose another folder"
        )
    return logs[-1].next, last.gtids


def _publish(target: Target, made: Path, files: Sequence[str]) -> None:
    """Make the files seen, all in one step."""
    for name in files:
        to_disk([made / name])
        os.link(made / name, target.folder / name)
    to_disk([target.folder])
    index = _index(target)
    named = [LogName(name) for name in files]
    if not index.names:
        there = logs_of(LocalFolder(target.folder), target.base)
        named = [*(log for log in there if log not in named), *named]
    index.add(*named)


def clean(target: Target, job: str) -> None:
    """Remove a job's folder, and the folder of all jobs where it was the last."""
    shutil.rmtree(target.job(job), ignore_errors=True)
