"""What a client does after its login: commands and their answers, and a dump at the end."""

from __future__ import annotations

import logging
from threading import Timer
from typing import TYPE_CHECKING, Final

from tailrace.constants import ChecksumAlgorithm, Flavour
from tailrace.errors import (
    ConnectionLost,
    GtidError,
    LogError,
    ProtocolError,
    ServerError,
    StorageError,
    TailraceError,
)
from tailrace.gtid import GtidList, GtidSet
from tailrace.replication.source.queries import answer
from tailrace.replication.source.refusals import refused, unavailable
from tailrace.replication.source.request import DumpRequest
from tailrace.wire.commands import BinlogDump, BinlogDumpGtid, RegisterReplica
from tailrace.wire.handshake import OkPacket
from tailrace.wire.packets import AUTOCOMMIT, EndPacket, ErrorPacket
from tailrace.wire.results import ResultSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.replication.source.connection import ReplicaConnection
    from tailrace.replication.source.server import SourceServer
    from tailrace.replication.source.transmit import Transmit

_QUIT: Final = 0x01
_INIT_DB: Final = 0x02
_QUERY: Final = 0x03
_STATISTICS: Final = 0x09
_PING: Final = 0x0E
_DUMP: Final = 0x12
_REGISTER: Final = 0x15
_SET_OPTION: Final = 0x1B
_DUMP_GTID: Final = 0x1E
_RESET: Final = 0x1F
_LONGEST_QUERY: Final = 1 << 20
_IDLE: Final = 8 * 3600.0
"""Seconds for which a client may send no command (the servers' ``wait_timeout``)."""
_SHORTEST_PERIOD: Final = 1e-3
"""Seconds between heartbeats: replicas of both flavours ask for no fewer. Servers obey 1 ns."""
_STOP_SECONDS: Final = 2.0
"""Seconds that a dump has to end by itself before its connection is closed."""
_LOG: Final = logging.getLogger(__name__)


