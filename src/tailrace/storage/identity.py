"""Whether a log in files is still the one that was read, for the mirror and the stream."""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC
from tailrace.errors import LogPurged, LogReset
from tailrace.position import Position
from tailrace.storage.head import lasting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.storage.file import LogFile, LogSeries

_DIGESTED: Final = 4096


def digests(log: LogFile, offset: int) -> tuple[str, str]:
    """Digests of a log's first bytes, and of the last ones before ``offset``; of the plain log.

    Raises StorageError where the log cannot be read up to there.
    """
    count = min(_DIGESTED, offset)
    with closing(log.open()) as file:
        head, tail = lasting(file, 0, count), lasting(file, offset - count, count)
    return hashlib.sha256(head).hexdigest(), hashlib.sha256(tail).hexdigest()


def file_read(series: LogSeries, place: Position, remedy: str) -> LogFile:
    """The file in which reading ended, at ``place``; ``remedy`` says what to do without it.

    Raises `LogPurged` if the missing file precedes the oldest one present, else `LogReset`.
    """
    for log in series.files:
        if log.name == place.file:
            return log
    first, last = series.files[0].name, series.files[-1].name
    text = f"{series.name}: {place.file} is gone, which was read up to {place.offset}"
    if place < Position(first, len(MAGIC)):
        raise LogPurged(
            f"{text}; the logs begin with {first}, and what was written in between is missing:"
            f" {remedy}"
        )
    raise LogReset(
        f"{text}; the logs are {first} to {last}: they were reset, or are another server's:"
        f" {remedy}"
    )


def check_read(
    series: LogSeries,
    place: Position,
    remedy: str,
    is_same: Callable[[LogFile], bool],
    sizes: Mapping[str, int] | None = None,
) -> LogFile:
    """As `file_read`; raises `LogReset` also where the log is not the one that was read.

    That is where a file has shrunk or, by ``is_same``, has other bytes up to ``place``. ``sizes``
    are those of files before it, by name, as far as they are known.
    """
    log, known = file_read(series, place, remedy), sizes or {}
    for each in series.files:
        if each.size != known.get(each.name, each.size):
            raise _other(each, f"it had {known[each.name]} bytes and has {each.size}", remedy)
    if log.size < place.offset:
        raise _other(log, f"it was read up to {place.offset} and has {log.size} bytes", remedy)
    if not is_same(log):
        raise _other(log, f"its bytes up to {place.offset} are not those that were read", remedy)
    return log


def _other(log: LogFile, how: str, remedy: str) -> LogReset:
    return LogReset(
        f"{log.path} is not the log that was read before: {how}; the logs were reset, cut by a"
        f" crash, or are another server's: {remedy}"
    )
