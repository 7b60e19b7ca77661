"""What the format cannot hold is refused when an event is made, with the field's name."""

import pytest

from tailrace import events as kinds
from tailrace.constants import EventType, Flavour
from tailrace.errors import EventEncodeError
from tailrace.events.payload import Compression
from tailrace.events.variables import UserVarType
from tailrace.gtid import Gtid
from tests.cases import each_case
from tests.events.fields import FORMS, some_table
from tests.events.refused import GTID, REFUSED, TABLE, U

MYSQL, MARIADB = Flavour


def test_what_the_format_cannot_hold():
    for kind, cases in REFUSED.items():
        form = FORMS[MARIADB if kind.__module__.endswith(".mariadb") else MYSQL]
        for fields, words in cases:
            with pytest.raises(EventEncodeError) as caught:
                kind.make(form=form, **fields)
            assert words in str(caught.value), (kind, fields)


def test_an_error_names_the_event():
    with pytest.raises(EventEncodeError, match=r"^\(XID\): xid: -1"):
        kinds.XidEvent.make(xid=-1)
    made = kinds.XidEvent.make(xid=1)
    for place in (-1, "end", 1.5):
        with pytest.raises(EventEncodeError, match="log_pos"):
            made.encode(log_pos=place)


@each_case(
    ("events", "options", "words"),
    [
        ([], {}, "events: a payload holds at least one"),
        (["BEGIN"], {}, "events: 'BEGIN' is no event"),
        ([kinds.FormatDescriptionEvent.make()], {}, "events: a FORMAT_DESCRIPTION cannot be in a"),
        ([kinds.XidEvent.make(xid=1)], {"compression": 3}, "compression: 3"),
        ([kinds.XidEvent.make(xid=1)], {"level": 99}, "level: 99"),
    ],
)
def test_payloads_that_are_refused(events, options, words):
    with pytest.raises(EventEncodeError, match=words):
        kinds.TransactionPayloadEvent.of(events, **options)


def test_what_may_be_left_out():
    """The types and values that follow from others."""
    assert kinds.GtidEvent.make(gtid=None).type == EventType.ANONYMOUS_GTID
    assert kinds.GtidEvent.make(gtid=GTID).type == EventType.GTID
    assert kinds.GtidEvent.make(gtid=Gtid(U, "t", 1)).type == EventType.GTID_TAGGED
    tagged = kinds.GtidEvent.make(gtid=GTID).replace(gtid=Gtid(U, "t", 1), type=None)
    assert (tagged.type, tagged.gtid) == (EventType.GTID_TAGGED, Gtid(U, "t", 1))
    made = kinds.WriteRowsEvent.make(table_map=TABLE, form=FORMS[MARIADB])
    assert (made.type, made.present_after, made.width) == (EventType.WRITE_ROWS_V1, b"\7", 3)
    assert kinds.WriteRowsEvent.make(table_map=TABLE).type == EventType.WRITE_ROWS
    assert kinds.PartialUpdateRowsEvent.make(table_map=TABLE).type == EventType.PARTIAL_UPDATE_ROWS
    dummy = kinds.DeleteRowsEvent.make(table_map=None, flags=1)
    assert dummy.is_dummy
    assert dummy.stmt_end
    both = kinds.GtidEvent.make(
        gtid=GTID,
        last_committed=0,
        sequence_number=1,
        immediate_commit_timestamp=5,
        transaction_length=300,
        immediate_server_version=90704,
    )
    assert (both.original_commit_timestamp, both.original_server_version) == (5, 90704)
    assert kinds.UserVarEvent.make(variable="v", value="é").value == "é".encode()
    assert kinds.UserVarEvent.make(variable="v", value=1.5).value_type is UserVarType.REAL
    for flavour in Flavour:
        event = kinds.FormatDescriptionEvent.make(flavour=flavour)
        assert event.description == FORMS[flavour]
    group = kinds.MariadbGtidEvent.make(seq_no=5, commit_id=7, thread_id=9, server_id=3)
    assert (group.flags, group.flags_extra, str(group.gtid)) == (2, 0x10, "0-3-5")


def test_what_follows_when_fields_are_replaced():
    rows = kinds.WriteRowsEvent.make(table_map=TABLE, row_data=b"rows", timestamp=5)
    other = rows.replace(table_map=some_table(9, 5), present_after=None, flags=1)
    assert (other.table_id, other.width, other.row_data, other.timestamp) == (5, 9, b"rows", 5)
    assert other.stmt_end
    with pytest.raises(EventEncodeError, match="present_after: 1 bytes where 2 are needed"):
        rows.replace(table_map=some_table(9, 5))
    payload = kinds.TransactionPayloadEvent.of([kinds.XidEvent.make(xid=1)])
    assert payload.uncompressed_size == 27
    assert payload.replace(payload=b"").uncompressed_size is None
    assert payload.replace(unknown_fields=((9, b"x"),)).uncompressed_size == 27
    null = kinds.UserVarEvent.make(variable="v", value=5, collation=8).replace(value=None)
    assert (null.value, null.collation) == (None, None)
    text = kinds.RowsQueryEvent.make(sql="x", length_byte=9)
    assert (text.body, text.replace(sql="yy").body) == (b"\x09x", b"\2yy")
    row_data = kinds.PartialRowDataEvent.make(part=1, parts=1, original_size=5, chunk=b"x")
    assert row_data.replace(original_size=None).fragment_flags == 0


def test_payloads():
    form = FORMS[MYSQL]
    inside = [
        kinds.QueryEvent.make(sql="BEGIN", timestamp=7, server_id=3, form=form),
        TABLE,
        kinds.WriteRowsEvent.make(table_map=TABLE, row_data=b"\0" * 13, flags=1, form=form),
        kinds.XidEvent.make(xid=9, form=form),
    ]
    for options in ({}, {"level": 19}, {"level": -5}, {"compression": Compression.NONE}):
        made = kinds.TransactionPayloadEvent.of(inside, **options, form=form)
        assert (made.timestamp, made.header.server_id) == (7, 3)
        found = list(made)
        assert [event.name for event in found] == ["QUERY", "TABLE_MAP", "WRITE_ROWS", "XID"]
        assert [event.encode() for event in found] == [event.encode() for event in inside]
        assert made.compression is options.get("compression", Compression.ZSTD)
        assert made.uncompressed_size == sum(map(len, made.raw_events()))
        again = kinds.TransactionPayloadEvent.of(made, **options)
        assert again.body == made.body
        made.check()
