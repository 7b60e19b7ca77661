"""Every recorded log decodes, and the servers' own mysqlbinlog saw the same events in it.

Grows by adding a folder to tests/corpus or examples.
"""

from __future__ import annotations

import gzip
import json
import pickle
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.constants import EventType
from tailrace.errors import KeyMissing, LogError, StorageError
from tailrace.events import (
    Event,
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
from tailrace.transaction import Boundary, BoundaryParser
from tests.cases import each_case
from tests.recorded import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CASES = [
    folder
    for parent in (ROOT / "tests/corpus", ROOT / "examples/shop")
    if parent.is_dir()
    for folder in sorted(parent.iterdir())
    if folder.is_dir()
]
WITNESSED = [folder for folder in CASES if (folder / "mysqlbinlog.txt.gz").is_file()]

# How mysqlbinlog calls the types.
LABELS = {
    EventType.FORMAT_DESCRIPTION: "Start",
    EventType.PREVIOUS_GTIDS: "Previous-GTIDs",
    EventType.GTID: "GTID",
    EventType.GTID_TAGGED: "GTID",
    EventType.ANONYMOUS_GTID: "Anonymous_GTID",
    EventType.QUERY: "Query",
    EventType.INTVAR: "Intvar",
    EventType.RAND: "Rand",
    EventType.USER_VAR: "User_var",
    EventType.ROWS_QUERY: "Rows_query",
    EventType.TABLE_MAP: "Table_map",
    EventType.WRITE_ROWS: "Write_rows",
    EventType.UPDATE_ROWS: "Update_rows",
    EventType.DELETE_ROWS: "Delete_rows",
    EventType.PARTIAL_UPDATE_ROWS: "Update_rows_partial",
    EventType.WRITE_ROWS_V1: "Write_rows",
    EventType.UPDATE_ROWS_V1: "Update_rows",
    EventType.DELETE_ROWS_V1: "Delete_rows",
    EventType.WRITE_ROWS_COMPRESSED_V1: "Write_compressed_rows",
    EventType.UPDATE_ROWS_COMPRESSED_V1: "Update_compressed_rows",
    EventType.DELETE_ROWS_COMPRESSED_V1: "Delete_compressed_rows",
    EventType.XID: "Xid",
    EventType.XA_PREPARE: "XA",
    EventType.ROTATE: "Rotate",
    EventType.STOP: "Stop",
    EventType.INCIDENT: "",
    EventType.BEGIN_LOAD_QUERY: "",
    EventType.EXECUTE_LOAD_QUERY: "Execute_load_query",
    EventType.TRANSACTION_PAYLOAD: "Transaction_Payload",
    EventType.MARIADB_GTID: "GTID",
    EventType.GTID_LIST: "Gtid",
    EventType.BINLOG_CHECKPOINT: "Binlog",
    EventType.ANNOTATE_ROWS: "Annotate_rows",
    EventType.QUERY_COMPRESSED: "Query_compressed",
}
HEAD = re.compile(
    rb"#(\d{6} [ \d]\d:\d\d:\d\d) server id (\d+)  end_log_pos (\d+)"
    rb"(?: CRC32 0x([0-9a-f]{8}))?\s*(.*)"
)


def expected(folder: Path) -> dict[str, Any]:
    path = folder / "expected.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def series_of(folder: Path) -> list[Any]:
    return find(folder)


def keys_of(folder: Path) -> Path | None:
    """The keyring of an encrypted log."""
    return next((path for path in folder.iterdir() if path.name in {"keys", "keyring"}), None)


def witness(folder: Path) -> tuple[list[int], list[tuple[Any, ...]], list[str]]:
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


def test_there_is_a_corpus() -> None:
    assert WITNESSED


@pytest.mark.slow
@each_case("folder", CASES, ids=lambda folder: folder.name)
def test_every_event_decodes(folder: Path) -> None:
    said = expected(folder)
    series_found = series_of(folder)
    if said.get("encrypted"):
        for series in series_found:
            with pytest.raises(KeyMissing, match="encrypted with"):
                list(open_log(series))
        series_found = find(folder, keys_of(folder))
    for series in series_found:
        log = open_log(series)
        parser = BoundaryParser()
        count = 0
        for event in log:
            count += 1
            check_event(event)
            boundary = parser.feed(event)
            if event.inner_index is None and boundary is Boundary.BEGIN:
                assert parser.inside
        assert count
        assert log.ignored == 0
        assert (log.torn_tail is not None) == bool(said.get("torn"))
        assert log.incomplete == parser.inside
        assert parser.inside == bool(said.get("torn"))


def check_event(event: Event) -> None:
    fields = event.fields()
    assert repr(event).startswith(f"<{event.name} ")
    again = pickle.loads(pickle.dumps(event))
    assert again == event
    assert again.fields() == fields
    if isinstance(event, RowsEvent) and not event.is_dummy:
        table = event.table_map
        assert len(table.columns) == event.width
        for bits in (event.present_before, event.present_after):
            assert bits is None or len(bits) == (event.width + 7) // 8
        assert (event.present_before is None) == (event.kind == "insert")
        assert (event.present_after is None) == (event.kind == "delete")
        assert isinstance(event.row_data, bytes)
    if isinstance(event, QueryEvent):
        assert event.status_variables.unparsed == b""


@each_case("folder", WITNESSED, ids=lambda folder: folder.name)
def test_mysqlbinlog_saw_the_same_events(folder: Path) -> None:
    offsets, heads, next_gtids = witness(folder)
    events = [event for series in series_of(folder) for event in open_log(series)]
    # For inner events the tool prints where the payload ends.
    assert offsets == [
        event.offset if event.inner_index is None else event.end_offset for event in events
    ]
    assert len(heads) == len(events)
    for event, (timestamp, server_id, end, crc, what) in zip(events, heads, strict=True):
        label = re.split(r"[\s:=]", what, maxsplit=1)[0]
        assert (event.timestamp, event.header.server_id) == (timestamp, server_id), what
        assert LABELS[EventType(event.type)] == label.replace("XID", "XA")  # MariaDB's word
        if event.inner_index is None:
            assert event.header.log_pos == end
            assert event.checksum == crc or event.type == EventType.FORMAT_DESCRIPTION
        else:
            assert event.end_offset == end
        compare(event, what)
    gtids = [event for event in events if isinstance(event, GtidEvent) and event.gtid]
    assert [str(event.gtid) for event in gtids] == next_gtids


def compare(event: Event, what: str) -> None:
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


SMALL = [
    path
    for folder in CASES
    for path in sorted(folder.iterdir())
    if path.stat().st_size < 1500 and re.search(r"\.\d{6}$", path.name)
]


@each_case("path", SMALL, ids=lambda path: f"{path.parent.name}.{path.name}")
def test_each_truncation(path: Path, tmp_path: Path) -> None:
    """A cut file raises errors of the tree, or ends early where the log was open; never else."""
    whole = path.read_bytes()
    cut = tmp_path / path.name
    for size in range(0, len(whole), 23):
        cut.write_bytes(whole[:size])
        try:
            events = list(open_log(cut, keyring=keys_of(path.parent)))
        except LogError:
            continue
        except StorageError as error:
            assert str(error).endswith("the file ends inside its first event")  # noqa: PT017 - one of two
            continue
        assert events[-1].end_offset is not None
        assert events[-1].end_offset <= size
