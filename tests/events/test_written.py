"""What is read is written: every event of every recorded log, and of those made by hand.

Grows by adding a folder to tests/corpus or examples, or a case to `cases`.
"""

import pickle
from collections import Counter

import pytest

from tailrace.constants import ChecksumAlgorithm, EventFlag, EventType
from tailrace.events import (
    REGISTRY,
    DecodeContext,
    ObsoleteEvent,
    PreGaRowsEvent,
    QueryCompressedEvent,
    QueryEvent,
    RowsEvent,
    TableMapEvent,
    TransactionPayloadEvent,
)
from tailrace.storage import EventReader, find
from tests.cases import each_case
from tests.events.cases import CASES
from tests.events.cases_mariadb import MARIADB_CASES
from tests.events.made import checked, context, raw_event, table_map_body, unread
from tests.recorded import folders

MADE = {**CASES, **MARIADB_CASES}
CRC32 = ChecksumAlgorithm.CRC32
NOT_RECORDED = {
    # None of our servers writes these: only cases by hand have them.
    *(EventType.APPEND_BLOCK, EventType.DELETE_FILE, EventType.HEARTBEAT, EventType.HEARTBEAT_V2),
    *(EventType.IGNORABLE, EventType.TRANSACTION_CONTEXT, EventType.VIEW_CHANGE),
    *(EventType.LARGE_TRANSACTION_HEADER, EventType.START_ENCRYPTION, EventType.PARTIAL_ROW_DATA),
    *(EventType.WRITE_ROWS_COMPRESSED, EventType.UPDATE_ROWS_COMPRESSED),
    EventType.DELETE_ROWS_COMPRESSED,
    *(code for code, kind in REGISTRY.items() if issubclass(kind, ObsoleteEvent | PreGaRowsEvent)),
}


def events(folder):
    """The events of a folder's logs with their bytes; those of payloads, too."""
    for series in find(folder):
        reading = DecodeContext()
        for file in series.files:
            for offset, raw in EventReader(file):
                event = reading.decode(raw, file=file.name, offset=offset)
                yield event, bytes(raw)
                if isinstance(event, TransactionPayloadEvent):
                    yield from zip(event, event.raw_events(), strict=True)


def content(event):
    """What an event holds apart from how it is compressed."""
    if isinstance(event, RowsEvent) and event.compressed:
        head = event.body[: len(event.body) - len(event.body[event._rows_at :])]
        return head, event.row_data
    if isinstance(event, QueryCompressedEvent):
        return event.body[: event._sql_at], event.sql_bytes
    return event.body


def check_event(event):
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


def check_again(event, raw):
    """Written as read; and the same when its body is made anew from its fields."""
    assert event.encode() == raw
    again = event.replace()
    assert type(again) is type(event)
    assert content(again) == content(event)
    assert (again.file, again.offset, again.inner_index) == (
        *(event.file, event.offset, event.inner_index),
    )
    assert again.end_offset == event.end_offset
    assert again.checksum is None
    if again.body == event.body and not event.header.flags & EventFlag.IN_USE:
        assert again.encode(event_checksum(event)) == raw
    shifted = event.replace(timestamp=event.timestamp ^ 1)
    assert shifted.body == event.body
    assert shifted.encode(ChecksumAlgorithm.NONE)[4:] == again_header(event) + event.body + tail(
        shifted
    )


def event_checksum(event):
    return ChecksumAlgorithm.NONE if event.checksum is None else CRC32


def tail(event):
    """A format description's checksum, which it has always."""
    return event.encode()[-4:] if event.type == EventType.FORMAT_DESCRIPTION else b""


def again_header(event):
    """The header behind the timestamp, of the event without a checksum."""
    size = 19 + len(event.body) + 4 * (event.type == EventType.FORMAT_DESCRIPTION)
    return event.header.resized(size).encode()[4:]


