"""An event of each type, laid out by hand from the format's documentation or from a real server."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from tailrace.constants import EventType
from tailrace.events.load import DuplicateHandling
from tailrace.events.transaction import XaName
from tailrace.events.variables import IntVarKind, UserVarType
from tailrace.gtid import Gtid, GtidSet
from tests.events.made import query_body

U = "896e7882-18fe-11ef-ab88-22222d34d411"
UUID = bytes.fromhex(U.replace("-", ""))
# The facts sheet's checked vector of a real GTID_TAGGED body (2.5).
TAGGED = bytes.fromhex(
    "02 76 00 00 02 02 25 02 dc f0 09 02 30 f9 03 22 bd 03 ad 02 21 02 44 44 5a 68 51 03 22 04 04"
    "06 0c 66 6f 6f 62 61 7a 08 00 0a 04 0c 7f 15 83 22 2d 5c 2e 06 10 49 03 12 c3 02 0b"
)


@dataclass
class Case:
    """An event: what its fields are, which shorter bodies are legal, whether longer ones are."""

    code: EventType
    body: bytes
    fields: dict[str, Any]
    flavour: str = "mysql"
    legal: set[int] = field(default_factory=set)
    open_end: bool = False
    header: dict[str, int] = field(default_factory=dict)


QUERY = {"database": "shop", "thread_id": 9, "exec_time": 3, "error_code": 1062, "status": {}}
"""The fields of every query here."""
NO_MORE = dict.fromkeys(
    (
        *("last_committed", "sequence_number", "transaction_length", "commit_group_ticket"),
        *("original_commit_timestamp", "immediate_commit_timestamp"),
        *("original_server_version", "immediate_server_version"),
    )
)
"""Fields of GTID events that newer servers added."""


def user_var(
    body: bytes,
    name: str,
    value: object,
    kind: UserVarType | None = None,
    collation: int | None = None,
    unsigned: bool = False,
    **case: Any,
) -> Case:
    fields = {"variable": name, "value": value, "value_type": kind, "collation": collation}
    return Case(EventType.USER_VAR, body, {**fields, "unsigned": unsigned}, **case)


GTID = b"\1" + UUID + struct.pack("<q", 5) + b"\2" + struct.pack("<qq", 3, 4)
STAMP = 1_700_000_000_123_456
CASES = {
    "rotate": Case(
        EventType.ROTATE,
        struct.pack("<Q", 1 << 33) + b"binlog.000002",
        {"next_file": "binlog.000002", "next_offset": 1 << 33, "artificial": False},
        legal=set(range(9, 21)),
        open_end=True,
    ),
    "stop": Case(EventType.STOP, b"", {}),
    "incident": Case(
        EventType.INCIDENT,
        b"\1\0\4lost",
        {"incident": 1, "message": "lost"},
    ),
    "heartbeat": Case(
        EventType.HEARTBEAT,
        b"binlog.000007",
        {"log_file": "binlog.000007", "log_offset": 777},
        header={"log_pos": 777},
        legal=set(range(13)),
        open_end=True,
    ),
    "heartbeat of MariaDB past 4 GiB": Case(
        EventType.HEARTBEAT,
        struct.pack("<Q", 5 << 30) + b"b.000007",
        {"log_file": "b.000007", "log_offset": 5 << 30},
        flavour="mariadb",
        legal=set(range(16)),
        open_end=True,
    ),
    "heartbeat v2": Case(
        EventType.HEARTBEAT_V2,
        b"\1\4b.07\2\x09\xfe" + struct.pack("<Q", 5 << 30) + b"\7\1x\0",
        {"log_file": "b.07", "log_offset": 5 << 30},
    ),
    "ignorable": Case(EventType.IGNORABLE, b"what", {}, legal={0, 1, 2, 3}, open_end=True),
    "rows query": Case(
        EventType.ROWS_QUERY,
        b"\xffDELETE FROM t\xe9",
        {"sql": "DELETE FROM t\\xe9"},
        legal=set(range(1, 15)),
        open_end=True,
    ),
    "annotate rows": Case(
        EventType.ANNOTATE_ROWS,
        "DELETE FROM é".encode(),
        {"sql": "DELETE FROM é"},
        flavour="mariadb",
        legal=set(range(14)),
        open_end=True,
    ),
    "query": Case(
        EventType.QUERY,
        query_body(b"BEGIN", b"\x01" + struct.pack("<Q", 33)),
        {**QUERY, "sql": "BEGIN", "status": {"SQL_MODE": 33}},
        legal=set(range(27, 32)),
        open_end=True,
    ),
    "query compressed": Case(
        EventType.QUERY_COMPRESSED,
        query_body(bytes.fromhex("8103") + zlib.compress(b"SET")),
        {**QUERY, "sql": "SET"},
        flavour="mariadb",
    ),
    "int var": Case(
        EventType.INTVAR,
        b"\2" + b"\xff" * 8,
        {"kind": IntVarKind.INSERT_ID, "value": (1 << 64) - 1},
    ),
    "rand": Case(EventType.RAND, struct.pack("<QQ", 7, 1 << 40), {"seed1": 7, "seed2": 1 << 40}),
    "user var, NULL": user_var(b"\1\0\0\0v\1", "v", None),
    "user var, string": user_var(
        b"\1\0\0\0v\0\0" + struct.pack("<II", 255, 3) + b"abc\0",
        *("v", b"abc", UserVarType.STRING, 255),
        legal={18},
    ),
    "user var, real": user_var(
        b"\1\0\0\0r\0\1" + struct.pack("<IId", 8, 8, -1.5) + b"\0",
        *("r", -1.5, UserVarType.REAL, 8),
        legal={23},
    ),
    "user var, unsigned": user_var(
        b"\1\0\0\0u\0\2" + struct.pack("<II", 8, 8) + b"\xff" * 8 + b"\1",
        *("u", (1 << 64) - 1, UserVarType.INT, 8, True),
        legal={23},
    ),
    "user var, signed": user_var(
        b"\1\0\0\0u\0\2" + struct.pack("<II", 8, 8) + b"\xff" * 8,
        *("u", -1, UserVarType.INT, 8),
        open_end=True,
    ),
    "user var, decimal": user_var(  # 12.34, as MariaDB 11.8 logged it
        b"\2\0\0\0dd\0\4" + struct.pack("<II", 8, 4) + b"\x04\x02\x8c\x22",
        *("dd", b"\x04\x02\x8c\x22", UserVarType.DECIMAL, 8),
        open_end=True,
    ),
    "begin load": Case(
        EventType.BEGIN_LOAD_QUERY,
        struct.pack("<I", 6) + b"1\n2\n",
        {"file_id": 6, "data": b"1\n2\n"},
        legal={4, 5, 6, 7},
        open_end=True,
    ),
    "append block": Case(
        EventType.APPEND_BLOCK,
        struct.pack("<I", 6) + b"3\n",
        {"file_id": 6, "data": b"3\n"},
        legal={4, 5},
        open_end=True,
    ),
    "delete file": Case(EventType.DELETE_FILE, struct.pack("<I", 6), {"file_id": 6}),
    "execute load": Case(
        EventType.EXECUTE_LOAD_QUERY,
        query_body(b"LOAD DATA INFILE 'x' INTO TABLE t", extra=struct.pack("<IIIB", 6, 9, 25, 2)),
        {
            **QUERY,
            "sql": "LOAD DATA INFILE 'x' INTO TABLE t",
            "file_id": 6,
            "name_start": 9,
            "name_end": 25,
            "duplicates": DuplicateHandling.REPLACE,
        },
        legal=set(range(31 + 25, 31 + 33)),
        open_end=True,
    ),
    "xid": Case(EventType.XID, struct.pack("<Q", 12), {"xid": 12}),
    "xa prepare": Case(
        EventType.XA_PREPARE,
        b"\1" + struct.pack("<iII", -1, 2, 1) + b"x1b",
        {"xid": XaName(-1, b"x1", b"b"), "one_phase": True},
    ),
    "large transaction header": Case(
        EventType.LARGE_TRANSACTION_HEADER,
        b"\1" + struct.pack("<QB", 1 << 40, 16) + bytes(6),
        {"version": 1, "terminating_offset": 1 << 40, "terminating_type": 16},
        legal=set(range(10, 16)),
        open_end=True,
    ),
    "gtid of 5.6": Case(EventType.GTID, GTID[:25], {**NO_MORE, "gtid": Gtid(U, "", 5), "flags": 1}),
    "gtid with all": Case(
        EventType.GTID,
        GTID
        + (STAMP | 1 << 55).to_bytes(7, "little")
        + (STAMP - 1).to_bytes(7, "little")
        + b"\xfc\x00\x10"
        + struct.pack("<II", 90704 | 1 << 31, 80042)
        + struct.pack("<Q", 99),
        {
            "gtid": Gtid(U, "", 5),
            "flags": 1,
            "last_committed": 3,
            "sequence_number": 4,
            "original_commit_timestamp": STAMP - 1,
            "immediate_commit_timestamp": STAMP,
            "transaction_length": 4096,
            "original_server_version": 80042,
            "immediate_server_version": 90704,
            "commit_group_ticket": 99,
        },
        legal={25, 42, 56, 59, 67},
    ),
    "anonymous gtid": Case(
        EventType.ANONYMOUS_GTID,
        b"\0"
        + bytes(24)
        + b"\2"
        + struct.pack("<qq", 0, 1)
        + STAMP.to_bytes(7, "little")
        + b"\x7f",
        {
            **NO_MORE,
            "gtid": None,
            "flags": 0,
            "last_committed": 0,
            "sequence_number": 1,
            "original_commit_timestamp": STAMP,
            "immediate_commit_timestamp": STAMP,
            "transaction_length": 127,
        },
        legal={25, 42, 49},
    ),
    "tagged gtid": Case(
        EventType.GTID_TAGGED,
        TAGGED,
        {
            "gtid": Gtid(U, "foobaz", 1),
            "flags": 1,
            "last_committed": 0,
            "sequence_number": 1,
            "original_commit_timestamp": 1739823289369365,
            "immediate_commit_timestamp": 1739823289369365,
            "transaction_length": 210,
            "original_server_version": 90200,
            "immediate_server_version": 90200,
            "commit_group_ticket": None,
        },
    ),
    "previous gtids": Case(
        EventType.PREVIOUS_GTIDS,
        struct.pack("<Q", 1) + UUID + struct.pack("<QQQ", 1, 1, 6),
        {"gtids": GtidSet.parse(f"{U}:1-5")},
    ),
    "transaction context": Case(
        EventType.TRANSACTION_CONTEXT,
        struct.pack("<BIBIII", 4, 8, 1, 8, 2, 1) + b"uuid" + bytes(8) + b"\1\0a\2\0bc\1\0d",
        {
            "server_uuid": "uuid",
            "thread_id": 8,
            "gtid_specified": True,
            "write_set": (b"a", b"bc"),
            "read_set": (b"d",),
        },
    ),
    "view change": Case(
        EventType.VIEW_CHANGE,
        b"view:1".ljust(40, b"\0")
        + struct.pack("<QI", 2, 1)
        + b"\1\0k"
        + struct.pack("<I", 2)
        + b"vv",
        {"view_id": "view:1", "sequence_number": 2},
    ),
    "partial row data": Case(
        EventType.PARTIAL_ROW_DATA,
        struct.pack("<IIBQ", 2, 1, 1, 4000) + b"rest",
        {"part": 1, "parts": 2, "original_size": 4000},
        flavour="mariadb",
        legal={17, 18, 19, 20},
        open_end=True,
    ),
    "obsolete": Case(
        EventType.NEW_LOAD, b"whatever", {"size": 8}, legal=set(range(8)), open_end=True
    ),
}
