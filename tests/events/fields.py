"""Fields that each event class can be made of, at random: hypothesis strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tailrace import events as kinds
from tailrace.constants import ChecksumAlgorithm, ColumnType, EventType, Flavour
from tailrace.events import (
    ColumnSpec,
    Event,
    FormatDescription,
    RowsExtra,
    StatusVariable,
    TableMapEvent,
    XaName,
)
from tailrace.events.load import DuplicateHandling
from tailrace.events.payload import Compression
from tailrace.events.variables import IntVarKind, UserVarType
from tailrace.gtid import Gtid, GtidSet, MariadbGtid

T = ColumnType
FORMS = {flavour: FormatDescription.of(flavour) for flavour in Flavour}


def number(size: int, least: int = 0) -> st.SearchStrategy[int]:
    most = (1 << 8 * size) - 1
    return st.sampled_from([least, least + 1, most]) | st.integers(least, most)


def texts(most: int) -> st.SearchStrategy[str]:
    """Text of up to so many characters, none of which is a zero byte."""
    return st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=most)


U32, U64 = number(4), number(8)
NAMES = texts(60).filter(lambda text: len(text.encode()) <= 192)
FILES = texts(50).filter(bool)
BYTES = st.binary(max_size=300)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
XIDS = st.builds(
    XaName,
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.binary(max_size=64),
    st.binary(max_size=64),
)
UUIDS = st.uuids().map(str)
TAGS = st.from_regex(r"[a-z_][a-z0-9_]{0,31}", fullmatch=True)
GNOS = st.integers(1, (1 << 63) - 2)
RUNS = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 50)), min_size=1, max_size=4).map(
    lambda runs: [(start, start + size) for start, size in runs]
)
SETS = st.dictionaries(st.tuples(UUIDS, st.just("") | TAGS), RUNS, max_size=4).map(GtidSet)
MARIADB_GTIDS = st.builds(MariadbGtid, U32, U32, U64)

STATUS = {
    StatusVariable.FLAGS2: U32,
    StatusVariable.SQL_MODE: U64,
    StatusVariable.CATALOG: texts(20),
    StatusVariable.AUTO_INCREMENT: st.tuples(number(2), number(2)),
    StatusVariable.CHARSET: st.tuples(number(2), number(2), number(2)),
    StatusVariable.TIME_ZONE: texts(60),
    StatusVariable.CATALOG_NZ: texts(20),
    StatusVariable.LC_TIME_NAMES: number(2),
    StatusVariable.CHARSET_DATABASE: number(2),
    StatusVariable.TABLE_MAP_FOR_UPDATE: U64,
    StatusVariable.MASTER_DATA_WRITTEN: U32,
    StatusVariable.INVOKER: st.tuples(texts(30), texts(60)),
    StatusVariable.UPDATED_DB_NAMES: st.none() | st.lists(NAMES, max_size=5).map(tuple),
    StatusVariable.MICROSECONDS: number(3),
    StatusVariable.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: number(1),
    StatusVariable.DDL_LOGGED_WITH_XID: U64,
    StatusVariable.DEFAULT_COLLATION_FOR_UTF8MB4: number(2),
    StatusVariable.SQL_REQUIRE_PRIMARY_KEY: number(1),
    StatusVariable.DEFAULT_TABLE_ENCRYPTION: number(1),
    StatusVariable.ENABLE_CASCADE_TRIGGERS: number(1),
    StatusVariable.HRNOW: number(3),
    StatusVariable.XID: U64,
    StatusVariable.GTID_FLAGS3: st.tuples(st.just(2), st.none()) | st.tuples(st.just(4), U64),
    StatusVariable.CHARACTER_SET_COLLATIONS: st.lists(
        st.tuples(number(2), number(2)), max_size=4
    ).map(tuple),
}
STATUSES = st.lists(st.sampled_from(list(STATUS)), unique=True, max_size=6).flatmap(
    lambda codes: st.fixed_dictionaries({code: STATUS[code] for code in codes})
)

QUERY = {
    "sql": texts(80) | BYTES,
    "database": NAMES,
    "thread_id": U32,
    "exec_time": U32,
    "error_code": number(2),
    "status": STATUSES,
}


@st.composite
def columns(draw: st.DrawFn, flavour: Flavour) -> tuple[ColumnSpec, ...]:
    """A table's columns; a kind of metadata is there for all that can have it, or for none."""
    count = draw(st.integers(0, 12))
    signs, charsets, named, members, shown = (draw(st.booleans()) for _ in range(5))
    made = []
    for _ in range(count):
        kind, metadata = draw(st.sampled_from(TYPES))
        low, high = metadata
        enum = kind in {T.ENUM, T.SET}
        character = kind in CHARACTER[flavour] or enum
        made.append(
            ColumnSpec(
                kind,
                draw(st.integers(low, high)),
                draw(st.booleans()),
                draw(st.booleans()) if signs and kind in NUMERIC else None,
                draw(number(2)) if charsets and character else None,
                draw(NAMES) if named else None,
                draw(st.lists(BYTES, max_size=3).map(tuple)) if members and enum else None,
                draw(st.integers(0, 7)) if kind is T.GEOMETRY and shown else None,
                draw(st.booleans()) if shown else None,
                draw(number(2)) if kind is T.VECTOR and shown else None,
            )
        )
    return tuple(made)


