"""A connection that is set up as a replica's: the source's identity, ours, and the dump.

Source: facts sheet 4.6, 6.1 and 6.2; statements are in the order of real replicas.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from tailrace.closing import Closing
from tailrace.constants import CHECKSUM_SIZE, HEADER_SIZE, MAGIC, Flavour
from tailrace.errors import (
    AccessDenied,
    DuplicateServerId,
    GtidsAhead,
    MalformedPacket,
    ProtocolError,
    ServerError,
    UsageError,
)
from tailrace.events.description import flavour_of, version_of
from tailrace.gtid import STATES, GtidList, GtidSet
from tailrace.live.connect import check_version, connect
from tailrace.live.driver import ServerAnswer, translated
from tailrace.live.server_errors import UNKNOWN_VARIABLE
from tailrace.live.stream import RPL_GTID, BinlogStream
from tailrace.log_name import LogName
from tailrace.position import Position
from tailrace.wire.commands import DumpFlag, RegisterReplica

if TYPE_CHECKING:
    import socket
    from collections.abc import Container
    from contextlib import AbstractContextManager

    from tailrace.gtid import GtidState
    from tailrace.live.connect import ServerConnection
    from tailrace.live.url import Host, Source

OLDEST: Final = Position("", len(MAGIC))
"""The beginning of the first log that the source still has, whatever its name."""

_CAPABILITY: Final = 4
"""MariaDB: GTIDs are supported; with a lower value the server rewrites its events."""
_MONITOR: Final = {Flavour.MYSQL: "REPLICATION CLIENT", Flavour.MARIADB: "BINLOG MONITOR"}
_OWNED: Final = re.compile(r"#\d+")
_ROTATE_NAME: Final = HEADER_SIZE + 8


_UPPER: Final = 1 << 31
"""The lowest server id that we choose: people and tools use small ones."""
_LAST: Final = (1 << 32) - 1


@dataclass(slots=True)
class Identity:
    """Server id and UUID of this reader. ``server_id`` None: the first session sets it.

    It takes the id that the source's options give, else a free one. An id that is set is ours
    already: a session does not check whether another replica has it.
    """

    server_id: int | None = None
    uuid: str = field(default_factory=lambda: str(uuid4()))


class Session(Closing):
    """One authenticated connection to a source.

    `open` creates it; `prepare` and `request` lead to its one dump, everything else comes before.
    Every method raises AccessDenied, naming the privilege, ConnectionLost and other ServerErrors.

    ``checksum`` is the algorithm that is announced to the source, "CRC32" or "NONE"; the first
    artificial event has it. ``server_uuid`` is None if the source has none; MariaDB's
    ``server_uid`` is derived from its port and network card, and does not identify its logs.
    ``clock_ahead`` is by how many seconds the source's clock is ahead of ours.
    """

    def __init__(
        self, source: Source, host: Host, identity: Identity, connection: ServerConnection
    ) -> None:
        self.source = source
        self.host = host
        self.identity = identity
        self.connection = connection
        self.name = source.name_at(host)
        self.server_version = ""
        self.flavour = Flavour.MYSQL
        self.server_id = 0
        self.server_uuid: str | None = None
        self.has_gtids = False
        self.checksum = "NONE"
        self.clock_ahead = 0.0

    @classmethod
    def open(
        cls,
        source: Source,
        host: Host | None = None,
        identity: Identity | None = None,
        *,
        wake: socket.socket | None = None,
    ) -> Self:
        """Connect to a host, by default the source's first, and identify the server.

        Raises what `connect` raises. When ``wake`` becomes readable, this call and later queries
        end with ConnectionLost.
        """
        host = host or source.hosts[0]
        session = cls(source, host, identity or Identity(), connect(source, host, wake=wake))
        try:
            session._identify()
        except BaseException:
            session.close()
            raise
        return session

    def close(self) -> None:
        """Close the connection, also after a dump; closing again does nothing."""
        if self.connection.open:
            self.connection.close()

    # --- asking ----------------------------------------------------------------------------------

    def query(self, sql: str, *, needs: str = "") -> list[tuple[Any, ...]]:
        """A statement's rows. ``needs`` is the privilege that the error of a denial names."""
        with self._translated(needs), self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def ask(self, sql: str, width: int = 1, *, needs: str = "") -> ServerAnswer:
        """As `query`; each row has at least ``width`` columns. Raises MalformedPacket."""
        return ServerAnswer(self.query(sql, needs=needs), width, server=self.name, asked=sql)

    def _translated(self, needs: str) -> AbstractContextManager[None]:
        return translated(self.name, needs=f"GRANT {needs} ON *.* TO the user" if needs else "")

    def _variable(self, name: str) -> str | None:
        """A global variable; None if the server has none of that name."""
        try:
            return self.ask(f"SELECT @@GLOBAL.{name}").text_or_none()
        except ServerError as error:
            if error.code != UNKNOWN_VARIABLE:
                raise
            return None

    def _identify(self) -> None:
        found = self.ask("SELECT VERSION(), UNIX_TIMESTAMP(NOW(6)), @@GLOBAL.server_id", 3)
        self.server_version = found.text(0)
        check_version(self.server_version, self.name)
        self.clock_ahead = found.number(1) - time.time()
        self.server_id = found.whole(2)
        if flavour_of(self.server_version) is Flavour.MARIADB:
            self.flavour = Flavour.MARIADB
            self.has_gtids = True
            return
        self.server_uuid = self._variable("server_uuid")
        self.has_gtids = self._variable("gtid_mode") == "ON"
        if self.server_uuid is not None and self.server_uuid == self.identity.uuid:
            raise DuplicateServerId(f"{self.name}: the source's own UUID is that of this replica")

    @property
    def version(self) -> tuple[int, int, int]:
        """The version's three numbers."""
        numbers = version_of(self.server_version)
        if numbers is None:
            raise ProtocolError(f"{self.name}: {self.server_version[:40]!r} is no version")
        return numbers

    def logs(self) -> list[tuple[LogName, int]]:
        """The source's logs, oldest first, with their sizes in bytes. Raises BadLogName."""
        found = self.ask("SHOW BINARY LOGS", 2, needs=_MONITOR[self.flavour])
        return [
            (LogName.given_by(self.name, found.text(0, row)), found.whole(1, row))
            for row in range(len(found))
        ]

    def end(self) -> Position:
        """Where the source's log ends now."""
        new = self.flavour is Flavour.MYSQL and self.version >= (8, 2, 0)
        sql = "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS"
        found = self.ask(sql, 2, needs=_MONITOR[self.flavour])
        if not len(found):
            raise ServerError(
                f"{self.name}: the server writes no binary log: start it with log_bin"
            )
        return Position(LogName.given_by(self.name, found.text(0)), found.whole(1))

    def executed(self) -> GtidState:
        """All GTIDs that the source's log holds or held."""
        if self.flavour is Flavour.MARIADB:
            return self._binlog_state()
        return GtidSet.parse(self.ask("SELECT @@GLOBAL.gtid_executed").text())

    def _binlog_state(self) -> GtidList:
        return GtidList.parse(self.ask("SELECT @@GLOBAL.gtid_binlog_state").text())

    def purged(self) -> GtidState:
        """The GTIDs that the source's logs no longer hold."""
        if self.flavour is Flavour.MARIADB:
            logs = self.logs()
            if not logs:
                raise MalformedPacket(f"{self.name}: SHOW BINARY LOGS was answered with no log")
            quoted = logs[0][0].replace("'", "''")  # no name holds a backslash
            state = self.ask(f"SELECT BINLOG_GTID_POS('{quoted}', 4)").text_or_none()
            return GtidList.parse(state or "")
        return GtidSet.parse(self.ask("SELECT @@GLOBAL.gtid_purged").text())

    def lacking(self, gtids: GtidState) -> GtidState:
        """Those of the GTIDs that the source neither had nor is about to commit.

        For MariaDB only GTIDs of domains that it never had: it checks the other domains itself.
        """
        if isinstance(gtids, GtidList):
            domains = {gtid.domain_id for gtid in self._binlog_state()}
            return GtidList(gtid for gtid in gtids if gtid.domain_id not in domains)
        found = self.ask("SELECT @@GLOBAL.gtid_owned, @@GLOBAL.gtid_executed", 2)
        held = GtidSet.parse(found.text(1)) | GtidSet.parse(_OWNED.sub("", found.text(0)))
        return gtids - held

    # --- the dump --------------------------------------------------------------------------------

    def started(self, start: Position | GtidState) -> Position | GtidState:
        """A start in the source's flavour: an empty set is of either flavour.

        Raises UsageError if GTIDs are not of its flavour, or the source has none.
        """
        if isinstance(start, Position):
            return start
        if not self.has_gtids:
            raise UsageError(
                f"{self.name}: the source has no GTIDs to begin after (its gtid_mode is not ON):"
                " begin by position=FILE:OFFSET or start=oldest"
            )
        if start.flavour is self.flavour:
            return start
        if start:
            other = "MariaDB" if self.flavour is Flavour.MARIADB else "MySQL"
            raise UsageError(
                f"{self.name}: it is a {other} server ({self.server_version}), and the GTIDs to"
                f" begin after are not {other}'s: {str(start)[:120]}"
            )
        return STATES[self.flavour]()

    def prepare(self, start: Position | GtidState) -> None:
        """Prepare the dump: claim a server id, set session variables, register as a replica.

        Raises DuplicateServerId if another replica has the given server id, GtidsAhead if the
        source lacks GTIDs of the start, UsageError if they are not of its flavour.
        """
        wanted = self.started(start)
        self._claim_server_id()
        if not isinstance(wanted, Position):
            self._check_held(wanted)
        self._announce_heartbeat()
        self._announce_checksum()
        if self.flavour is Flavour.MARIADB:
            self.query(f"SET @mariadb_slave_capability = {_CAPABILITY}")
            if isinstance(wanted, GtidList):
                self.query(f"SET @slave_connect_state = '{wanted.latest.text()}'")
                self.query("SET @slave_gtid_strict_mode = 1")
                self.query("SET @slave_gtid_ignore_duplicates = 0")
        else:
            ours = self.identity.uuid
            self.query(f"SET @slave_uuid = '{ours}', @replica_uuid = '{ours}'")
        self._register()

    def request(self, start: Position | GtidState, *, block: bool, flags: int = 0) -> BinlogStream:
        """Request the dump, after `prepare` with the same start; the stream takes the connection.

        ``flags`` are added to those that follow from the flavour and ``block``. Raises UsageError
        for a position that COM_BINLOG_DUMP cannot express (4 GiB and more).
        """
        wanted = self.started(start)
        server_id = self.identity.server_id
        if server_id is None:
            raise UsageError("call prepare before request")
        flags |= dump_flags(self.flavour, self.version, block=block)
        stream = partial(
            BinlogStream, self.connection, server_id=server_id, announce_checksum=False
        )
        if isinstance(wanted, Position):
            return stream(wanted.file, wanted.offset, flags=flags)
        if isinstance(wanted, GtidList):
            return stream(flags=flags)
        if flags & DumpFlag.SKIP_TAGGED_GTIDS:
            wanted = untagged(wanted)
        return stream(flags=flags | RPL_GTID, gtid_set=wanted)

    def oldest_log(self) -> LogName:
        """The name of the oldest log, as a dump from there gives it. It uses the session up.

        Needs REPLICATION SLAVE alone, where `logs` needs more. Raises BadLogName.
        """
        self.prepare(OLDEST)
        record = self.request(OLDEST, block=False).fetch()
        if record is None or len(record) <= _ROTATE_NAME:
            raise ProtocolError(f"{self.name}: the dump does not begin with a log's name")
        end = len(record) - (CHECKSUM_SIZE if self.checksum == "CRC32" else 0)
        return LogName.given_by(self.name, bytes(record[_ROTATE_NAME:end]))

    def _replicas(self) -> dict[int, tuple[str, str | None]]:
        """The registered replicas that we may see: server id, reported host, and UUID if any."""
        new = self.flavour is Flavour.MYSQL and self.version >= (8, 0, 22)
        try:
            found = self.ask("SHOW REPLICAS" if new else "SHOW SLAVE HOSTS", 2)
        except AccessDenied:
            return {}
        uuids = self.flavour is Flavour.MYSQL
        return {
            found.whole(0, row): (
                found.text_or_none(1, row) or "",
                found.text_or_none(-1, row) if uuids else None,
            )
            for row in range(len(found))
        }

    def _claim_server_id(self) -> None:
        identity = self.identity
        wanted = self.source.server_id
        if identity.server_id is None or wanted not in {None, identity.server_id}:
            taken = self._replicas()
            host, uuid = taken.get(wanted, ("", identity.uuid)) if wanted else ("", identity.uuid)
            if uuid != identity.uuid and not is_left_over(host):
                raise DuplicateServerId(
                    f"{self.name}: another replica reads with the server id {wanted}: give another,"
                    " or leave it out for one that is free (the source keeps a connection that"
                    " another machine has just broken off for one more heartbeat period)"
                )
            identity.server_id = wanted or free_server_id({*taken, self.server_id})
        if identity.server_id == self.server_id:
            raise DuplicateServerId(
                f"{self.name}: the server id {self.server_id} is the source's own: give another, or"
                " leave it out for one that is free"
            )

    def _check_held(self, gtids: GtidState) -> None:
        lacking = self.lacking(gtids)
        if len(lacking):
            raise GtidsAhead(
                f"{self.name}: the source lacks GTIDs of the start:"
                f" {lacking.text()[:200]}: it lags behind, lost them, or is another's replica; make"
                " sure that it is the right server, or begin after GTIDs that it has"
            )

    def _announce_heartbeat(self) -> None:
        period = round(self.source.heartbeat * 1e9)
        sql = f"SET @master_heartbeat_period = {period}"
        if self.flavour is Flavour.MYSQL:
            sql += f", @source_heartbeat_period = {period}"
        self.query(sql)

    def _announce_checksum(self) -> None:
        sql = "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum"
        if self.flavour is Flavour.MYSQL:
            sql += ", @source_binlog_checksum = @@GLOBAL.binlog_checksum"
        try:
            self.query(sql)
        except ServerError as error:
            if error.code != UNKNOWN_VARIABLE:
                raise
            return  # the server is older than checksums
        self.checksum = self.ask("SELECT @master_binlog_checksum").text()

    def _register(self) -> None:
        assert self.identity.server_id is not None  # noqa: S101 - claimed before
        payload = RegisterReplica(self.identity.server_id, reported_host()).encode()
        connection: Any = self.connection
        with self._translated("REPLICATION SLAVE"):
            connection._execute_command(payload[0], payload[1:])  # noqa: SLF001 - no other way
            connection._read_ok_packet()  # noqa: SLF001


