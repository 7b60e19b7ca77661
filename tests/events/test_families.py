"""Each parser on a whole event, on each truncation of it, and with bytes behind it."""

import pytest

from tailrace import events
from tailrace.constants import ColumnType, EventType
from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events import (
    REGISTRY,
    ColumnSpec,
    TableMapEvent,
    TransactionContextEvent,
    UserVarEvent,
    ViewChangeEvent,
    WriteRowsEvent,
    XaName,
    XidEvent,
)
from tailrace.gtid import GtidSet
from tests.cases import each_case
from tests.events.cases import CASES
from tests.events.cases_mariadb import MARIADB_CASES
from tests.events.made import decode, unread

E = EventType
ALL = {**CASES, **MARIADB_CASES}


def plain(fields):
    return {
        name: list(value) if type(value).__name__ == "GtidList" else value
        for name, value in fields.items()
    }


@each_case("case", ALL.values(), ids=ALL)
def test_whole(case):
    """And on each truncation of it, and with a byte behind it."""

    def decoded(body):
        return decode(case.code, body, case.flavour, **case.header)

    event = decoded(case.body)
    assert type(event) is REGISTRY[case.code]
    assert plain(event.fields()) == case.fields
    assert repr(event).startswith(f"<{case.code.name} binlog.000001@4")
    for size in range(len(case.body)):
        if size in case.legal:
            decoded(case.body[:size])
            continue
        with pytest.raises(EventDecodeError) as caught:
            decoded(case.body[:size])
        assert (caught.value.file, caught.value.offset) == ("binlog.000001", 4), size
        assert caught.value.event_type == case.code.name
    if case.open_end:
        decoded(case.body + b"\x07")
        return
    with pytest.raises(EventDecodeError):
        decoded(case.body + b"\x07")


@each_case(
    ("code", "body", "words"),
    [
        (E.INTVAR, "03" + "00" * 8, "kind 3 of an integer variable"),
        (E.USER_VAR, "01000000 76 00 05" + "00" * 8, "type 5 of a user variable"),
        (E.USER_VAR, "01000000 76 00 03" + "00" * 8, "type 3 of a user variable"),
        (E.USER_VAR, "01000000 76 00 02 08000000 04000000 01020304", "4 bytes for a number of 8"),
        (E.XA_PREPARE, "00 01000000 41000000 00000000" + "61" * 65, "XA name parts of 65 and 0"),
        (E.EXECUTE_LOAD_QUERY, "00" * 25 + "03" + "00", "duplicate handling 3"),
        (E.EXECUTE_LOAD_QUERY, "00" * 17 + "02000000 01000000 00 00 78", "outside the statement"),
        (E.TRANSACTION_CONTEXT, "00" * 10 + "ff000000 00000000", "255 hashes in 0 bytes"),
    ],
)
def test_values_that_are_refused(code, body, words):
    with pytest.raises(EventDecodeError, match=words):
        decode(code, bytes.fromhex(body))


def test_xid_is_the_event_and_an_xa_name_is_one():
    """WL#3283, Xid: no name stands for both."""
    assert not hasattr(events, "Xid")
    assert XaName(1, b"x1", b"b").gtrid == b"x1"
    assert events.XidEvent.make(xid=5).xid == 5


def test_header_fields_have_one_name_in_reading_and_in_making():
    """WL#3283, Log_event_header: flags of the header and flags of the event are told apart."""
    columns = (ColumnSpec(ColumnType.LONG, 0, True),)
    table = TableMapEvent.make(
        table_id=7, database="d", table="t", columns=columns, server_id=9, header_flags=0x20
    )
    assert (table.server_id, table.header_flags, table.flags) == (9, 0x20, 1)
    assert (table.header.server_id, table.header.flags) == (9, 0x20)
    other = table.replace(flags=4)
    assert (other.flags, other.header_flags) == (4, 0x20)
    assert other.body[6:8] == b"\4\0"
    other = table.replace(header_flags=8, server_id=3)
    assert (other.flags, other.header_flags, other.server_id) == (1, 8, 3)
    assert other.body == table.body
    rows = WriteRowsEvent.make(table_map=table, flags=1)
    assert rows.stmt_end
    assert not rows.replace(flags=0).stmt_end
    with pytest.raises(EventEncodeError, match="XidEvent has no field 'flags': the header's are"):
        XidEvent.make(xid=1, flags=8)


def test_is_null_of_a_user_variable():
    """WL#3283, User_var_event: is_null."""
    assert UserVarEvent.make(variable="v", value=None).is_null
    assert not UserVarEvent.make(variable="v", value=b"").is_null
    assert decode(E.USER_VAR, bytes.fromhex("01000000 76 01")).is_null


def test_group_replication_keeps_its_sets_for_who_asks():
    view = decode(E.VIEW_CHANGE, CASES["view change"].body)
    assert isinstance(view, ViewChangeEvent)
    assert view.certification == {b"k": b"vv"}
    cut = unread(E.VIEW_CHANGE, CASES["view change"].body[:-1])
    assert isinstance(cut, ViewChangeEvent)
    assert cut.view_id == "view:1"
    with pytest.raises(EventDecodeError, match=r"binlog\.000001 at 4 \(VIEW_CHANGE\)"):
        _ = cut.certification
    body = CASES["transaction context"].body
    for snapshot, good in ((bytes(8), True), (b"\1" + bytes(7), False)):
        event = unread(E.TRANSACTION_CONTEXT, body[:22] + snapshot + body[30:])
        assert isinstance(event, TransactionContextEvent)
        if good:
            assert event.snapshot_gtids == GtidSet()
        else:
            with pytest.raises(EventDecodeError, match="TRANSACTION_CONTEXT"):
                _ = event.snapshot_gtids
