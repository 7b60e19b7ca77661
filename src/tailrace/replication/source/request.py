"""What a replica asks for: one dump of binary logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.wire.commands import DumpFlag

if TYPE_CHECKING:
    from tailrace.constants import ChecksumAlgorithm
    from tailrace.gtid import GtidList, GtidSet


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """A dump, by file and position or by GTID: the command, and what its session said before.

    ``server_id`` is the replica's; tools that do not wait at the log's end send 0. ``file`` is a
    log's name, and without one (``""``) it is the oldest log, or the log that the GTIDs determine.
    ``position`` is an offset in it, in bytes. ``gtids`` are the transactions that the replica has:
    a GtidSet (COM_BINLOG_DUMP_GTID), or a GtidList (MariaDB's ``@slave_connect_state``); None for a
    dump by file and position. ``flags`` are `DumpFlag`.

    ``checksum`` is the replica's ``@source_binlog_checksum`` or ``@master_binlog_checksum``: None
    if it set neither, and so does not understand events with checksums. ``heartbeat`` is the period
    after which an idle source says that it is alive, in seconds (0: never).

    MariaDB's replicas also set ``@mariadb_slave_capability`` (4 since 10.0),
    ``@slave_gtid_strict_mode`` and ``@slave_gtid_ignore_duplicates``. ``until_gtids`` is
    ``@slave_until_gtid``: the dump ends after these transactions.

    Source: facts sheet 4.4 and 4.6.
    """

    server_id: int
    file: str = ""
    position: int = 4
    gtids: GtidSet | GtidList | None = None
    flags: int = 0
    checksum: ChecksumAlgorithm | None = None
    heartbeat: float = 0.0
    mariadb_capability: int = 0
    gtid_strict: bool = False
    ignore_duplicates: bool = False
    until_gtids: GtidList | None = None

    @property
    def waits(self) -> bool:
        """Whether the dump waits for more at the log's end; else an EOF packet ends it there."""
        return self.server_id != 0 and not self.flags & DumpFlag.NON_BLOCK
