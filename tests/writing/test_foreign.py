"""Transactions of other logs, written again: every log of the corpus, and what is refused."""

import pytest

import tailrace
from tailrace.constants import EventType
from tailrace.errors import BoundaryError, EventEncodeError, GtidError
from tailrace.events import (
    FormatDescriptionEvent,
    GtidEvent,
    MariadbGtidEvent,
    QueryEvent,
    RotateEvent,
    RowsEvent,
    StopEvent,
    XidEvent,
)
from tailrace.writing import append
from tests.cases import each_case
from tests.events.made import MYSQL_ARRAY, query_body, raw_event, raw_format, table_map_body
from tests.events.made import write as write_events
from tests.recorded import CORPUS, folders
from tests.writing.made import FLAVOURS, UUID, check_files, events_of, log, transactions_of

CASES = folders("encrypted", "relay")
PASSED_OVER = {
    *("FORMAT_DESCRIPTION", "PREVIOUS_GTIDS", "GTID_LIST", "BINLOG_CHECKPOINT", "ROTATE", "STOP"),
    "START_ENCRYPTION",
}


def copied(source, target, **given):
    flavour = source.format.flavour
    with log(target, flavour, server_uuid=None, **given) as out:
        for event in source:
            out.write(event)
    return out


def content(event):
    """What must come out as it went in: all but place, checksum, and the GTID event's own length
    and clock.
    """
    header = event.header
    said = (header.timestamp, header.type, header.server_id, header.flags)
    if isinstance(event, GtidEvent):
        fields = event.fields()
        for name in ("last_committed", "sequence_number", "transaction_length"):
            fields.pop(name)
        return *said, *fields.values()
    return *said, event.body


@pytest.mark.slow
@each_case("case", CASES, ids=lambda case: case.name)
def test_copies_of_the_corpus(tmp_path, case):
    opened = tailrace.open(case, expand_payloads=False)
    before = [event for event in opened if event.name not in PASSED_OVER]
    whole = not opened.incomplete and opened.torn_tail is None
    file = tmp_path / "binlog.000001"
    version = opened.format.server_version
    if whole:
        copied(tailrace.open(case, expand_payloads=False), file, server_version=version)
    else:
        with pytest.raises(BoundaryError, match="do not make a whole transaction"):
            copied(tailrace.open(case), file, server_version=version)
    check_files(file)
    after = [event for event in events_of(file) if event.name not in PASSED_OVER]
    if whole:
        assert [content(event) for event in after] == [content(event) for event in before]
    else:
        assert [content(e) for e in after] == [content(e) for e in before[: len(after)]]
        assert len(after) < len(before)


def transaction(flavour, number=1, **given):
    """A transaction's events, made."""
    if flavour == "mysql":
        gtid = GtidEvent.make(gtid=tailrace.gtid.Gtid(UUID, "", number), server_id=3)
        begin = [QueryEvent.make(sql="BEGIN")]
    else:
        gtid = MariadbGtidEvent.make(seq_no=number, domain_id=0, server_id=3)
        begin = []
    return [
        gtid,
        *begin,
        QueryEvent.make(sql=f"insert into t values ({number})", database="shop", **given),
        XidEvent.make(xid=number),
    ]


both = each_case("flavour", FLAVOURS)


@both
def test_one_whole_transaction(tmp_path, flavour):
    with log(tmp_path / "binlog.000001", flavour) as out:
        out.write_transaction(transaction(flavour))
        place = out.position
        events = transaction(flavour, 2)
        for part in (events[:-1], events[1:2] if flavour == "mysql" else events[:1], []):
            with pytest.raises(BoundaryError, match="no whole transaction"):
                out.write_transaction(part)
        with pytest.raises(BoundaryError, match="second transaction"):
            out.write_transaction([*events, *transaction(flavour, 3)])
        # of those two, the first was whole and is in the log
        assert out.position > place
        with pytest.raises(GtidError):
            out.write_transaction(transaction(flavour, 1))
        out.write_transaction(transaction(flavour, 4))
    found = transactions_of(tmp_path)
    assert [each.gtid_event.header.server_id for each in found] == [3, 3, 3]
    check_files(tmp_path / "binlog.000001")


@both
def test_an_unfinished_transaction_is_told_at_the_end(tmp_path, flavour):
    out = log(tmp_path / "binlog.000001", flavour)
    for event in [*transaction(flavour), *transaction(flavour, 2)[:-1]]:
        out.write(event)
    with pytest.raises(BoundaryError, match="that `write` started"):
        out.write_transaction(transaction(flavour, 3))
    with pytest.raises(BoundaryError, match="are not in the log"):
        out.close()
    assert len(transactions_of(tmp_path)) == 1
    assert events_of(tmp_path)[-1].name == "STOP"


@both
def test_out_of_order_drops_the_transaction(tmp_path, flavour):
    with log(tmp_path / "binlog.000001", flavour) as out:
        first, second = transaction(flavour), transaction(flavour, 2)
        out.write(first[0])
        with pytest.raises(BoundaryError):
            out.write(second[0])
        out.write_transaction(second)
    assert len(transactions_of(tmp_path)) == 1