TYPES = [
    *((kind, (0, 0)) for kind in (T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG, T.DATE, T.YEAR)),
    *((kind, (0, 0)) for kind in (T.DECIMAL, T.NULL, T.TIMESTAMP, T.TIME, T.DATETIME, T.NEWDATE)),
    *((kind, (0, 6)) for kind in (T.TIMESTAMP2, T.DATETIME2, T.TIME2)),
    *((kind, (1, 4)) for kind in (T.BLOB, T.JSON, T.GEOMETRY, T.VECTOR, T.BLOB_COMPRESSED)),
    *((kind, (0, 0xFFFF)) for kind in (T.VARCHAR, T.VAR_STRING, T.VARCHAR_COMPRESSED)),
    (T.STRING, (0, 1023)),
    (T.ENUM, (1, 2)),
    (T.SET, (1, 8)),
    (T.BIT, (1, 64)),
    (T.FLOAT, (4, 4)),
    (T.DOUBLE, (8, 8)),
    (T.NEWDECIMAL, (65 << 8, 65 << 8 | 30)),
    (T.NEWDECIMAL, (10 << 8, 10 << 8 | 10)),
]
NUMERIC = {T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG, T.DECIMAL, T.NEWDECIMAL}
NUMERIC |= {T.FLOAT, T.DOUBLE, T.YEAR}
CHARACTER = {
    Flavour.MYSQL: {T.BLOB, T.STRING, T.VAR_STRING, T.VARCHAR, T.VECTOR},
    Flavour.MARIADB: {
        *(T.BLOB, T.STRING, T.VAR_STRING, T.VARCHAR, T.GEOMETRY),
        *(T.BLOB_COMPRESSED, T.VARCHAR_COMPRESSED),
    },
}


@st.composite
def table_map(draw: st.DrawFn, flavour: Flavour) -> dict[str, Any]:
    specs = draw(columns(flavour))
    fields: dict[str, Any] = {
        "table_id": draw(number(6)),
        "flags": draw(number(2)),
        "database": draw(NAMES),
        "table": draw(NAMES),
        "columns": specs,
    }
    if specs and draw(st.booleans()):
        key = draw(st.lists(st.integers(0, len(specs) - 1), min_size=1, unique=True))
        fields["primary_key"] = tuple(key)
        if draw(st.booleans()):
            prefixes = st.lists(number(2), min_size=len(key), max_size=len(key)).map(tuple)
            fields["primary_key_prefixes"] = draw(prefixes)
    return fields


def some_table(width: int, table_id: int = 77) -> TableMapEvent:
    specs = tuple(ColumnSpec(T.LONG, 0, nullable=False) for _ in range(width))
    return TableMapEvent.make(table_id=table_id, database="d", table="t", columns=specs)


