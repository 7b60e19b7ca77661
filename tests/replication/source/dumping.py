"""What a source sends, packet by packet: a real server's, and that of our dump."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pymysql

from tailrace.constants import ChecksumAlgorithm, event_name
from tailrace.errors import ServerError
from tailrace.gtid import GtidList, GtidSet
from tailrace.replication.source.request import DumpRequest
from tailrace.replication.source.series import ServedLogs
from tailrace.replication.source.transmit import Transmit
from tailrace.wire.commands import BinlogDump, BinlogDumpGtid
from tailrace.wire.packets import frame, payloads

if TYPE_CHECKING:
    from tools.servers import Server

NON_BLOCK = 1


class Kept:
    """A replica's connection that keeps what is sent on it."""

    def __init__(self, sequence=1):
        self.first = self.sequence = sequence
        self.raw = bytearray()
        self._buffer = bytearray()
        self.gone = False

    def send(self, framed):
        assert not self._buffer, "sent before what was written earlier"
        self.raw += framed

    def write(self, payload):
        framed = frame(payload, self.sequence)
        self._buffer += framed
        self.sequence = (self.sequence + len(payload) // 0xFFFFFF + 1) & 0xFF

    def flush(self):
        self.raw += self._buffer
        self._buffer.clear()

    def is_gone(self):
        return self.gone

    def packets(self):
        """The payloads; their numbers are checked."""
        self.flush()
        found = []
        sequence = self.first
        for number, payload in payloads(self.raw):
            assert number == sequence, f"packet {len(found)} has number {number}, not {sequence}"
            sequence = (sequence + len(payload) // 0xFFFFFF + 1) & 0xFF
            found.append(payload)
        return found


def ours(logs, request, *, sequence=1, **settings):
    """The payloads of our dump, and the text of the error that ends it, if one does."""
    kept = Kept(sequence)
    served = logs if isinstance(logs, ServedLogs) else ServedLogs(logs)
    refused = None
    try:
        Transmit(served, request, kept, **settings).run()
    except ServerError as error:
        refused = error
    finally:
        if served is not logs:
            served.close()
    if refused is None:
        return kept.packets()
    assert (refused.code, refused.sqlstate) == (1236, "HY000")
    return [*kept.packets(), refused.text]


def theirs(server: Server, request: DumpRequest):
    """The same of a real server."""
    connection = server.connect()
    found = []
    with connection, connection.cursor() as cursor:
        for statement in said(server, request):
            cursor.execute(statement)
        if isinstance(request.gtids, GtidSet):
            command = BinlogDumpGtid(
                request.gtids, request.server_id, request.flags, request.file, request.position
            ).encode()
        else:
            command = BinlogDump(
                request.file, request.position, request.server_id, request.flags
            ).encode()
        connection._execute_command(command[0], command[1:])
        refused = (1236, None)
        try:
            while not found or not (found[-1][0] == 0xFE and len(found[-1]) < 9):
                found.append(connection._read_packet().get_all_data())
        except pymysql.err.MySQLError as error:
            refused = error.args
    assert refused[0] == 1236
    return found if refused[1] is None else [*found, refused[1]]


def said(server, request):
    """What a replica says before the dump."""
    if request.checksum is not None:
        name = request.checksum.name
        yield f"SET @source_binlog_checksum='{name}', @master_binlog_checksum='{name}'"
    if server.flavour == "mariadb":
        yield f"SET @mariadb_slave_capability={request.mariadb_capability}"
        if isinstance(request.gtids, GtidList):
            yield f"SET @slave_connect_state='{request.gtids.latest.text()}'"
            yield f"SET @slave_gtid_strict_mode={int(request.gtid_strict)}"
            yield f"SET @slave_gtid_ignore_duplicates={int(request.ignore_duplicates)}"
        if request.until_gtids is not None:
            yield f"SET @slave_until_gtid='{request.until_gtids.text()}'"


def asked(**given):
    """A request of a replica of today that does not wait at the end."""
    known = {"server_id": 99, "flags": NON_BLOCK, "checksum": ChecksumAlgorithm.CRC32}
    return DumpRequest(**{**known, "mariadb_capability": 4, **given})


def shown(packets):
    """The packets for a person."""
    lines = []
    for packet in packets:
        if isinstance(packet, str):
            lines.append(packet)
            continue
        if packet[0] or len(packet) < 20:
            lines.append(packet.hex())
            continue
        _, kind, server, length, log_pos, flags = struct.unpack_from("<IBIIIH", packet, 1)
        body = packet[20:].hex() if kind in {4, 15, 27, 41, 163, 164} else hash(packet)
        lines.append(f"{event_name(kind)} of {server}: {length} to {log_pos}, {flags:#x} {body}")
    return lines
