"""What the formats cannot hold: class, fields, and how the error begins."""

from __future__ import annotations

from typing import Any

from tailrace import events as kinds
from tailrace.constants import ColumnType, EventType, Flavour
from tailrace.events import ColumnSpec, Event, RowsExtra, StatusVariable, XaName
from tailrace.events.variables import UserVarType
from tailrace.gtid import Gtid, GtidSet, MariadbGtid
from tests.events.fields import some_table

T, S = ColumnType, StatusVariable
U = "896e7882-18fe-11ef-ab88-22222d34d411"
MYSQL, MARIADB = Flavour
TABLE = some_table(3)
INT = ColumnSpec(T.LONG, 0, nullable=False)
MAP: dict[str, Any] = {"table_id": 1, "database": "d", "table": "t", "columns": (INT,)}
GTID = Gtid(U, "", 1)


def spec(kind: Any, metadata: Any = 0, **more: Any) -> dict[str, Any]:
    return {**MAP, "columns": (INT, ColumnSpec(kind, metadata, **{"nullable": False, **more}))}


REFUSED: dict[type[Event], list[tuple[dict[str, Any], str]]] = {
    kinds.QueryEvent: [
        ({"sql": "x", "database": "d" * 256}, "database: 256 bytes, the format holds"),
        ({"sql": "x", "database": "a\0b"}, "database: 'a\\x00b' holds a zero byte"),
        ({"sql": "\udc80"}, "sql: '\\udc80' is not valid Unicode"),
        ({"sql": "", "error_code": 1 << 16}, "error_code: 65536 is not between 0 and"),
        ({"sql": "", "status": {S.TIME_ZONE: "x" * 256}}, "status, TIME_ZONE: 256 bytes"),
        ({"sql": "", "status": {S.CHARSET: (1, 2)}}, "status, CHARSET: (1, 2) is no tuple"),
        ({"sql": "", "status": {S.INVOKER: "root"}}, "status, INVOKER: 'root' is no tuple"),
        ({"sql": "", "status": {S.UPDATED_DB_NAMES: ("x",) * 254}}, "status, UPDATED_DB_NAMES"),
        ({"sql": "", "status": {S.UPDATED_DB_NAMES: ("a\0",)}}, "holds a zero byte"),
        ({"sql": "", "status": {S.UPDATED_DB_NAMES: ("é" * 200,) * 200}}, "status: 80"),
        ({"sql": "", "status": {S.GTID_FLAGS3: (4, None)}}, "status, GTID_FLAGS3: flags 0x04"),
        ({"sql": "", "status": {S.COMMIT_TS: 1}}, "status: no server writes COMMIT_TS"),
        ({"sql": "", "status": {99: 1}}, "status: 99 is none of FLAGS2"),
    ],
    kinds.RotateEvent: [
        ({"next_file": ""}, "next_file: a log has a name"),
        ({"next_file": "x" * 512}, "next_file: 512 bytes, the format holds 511"),
    ],
    kinds.IncidentEvent: [
        ({"trailing": b"xy"}, "trailing: 2 bytes, none or 4 may follow"),
    ],
    kinds.IntVarEvent: [
        ({"kind": 3, "value": 1}, "kind: 3 is none of INVALID, LAST_INSERT_ID"),
    ],
    kinds.UserVarEvent: [
        ({"variable": "v", "value": -1, "unsigned": True}, "value: -1 is not"),
        ({"variable": "v", "value": b"", "unsigned": True}, "unsigned: only an INT"),
        ({"variable": "v", "value": 1, "value_type": UserVarType.ROW}, "value_type: no"),
        ({"variable": "v", "value": None, "collation": 8}, "collation: NULL has none"),
        ({"variable": "v", "value": 10**400, "value_type": 1}, "value: 1000"),
    ],
    kinds.XaPrepareEvent: [
        ({"xid": XaName(1, b"x" * 65, b"")}, "xid.gtrid: 65 bytes, the format holds 64"),
        ({"xid": XaName(1, b"", b""), "one_phase": 1}, "one_phase: 1 is no bool"),
    ],
    kinds.ExecuteLoadQueryEvent: [
        ({"sql": "ab", "file_id": 1, "name_start": 0, "name_end": 3}, "name_end: 3"),
        ({"sql": "ab", "file_id": 1, "name_start": 2, "name_end": 1}, "name_start: 2"),
    ],
    kinds.GtidEvent: [
        ({"gtid": Gtid(U, "", 0)}, "gtid: 0 is not between 1 and 92"),
        ({"gtid": Gtid(U, "", (1 << 63) - 1)}, "gtid: 9223372036854775807 is not"),
        ({"gtid": Gtid("me", "", 1)}, "gtid: not a UUID: 'me'"),
        ({"gtid": Gtid(U.upper(), "", 1)}, "gtid: '896E7882-18FE"),
        ({"gtid": Gtid(U, "1st", 1)}, "gtid: not a tag: '1st'"),
        ({"gtid": Gtid(U, "x" * 33, 1)}, "gtid: not a tag"),
        ({"gtid": Gtid(U, "tag", 1), "type": EventType.GTID}, "gtid: a GTID event has no tag"),
        ({"gtid": GTID, "type": EventType.ANONYMOUS_GTID}, "gtid: an ANONYMOUS_GTID has none"),
        ({"gtid": GTID, "last_committed": 1}, "sequence_number: it is missing, but"),
        ({"gtid": GTID, "transaction_length": 1}, "last_committed: it is missing, but"),
        ({"gtid": GTID, "immediate_commit_timestamp": 1 << 55}, "immediate_commit_timestamp: 36"),
        ({"gtid": GTID, "original_server_version": 9}, "immediate_server_version: original"),
        ({"gtid": GTID, "unknown_fields": b"\x18\2"}, "unknown_fields, last_needed: only"),
        ({"gtid": Gtid(U, "t", 1), "unknown_fields": b"\2\2"}, "unknown_fields: field 1"),
        ({"gtid": GTID, "unknown_clock": b"\2" * 17}, "unknown_clock: 0202"),
    ],
    kinds.PreviousGtidsEvent: [
        ({"gtids": GtidSet({("me", ""): [(1, 2)]})}, "gtids: not a UUID"),
        ({"gtids": GtidSet({(U, "1"): [(1, 2)]})}, "gtids: not a tag"),
        ({"gtids": GtidSet({(U, ""): [(0, 2)]})}, "gtids: 0 is not between 1"),
    ],
    kinds.MariadbGtidEvent: [
        ({"seq_no": 1, "flags": 2}, "commit_id: it is missing, but flags"),
        ({"seq_no": 1, "xid": XaName(1, b"x", b"")}, "xid: flags do not announce"),
        ({"seq_no": 1, "flags": 0x40}, "xid: it is missing, but flags announce it"),
        (
            {"seq_no": 1, "flags_extra": 0x08},
            "alter_seq_no: it is missing, but flags_extra announce it",
        ),
    ],
    kinds.GtidListEvent: [
        ({"gtids": [MariadbGtid(0, 1 << 32, 1)]}, "gtids: 4294967296 is not"),
        ({"gtids": [], "flags": 16}, "flags: 16 is not between 0 and 15"),
    ],
    kinds.TableMapEvent: [
        ({**MAP, "columns": (INT,) * 4097}, "columns: 4097 is not between 0 and 4096"),
        ({**MAP, "columns": ("int",)}, "columns: column 1: 'int' is no ColumnSpec"),
        (spec("int"), "columns: column 2: 'int' is none of DECIMAL"),
        (spec(T.TYPED_ARRAY), "column 2 (TYPED_ARRAY): no table logs values of this type"),
        (spec(T.LONG, 4), "columns: column 2 (LONG): 4 is not between 0 and 0"),
        (spec(T.VARCHAR, 1 << 16), "columns: column 2 (VARCHAR): 65536 is not"),
        (spec(T.STRING, 1024), "columns: column 2 (STRING): 1024 is not"),
        (spec(T.ENUM, 3), "columns: column 2 (ENUM): 3 is not between 1 and 2"),
        (spec(T.BIT, 65), "columns: column 2 (BIT): 65 is not between 1 and 64"),
        (spec(T.TIME2, 7), "columns: column 2 (TIME2): 7 is not between 0 and 6"),
        (spec(T.NEWDECIMAL, 66 << 8), "columns: column 2 (NEWDECIMAL): 66 is not"),
        (spec(T.NEWDECIMAL, 4 << 8 | 5), "columns: column 2 (NEWDECIMAL): 5 is not"),
        (spec(T.BLOB, 5), "columns: column 2 (BLOB): 5 is not between 1 and 4"),
        (spec(T.LONG, 0, unsigned=True), "columns: column 1, unsigned: it is missing, and"),
        (spec(T.LONG, 0, name="b"), "columns: column 1, name: it is missing, and other"),
        (spec(T.LONG, 0, nullable=None), "columns: column 2, nullable: None is no bool"),
        ({**MAP, "primary_key": (1,)}, "primary_key: 1 is not between 0 and 0"),
        (
            {**MAP, "primary_key": (0,), "primary_key_prefixes": (1, 2)},
            "primary_key_prefixes: 2 where 1",
        ),
        ({**MAP, "primary_key_prefixes": (0,)}, "primary_key: it is missing, but"),
    ],
    kinds.WriteRowsEvent: [
        ({"table_map": TABLE, "present_after": b"\7\0"}, "present_after: 2 bytes where 1"),
        ({"table_map": TABLE, "present_before": b"\7"}, "present_before: an insert has none"),
        ({"table_map": TABLE, "width": 4}, "width: the table map has 3 columns"),
        ({"table_map": TABLE, "table_id": 8}, "table_id: it is 77 in the table map"),
        ({"table_map": TABLE, "extra": RowsExtra(1, 2)}, "extra: source_partition_id needs"),
        ({"table_map": TABLE, "extra": RowsExtra(1), "type": 23}, "extra: a WRITE_ROWS_V1 has no"),
        ({"table_map": TABLE, "extra": RowsExtra(ndb_format=1)}, "extra: ndb_format and"),
        ({"table_map": TABLE, "extra": RowsExtra(unknown=bytes(70_000))}, "extra: 70000 b"),
        ({"table_map": TABLE, "type": EventType.DELETE_ROWS}, "type: DELETE_ROWS is no"),
    ],
    kinds.UpdateRowsEvent: [
        ({"table_map": TABLE, "extra": RowsExtra(1)}, "extra: source_partition_id needs"),
    ],
    kinds.ViewChangeEvent: [
        ({"view_id": "v" * 41, "sequence_number": 1}, "view_id: 41 bytes, the format"),
        (
            {"view_id": "v", "sequence_number": 1, "certification": {b"k" * 70_000: b""}},
            "certification: 70000",
        ),
    ],
    kinds.PartialRowDataEvent: [
        ({"part": 3, "parts": 2, "chunk": b""}, "part: 3 is not between 1 and 2"),
        ({"part": 1, "parts": 2, "chunk": b"", "fragment_flags": 1}, "original_size: it"),
    ],
    kinds.HeartbeatEvent: [
        ({"type": 27, "log_file": "b", "log_offset": 1 << 32}, "log_offset: 4294967296"),
        ({"log_file": "b", "log_offset": 1}, "type: HeartbeatEvent is one of several"),
        (
            {"type": 41, "log_file": "b", "log_offset": 1, "unknown_fields": ((1, b""),)},
            "unknown_fields: a field",
        ),
    ],
    kinds.FormatDescriptionEvent: [
        ({"server_version": "9" * 51}, "server_version: 51 bytes, the format holds"),
        ({"server_version": "9.7.0", "flavour": MARIADB}, "server_version: '9.7.0' is none"),
        ({"flavour": MYSQL, "checksum_algorithm": 255}, "checksum_algorithm: a log's"),
        ({"server_version": "5.5.1", "post_headers": b""}, "checksum_algorithm: '5.5.1' knew"),
    ],
    kinds.OpaqueEvent: [
        ({"data": b"x"}, "type: OpaqueEvent is one of several, say which: its code"),
    ],
}