@pytest.mark.slow
def test_every_recorded_event():
    """Each is written again; and the types that no folder has are those of `NOT_RECORDED`."""
    recorded = set()
    layouts = Counter()
    for folder in folders("encrypted", shop=True):
        count = 0
        for event, raw in events(folder):
            event.check()
            try:
                check_event(event)
                check_again(event, raw)
                if isinstance(event, TableMapEvent):
                    check_order(event)
                    layouts[event.optional_metadata] += 1
                elif type(event) in {QueryEvent, QueryCompressedEvent}:
                    check_session(event)
            except AssertionError as error:
                error.add_note(f"{folder.name}: {event!r:.200}")
                raise
            recorded.add(event.type)
            count += 1
        assert count, folder.name
    assert recorded | NOT_RECORDED >= set(REGISTRY)
    assert not recorded & NOT_RECORDED
    assert layouts.total() > 4000
    assert len(layouts) > 100


def check_order(event):
    """Without the bytes that were read, the same optional metadata comes of the columns alone: the
    servers' order and forms are ours.
    """
    assert event.replace(optional_metadata=b"").body == event.body


def check_session(event):
    """Replacing a statement keeps what the session was."""
    assert isinstance(event, QueryEvent)
    other = event.replace(sql="SELECT 'ä'", database="elsewhere")
    assert (other.sql, other.database) == ("SELECT 'ä'", "elsewhere")
    assert other.status == event.status
    assert list(other.status) == list(event.status)
    assert other.status_variables == event.status_variables


@each_case("case", MADE.values(), ids=MADE)
def test_every_case(case):
    """And every shorter body of it that is legal."""
    raw = raw_event(case.code, case.body, **case.header)
    check_again(context(case.flavour).decode(raw), raw)
    for size in case.legal:
        event = unread(case.code, case.body[:size], case.flavour, **case.header)
        if case.code in {EventType.GTID_LIST, EventType.MARIADB_GTID}:
            # Servers pad these, and so do we: the same fields, in the servers' bytes.
            assert event.replace().fields() == event.fields()
        else:
            assert event.replace().body == event.body, size


@each_case("code", [20, 21, 22, 1, 6, 7, 8, 10, 12, 28])
def test_bodies_that_are_left_as_they_are(code):
    event = unread(code, b"anything")
    assert event.replace().body == b"anything"
    assert event.replace(data=b"else").body == b"else"


EXTRAS = [b"", b"\1\3\0", b"\0\5\x09abc", b"\0\3\0x\1\1\0", b"\1\3\0\x77\xde\xad", b"\x77"]


@each_case("extra", EXTRAS)
@each_case("code", [30, 31, 32, 39, 169, 170, 171])
def test_extra_headers(code, extra):
    update = code in {31, 39, 170}
    if update:  # its partition has a source
        extra = extra.replace(b"\1\3\0", b"\1\3\0\2\0").replace(b"\1\1\0", b"\1\1\0\2\0")
    made = context("mariadb" if code > 100 else "mysql")
    made.decode(raw_event(EventType.TABLE_MAP, table_map_body(b"\3\3")))
    body = b"\7\0\0\0\0\0\1\0" + (2 + len(extra)).to_bytes(2, "little") + extra + b"\2\3"
    body += b"\3" * update
    plain = b"\0\1\0\0\0\2\0\0\0"
    block = bytes.fromhex("8109789c6360646060600200001d0006") if code > 100 else plain
    event = made.decode(raw_event(code, body + (b"" if code > 100 else block)))
    assert event.replace(row_data=plain).body.startswith(body)
    if code < 100:
        check_again(event, raw_event(code, body + block))


@each_case("flavour", ["mysql", "mariadb"])
def test_optional_metadata_is_kept_as_it_was_laid_out(flavour):
    """Fields in another order, in the form that the servers would not choose, and unknown ones."""
    sign, charset = b"\1\1\x80", b"\3\2\x21\x21"
    names = b"\4\7\1a\1b\2cc"
    for optional in (
        sign + charset + names,
        names + b"\x63\3???" + charset + sign + b"\x64\0",
        b"\2\1\x21" + b"\x09\2\0\0",  # a key with prefixes, all of which are whole
        b"\2\3\x21\0\x3f",
        b"\x0a\1\x21",  # of no ENUM
        b"\x05\0\x06\0\x07\0",
        b"\x08\0",
    ):
        made = context(flavour)
        body = table_map_body(b"\3\x0f\x0f", b"\4\0\4\0", optional)
        event = checked(made, raw_event(EventType.TABLE_MAP, body))
        assert event.replace().body == body