def dump_flags(flavour: Flavour, version: tuple[int, int, int], *, block: bool) -> DumpFlag:
    """The flags of a dump that a server of this version supports."""
    flags = DumpFlag(0) if block else DumpFlag.NON_BLOCK
    if flavour is Flavour.MARIADB:
        return flags | DumpFlag.ANNOTATE_ROWS
    if version >= (8, 0, 26):
        flags |= DumpFlag.HEARTBEAT_V2
    if version < (8, 3, 0):
        flags |= DumpFlag.SKIP_TAGGED_GTIDS
    return flags


def untagged(gtids: GtidSet) -> GtidSet:
    """The set without tagged GTIDs, for a server that does not support them and so has none."""
    return GtidSet({tsid: runs for tsid, runs in gtids.sources.items() if not tsid[1]})


# --- our identity ---------------------------------------------------------------------------------


def reported_host() -> str:
    """The host name that this process registers: ``tailrace-PLACE-PID``.

    A source lists it as long as it takes the connection to be alive. From it, a restarted process
    knows that the connection was its predecessor's (`is_left_over`).
    """
    return f"tailrace-{_place()}-{os.getpid()}"


def is_left_over(host: str) -> bool:
    """Whether this host name is of a process of this machine and user that has ended."""
    name, _, rest = host.partition("-")
    place, _, number = rest.partition("-")
    if name != "tailrace" or place != _place() or not (number.isascii() and number.isdigit()):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _place() -> str:
    """A hash of machine, user and the namespace of process ids, as 16 hex digits."""
    parts = [gethostname(), str(getattr(os, "getuid", lambda: "")())]
    with suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text("ascii", "replace"))
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def free_server_id(taken: Container[int]) -> int:
    """A random server id of the upper half that is not among those taken."""
    while (chosen := _UPPER + secrets.randbelow(_LAST - _UPPER)) in taken:
        pass
    return chosen
