"""Which GTIDs a log holds, and which the next transaction gets: a class a flavour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import GtidError, UsageError
from tailrace.gtid import AnyGtid, Gtid, GtidList, GtidSet, MariadbGtid, parse_uuid
from tailrace.gtid.ids import GNO_END, parse_tag

if TYPE_CHECKING:
    from tailrace.gtid import Tsid

AskedGtid = AnyGtid | str | None
"""A GTID as callers give it; None leaves it to the log."""


class MysqlGtids:
    """MySQL's: ``written`` are all GTIDs of this log, its earlier files included, and those of
    transactions that wait to be synced; ``logged`` are without these.

    With a ``server_uuid`` transactions that bring no GTID are numbered on from the highest number
    of that source; without one they are anonymous, and rejected in a log that holds GTIDs.
    """

    def __init__(self, written: GtidSet, server_uuid: str | None) -> None:
        self.server_uuid = None if server_uuid is None else parse_uuid(server_uuid)
        self.logged = written
        self.written: GtidSet
        self._next: dict[Tsid, int]
        self.roll_back()

    def choose(
        self,
        asked: AskedGtid,
        *,
        tag: str | None = None,
        domain_id: int | None = None,
        server_id: int | None = None,  # noqa: ARG002 - MySQL's GTIDs do not say it
    ) -> Gtid | None:
        """The next transaction's GTID, None for an anonymous one.

        Raises GtidError for one that the log has, or that is not MySQL's; UsageError for a domain.
        """
        if domain_id is not None:
            raise UsageError("domain_id: MySQL's GTIDs have no domain")
        if asked is not None:
            if tag is not None:
                raise UsageError("tag: a GTID that is given has its own tag, or none")
            gtid = Gtid.parse(asked) if isinstance(asked, str) else asked
            if not isinstance(gtid, Gtid):
                raise GtidError(f"{gtid} is no GTID of MySQL (those look like uuid:5)")
            self.check(gtid)
            return gtid
        if self.server_uuid is None:
            if tag is not None:
                raise UsageError("tag: automatic GTIDs need the log's server_uuid")
            if self.written:
                raise GtidError(
                    "the transaction would be anonymous in a log that holds GTIDs: give its GTID,"
                    " or open the log with server_uuid"
                )
            return None
        source = (self.server_uuid, parse_tag(tag) if tag else "")
        number = self._next.get(source, 1)
        if number >= GNO_END:
            raise GtidError(f"{':'.join(filter(None, source))} has no more numbers")
        return Gtid(*source, number)

    def check(self, gtid: AnyGtid) -> None:
        """Raises GtidError for a GTID that the log has."""
        if isinstance(gtid, Gtid) and gtid in self.written:
            raise GtidError(f"{gtid} is in the log already: it holds {self.written.text()}")

    def add(self, gtid: AnyGtid) -> None:
        """The log holds this one, too."""
        self.written.add(gtid)
        if isinstance(gtid, Gtid):
            source = (gtid.uuid, gtid.tag)
            self._next[source] = max(self._next.get(source, 1), gtid.gno + 1)

    def roll_back(self) -> None:
        """No transaction waits to be synced."""
        self.written = self.logged.copy()
        self._next = {source: runs[-1][1] for source, runs in self.logged.sources.items()}

    def forget(self) -> None:
        """The log holds none."""
        self.logged = GtidSet()
        self.roll_back()


class MariadbGtids:
    """MariaDB's: ``written`` is the state (``@@gtid_binlog_state``) at the end of the log, after
    the transactions that wait to be synced; ``logged`` is that before them.

    Transactions that bring no GTID are numbered on in their domain. Without ``strict``
    (``gtid_strict_mode``) a given sequence number may be below its domain's last, as a log may hold
    it that several servers wrote to at once; the last GTID itself is rejected in any case.
    """

    def __init__(
        self, written: GtidList, server_id: int, domain_id: int, *, strict: bool = True
    ) -> None:
        self.logged = written
        self.written = written.copy()
        self.server_id = server_id
        self.domain_id = domain_id
        self.strict = strict

    def choose(
        self,
        asked: AskedGtid,
        *,
        tag: str | None = None,
        domain_id: int | None = None,
        server_id: int | None = None,
    ) -> MariadbGtid:
        """The next transaction's GTID, of ``server_id`` or the log's own.

        Raises GtidError for one that is not after the domain's; UsageError for a tag.
        """
        if tag is not None:
            raise UsageError("tag: MariaDB's GTIDs have no tag")
        if asked is None:
            domain = self.domain_id if domain_id is None else domain_id
            last = max(
                (gtid.seq_no for gtid in self.written if gtid.domain_id == domain), default=0
            )
            server = self.server_id if server_id is None else server_id
            return MariadbGtid(domain, server, last + 1)
        if domain_id is not None:
            raise UsageError("domain_id: a GTID that is given has its own domain")
        gtid = MariadbGtid.parse(asked) if isinstance(asked, str) else asked
        if not isinstance(gtid, MariadbGtid):
            raise GtidError(f"{gtid} is no GTID of MariaDB (those look like 0-1-100)")
        if server_id not in {None, gtid.server_id}:
            raise UsageError(f"server_id: that of {gtid} is another")
        self.check(gtid)
        return gtid

    def check(self, gtid: AnyGtid) -> None:
        """Raises GtidError for a sequence number that is not above its domain's last."""
        last = self._last(gtid.domain_id) if isinstance(gtid, MariadbGtid) else None
        if last is None or not isinstance(gtid, MariadbGtid) or gtid.seq_no > last.seq_no:
            return
        if self.strict or gtid == last:
            raise GtidError(
                f"{gtid} does not come after {last}: sequence numbers grow in their domain"
                f" (the log holds {self.written})"
            )

    def add(self, gtid: AnyGtid) -> None:
        """The log ends with this one now."""
        self.written.add(gtid)

    def roll_back(self) -> None:
        """No transaction waits to be synced."""
        self.written = self.logged.copy()

    def forget(self) -> None:
        """The log holds none."""
        self.logged = GtidList()
        self.roll_back()

    def _last(self, domain_id: int) -> MariadbGtid | None:
        return self.written.position.get(domain_id)
