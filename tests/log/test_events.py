"""The log as an iterable: events, transactions, position."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tailrace.constants import EventType
from tailrace.errors import (
    EventDecodeError,
    LogError,
    StorageError,
    TruncatedEvent,
    UnknownEvent,
    UsageError,
)
from tailrace.events import (
    FormatDescriptionEvent,
    OpaqueEvent,
    RowsEvent,
    TableMapEvent,
    TransactionPayloadEvent,
    UnknownIgnorableEvent,
    XidEvent,
)
from tailrace.handlers import Handler
from tailrace.log import Log
from tailrace.log import open as open_log
from tailrace.position import Position
from tests.cases import each_case
from tests.events.cases import GTID
from tests.events.made import log, query_body, raw_event, raw_format, table_map_body, write
from tests.events.test_payload import INNER, PLAIN, compress, payload_body
from tests.recorded import CORPUS
from tests.writing.made import FLAVOURS, UUID, append, ddl
from tests.writing.made import log as written_log

E = EventType
BEGIN = raw_event(E.QUERY, query_body(b"BEGIN"))
XID = raw_event(E.XID, bytes(8))
DDL = raw_event(E.QUERY, query_body(b"CREATE TABLE t (id INT)"))


def test_a_log_over_several_files(tmp_path):
    rotate = raw_event(E.ROTATE, bytes([4, *bytes(7)]) + b"binlog.000002")
    log(tmp_path, 1, BEGIN, XID, rotate)
    log(tmp_path, 2, DDL)
    with open_log(tmp_path) as opened:
        assert [event.name for event in opened] == [
            *["FORMAT_DESCRIPTION", "QUERY", "XID", "ROTATE"],
            *["FORMAT_DESCRIPTION", "QUERY"],
        ]
        assert [event.file for event in opened][3:5] == ["binlog.000001", "binlog.000002"]
        assert opened.created == 1_700_000_000
        assert opened.format.server_version == "9.7.4"
        assert (opened.incomplete, opened.ignored, opened.torn_tail) == (False, 0, None)
        kinds = [(one.kind, len(one.events)) for one in opened.transactions()]
        assert kinds == [("commit", 2), ("ddl", 1)]


def test_the_position_moves_after_delivery_and_only_to_a_transactions_end(tmp_path):
    path = log(tmp_path, 1, BEGIN, XID, DDL, BEGIN)
    opened = open_log(path)
    start = Position("binlog.000001", 4)
    assert opened.position == start
    ends = [event.end_offset for event in opened]
    seen = [opened.position.offset for _ in opened]
    head, _, xid, ddl, _ = ends
    assert seen == [4, head, head, xid, ddl]
    assert opened.position == Position("binlog.000001", ddl or 0)
    assert opened.incomplete
    positions = []
    for transaction in opened.transactions():
        positions.append(opened.position.offset)
        assert transaction.end is not None
    assert positions == [head, xid, ddl]
    assert [one.complete for one in opened.transactions()] == [True, True, False]
    assert opened.position == Position("binlog.000001", ddl or 0)


def test_payloads_are_opened(tmp_path):
    gtid = raw_event(E.GTID, GTID)
    payload = raw_event(E.TRANSACTION_PAYLOAD, payload_body(compress(PLAIN)))
    path = log(tmp_path, 1, gtid, payload)
    opened = open_log(path)
    names_ = [event.name for event in opened]
    assert names_[2:] == ["TRANSACTION_PAYLOAD", "QUERY", "TABLE_MAP", "WRITE_ROWS", "XID"]
    assert len(names_[3:]) == len(INNER)
    seen = {event.name: opened.position.offset for event in opened}
    assert len(set(seen.values())) == 2  # it moves over the payload in one step
    assert opened.position.offset == path.stat().st_size
    closed = list(open_log(path, expand_payloads=False))
    assert isinstance(closed[-1], TransactionPayloadEvent)
    (transaction,) = opened.transactions()
    assert len(transaction.events) == 2
    assert len(list(transaction.all_events())) == 6


def test_ignored_events_are_counted(tmp_path):
    unknown = raw_event(99, b"x", flags=0x80)
    inside = raw_event(E.TRANSACTION_PAYLOAD, payload_body(compress(INNER[0] + unknown + INNER[3])))
    path = log(tmp_path, 1, unknown, DDL, inside)
    opened = open_log(path)
    found = [event for event in opened if isinstance(event, UnknownIgnorableEvent)]
    assert len(found) == opened.ignored == 2
    assert len(list(opened.transactions())) == 2
    assert opened.ignored == 1
    with pytest.raises(UnknownEvent, match=r"binlog\.000002 at \d+ \(UNKNOWN_99\)"):
        list(open_log(log(tmp_path, 2, raw_event(99, b"x"))))


@each_case("flavour", FLAVOURS)
def test_what_is_written_can_be_read(tmp_path, flavour):
    """WL#3283, Pitch 3: events of a format that is not known are written and read."""
    with written_log(tmp_path / "binlog.000001", flavour) as out:
        ddl(out, 1)
    mine = OpaqueEvent.make(
        type=198, data=b"of my own", timestamp=5, form=open_log(tmp_path).format
    )
    with append(
        tmp_path / "binlog.000001", server_uuid=UUID if flavour == "mysql" else None
    ) as out:
        out.write(mine)
        ddl(out, 1, first=2)
    with pytest.raises(UnknownEvent, match=r'\(UNKNOWN_198\): .* open\(\.\.\., unknown="opaque"\)'):
        list(open_log(tmp_path))
    opened = open_log(tmp_path, unknown="opaque")
    (found,) = (event for event in opened if type(event) is OpaqueEvent)
    assert (found.type, found.data, found.timestamp) == (198, b"of my own", 5)
    assert [one.kind for one in opened.transactions()] == ["ddl", "ddl"]
    opened.seek(Position(found.file or "", found.offset or 0))
    assert next(each for each in opened if each.offset != 4) == found
    seen = []

    class Generic(Handler):
        def on_event(self, event):
            seen.append(event.type)
            return event

    opened.seek(None)
    opened.handlers.append(Generic())
    opened.connect()
    assert sum(event.type == 198 for event in opened) == seen.count(198) == 1
    with pytest.raises(UsageError, match='unknown is "error" or "opaque"'):
        open_log(tmp_path, unknown="skip")