@both
def test_what_belongs_to_the_file_is_passed_over(tmp_path, flavour):
    head, *rest = transaction(flavour)
    strange = [
        FormatDescriptionEvent.make(flavour=flavour),
        RotateEvent.make(next_file="x.000003", next_offset=4),
        RotateEvent.make(next_file="x.000003", next_offset=4, header_flags=0x20),
        StopEvent.make(),
    ]
    with log(tmp_path / "binlog.000001", flavour) as out:
        for event in [*strange, head, strange[2], *rest, *strange]:
            out.write(event)
    assert len(transactions_of(tmp_path)) == 1
    assert events_of(tmp_path)[-2].name == "XID"
    check_files(tmp_path / "binlog.000001")


@both
def test_a_crash_in_the_source_makes_its_transaction_void(tmp_path, flavour):
    start = FormatDescriptionEvent.make(flavour=flavour, created=5, timestamp=5)
    with log(tmp_path / "binlog.000001", flavour) as out:
        for event in [*transaction(flavour)[:-1], start, *transaction(flavour, 2)]:
            out.write(event)
    assert len(transactions_of(tmp_path)) == 1


@each_case("flavour", FLAVOURS)
def test_the_other_flavours_events_are_refused(tmp_path, flavour):
    other = "mariadb" if flavour == "mysql" else "mysql"
    with log(tmp_path / "binlog.000001", flavour) as out:
        place = out.position
        with pytest.raises(EventEncodeError, match="do not read each other's logs"):
            out.write_transaction(transaction(other))
        form = FormatDescriptionEvent.make(flavour=other).description
        with pytest.raises(EventEncodeError, match="do not read each other's logs"):
            out.write_transaction(transaction(flavour, form=form))
        assert out.position == place
        out.write_transaction(transaction(flavour))


@each_case("uuid", [UUID, None])
def test_transactions_without_gtid_events_get_one(tmp_path, uuid):
    with log(tmp_path / "mysql.000001", "mysql", server_uuid=uuid) as out:
        out.write_transaction(transaction("mysql")[1:])
        out.write_transaction([QueryEvent.make(sql="create table t (a int)", timestamp=77)])
    first, second = transactions_of(tmp_path / "mysql.000001")
    assert (first.gtid is None) == (uuid is None)
    assert first.gtid_event.name == ("GTID" if uuid else "ANONYMOUS_GTID")
    assert second.gtid_event.flags == 1
    assert second.gtid_event.timestamp == 77
    with log(tmp_path / "mariadb.000001", "mariadb") as out:
        out.write_transaction(transaction("mysql")[1:])
        out.write_transaction([QueryEvent.make(sql="create table t (a int)", timestamp=77)])
    first, second = transactions_of(tmp_path / "mariadb.000001")
    assert (str(first.gtid), str(second.gtid)) == ("0-7-1", "0-7-2")
    assert [event.name for event in first.events] == ["MARIADB_GTID", "QUERY", "XID"]  # no BEGIN
    assert (first.gtid_event.standalone, second.gtid_event.standalone) == (False, True)
    check_files(tmp_path / "mariadb.000001")
    check_files(tmp_path / "mysql.000001")


def test_old_rows_events_are_laid_out_anew(tmp_path):
    """A log of MySQL 5.5: V1 rows, 4 byte table ids. MySQL 9.7 reads no such."""
    array = bytearray(MYSQL_ARRAY)
    array[EventType.TABLE_MAP - 1] = 6
    for code in (23, 24, 25):
        array[code - 1] = 6
    short_map = table_map_body(b"\x03")
    short_map = short_map[:4] + short_map[6:]
    rows = (7).to_bytes(4, "little") + b"\x01\0" + b"\x01\x01" + b"\x00\x05\0\0\0"
    old = write_events(
        tmp_path / "old.000001",
        raw_format("5.5.60", bytes(array[:27]), algorithm=None),
        raw_event(EventType.QUERY, query_body(b"BEGIN")),
        raw_event(EventType.TABLE_MAP, short_map),
        raw_event(EventType.WRITE_ROWS_V1, rows),
        raw_event(EventType.XID, bytes(8)),
    )
    with log(tmp_path / "binlog.000001", "mysql", server_uuid=None) as out:
        for event in tailrace.open(old):
            out.write(event)
    check_files(tmp_path / "binlog.000001")
    events = events_of(tmp_path / "binlog.000001")
    names = ["ANONYMOUS_GTID", "QUERY", "TABLE_MAP", "WRITE_ROWS", "XID", "STOP"]
    assert [event.name for event in events[2:]] == names
    written = events[5]
    assert isinstance(written, RowsEvent)
    assert written.stmt_end
    assert written.row_data == b"\x00\x05\0\0\0"
    assert written.table_map.table == "orders"


def test_a_copy_is_gone_on_with(tmp_path):
    case = CORPUS / "mysql-9.7.gtids"
    copied(tailrace.open(case, expand_payloads=False), tmp_path / "binlog.000001")
    with append(tmp_path, sync="none", server_uuid=UUID) as out:
        first = next(tailrace.open(case).transactions())
        with pytest.raises(GtidError, match="in the log already"):
            out.write_transaction(first.events)
        with out.transaction() as trx:
            trx.query("create table later (a int)", "shop")
        assert str(trx.gtid) == f"{UUID}:1"
