"""Where a copy begins, or continues whose files the source no longer has: with a whole file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tailrace.constants import MAGIC, TYPE_AT, EventType
from tailrace.errors import LogReset, ServerError, StorageError, UsageError
from tailrace.events import DecodeContext, GtidListEvent, PreviousGtidsEvent
from tailrace.gtid import GtidState
from tailrace.live.feed import find_time
from tailrace.live.session import Session
from tailrace.log_name import LogName
from tailrace.position import Position
from tailrace.times import Time
from tailrace.writing.recover import scan

if TYPE_CHECKING:
    import socket

    from tailrace.events import FormatDescription
    from tailrace.live.chunks import Chunk
    from tailrace.live.session import Identity
    from tailrace.live.url import Source
    from tailrace.replication.copy.folder import CopyFolder
    from tailrace.replication.copy.scan import CopiedFile

_LISTS: Final = frozenset({EventType.PREVIOUS_GTIDS, EventType.GTID_LIST})


def begin_of(
    source: Source, identity: Identity, *, wake: socket.socket | None = None
) -> Position | Literal["oldest"]:
    """Where the copy of a source begins, by the start in its URL: the beginning of a file.

    For a dump from inside a file, the server creates a description event that differs from the
    file's own: such a copy could never equal the source's log. So a position means the beginning of
    its file, a time the beginning of the file with the first transaction since then, ``now`` the
    beginning of the file that the source is writing. Raises UsageError for GTIDs, since files and
    not transactions are copied; what `Session.open` raises; ConnectionLost if it was woken.
    """
    start = source.start
    if isinstance(start, GtidState):
        raise UsageError(
            f"{source.name}: a byte copy begins with a file, not after GTIDs: use start=oldest,"
            " start=now or position=FILE:4"
        )
    if start is None or start == "oldest":
        return "oldest"
    if isinstance(start, Position):
        return Position(start.file, len(MAGIC))
    session = Session.open(source, identity=identity, wake=wake)
    try:
        at = find_time(session, start.microseconds) if isinstance(start, Time) else session.end()
        return Position(at.file, len(MAGIC))
    finally:
        session.close()


@dataclass(slots=True)
class Follows:
    """The file after a copy whose last file is complete and was purged by its source.

    The source cannot tell whether it is the same log. It is the same if the next file begins with
    the list of all GTIDs that the copy holds.
    """

    start: Position
    gtids: GtidState
    form: FormatDescription | None
    checked: bool = False

    @classmethod
    def of(cls, folder: CopyFolder, last: CopiedFile, refused: ServerError) -> Follows:
        """The file after the copy's last file; raises ``refused`` if the copy has no GTIDs."""
        name = LogName.parse(last.name)
        if name is None:
            raise refused
        try:
            found = scan(folder, last.name, only_ours=False)
        except StorageError:
            raise refused from None
        if not str(found.gtids):
            raise refused
        return cls(Position(name.next, len(MAGIC)), found.gtids, found.form)

    def check(self, chunk: Chunk) -> None:
        """Check the first chunk of that file, before it is written. Raises LogReset."""
        self.checked = True
        context = DecodeContext(self.form, unknown="opaque")
        if self.form is not None:
            context.checksum_algorithm = self.form.checksum_algorithm
        for start, end in chunk.events():
            if chunk.data[start + TYPE_AT] not in _LISTS:
                continue
            raw = bytes(chunk.data[start:end])
            event = context.decode(raw, file=chunk.file, offset=chunk.offset + start)
            if isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
                if event.gtids == self.gtids:
                    return
                break
        raise LogReset(
            f"{chunk.file} does not continue the copy: the GTIDs before it are not those in the"
            " copy"
        )