def test_unknown_events_in_a_payload_are_read_as_in_the_log(tmp_path):
    inside = INNER[0] + raw_event(198, b"x") + INNER[3]
    payload = raw_event(E.TRANSACTION_PAYLOAD, payload_body(compress(inside)))
    path = log(tmp_path, 1, raw_event(E.GTID, GTID), payload)
    with pytest.raises(UnknownEvent):
        list(open_log(path))
    opened = open_log(path, unknown="opaque")
    assert [event.type for event in opened if event.inner_index is not None] == [2, 198, 16]
    (transaction,) = opened.transactions()
    assert [event.type for event in transaction.all_events()][-2:] == [198, 16]
    again = pickle.loads(pickle.dumps(transaction.events[-1]))
    assert [event.type for event in again] == [2, 198, 16]


def test_a_torn_tail_is_noted(tmp_path):
    path = write(tmp_path / "binlog.000001", raw_format(flags=1), BEGIN, XID, BEGIN, XID[:-3])
    opened = open_log(path)
    events = list(opened)
    assert opened.torn_tail == Position("binlog.000001", events[-1].end_offset or 0)
    assert opened.incomplete
    assert opened.position == Position("binlog.000001", events[2].end_offset or 0)
    list(opened.transactions())
    assert opened.torn_tail is not None


def test_the_first_event_must_be_a_format_description(tmp_path):
    path = write(tmp_path / "b.1", XID)
    with pytest.raises(EventDecodeError, match=rf"{re.escape(str(path))} at 4 \(XID\): no format"):
        open_log(path)
    rotate = write(tmp_path / "b.2", raw_event(E.ROTATE, bytes(8) + b"x"))
    with pytest.raises(LogError, match="begins with a format description event"):
        open_log(rotate)
    torn = write(tmp_path / "b.3", raw_format(flags=1)[:60])
    with pytest.raises(TruncatedEvent, match="ends inside its first event"):
        open_log(torn)


def test_resuming_at_every_transactions_end(tmp_path):
    log(tmp_path, 1, BEGIN, XID, DDL, BEGIN, XID)
    log(tmp_path, 2, DDL, BEGIN, raw_event(E.TABLE_MAP, table_map_body(b"\3")), XID)
    whole = list(open_log(tmp_path).transactions())
    for number, done in enumerate(whole):
        resumed = open_log(tmp_path, start=done.end)
        assert resumed.position == done.end
        events = list(resumed)
        assert isinstance(events[0], FormatDescriptionEvent)
        assert resumed.position == open_log_end(tmp_path)
        assert [one.events for one in resumed.transactions()] == [
            one.events for one in whole[number + 1 :]
        ]


def open_log_end(source):
    opened = open_log(source)
    list(opened)
    return opened.position


def without_formats(events):
    return [event for event in events if not isinstance(event, FormatDescriptionEvent)]


