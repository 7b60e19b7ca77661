"""The interface of transports: they give a log's bytes, event by event, from any source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.position import Position
    from tailrace.selection import Start

Record = tuple[str, int, bytes]
"""A whole event as stored: its file's name, its offset (64-bit, own count), its bytes."""


class Stream(Protocol):
    """One pass over a log, from a start to the log's end.

    The format description in force at the start comes first. If the start is a position inside a
    transaction, the transaction's events before it may come, too: they have its table maps.
    ``torn_tail`` is where an open log ended inside an event, or None; it is valid after the end.

    Some streams have an additional attribute ``taken``, a `tailrace.transports.gtids.ReadGtids`:
    those whose beginning `Transport.locate` cannot determine, and those that are resumed by GTIDs.
    Those that have to connect to their source have a method ``connect``: it does so at once, raises
    the source's error, also for a start that the source does not have, and returns the first event,
    which iterating gives again.
    """

    torn_tail: Position | None

    def __iter__(self) -> Iterator[Record]:
        """The events, in order; waits while a log that is followed has no more.

        Ends where the log ends, or soon after `close`. Raises LogError, StorageError, ...
        """

    def close(self) -> None:
        """End the reading, even if another thread waits in it; returns at once."""


class Transport(Protocol):
    """A source that a log is read from. ``name`` is its name in errors: it holds no secret.

    If its URL may state where to begin, it has an additional attribute ``start``: a `Start`, or
    None. If only the source knows whether a start is one, it has a method ``check``, which takes a
    start and raises what connecting there raises.
    """

    name: str

    def peek(self) -> Record | None:
        """The log's first event, if it is available without keeping a connection; else None."""

    def locate(self, start: Start | None) -> Position | None:
        """The position that a start means (None: the log's beginning).

        None where only the source can determine it. Raises UsageError for a file that does not
        exist and for a start that this kind of source cannot find, GtidError for GTIDs that the log
        no longer holds, StorageError for a position in a file where no event begins.
        """

    def read(self, start: Start | None, *, follow: bool) -> Stream:
        """Start to read. With ``follow`` the stream waits for more at the log's end."""


def check_among(place: Position, names: Sequence[str], source: str) -> None:
    """Raise UsageError if the position's file is not one of a source's logs (``names``, oldest
    first).
    """
    if place.file not in names:
        raise UsageError(
            f"{place.file} is not among the logs of {source}: {names[0]} to {names[-1]}"
        )
