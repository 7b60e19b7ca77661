"""What a transport is: a log's bytes, event by event, wherever they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.position import Position
    from tailrace.selection import Start

Record = tuple[str, int, bytes]
"""A whole event as it is stored: its file's name, its offset (64-bit, own count), its bytes."""


class Stream(Protocol):
    """One reading of a log, from a start to the log's end.

    The format description that is in force at the start comes first. ``torn_tail`` is where a log
    that was open ended inside an event, None where it did not; it holds after the end. A stream of
    which `Transport.locate` cannot tell the begin, or that is resumed by GTIDs, has an attribute
    more, ``taken``: a `tailrace.transports.read_gtids.ReadGtids`.
    """

    torn_tail: Position | None

    def __iter__(self) -> Iterator[Record]:
        """The events, in order; blocks while a log that is followed has no more.

        Ends where the log ends, or soon after `close`. Raises LogError, StorageError, ...
        """

    def close(self) -> None:
        """End the reading, also one that another thread waits in; returns at once."""


class Transport(Protocol):
    """A place that a log is read from. ``name`` is what errors call it: it holds no secret.

    One whose URL may state where to begin has an attribute more, ``start``: a `Start`, or None.
    """

    name: str

    def peek(self) -> Record | None:
        """The log's first event, where it can be had without keeping a connection; else None."""

    def locate(self, start: Start | None) -> Position | None:
        """The position that a start means (None: the log's beginning).

        None where only the source can tell. Raises UsageError for a file that is not there and
        for a start that this kind of source cannot find, GtidError for GTIDs that the log no longer
        holds.
        """

    def read(self, start: Start | None, *, follow: bool) -> Stream:
        """Begin to read. With ``follow`` the stream waits at the log's end for more."""


def check_among(place: Position, names: Sequence[str], source: str) -> None:
    """Raise UsageError where none of a source's logs (``names``, oldest first) is the place's."""
    if place.file not in names:
        raise UsageError(
            f"{place.file} is not among the logs of {source}: {names[0]} to {names[-1]}"
        )