@each_case(
    "case",
    [
        "mysql-9.7.checksum-none",
        "mysql-9.7.payload-full",
        "mysql-9.7.relay-log",
        "mariadb-11.8.several-tables",
        "mariadb-11.8.xa",
        "mariadb-11.8.relay-log",
    ],
)
def test_every_event_is_a_position(case):
    """WL#3283, position(filename, position): also inside a transaction, with its table maps."""
    opened = open_log(CORPUS / case)
    whole = [event for event in opened if event.inner_index is None]
    inside = 0
    for number, event in enumerate(whole):
        if number % 3 or event.offset == 4 or isinstance(event, FormatDescriptionEvent):
            continue
        place = Position(event.file or "", event.offset or 0)
        opened.seek(place)
        assert opened.position == place
        events = [each for each in opened if each.inner_index is None]
        assert isinstance(events[0], FormatDescriptionEvent)
        assert without_formats(events) == without_formats(whole[number:])
        rows = [each for each in events if isinstance(each, RowsEvent) and not each.is_dummy]
        assert all(each.table_map.table_id == each.table_id for each in rows)
        inside += isinstance(event, (TableMapEvent, RowsEvent, XidEvent))
    assert inside > 2 or "payload" in case


@each_case("case", ["mysql-9.7.checksum-none", "mariadb-11.8.several-tables"])
def test_where_no_event_begins_is_an_error_at_once(case):
    """WL#3283, position(position): setting a position succeeds, or is an error and changes nothing."""
    opened = open_log(CORPUS / case)
    first = opened.position.file
    events = [each for each in opened if each.file == first and each.inner_index is None]
    size = events[-1].end_offset or 0
    begin = opened.position
    starts = {0, 4, size} | {each.offset for each in events}
    for offset in (-5, *range(min(size, 1500)), *range(size - 18, size)):
        if offset in starts:
            continue
        with pytest.raises(StorageError, match=f"no event begins at {offset}$"):
            opened.seek(Position(first, offset))
        assert opened.position == begin
    with pytest.raises(StorageError, match=f"has {size} bytes and no position"):
        opened.seek(Position(first, size + 1))
    opened.seek(Position(first, 0))
    assert next(iter(opened)).offset == 4


def test_an_offset_alone_is_in_the_current_file(tmp_path):
    """WL#3283, position(position): "using the current filename"."""
    log(tmp_path, 1, DDL, raw_event(E.ROTATE, bytes([4, *bytes(7)]) + b"binlog.000002"))
    log(tmp_path, 2, BEGIN, XID, DDL)
    opened = open_log(tmp_path)
    opened.seek(4)
    assert opened.position == Position("binlog.000001", 4)
    events = list(opened)
    assert opened.position.file == "binlog.000002"
    opened.position = events[-1].offset
    assert opened.position == Position("binlog.000002", events[-1].offset or 0)
    assert list(opened)[1:] == events[-1:]
    with pytest.raises(StorageError, match="no event begins at 77"):
        opened.position = 77
    with pytest.raises(UsageError, match="start is"):
        opened.seek(True)
    with pytest.raises(UsageError, match="start is"):
        open_log(tmp_path, start=4)


def test_a_log_is_not_made_of_a_path(tmp_path):
    """WL#3283, Motivation: it should be difficult to use the interface in the wrong way."""
    path = log(tmp_path, 1, DDL)
    for wrong in (str(path), path, None):
        with pytest.raises(UsageError, match="a Log is of a LogSeries or a transport, not of "):
            Log(wrong)
    with pytest.raises(UsageError):
        open_log("")


def test_transactions_do_not_begin_inside_one(tmp_path):
    path = log(tmp_path, 1, DDL, BEGIN, XID)
    opened = open_log(path)
    _, _, begin, xid = opened
    opened.seek(xid.offset)
    assert [event.name for event in opened] == ["FORMAT_DESCRIPTION", "XID"]
    assert opened.position.offset == xid.end_offset
    message = (
        rf"^binlog.000001:{xid.offset} is inside the .* begins at binlog.000001:{begin.offset}:"
    )
    with pytest.raises(UsageError, match=message):
        list(opened.transactions())
    opened.seek(begin.offset)
    assert [one.events for one in opened.transactions()] == [[begin, xid]]
    opened.seek(xid.offset)
    with opened:
        opened.connect()
        assert [event.name for event in opened] == ["FORMAT_DESCRIPTION", "XID"]


def test_several_threads_take_the_events_of_one_iteration(tmp_path):
    log(tmp_path, 1, *[BEGIN, XID] * 500)
    opened = open_log(tmp_path)
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(
            lambda _: [event.offset for event in iter(lambda: next(opened, None), None)], range(4)
        )
        offsets = sorted(offset for part in found for offset in part)
    assert offsets == [event.offset for event in open_log(tmp_path)]


@each_case("way", (iter, Log.transactions))
def test_several_threads_share_an_iterator(tmp_path, way):
    log(tmp_path, 1, *[BEGIN, XID] * 500)
    shared = way(open_log(tmp_path))
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda _: list(shared), range(4))
        count = sum(len(part) for part in found)
    assert count == len(list(way(open_log(tmp_path))))