@st.composite
def rows(draw: st.DrawFn, kind: str, *, extra: bool) -> dict[str, Any]:
    width = draw(st.integers(1, 20))
    bitmap = st.none() | st.binary(min_size=(width + 7) // 8, max_size=(width + 7) // 8)
    fields = {
        "table_map": some_table(width, draw(number(6).filter(lambda at: at != 0xFFFFFF))),
        "row_data": draw(BYTES),
        "flags": draw(number(2)),
        "present_before": None if kind == "insert" else draw(bitmap),
        "present_after": None if kind == "delete" else draw(bitmap),
    }
    if extra:
        source = draw(number(2)) if kind == "update" else None
        fields["extra"] = draw(
            st.just(RowsExtra())
            | st.builds(RowsExtra, number(2), st.just(source))
            | st.builds(
                RowsExtra,
                ndb_format=number(1),
                ndb_info=st.binary(max_size=253),
                unknown=st.just(b"") | st.binary().map(lambda rest: b"\x07" + rest),
            )
        )
    return fields


@st.composite
def gtid(draw: st.DrawFn, code: int) -> dict[str, Any]:
    stamp, version = st.integers(0, (1 << 55) - 1), st.integers(0, (1 << 31) - 1)
    order = [
        {"last_committed": I64, "sequence_number": I64},
        {"immediate_commit_timestamp": stamp, "original_commit_timestamp": st.none() | stamp},
        {"transaction_length": U64},
        {"immediate_server_version": version, "original_server_version": st.none() | version},
        {"commit_group_ticket": U64},
    ]
    depth = draw(st.integers(0, len(order)))
    fields: dict[str, Any] = {"flags": draw(number(1))}
    for group in order[:depth]:
        fields |= draw(st.fixed_dictionaries(group))
    if code == EventType.ANONYMOUS_GTID:
        return {**fields, "gtid": None}
    tag = draw(TAGS | st.just("")) if code == EventType.GTID_TAGGED else ""
    return {**fields, "gtid": Gtid(draw(UUIDS), tag, draw(GNOS))}


@st.composite
def mariadb_gtid(draw: st.DrawFn) -> dict[str, Any]:
    xid = draw(st.none() | XIDS)
    alter = draw(st.none() | U64)
    flags = draw(st.sampled_from([0, 1, 4, 8, 0x2C])) | (0 if xid is None else 0x40)
    return {
        "seq_no": draw(U64),
        "domain_id": draw(U32),
        "flags": flags,
        "flags_extra": draw(st.sampled_from([0, 2])) | (0 if alter is None else 4),
        "commit_id": draw(st.none() | U64),
        "xid": xid,
        "engine_count": draw(st.none() | number(1)),
        "alter_seq_no": alter,
        "thread_id": draw(st.none() | U32),
    }


def fixed(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


USER_VARS = (
    fixed(variable=NAMES, value=st.none())
    | fixed(variable=NAMES, value=BYTES | texts(30), collation=U32)
    | fixed(variable=NAMES, value=I64)
    | fixed(variable=NAMES, value=U64, unsigned=st.just(True))
    | fixed(variable=NAMES, value=st.floats(allow_nan=False))
    | fixed(variable=NAMES, value=BYTES, value_type=st.just(UserVarType.DECIMAL))
)
UNKNOWN_FIELDS = st.lists(st.tuples(st.integers(9, 1 << 20), BYTES), max_size=3).map(tuple)


@st.composite
def load(draw: st.DrawFn) -> dict[str, Any]:
    fields = draw(st.fixed_dictionaries(QUERY))
    sql = fields["sql"]
    size = len(sql.encode() if isinstance(sql, str) else sql)
    end = draw(st.integers(0, size))
    return {
        **fields,
        "file_id": draw(U32),
        "name_start": draw(st.integers(0, end)),
        "name_end": end,
        "duplicates": draw(st.sampled_from(DuplicateHandling)),
    }


@st.composite
def format_description(draw: st.DrawFn) -> dict[str, Any]:
    version = draw(
        st.sampled_from(["8.0.1", "9.7.4-debug", "10.6.3-MariaDB", "11.8.9-mariadb-log"])
    )
    fields: dict[str, Any] = {
        "created": draw(U32),
        "checksum_algorithm": draw(
            st.sampled_from([ChecksumAlgorithm.NONE, ChecksumAlgorithm.CRC32])
        ),
    }
    return draw(
        st.just({**fields, "server_version": version})
        | st.just({**fields, "flavour": draw(st.sampled_from(Flavour))})
        | st.just({**fields, "server_version": version, "post_headers": b"\0\x0d\0\x08" * 12})
    )


def strategies() -> dict[tuple[type[Event], int, Flavour], st.SearchStrategy[dict[str, Any]]]:
    """For each class, type and flavour, the fields that it can be made of."""
    e, m = EventType, Flavour
    made: dict[tuple[Any, ...], Any] = {
        (kinds.StopEvent, e.STOP): fixed(),
        (kinds.RotateEvent, e.ROTATE): fixed(next_file=FILES, next_offset=U64),
        (kinds.IncidentEvent, e.INCIDENT): fixed(
            incident=number(2), message=texts(60) | st.binary(max_size=255)
        ),
        (kinds.HeartbeatEvent, e.HEARTBEAT): fixed(log_file=FILES, log_offset=U32),
        (kinds.HeartbeatEvent, e.HEARTBEAT, m.MARIADB): fixed(
            log_file=FILES, log_offset=st.integers(1, (1 << 64) - 1)
        ),
        (kinds.HeartbeatEvent, e.HEARTBEAT_V2): fixed(
            log_file=FILES, log_offset=U64, unknown_fields=UNKNOWN_FIELDS
        ),
        (kinds.RowsQueryEvent, e.ROWS_QUERY): fixed(sql=texts(300) | BYTES),
        (kinds.AnnotateRowsEvent, e.ANNOTATE_ROWS, m.MARIADB): fixed(sql=texts(300) | BYTES),
        (kinds.QueryEvent, e.QUERY): st.fixed_dictionaries(QUERY),
        (kinds.QueryEvent, e.QUERY, m.MARIADB): st.fixed_dictionaries(QUERY),
        (kinds.QueryCompressedEvent, e.QUERY_COMPRESSED, m.MARIADB): st.fixed_dictionaries(QUERY),
        (kinds.ExecuteLoadQueryEvent, e.EXECUTE_LOAD_QUERY): load(),
        (kinds.LoadBlockEvent, e.BEGIN_LOAD_QUERY): fixed(file_id=U32, data=BYTES),
        (kinds.LoadBlockEvent, e.APPEND_BLOCK): fixed(file_id=U32, data=BYTES),
        (kinds.DeleteFileEvent, e.DELETE_FILE): fixed(file_id=U32),
        (kinds.IntVarEvent, e.INTVAR): fixed(kind=st.sampled_from(IntVarKind), value=U64),
        (kinds.RandEvent, e.RAND): fixed(seed1=U64, seed2=U64),
        (kinds.UserVarEvent, e.USER_VAR): USER_VARS,
        (kinds.XidEvent, e.XID): fixed(xid=U64),
        (kinds.XaPrepareEvent, e.XA_PREPARE): fixed(xid=XIDS, one_phase=st.booleans()),
        (kinds.LargeTransactionHeaderEvent, e.LARGE_TRANSACTION_HEADER): fixed(
            terminating_offset=U64, terminating_type=number(1), version=number(1), padding=BYTES
        ),
        (kinds.PreviousGtidsEvent, e.PREVIOUS_GTIDS): fixed(gtids=SETS, tagged=st.booleans()),
        (kinds.MariadbGtidEvent, e.MARIADB_GTID, m.MARIADB): mariadb_gtid(),
        (kinds.GtidListEvent, e.GTID_LIST, m.MARIADB): fixed(
            gtids=st.lists(MARIADB_GTIDS, max_size=5).map(tuple), flags=st.integers(0, 15)
        ),
        (kinds.BinlogCheckpointEvent, e.BINLOG_CHECKPOINT, m.MARIADB): fixed(log_file=FILES),
        (kinds.StartEncryptionEvent, e.START_ENCRYPTION, m.MARIADB): fixed(
            scheme=number(1), key_version=U32, nonce=st.binary(min_size=12, max_size=12)
        ),
        (kinds.TransactionContextEvent, e.TRANSACTION_CONTEXT): fixed(
            server_uuid=UUIDS,
            thread_id=U32,
            gtid_specified=st.booleans(),
            snapshot=SETS.map(GtidSet.encode),
            write_set=st.lists(BYTES, max_size=3).map(tuple),
            read_set=st.lists(BYTES, max_size=3).map(tuple),
        ),
        (kinds.ViewChangeEvent, e.VIEW_CHANGE): fixed(
            view_id=texts(10),
            sequence_number=U64,
            certification=st.dictionaries(BYTES, BYTES, max_size=3),
        ),
        (kinds.PartialRowDataEvent, e.PARTIAL_ROW_DATA, m.MARIADB): fixed(
            part=number(2, 1),
            parts=st.integers(0xFFFF, 0xFFFFFFFF),
            original_size=st.none() | U64,
            chunk=BYTES,
        ),
        (kinds.TransactionPayloadEvent, e.TRANSACTION_PAYLOAD): fixed(
            payload=BYTES,
            compression=st.sampled_from(Compression),
            uncompressed_size=st.none() | U64,
            unknown_fields=UNKNOWN_FIELDS,
        ),
        (kinds.FormatDescriptionEvent, e.FORMAT_DESCRIPTION): format_description(),
        (kinds.OpaqueEvent, 200): fixed(data=BYTES),
        (kinds.IgnorableEvent, e.IGNORABLE): fixed(data=BYTES),
        (kinds.ObsoleteEvent, e.START_V3): fixed(data=BYTES),
        (kinds.PreGaRowsEvent, e.PRE_GA_UPDATE_ROWS): fixed(data=BYTES),
    }
    for code in (e.GTID, e.ANONYMOUS_GTID, e.GTID_TAGGED):
        made[kinds.GtidEvent, code] = gtid(code)
    for flavour in m:
        made[kinds.TableMapEvent, e.TABLE_MAP, flavour] = table_map(flavour)
    for kind in (kinds.WriteRowsEvent, kinds.UpdateRowsEvent, kinds.DeleteRowsEvent):
        for code in kind.TYPES:
            flavour = m.MYSQL if e.WRITE_ROWS <= code <= e.DELETE_ROWS else m.MARIADB
            extra = code in {*range(30, 33), *range(169, 172)}
            made[kind, code, flavour] = rows(kind.kind, extra=extra)
    made[kinds.PartialUpdateRowsEvent, e.PARTIAL_UPDATE_ROWS] = rows("update", extra=True)
    return {(key[0], key[1], key[2] if key[2:] else m.MYSQL): way for key, way in made.items()}
