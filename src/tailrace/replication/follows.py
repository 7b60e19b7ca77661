"""Whether a source's file continues a copy whose files the source no longer has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC, EventType
from tailrace.errors import LogReset, ServerError, StorageError
from tailrace.events import DecodeContext, GtidListEvent, PreviousGtidsEvent
from tailrace.events.walk import event_length
from tailrace.log_name import LogName
from tailrace.position import Position
from tailrace.writing.recover import scan

if TYPE_CHECKING:
    from tailrace.events import FormatDescription
    from tailrace.gtid import GtidState
    from tailrace.live.chunks import Chunk
    from tailrace.replication.copy.folder import CopyFolder
    from tailrace.replication.copy.scan import CopiedFile

_TYPE_AT: Final = 4
_LISTS: Final = frozenset({EventType.PREVIOUS_GTIDS, EventType.GTID_LIST})


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
            found = scan(folder, last.name)
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
        for start in chunk.starts:
            if chunk.data[start + _TYPE_AT] not in _LISTS:
                continue
            raw = bytes(chunk.data[start : start + event_length(chunk.data, start)])
            event = context.decode(raw, file=chunk.file, offset=chunk.offset + start)
            if isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
                if event.gtids == self.gtids:
                    return
                break
        raise LogReset(
            f"{chunk.file} does not continue the copy: the GTIDs before it are not those in the"
            " copy"
        )
