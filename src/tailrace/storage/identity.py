"""Whether a log is still the one that was read."""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tailrace.errors import LogPurged, LogReset
from tailrace.log_name import base_and_number
from tailrace.storage.head import lasting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.position import Position
    from tailrace.storage.file import LogFile, LogSeries
    from tailrace.storage.streams.base import RandomInput

_DIGESTED: Final = 4096


def edges(
    stream: RandomInput, offset: int, first: int = _DIGESTED, last: int = _DIGESTED
) -> tuple[bytes, bytes]:
    """A log's ``first`` bytes, and the ``last`` ones before an offset: what tells it from others.

    Raises StorageError where the log cannot be read up to there.
    """
    begin = max(offset - last, 0)
    return lasting(stream, 0, min(first, offset)), lasting(stream, begin, offset - begin)


def digests(log: LogFile, offset: int) -> tuple[str, str]:
    """The digests of a log's `edges`, as a lake and a checkpoint hold them."""
    with closing(log.open()) as file:
        head, tail = edges(file, offset)
    return hashlib.sha256(head).hexdigest(), hashlib.sha256(tail).hexdigest()


def was_purged(file: str, oldest: str) -> bool:
    """Whether a file that is gone preceded the oldest one of its log that is present."""
    (base, number), (other, first) = base_and_number(file), base_and_number(oldest)
    return base == other and number is not None and first is not None and number < first


def file_read(series: LogSeries, place: Position, remedy: str) -> LogFile:
    """The file in which reading ended, at ``place``; ``remedy`` says what to do without it.

    Raises `LogPurged` if the file `was_purged`, else `LogReset`.
    """
    for log in series.files:
        if log.name == place.file:
            return log
    first, last = series.files[0].name, series.files[-1].name
    text = f"{series.name}: {place.file} is gone, which was read up to {place.offset}"
    if was_purged(place.file, first):
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
    how = None
    for each in series.files:
        if each.size != known.get(each.name, each.size):
            how = f"{each.name} had {known[each.name]} bytes and has {each.size}"
    if log.size < place.offset:
        how = f"it was read up to {place.offset} and has {log.size} bytes"
    elif how is None and not is_same(log):
        how = f"its bytes up to {place.offset} are not those that were read"
    if how is not None:
        raise other_log(log.path, how, remedy)
    return log


def other_log(path: str, how: str, remedy: str) -> LogReset:
    """The error for a file that has the name of one that was read, and is another."""
    return LogReset(
        f"{path} is not the log that was read before: {how}; the logs were reset, cut by a crash,"
        f" or are another server's: {remedy}"
    )