class Session:
    """A client that has logged in. `run` it in a thread of its own; `end` it from any other."""

    def __init__(self, source: SourceServer, connection: ReplicaConnection) -> None:
        self.connection = connection
        self.replica: RegisterReplica | None = None
        """What it registered as; None before."""
        self.transmit: Transmit | None = None
        """Its dump; None while it has none."""
        self._source = source
        self._killed: ServerError | None = None
        self._commands: dict[int, Callable[[bytes], None]] = {
            _INIT_DB: lambda _: self._ok(),
            _QUERY: self._query,
            _STATISTICS: lambda _: self._write(self._source.statistics().encode()),
            _PING: lambda _: self._ok(),
            _REGISTER: self._register,
            _SET_OPTION: lambda _: self._write(EndPacket(0, AUTOCOMMIT).encode()),
            _RESET: self._reset,
        }

    @property
    def uuid(self) -> str:
        """The replica's UUID; empty if it has none."""
        for name in ("replica_uuid", "slave_uuid"):
            if name in self.connection.variables:
                return self.connection.variables.get_user_var_str(name) or ""
        return ""

    @property
    def server_id(self) -> int:
        """The replica's server id; 0 if it has none."""
        if self.transmit is not None:
            return self.transmit.request.server_id
        return 0 if self.replica is None else self.replica.server_id

    def run(self) -> None:
        """Answer commands until the client ends the connection, or its dump has ended."""
        connection = self.connection
        try:
            while True:
                payload = connection.read_command(_IDLE)
                command = payload[0] if payload else 0
                if command == _QUIT:
                    return
                try:
                    if command in (_DUMP, _DUMP_GTID):
                        request = self._request(payload)
                        del payload
                        connection.processed()
                        self._dump(request)
                        return
                    self._command(command, payload)
                except ServerError as error:
                    self._error(error)
                    if command in (_DUMP, _DUMP_GTID):
                        return
                connection.flush()
        except ConnectionLost as error:
            _LOG.info("%s", error)
        except ProtocolError as error:
            _LOG.warning("%s: %s", connection.name, error)
            self._last(refused(1835, "HY000", "Malformed communication packet"))
        except TailraceError as error:
            _LOG.error("%s: %s", connection.name, error)
            self._last(refused(1105, "HY000", str(error)))
        finally:
            connection.release()

    def end(self, error: ServerError) -> None:
        """End it: a dump ends after the event that it sends, and the client is told why."""
        self._killed = error
        transmit = self.transmit
        if transmit is None:
            self.connection.close(str(error.text or error.message))
            return
        transmit.stop()
        timer = Timer(_STOP_SECONDS, self.connection.close, [f"{error.message}"])
        timer.daemon = True
        timer.start()

    # --- commands --------------------------------------------------------------------------------

    def _command(self, command: int, payload: bytes) -> None:
        known = self._commands.get(command)
        if known is None:
            raise refused(1047, "08S01", "Unknown command")
        known(payload)

    def _query(self, payload: bytes) -> None:
        if len(payload) > _LONGEST_QUERY:
            raise refused(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
        sql = payload[1:].decode(errors="replace")
        try:
            found = answer(sql, self._source, self.connection)
        except StorageError as error:
            _LOG.error("%s: %s", self.connection.name, error)
            raise unavailable(error) from error
        except LogError as error:
            _LOG.error("%s: %s", self.connection.name, error)
            raise refused(1105, "HY000", "The logs cannot be read: see the source's log") from error
        if isinstance(found, ResultSet):
            for each in found.encode():
                self._write(each)
        else:
            self._write(found.encode())

    def _register(self, payload: bytes) -> None:
        replica = RegisterReplica.decode(payload)
        if replica.server_id == self._source.server_id:
            raise refused(
                1593, "HY000", f"The replica has the source's server id, {replica.server_id}"
            )
        self.replica = replica
        self._ok()

    def _reset(self, payload: bytes) -> None:
        del payload
        self.connection.reset()
        self.replica = None
        self._ok()

    def _dump(self, request: DumpRequest) -> None:
        transmit = self._source.transmit(request, self)
        self.transmit = transmit
        request = transmit.request
        name = self.connection.name
        where = f"{request.file or 'the oldest log'}:{request.position}"
        asked = where
        if request.gtids is not None:
            asked = f"what is not in {request.gtids!s:.200}" if request.gtids else "the beginning"
        _LOG.info("%s: replica %d reads from %s", name, request.server_id, asked)
        self._source.replace_older(self)
        try:
            transmit.run()
            if self._killed is not None:
                raise self._killed
        except ServerError as error:
            _LOG.warning("%s: the dump has ended: %s", name, error)
            raise
        finally:
            end = transmit.position
            sent = "nothing" if end is None else f"{transmit.sent} bytes, up to {end}"
            _LOG.info("%s: sent %s", name, sent)

    def _request(self, payload: bytes) -> DumpRequest:
        variables = self.connection.variables

        def whole(name: str) -> int:
            return (variables.get_user_var_int(name) or 0) if name in variables else 0

        def text(*names: str) -> str | None:
            for name in names:
                if name in variables:
                    return variables.get_user_var_str(name)
            return None

        flavour = self._source.flavour
        gtids: GtidSet | GtidList | None = None
        until: GtidList | None = None
        if payload[0] == _DUMP_GTID:
            if flavour is not Flavour.MYSQL:
                raise refused(1047, "08S01", "Unknown command")
            by_gtid = BinlogDumpGtid.decode(payload)
            server_id, flags, gtids = by_gtid.server_id, by_gtid.flags, by_gtid.gtids
            file, position = by_gtid.file, by_gtid.position
        else:
            by_file = BinlogDump.decode(payload)
            server_id, flags = by_file.server_id, by_file.flags
            file, position = by_file.file, by_file.position
            if flavour is Flavour.MARIADB:
                gtids = _gtid_list(text("slave_connect_state"))
                until = _gtid_list(text("slave_until_gtid"))
        checksum = text("source_binlog_checksum", "master_binlog_checksum")
        period = whole("source_heartbeat_period") or whole("master_heartbeat_period")
        return DumpRequest(
            server_id,
            file,
            position,
            gtids,
            flags,
            None if checksum is None else _CHECKSUMS.get(checksum.upper()),
            max(period / 1e9, _SHORTEST_PERIOD) if period > 0 else 0.0,
            whole("mariadb_slave_capability"),
            bool(whole("slave_gtid_strict_mode")),
            bool(whole("slave_gtid_ignore_duplicates")),
            until,
        )

    # --- answers ---------------------------------------------------------------------------------

    def _write(self, payload: bytes) -> None:
        self.connection.write(payload)

    def _ok(self) -> None:
        self._write(OkPacket().encode())

    def _error(self, error: ServerError) -> None:
        text = error.text if error.text is not None else error.message
        self._write(ErrorPacket(error.code or 1105, error.sqlstate or "HY000", text).encode())
        self.connection.flush()

    def _last(self, error: ServerError) -> None:
        try:
            self._error(error)
        except ConnectionLost as lost:
            _LOG.info("%s", lost)


_CHECKSUMS: Final = {"NONE": ChecksumAlgorithm.NONE, "CRC32": ChecksumAlgorithm.CRC32}


def _gtid_list(text: str | None) -> GtidList | None:
    if text is None:
        return None
    try:
        return GtidList.parse(text)
    except GtidError as error:
        raise refused(1941, "HY000", f"Could not parse GTID list: {error}") from error
