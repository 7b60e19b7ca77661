"""Every recorded log decodes, and the servers' own mysqlbinlog saw the same events in it.

Grows by adding a folder to tests/corpus or examples.
"""

import gzip
import re
from datetime import UTC, datetime

from tailrace.constants import EventType
from tailrace.events import (
    GtidEvent,
    GtidListEvent,
    MariadbGtidEvent,
    PreviousGtidsEvent,
    QueryEvent,
    RotateEvent,
    RowsEvent,
    TableMapEvent,
    TransactionPayloadEvent,
    XaPrepareEvent,
    XidEvent,
)
from tailrace.log import open as open_log
from tailrace.storage import find
from tests.cases import each_case
from tests.recorded import folders

CASES = folders(shop=True)
WITNESSED = [folder for folder in CASES if (folder / "mysqlbinlog.txt.gz").is_file()]

LABELS = {
    EventType.FORMAT_DESCRIPTION: "Start",
    EventType.PREVIOUS_GTIDS: "Previous-GTIDs",
    **dict.fromkeys((EventType.GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID), "GTID"),
    EventType.ANONYMOUS_GTID: "Anonymous_GTID",
    EventType.PARTIAL_UPDATE_ROWS: "Update_rows_partial",
    EventType.WRITE_ROWS_COMPRESSED_V1: "Write_compressed_rows",
    EventType.UPDATE_ROWS_COMPRESSED_V1: "Update_compressed_rows",
    EventType.DELETE_ROWS_COMPRESSED_V1: "Delete_compressed_rows",
    EventType.XA_PREPARE: "XA",
    **dict.fromkeys((EventType.INCIDENT, EventType.BEGIN_LOAD_QUERY), ""),
    EventType.TRANSACTION_PAYLOAD: "Transaction_Payload",
    EventType.GTID_LIST: "Gtid",
    EventType.BINLOG_CHECKPOINT: "Binlog",
}
"""How mysqlbinlog calls the types, where that is not their name."""
HEAD = re.compile(
    rb"#(\d{6} [ \d]\d:\d\d:\d\d) server id (\d+)  end_log_pos (\d+)"
    rb"(?: CRC32 0x([0-9a-f]{8}))?\s*(.*)"
)


def witness(folder):
    """The offsets, the lines about events and the GTID_NEXTs that mysqlbinlog printed."""
    text = gzip.decompress((folder / "mysqlbinlog.txt.gz").read_bytes())
    for list_of_gtids in (rb"Gtid list \[[^\]]*\]", rb"Previous-GTIDs\n# (?:.*,\n# )*.*"):
        text = re.sub(list_of_gtids, lambda match: re.sub(rb"\n#", b"", match[0]), text)
    lines = text.split(b"\n")
    offsets = [int(line[5:]) for line in lines if re.fullmatch(rb"# at \d+", line)]
    heads = []
    for line in lines:
        if match := HEAD.fullmatch(line):
            when, server, end, crc, what = match.groups()
            at = datetime.strptime(when.decode(), "%y%m%d %H:%M:%S").replace(tzinfo=UTC)
            heads.append(
                (
                    int(at.timestamp()),
                    int(server),
                    int(end),
                    crc and int(crc, 16),
                    what.decode("utf-8", "replace"),
                )
            )
    next_gtids = re.findall(rb"SET @@SESSION\.GTID_NEXT= '(\S+:\d+)'", b"\n".join(lines))
    return offsets, heads, [gtid.decode() for gtid in next_gtids]


@each_case("folder", WITNESSED, ids=lambda folder: folder.name)
def test_mysqlbinlog_saw_the_same_events(folder):
    offsets, heads, next_gtids = witness(folder)
    events = [event for series in find(folder) for event in open_log(series)]
    # For inner events the tool prints where the payload ends.
    assert offsets == [
        event.offset if event.inner_index is None else event.end_offset for event in events
    ]
    assert len(heads) == len(events)
    for event, (timestamp, server_id, end, crc, what) in zip(events, heads, strict=True):
        label = re.split(r"[\s:=]", what, maxsplit=1)[0]
        assert (event.timestamp, event.header.server_id) == (timestamp, server_id), what
        usual = EventType(event.type).name.removesuffix("_V1").capitalize()
        assert LABELS.get(event.type, usual) == label.replace("XID", "XA")  # MariaDB's word
        if event.inner_index is None:
            assert event.header.log_pos == end
            assert event.checksum == crc or event.type == EventType.FORMAT_DESCRIPTION
        else:
            assert event.end_offset == end
        compare(event, what)
    gtids = [event for event in events if isinstance(event, GtidEvent) and event.gtid]
    assert [str(event.gtid) for event in gtids] == next_gtids


def compare(event, what):
    """The fields that mysqlbinlog prints on the line about the event."""
    said = dict(re.findall(r"(\w+)=(\S+)", what))
    if isinstance(event, GtidEvent):
        assert said["last_committed"] == str(event.last_committed)
        assert said["sequence_number"] == str(event.sequence_number)
        assert said["original_committed_timestamp"] == str(event.original_commit_timestamp)
        assert said["immediate_commit_timestamp"] == str(event.immediate_commit_timestamp)
        assert said["transaction_length"] == str(event.transaction_length)
    elif isinstance(event, MariadbGtidEvent):
        assert what.split()[1] == str(event.gtid)
        assert said.get("cid") == (None if event.commit_id is None else str(event.commit_id))
        assert said.get("thread_id") == (None if event.thread_id is None else str(event.thread_id))
        assert (" ddl" in what) == bool(event.flags & 0x20)
    elif isinstance(event, QueryEvent):
        assert said["thread_id"] == str(event.thread_id)
        # The servers' clocks may stand before the statement's SET TIMESTAMP.
        assert int(said["exec_time"]) & 0xFFFFFFFF == event.exec_time
        assert said["error_code"] == str(event.error_code)
    elif isinstance(event, TableMapEvent):
        match = re.match(r"Table_map: (`.*`) mapped to number (\d+)", what)
        assert match
        assert match[1].replace("``", "`") == f"`{event.database}`.`{event.table}`".replace(
            "``", "`"
        )
        assert match[2] == str(event.table_id)
    elif isinstance(event, RowsEvent):
        match = re.match(r"\w+: table id (\d+)", what)
        assert match
        assert match[1] == str(event.table_id)
        assert ("STMT_END_F" in what) == event.stmt_end
    elif isinstance(event, XidEvent):
        assert what == f"Xid = {event.xid}"
    elif isinstance(event, XaPrepareEvent):
        assert str(event.xid) in what
    elif isinstance(event, RotateEvent):
        assert what == f"Rotate to {event.next_file}  pos: {event.next_offset}"
    elif isinstance(event, TransactionPayloadEvent):
        assert said["payload_size"] == str(event.payload_size)
        assert said["compression_type"] == event.compression.name
        assert said["uncompressed_size"] == str(event.uncompressed_size)
        assert sum(map(len, event.raw_events())) == event.uncompressed_size
    elif isinstance(event, GtidListEvent):
        assert what.replace(", ", ",") == f"Gtid list [{event.gtids}]"
    elif isinstance(event, PreviousGtidsEvent):
        assert what.replace(", ", ",") == f"Previous-GTIDs {event.gtids.text() or '[empty]'}"
