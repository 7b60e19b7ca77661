"""Events of MariaDB alone, as in `cases`."""

from __future__ import annotations

import struct

from tailrace.constants import EventType
from tailrace.events.transaction import XaName
from tailrace.gtid import MariadbGtid
from tests.events.cases import Case

MARIADB_CASES = {
    "gtid of MariaDB": Case(
        EventType.MARIADB_GTID,
        struct.pack("<QIB", 100, 2, 0x29).ljust(19, b"\0"),
        {
            "gtid": MariadbGtid(2, 1, 100),
            "flags": 0x29,
            "flags_extra": 0,
            "commit_id": None,
            "xid": None,
            "engine_count": None,
            "alter_seq_no": None,
            "thread_id": None,
        },
        flavour="mariadb",
        legal=set(range(13, 19)),
    ),
    "gtid of MariaDB with all": Case(
        EventType.MARIADB_GTID,
        struct.pack("<QIB", 100, 2, 0x4E)
        + struct.pack("<Q", 55)
        + struct.pack("<iBB", 1, 2, 1)
        + b"x1b"
        + b"\x15\3"
        + struct.pack("<QI", 98, 7),
        {
            "gtid": MariadbGtid(2, 1, 100),
            "flags": 0x4E,
            "flags_extra": 0x15,
            "commit_id": 55,
            "xid": XaName(1, b"x1", b"b"),
            "engine_count": 3,
            "alter_seq_no": 98,
            "thread_id": 7,
        },
        flavour="mariadb",
        legal={30},  # before the extra flags
    ),
    "gtid list": Case(
        EventType.GTID_LIST,
        struct.pack("<I", 2 | 1 << 28) + struct.pack("<IIQIIQ", 0, 1, 5, 0, 2, 4),
        {"gtids": [MariadbGtid(0, 1, 5), MariadbGtid(0, 2, 4)], "flags": 1},
        flavour="mariadb",
    ),
    "gtid list, empty": Case(
        EventType.GTID_LIST,
        bytes(6),  # as MariaDB 11.8 wrote it
        {"gtids": [], "flags": 0},
        flavour="mariadb",
        legal={4},
    ),
    "binlog checkpoint": Case(
        EventType.BINLOG_CHECKPOINT,
        struct.pack("<I", 13) + b"binlog.000001",
        {"log_file": "binlog.000001"},
        flavour="mariadb",
    ),
    "start encryption": Case(
        EventType.START_ENCRYPTION,
        b"\1" + struct.pack("<I", 3) + b"nonce-nonce-",
        {"scheme": 1, "key_version": 3, "nonce": b"nonce-nonce-"},
        flavour="mariadb",
    ),
}
