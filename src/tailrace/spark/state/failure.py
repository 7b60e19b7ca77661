"""What is one table's failure, and what the whole mirror's: the one place that draws the line.

Whatever goes wrong with a table, our own mistakes included, stops that table: it is set aside. What
would go wrong with the next table as well stops the mirror, and the lake stays at its last batch:

- memory, a disk that is full, read-only or broken, too many open files;
- a Tailrace that is not installed whole;
- a server, a connection, a key, a catalogue's service: what is needed to read and write at all;
- others who write to the lake at the same moment, and a user who ends the mirror.

A log that is damaged is the mirror's too: only what is raised of the rows of one table is that
table's (`tailrace.errors.table_of`). So is what an option forbids, as statements without rows.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.errors import (
    ConnectionLost,
    KeyMissing,
    LakeChanged,
    OutOfMemory,
    PipelineError,
    ProtocolError,
    ServerError,
    StatementChange,
    TailraceError,
    UsageError,
)
from tailrace.printable import first_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tailrace.spark.runtime.tasks import Argument, Given, Result, Runner

_OF_ALL: Final = (
    *(MemoryError, ImportError, OutOfMemory, ConnectionLost, ServerError, ProtocolError),
    *(KeyMissing, LakeChanged, UsageError, StatementChange),
)
_OF_A_FILE: Final = frozenset(
    {
        *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EEXIST),
        *(errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTEMPTY, errno.EXDEV),
    }
)
"""What a system says of one file or folder; anything else is said of the disk or the machine."""
_SERVICES: Final = frozenset(
    {"sqlalchemy", "sqlite3", "requests", "urllib3", "http", "botocore", "pymysql", "py4j"}
)
"""Packages whose errors are of a catalogue's database or service, a server, or Spark."""
_PROBE_BYTES: Final = 1 << 16
_RESTARTS: Final = (
    "it keeps its last state, and continues once the source truncates or recreates it; "
    "otherwise create a new lake, or leave it out (--exclude)"
)


class RejectedError(PipelineError):
    """A table can have no state; the message says why, as a sentence about the table."""


@dataclass(frozen=True)
class Failure:
    """Why a table's work could not be done; ``origins`` are tables, set aside, that it needs.

    ``unnamed``: its server is still to be asked for its columns. ``needs`` says what to do; where
    it is empty, to take the table up once more. ``rejected``: nothing went wrong, but the log does
    not tell what the table became, whoever reads it.
    """

    reason: str
    origins: tuple[str, ...] = ()
    unnamed: bool = False
    needs: str = ""
    rejected: bool = False


def rejection(reason: str, origins: tuple[str, ...] = ()) -> Failure:
    """The failure of a table whose state or history cannot continue, though nothing went wrong."""
    return Failure(reason, origins, needs=_RESTARTS, rejected=True)


def of_one_table(error: BaseException) -> bool:
    """Whether an error that came of working on one table is that table's alone."""
    return isinstance(error, Exception) and not any(map(_is_of_all, _chain(error)))


def failure(error: Exception) -> Failure:
    """A table's failure in words. Raises the error where it is not the table's alone."""
    if not of_one_table(error):
        raise error
    if isinstance(error, RejectedError):
        return Failure(str(error), rejected=True)
    text = printable(first_line(error)) if str(error) else ""
    if isinstance(error, TailraceError):
        return Failure(text)
    return Failure(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def attempt(job: Callable[[Argument], Result], argument: Argument) -> Result | Failure:
    """Do a job of one table: its result, or the table's failure. Raises what is not the table's."""
    try:
        return job(argument)
    except Exception as error:  # noqa: BLE001 - `failure` raises what is not one table's
        return failure(error)


def all_done(
    run: Runner,
    job: Callable[[Given], Result],
    arguments: Sequence[Given],
    kind: type[PipelineError] = PipelineError,
) -> list[Result]:
    """The results of jobs of one table; raises an error of a ``kind`` for its first failure."""
    found: list[Result] = []
    for each in run(partial(attempt, job), arguments):
        if isinstance(each, Failure):
            raise kind(each.reason)
        found.append(each)
    return found


def check_writable(folder: Path) -> None:
    """Raises `PipelineError` where a folder cannot be written to: then no table is at fault."""
    probe = folder / "probe"
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
        probe.unlink()
    except OSError as error:
        raise PipelineError(f"cannot write {folder}: {error.strerror}") from error


def _is_of_all(error: BaseException) -> bool:
    kinds = type(error).__mro__
    if any(each.__module__.partition(".")[0] in _SERVICES for each in kinds):
        return True
    if any(each.__name__ == "RESTError" for each in kinds) or isinstance(error, TimeoutError):
        return True
    if isinstance(error, OSError):
        return error.errno is not None and error.errno not in _OF_A_FILE
    return isinstance(error, _OF_ALL)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came of."""
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
