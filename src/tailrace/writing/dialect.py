"""What each flavour's server writes around the transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventFlag, EventType
from tailrace.errors import UsageError
from tailrace.events import (
    BinlogCheckpointEvent,
    Event,
    FormatDescriptionEvent,
    GtidEvent,
    GtidListEvent,
    MariadbGtidEvent,
    PreviousGtidsEvent,
    StatusVariable,
)
from tailrace.events.description import version_of
from tailrace.events.mariadb import MariadbGtidFlag
from tailrace.gtid import Gtid, MariadbGtid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events import FormatDescription
    from tailrace.writing.cache import Group
    from tailrace.writing.gtids import MariadbGtids, MysqlGtids

_UNKNOWN_VERSION: Final = 999_999
_UTF8MB4_0900: Final = 255
_UTF8MB4_GENERAL: Final = 45


class Dialect:
    """A flavour's ways. ``form`` describes the file that is written, ``gtids`` are in the log.

    ``status`` is the session that a statement is said to have run in where the caller names none.
    """

    status: ClassVar[Mapping[StatusVariable, object]]

    def __init__(self, form: FormatDescription, gtids: MysqlGtids | MariadbGtids) -> None:
        self.form = form
        self.gtids = gtids

    def head(self, file: str, server_id: int, /, *, created: int, second: int) -> list[Event]:
        """The events that a file begins with, the format description first."""
        form = self.form
        header: dict[str, Any] = {"timestamp": second, "server_id": server_id}
        event = FormatDescriptionEvent.make(
            **header,
            header_flags=EventFlag.IN_USE,
            flavour=form.flavour,
            server_version=form.server_version,
            created=created,
            checksum_algorithm=form.checksum_algorithm,
            post_headers=form.post_headers,
            by_tailrace=True,
        )
        return [event, *self._after_format(file, {**header, "form": form})]

    def _after_format(self, file: str, header: dict[str, Any]) -> list[Event]:
        raise NotImplementedError

    def gtid_event(self, group: Group, body: int, *, tail: int, now: int) -> Event:
        """The event that the group begins with, before ``body`` bytes of the file.

        ``tail`` is the size of an event's checksum, ``now`` the commit's time in microseconds UTC.
        """
        raise NotImplementedError

    def began(self) -> None:
        """A new file was created. Nothing waits to be synced."""

    def placed(self, group: Group) -> None:
        """The group has its place in the log."""
        if group.gtid is not None:
            self.gtids.add(group.gtid)

    def wrote(self, group: Group) -> None:
        """It is in the log there."""
        if group.gtid is not None:
            self.gtids.logged.add(group.gtid)

    def roll_back(self) -> None:
        """Of the groups that were placed, those are dropped that are not in the log."""
        self.gtids.roll_back()


def version_number(server_version: str) -> int:
    """``9.7.4`` as MySQL numbers it, 90704; 999999 where the text says none."""
    found = version_of(server_version)
    if found is None:
        return _UNKNOWN_VERSION
    major, minor, patch = found
    return major * 10_000 + minor * 100 + patch


class MysqlDialect(Dialect):
    """MySQL's: PREVIOUS_GTIDS at a file's beginning, where the logical clock starts again.

    Each transaction depends on the one before it (``last_committed``): what a parallel applier
    makes of that is right for every log.
    """

    status: ClassVar[Mapping[StatusVariable, object]] = {
        StatusVariable.FLAGS2: 0,
        StatusVariable.SQL_MODE: 0,
        StatusVariable.CATALOG_NZ: "std",
        StatusVariable.CHARSET: (_UTF8MB4_0900,) * 3,
        StatusVariable.DEFAULT_COLLATION_FOR_UTF8MB4: _UTF8MB4_0900,
    }

    def __init__(self, form: FormatDescription, gtids: MysqlGtids, sequence: int = 0) -> None:
        super().__init__(form, gtids)
        self._sequence = self._written_sequence = sequence
        self._version = version_number(form.server_version)
        self._usual = 0

    def _after_format(self, _file: str, header: dict[str, Any]) -> list[Event]:
        flags = EventFlag.IGNORABLE
        return [PreviousGtidsEvent.make(**header, header_flags=flags, gtids=self.gtids.written)]

    def gtid_event(self, group: Group, body: int, *, tail: int, now: int) -> Event:
        """GTID, GTID_TAGGED or ANONYMOUS_GTID, with its length in the length that it states."""
        source = group.source
        group.sequence = self._sequence + 1
        fields: dict[str, Any] = {
            "last_committed": self._sequence,
            "sequence_number": group.sequence,
        }
        if isinstance(source, GtidEvent):
            stamp = source.immediate_commit_timestamp or now
            known = source.immediate_server_version or _UNKNOWN_VERSION
            fields |= {
                "flags": source.flags,
                "immediate_commit_timestamp": stamp,
                "original_commit_timestamp": source.original_commit_timestamp or stamp,
                "immediate_server_version": known,
                "original_server_version": source.original_server_version or known,
                "commit_group_ticket": source.commit_group_ticket,
            }
        else:
            fields |= {
                "flags": int(group.statements),
                "immediate_commit_timestamp": now,
                "original_commit_timestamp": group.original_timestamp or now,
                "immediate_server_version": self._version,
                "original_server_version": self._version,
            }
        gtid = group.gtid
        code = EventType.ANONYMOUS_GTID
        if isinstance(gtid, Gtid):
            code = EventType.GTID_TAGGED if gtid.tag else EventType.GTID
        length = body + self._usual + tail
        while True:
            event = GtidEvent.make(
                type=code,
                timestamp=group.timestamp,
                server_id=group.server_id,
                form=self.form,
                gtid=gtid,
                transaction_length=length,
                **fields,
            )
            whole = body + event.header.length + tail
            if whole == length:
                self._usual = event.header.length
                return event
            length = whole

    def began(self) -> None:
        """Restart the logical clock."""
        self._sequence = self._written_sequence = 0

    def placed(self, group: Group) -> None:
        """Count the transaction."""
        self._sequence = group.sequence
        super().placed(group)

    def wrote(self, group: Group) -> None:
        """Count it as in the log; a second time changes nothing."""
        super().wrote(group)
        self._written_sequence = group.sequence

    def roll_back(self) -> None:
        """Its clock goes back, too."""
        self._sequence = self._written_sequence
        super().roll_back()


class MariadbDialect(Dialect):
    """MariaDB's: GTID_LIST and BINLOG_CHECKPOINT at a file's begin."""

    status: ClassVar[Mapping[StatusVariable, object]] = {
        StatusVariable.FLAGS2: 0,
        StatusVariable.SQL_MODE: 0,
        StatusVariable.CATALOG_NZ: "std",
        StatusVariable.CHARSET: (_UTF8MB4_GENERAL,) * 3,
    }

    def _after_format(self, file: str, header: dict[str, Any]) -> list[Event]:
        """Of the checkpoint: no recovery is pending before this file."""
        return [
            GtidListEvent.make(**header, gtids=self.gtids.written),
            BinlogCheckpointEvent.make(**header, log_file=file),
        ]

    def gtid_event(self, group: Group, body: int, *, tail: int, now: int) -> Event:  # noqa: ARG002 - MariaDB's says neither length nor time
        """GTID; it says whether more than one event is to come."""
        gtid = group.gtid
        source = group.source
        if isinstance(source, MariadbGtidEvent):
            return source
        if not isinstance(gtid, MariadbGtid):
            raise UsageError("a transaction of MariaDB has a GTID")
        flags = MariadbGtidFlag.ALLOW_PARALLEL
        if group.alone:
            flags |= MariadbGtidFlag.STANDALONE
            if group.ddl:
                flags |= MariadbGtidFlag.DDL
        else:
            flags |= MariadbGtidFlag.TRANSACTIONAL
        return MariadbGtidEvent.make(
            timestamp=group.timestamp,
            server_id=gtid.server_id,
            header_flags=EventFlag.SUPPRESS_USE,
            form=self.form,
            seq_no=gtid.seq_no,
            domain_id=gtid.domain_id,
            flags=flags,
        )
