"""Two paths, one verdict: what the object path rejects, the column path rejects, and the reverse.

The long comparison is ``./run python -m tools.campaign badinput --verdicts 500000``; its results
are in ``docs/evidence/badinput.md``.
"""

import struct

import pytest

from tailrace.columns import plan_splits
from tailrace.columns.read.committed import committed_in
from tailrace.columns.read.planner import SplitPlanner
from tailrace.constants import FILE_FLAGS_AT
from tailrace.errors import (
    BadEventLength,
    BoundaryError,
    EventDecodeError,
    LogError,
    MissingTableMap,
    TruncatedEvent,
)
from tailrace.events import DecodeContext
from tailrace.events.payload import PayloadFields, unpack
from tailrace.events.serialization import write_unsigned
from tailrace.events.walk import event_length
from tailrace.log.reader import Reader
from tailrace.transaction import Boundary, BoundaryParser
from tests.cases import each_case
from tests.recorded import CORPUS
from tools.campaign import verdicts
from tools.campaign.endings import renumbered
from tools.campaign.mutate import Parsed

QUERY, XID, TABLE_MAP, GTID, PAYLOAD, MARIADB_GTID = 2, 16, 19, 33, 40, 162
GTID_TAGGED, XA_PREPARE = 42, 38
WRITE_V1, UPDATE_V1, WRITE, UPDATE, DELETE = 23, 24, 30, 31, 32
WRITE_COMPRESSED = 166
FORMAT, ROTATE, START_ENCRYPTION = 15, 4, 164


def both(*contents, verify=True):
    """The verdict of both paths on a series of files; of objects also where it reads ahead."""
    log = verdicts.series_of(*contents)
    objects = verdicts.by_objects(log, verify=verify)
    columns = verdicts.by_columns(log, verify=verify)
    assert objects.differs(columns) is None, (objects, columns)
    ahead = verdicts.by_objects(log, verify=verify, most_held=0)
    assert objects.differs(ahead) is None, (objects, ahead)
    return objects


def of(case, *codes):
    """A small log of a case that has events of these types."""
    for name, data in verdicts.bases():
        if name.startswith(case):
            types = [event[4] for event in Parsed.of(data).events]
            if all(code in types for code in codes):
                return Parsed.of(data)
    raise AssertionError(case)


@pytest.mark.slow
def test_broken_logs():
    assert len(verdicts.bases()) > 300
    report = verdicts.run(20261122, 200)
    assert not report.failures, "\n".join(report.failures)
    assert report.tried == 200
    assert 40 < report.outcomes["accepted"] < 160


@each_case("number", [4087, 6010, 12615])
def test_broken_logs_that_once_differed(number):
    """A retyped event cut short (4087); two errors in one table's rows, the first in its values."""
    objects, columns, what = verdicts.compare(20261124, number)
    assert objects.message, what
    assert not objects.differs(columns), what


def parsed_offset(parsed, index):
    return 4 + sum(map(len, parsed.events[:index]))


def index_of(parsed, code):
    return [event[4] for event in parsed.events].index(code)


def longer(code):
    def change(parsed):
        index = index_of(parsed, code)
        event = parsed.events[index]
        event[len(event) - parsed.tail : len(event) - parsed.tail] = b"\1"
        parsed.seal(index)

    return change


def shorter(code, size):
    def change(parsed):
        index = index_of(parsed, code)
        event = parsed.events[index]
        del event[19 + size : len(event) - parsed.tail]
        parsed.seal(index)

    return change


def without(code):
    """Leave out the last before rows."""

    def change(parsed):
        types = [event[4] for event in parsed.events]
        rows = min(types.index(each) for each in (WRITE_V1, WRITE) if each in types)
        del parsed.events[max(n for n in range(len(types)) if types[n] == code and n < rows)]

    return change


def without_end(code):
    return lambda parsed: parsed.events.pop(index_of(parsed, code))


def twice(code):
    def change(parsed):
        index = index_of(parsed, code)
        parsed.events.insert(index, parsed.events[index])

    return change


def byte(code, at, value):
    def change(parsed):
        index = index_of(parsed, code)
        parsed.events[index][19 + at] = value
        parsed.seal(index)

    return change


def post_header(code, size):
    def change(parsed):
        parsed.events[0][19 + 57 + code - 1] = size
        parsed.seal(0)

    return change


MYSQL, MARIADB = "mysql-9.7.checksum-crc32", "mariadb-10.11.checksum-crc32"
REJECTED = {
    "an XID of 9 bytes": (MYSQL, longer(XID), EventDecodeError),
    "an XID of 7 bytes": (MYSQL, shorter(XID, 7), EventDecodeError),
    "an event without room for its checksum": (MYSQL, shorter(XID, -4), BadEventLength),
    "a GTID with a byte more": (MYSQL, longer(GTID), EventDecodeError),
    "a GTID of 30 bytes": (MYSQL, shorter(GTID, 30), EventDecodeError),
    "a GTID of 45 bytes": (MYSQL, shorter(GTID, 45), EventDecodeError),
    "a GTID with number 0": (MYSQL, byte(GTID, 17, 0), EventDecodeError),
    "a GTID of MariaDB with bytes behind it": (MARIADB, longer(MARIADB_GTID), EventDecodeError),
    "a commit outside transactions": (MYSQL, twice(XID), BoundaryError),
    "a GTID inside a transaction": (MYSQL, without_end(XID), BoundaryError),
    "rows without BEGIN": (MYSQL, without(QUERY), BoundaryError),
    "two GTIDs": (MYSQL, twice(GTID), BoundaryError),
    "rows outside transactions": (MARIADB, without(MARIADB_GTID), BoundaryError),
    "rows without a table map": (MYSQL, without(TABLE_MAP), MissingTableMap),
    "an unknown length in a database's name": (MYSQL, byte(QUERY, 8, 90), EventDecodeError),
    "a name of a status variable that is not UTF-8": (MYSQL, byte(QUERY, 28, 0xFF), None),
    "another fixed part of rows": (MYSQL, post_header(WRITE, 9), EventDecodeError),
    "another fixed part of XID": (MYSQL, post_header(XID, 1), EventDecodeError),
}


@each_case("verify", [True, False], ids=["verified", "unverified"])
@each_case(("case", "change", "error"), REJECTED.values(), ids=REJECTED)
def test_rejected_by_both(case, change, error, verify):
    parsed = of(
        case, *((GTID, QUERY, WRITE, XID) if case is MYSQL else (MARIADB_GTID, WRITE_V1, XID))
    )
    change(parsed)
    found = both(parsed.bytes(), verify=verify)
    if error is not None:
        assert found.error == error.__name__, found
        assert found.offset is not None


DATETIME_0 = struct.pack(">Q", (1 << 63) | (2024 * 13 + 5) << 46 | 6 << 41)
"""2024-05-06 00:00:00: year * 13 + month, day, hour, minute, second from the 17th bit on."""


@each_case(
    ("name", "bad"),
    [
        ("second 60", 60 << 24),
        ("minute 60", 60 << 30),
        ("hour 24", 24 << 36),
        ("year 10000", (10000 - 2024) * 13 << 46),
    ],
)
def test_no_such_clock_time(name, bad):
    """Facts of the format: second and minute have 6 bits, hour 5, the year 13 months."""
    sound = DATETIME_0[:5]
    broken = struct.pack(">Q", int.from_bytes(DATETIME_0, "big") + bad)[:5]
    parsed = of("mysql-9.7.datetimes-full", WRITE)
    index = index_of(parsed, WRITE)
    event = parsed.events[index]
    at = event.index(b"\x99", 19 + 20)  # the first DATETIME of a year of our time
    event[at : at + 5] = sound
    parsed.seal(index)
    assert both(parsed.bytes()).error is None
    event[at : at + 5] = broken
    parsed.seal(index)
    assert both(parsed.bytes()).error == "EventDecodeError", name


def test_rows_of_a_transaction_without_an_end():
    """The log ends before the commit: the rows are none on either path, sound or not."""
    parsed = of(MYSQL, GTID, QUERY, WRITE, XID)
    whole = both(parsed.bytes())
    last = max(n for n, event in enumerate(parsed.events) if event[4] == XID)
    del parsed.events[last:]
    assert len(both(parsed.bytes()).rows) < len(whole.rows)


@each_case("ignorable", [False, True])
def test_encryption_that_begins_in_mid_log(ignorable):
    """A server that sends its log decrypted marks the event as ignorable; a file's is not."""
    parsed = of(MYSQL, GTID, QUERY, WRITE, XID)
    whole = both(parsed.bytes())
    sound = parsed.events[index_of(parsed, XID)]
    event = bytearray(sound[:19]) + bytes([1, 1, 0, 0, 0]) + bytes(range(12)) + bytes(parsed.tail)
    event[4] = START_ENCRYPTION
    event[17] = 0x80 if ignorable else 0
    index = index_of(parsed, WRITE)
    parsed.events.insert(index, event)
    parsed.seal(index)
    found = both(parsed.bytes())
    if ignorable:
        assert len(found.rows) == len(whole.rows) > 0
    else:
        assert found.error == "EventDecodeError"
        assert found.offset == parsed_offset(parsed, index)
        assert "keyring" in found.message


def test_ddl_between_a_table_map_and_its_rows():
    """The rows are what their table is by then: after a RENAME another one, of unknown columns."""
    parsed = of("mysql-9.7.ddl:3229", GTID, QUERY, TABLE_MAP, WRITE)
    types = [event[4] for event in parsed.events]
    rename = next(n for n, event in enumerate(parsed.events) if b"RENAME TABLE selected" in event)
    rows = max(n for n in range(rename) if types[n] == WRITE)
    event = parsed.events.pop(rename)
    assert "'label'" in both(parsed.bytes()).rows[-1]
    parsed.events.insert(rows, event)
    found = both(parsed.bytes())
    assert "'c2'" in found.rows[-1]
    assert "'label'" not in found.rows[-1]


@each_case("files", [1, 2])
def test_a_transaction_goes_on_behind_a_format_description(files):
    """Relay logs may change files, or their source's, inside a transaction: it keeps its GTID."""
    parsed = of("mysql-9.7.relay-log", FORMAT, ROTATE, GTID, QUERY, DELETE, XID)
    (whole,) = both(parsed.bytes()).rows
    first, previous, artificial, of_source, rotate, gtid, begin, *rows = parsed.events
    if files == 1:
        halves = [[first, previous, gtid, begin, artificial, of_source, *rows]]
    else:
        halves = [[first, previous, artificial, of_source, gtid, begin, rotate], [first, *rows]]
    found = both(*(b"\xfebin" + b"".join(half) for half in halves))
    told = whole[: whole.index(":6'")]  # what, of which table, when, by which GTID
    assert [row[: len(told)] for row in found.rows] == [told]


def a_rotate():
    """The last event of a relay log's file."""
    events = of("mysql-9.7.relay-log", ROTATE).events
    return next(event for event in reversed(events) if event[4] == ROTATE)


def later_head(parsed):
    """A log's description as it stands in later files."""
    again = Parsed([bytearray(parsed.events[0])], parsed.tail)
    again.events[0][19 + 52 : 19 + 56] = bytes(4)  # when its server was started
    again.seal(0)
    return again.events[0]


def images(row):
    return row[row.index("{") :]


@each_case(
    ("case", "rows", "shown"),
    [
        ("mysql-9.7.relay-log", DELETE, "'before rotation'}, None)"),
        ("mariadb-11.8.json-text-full:1132", UPDATE_V1, """'{"a": [1, 2, 3], "b": 1}'})"""),
    ],
)
def test_a_table_map_before_a_rotate_is_of_the_rows_after_it(case, rows, shown):
    """As ``mysqlbinlog -v`` of either server shows them: relay logs may end inside a statement."""
    parsed = of(case, TABLE_MAP, rows)
    types = [event[4] for event in parsed.events]
    if ROTATE in types:
        parsed.events.pop(max(n for n, code in enumerate(types) if code == ROTATE))
    before = both(parsed.bytes(), verify=False).rows
    parsed.events.insert(index_of(parsed, rows), a_rotate())
    found = both(parsed.bytes(), verify=False).rows
    assert [images(row) for row in found] == [images(row) for row in before]
    assert found[0].endswith(shown)


@each_case("files", [1, 2])
@each_case(
    ("case", "rows"),
    [("mysql-9.7.relay-log", DELETE), ("mariadb-11.8.json-text-full:1132", UPDATE_V1)],
)
def test_a_statement_goes_on_behind_a_format_description(case, rows, files):
    """MariaDB's replicas cut relay logs between a table map and its rows; mysqlbinlog goes on."""
    parsed = of(case, TABLE_MAP, rows)
    (*_, whole) = both(parsed.bytes()).rows
    index = index_of(parsed, rows)
    heads = [later_head(parsed)] * 2  # the relay log's and the source's
    halves = [[*parsed.events[:index], a_rotate()], [*heads, *parsed.events[index:]]]
    if files == 1:
        halves = [halves[0] + halves[1]]
    found = both(*(b"\xfebin" + b"".join(half) for half in halves))
    assert images(found.rows[-1]) == images(whole)


def test_a_format_description_long_after_a_rotate():
    """The transaction before it is void: only right behind a ROTATE one goes on."""
    parsed = of(MYSQL, GTID, QUERY, WRITE, XID)
    index = index_of(parsed, WRITE)
    parsed.events[index : index + 1] = [a_rotate(), parsed.events[index], later_head(parsed)]
    end = index_of(parsed, XID)
    found = both(parsed.bytes())
    assert (found.error, found.offset) == ("BoundaryError", parsed_offset(parsed, end))


def test_a_group_of_one_statement_ends_with_its_rows():
    """The column path looks on behind an XA PREPARE for what was rolled back, or has no end."""
    parsed = of("mariadb-10.11.xa:1769", MARIADB_GTID, TABLE_MAP, WRITE_V1, XA_PREPARE)
    types = [event[4] for event in parsed.events]
    last = max(n for n, code in enumerate(types) if code == MARIADB_GTID)
    assert last > index_of(parsed, XA_PREPARE)
    assert parsed.events[last][19 + 12] & 1  # standalone
    rows = index_of(parsed, WRITE_V1)
    parsed.events[last + 1 :] = [parsed.events[index_of(parsed, TABLE_MAP)], parsed.events[rows]]
    found = both(parsed.bytes()).rows
    assert len(found) == 2
    assert images(found[0]) == images(found[1])


def test_a_rollback_without_gtid_after_one_with():
    """What begins with BEGIN is a transaction of its own: that before it stays."""
    parsed = of(MYSQL, GTID, QUERY, WRITE, XID)
    end = index_of(parsed, XID)
    rows = max(n for n in range(end) if parsed.events[n][4] == WRITE)
    begin = max(n for n in range(end) if parsed.events[n].find(b"BEGIN") > 0)
    del parsed.events[end + 1 :]
    sound = both(parsed.bytes()).rows
    rollback = bytearray(parsed.events[begin])
    rollback[len(rollback) - parsed.tail - 5 : len(rollback) - parsed.tail] = b"ROLLBACK"
    parsed.events += [*parsed.events[begin : rows + 1], rollback]
    parsed.seal(len(parsed.events) - 1)
    assert both(parsed.bytes()).rows == sound
    assert sound


def test_a_transaction_that_a_format_description_makes_void():
    """A server crashed; its rows are none, also where they are read in parts."""
    parsed = of(MYSQL, GTID, QUERY, WRITE, XID)
    index = index_of(parsed, WRITE)
    began = max(n for n in range(index) if parsed.events[n][4] == GTID)
    parsed.events.insert(index + 1, parsed.events[0])  # it has a time of creation
    del parsed.events[index + 2 :]
    assert not both(parsed.bytes()).rows
    (bounds,) = committed_in(verdicts.series_of(parsed.bytes())).left_out
    assert bounds == (
        "binlog.000001",
        parsed_offset(parsed, began),
        parsed_offset(parsed, index + 1),
    )


@pytest.mark.slow
def test_splits_end_where_transactions_do():
    """Of a file that is written, cut after each event: by the grammar, whatever stands in it."""
    for _, data in verdicts.bases():
        parsed = Parsed.of(data)
        check_splits(parsed.events, parsed.tail)
        rows = [n for n, event in enumerate(parsed.events) if event[4] in {WRITE_V1, WRITE}]
        create = statement(parsed, b"CREATE TABLE new (a INT)")
        if rows and create:  # CREATE ... SELECT: DDL inside a transaction
            check_splits(
                [*parsed.events[: rows[0]], create, *parsed.events[rows[0] :]], parsed.tail
            )


def statement(parsed, sql):
    """A statement's event, made of a BEGIN; None where the log has none."""
    for event in parsed.events:
        end = len(event) - parsed.tail
        if event[4] == QUERY and event[end - 6 : end] == b"\0BEGIN":
            return event[: end - 5] + sql + bytes(parsed.tail)
    return None


def check_splits(events, tail):
    made = Parsed([bytearray(event) for event in events], tail)
    made.events[0][17] |= 1  # IN_USE
    for event in made.events:
        event[9:13] = struct.pack("<I", len(event))
    data, at, end = made.bytes(), 4, 4
    context, parser = DecodeContext(), BoundaryParser()
    for raw in made.events:
        inside = parser.inside
        event = context.decode(bytes(raw), file="binlog.000001", offset=at, verify_checksum=False)
        boundary = parser.feed(event)
        if boundary in {Boundary.BEGIN, Boundary.END} and not inside:
            end = at
        at += len(raw)
        if boundary is Boundary.END:
            end = at
        splits = plan_splits(verdicts.series_of(data[:at]))
        assert (splits[-1].end if splits else 4) == end, (event, at)


@each_case("tag", [b" rders", b"order ", b"\torder", b"Orders", b"9rders", b"or-ers"])
def test_a_tag_that_is_not_in_its_plain_form(tag):
    """No server writes one: taken for its plain form, the transaction would be another one."""
    parsed = of("mysql-9.7.tagged-gtids", GTID_TAGGED)
    index = index_of(parsed, GTID_TAGGED)
    event = parsed.events[index]
    at = event.index(b"orders")
    event[at : at + 6] = tag
    parsed.seal(index)
    found = both(parsed.bytes())
    assert (found.error, found.offset) == ("EventDecodeError", parsed_offset(parsed, index))
    assert "not a tag" in found.message


@each_case("number", [12, 57, 63, 64, 255, 8192, 1 << 32, (1 << 63) - 1, 1 << 63])
def test_fields_of_a_newer_server_in_a_tagged_gtid(number):
    """They may be skipped where the message says so, whatever their numbers (facts sheet 2.5)."""
    parsed = of("mysql-9.7.tagged-gtids", GTID_TAGGED)
    whole = both(parsed.bytes()).rows
    index = index_of(parsed, GTID_TAGGED)
    event = parsed.events[index]
    at = event.index(b"orders") + 6
    coded = write_unsigned(number)
    event[at : at + len(coded)] = coded
    parsed.seal(index)
    assert len(both(parsed.bytes()).rows) == len(whole) > 0
    del event[at + 1 : len(event) - parsed.tail]  # the number of the field is cut
    parsed.seal(index)
    assert both(parsed.bytes()).error == "EventDecodeError"


@each_case("size", [1000, (16 << 20) + 1, 1 << 30])
def test_a_payload_longer_than_its_file(size):
    """Up to 16 MiB it would be held whole, above it is read in pieces; the file ends inside it."""
    parsed = of("mysql-9.7.payload-full", PAYLOAD)
    index = index_of(parsed, PAYLOAD)
    del parsed.events[index + 1 :]
    parsed.events[index][9:13] = struct.pack("<I", size)
    found = both(parsed.bytes(), verify=False)
    assert (found.error, found.offset) == ("TruncatedEvent", parsed_offset(parsed, index))


def broken_payload(change):
    """A log with a payload whose plain bytes were changed: where that stands, and its bytes."""
    parsed = of("mysql-9.7.payload-no-checksum", PAYLOAD)
    index = index_of(parsed, PAYLOAD)
    del parsed.events[index + 1 :]
    event = parsed.events[index]
    body = bytes(event[19 : len(event) - parsed.tail])
    fields = PayloadFields.read(body)
    plain = b"".join(unpack([body[fields.payload_at :]], fields.compression))
    inner = Parsed(Parsed.of(b"\xfebin" + plain).events, 0)
    change(inner)
    plain = b"".join(inner.events)
    event[19 : len(event) - parsed.tail] = b"\2\3\xfc\xff\0\0" + plain  # not compressed
    parsed.seal(index)
    return parsed_offset(parsed, index), parsed.bytes()


def stray(code, size):
    """An event of that type and size after the payload's first."""

    def change(inner):
        event = bytearray(size)
        event[4] = code
        event[9:13] = struct.pack("<I", size)
        inner.events.insert(1, event)

    return change


def back(sql):
    def change(inner):
        begin = inner.events[index_of(inner, QUERY)]
        event = bytearray(begin[: begin.rindex(b"BEGIN")] + sql)
        event[9:13] = struct.pack("<I", len(event))
        inner.events.insert(len(inner.events) - 1, event)

    return change


def rows_and_cut(inner):
    """Rows that cannot be decoded stand before the cut."""
    rows = inner.events[index_of(inner, WRITE)]
    del rows[-1]
    rows[9:13] = struct.pack("<I", len(rows))
    del inner.events[-1][-1]


@each_case(
    ("change", "error", "says"),
    [
        *[
            (stray(code, size), EventDecodeError, f"the payload holds an event of type {code}")
            for code in (FORMAT, PAYLOAD)
            for size in (19, 56, 100)
        ],
        # Servers write none: a payload is committed or prepared as a whole.
        (back(b"ROLLBACK"), BoundaryError, "inside a compressed transaction"),
        (back(b"ROLLBACK TO `s`"), BoundaryError, "inside a compressed transaction"),
        (rows_and_cut, EventDecodeError, ""),
    ],
)
def test_what_does_not_stand_in_a_payload(change, error, says):
    at, log = broken_payload(change)
    found = both(log)
    assert (found.error, found.offset) == (error.__name__, at)
    assert says in found.message


def test_a_table_map_that_the_ddl_does_not_fit():
    """Without rows of its own it changes nothing of what is known; its rows have no names."""
    parsed = of("mysql-9.7.mysql-hidden-min:2027", TABLE_MAP, UPDATE)
    first = index_of(parsed, UPDATE)
    table_map, rows = parsed.events[first - 1], parsed.events[first]
    sound = both(parsed.bytes())
    assert "'my_row_id': Decimal('2'), 'v': 'zwei'}" in "".join(sound.rows)
    other = bytearray(table_map)
    other[19] ^= 1  # its id
    at = other.index(b"keyless") + 8
    assert other[at : at + 3] == b"\2\x08\x0f"  # two columns: a BIGINT, a VARCHAR
    other[at + 1] = 3  # an INT
    parsed.events.insert(first - 1, other)
    parsed.seal(first - 1)
    found = both(parsed.bytes())
    assert [images(row) for row in found.rows] == [images(row) for row in sound.rows]
    rows = bytearray(rows)
    rows[19] ^= 1
    rows[30:] = b"\xff\xff\0\7\0\0\0\1a\0\7\0\0\0\1b" + bytes(parsed.tail)
    rows[25] = 0  # the statement goes on
    parsed.events.insert(first + 1, rows)
    parsed.seal(first + 1)
    found = both(parsed.bytes())
    assert [images(row) for row in found.rows[1:]] == [images(row) for row in sound.rows]
    assert images(found.rows[0]) == "{'c1': 7, 'c2': 'a'}, {'c1': 7, 'c2': 'b'})"
    reader = Reader(verdicts.series_of(parsed.bytes()))
    for step in reader:
        step.event.check()
    (misfit,) = [text for text in reader.names.values() if "c1, c2" in text]
    assert "the DDL in these logs does not fit it" in misfit


def test_the_magic_alone():
    assert both(b"\xfebin").error == TruncatedEvent.__name__
    with pytest.raises(TruncatedEvent):
        plan_splits(verdicts.series_of(b"\xfebin"))


@pytest.mark.slow
@each_case("in_use", [0, 1])
def test_a_file_that_ends_inside_its_format_description(in_use):
    """Of a server that crashed as it began the file; the log's first file must have begun."""
    whole = of(MYSQL, GTID, QUERY, WRITE, XID).bytes()
    begun = bytearray(whole[: 4 + event_length(whole, 4)])
    begun[FILE_FLAGS_AT] |= in_use
    for size in range(4, len(begun)):
        for files in ((whole, begun[:size]), (whole, begun[:size], whole)):
            if in_use and size >= 4 + 19:
                assert len(both(*map(bytes, files)).rows) == len(both(whole).rows) * files.count(
                    whole
                )
            else:
                assert both(*map(bytes, files)).error == TruncatedEvent.__name__
        assert both(bytes(begun[:size])).offset == 4


@each_case("in_use", [0, 1])
def test_a_length_that_reaches_past_the_end(in_use):
    """Its header tells another end: no way of reading takes it for the end of what was written."""
    parsed = of(MYSQL, GTID, QUERY, WRITE, XID)
    sound = bytearray(renumbered(parsed.bytes()))
    sound[FILE_FLAGS_AT] |= in_use
    at = parsed_offset(parsed, index_of(parsed, XID))
    sound[at + 9 : at + 13] = struct.pack("<I", 5000)
    found = both(bytes(sound))
    assert (found.error, found.offset) == ("TruncatedEvent", at)
    series = verdicts.series_of(bytes(sound))
    for plan in (plan_splits, SplitPlanner().plan):
        with pytest.raises(TruncatedEvent) as error:
            plan(series)
        assert error.value.offset == at


@each_case("end", [b"\xfc", b"\xfd", b"\xfc\0", b"\xfd\0\0", b"\1\xfc", b"\1\xfd\0"])
@each_case("hold", [True, False])
def test_a_length_at_the_end_of_a_block(end, hold):
    """Lengths of a payload's fields that begin in the log's last bytes, and end behind them."""
    parsed = of("mysql-9.7.payload-no-checksum", PAYLOAD)
    index = index_of(parsed, PAYLOAD)
    del parsed.events[index + 1 :]
    event = parsed.events[index]
    event[19 : len(event) - parsed.tail] = b"\2\1\0" + end  # compressed by zstd, and then
    parsed.seal(index)
    series = verdicts.series_of(parsed.bytes())
    if hold:
        with pytest.raises(LogError):
            SplitPlanner().plan(series)
    else:
        plan_splits(series)
    assert both(parsed.bytes()).error == "EventDecodeError"


def test_an_error_names_table_column_file_and_position():
    parsed = of("mysql-9.7.datetimes-full", WRITE)
    index = index_of(parsed, WRITE)
    at = parsed.events[index].index(b"\x99", 19 + 20)
    parsed.events[index][at + 4] = 0x3F  # second 63
    parsed.seal(index)
    offset = parsed_offset(parsed, index)
    for read in (verdicts.by_objects, verdicts.by_columns):
        found = read(verdicts.series_of(parsed.bytes()), verify=True)
        assert found.offset == offset
        for word in ("binlog.000001", f"at {offset}", "corpus.datetimes", "f0"):
            assert word in found.message, found.message


def test_more_savepoints_than_are_noted_at_a_time():
    """The scan notes 4,096 of them for Python at once; the last one of a name counts."""
    log = CORPUS / "mariadb-11.8.savepoints" / "binlog.000001"
    parsed = Parsed.of(log.read_bytes())
    places = [n for n, event in enumerate(parsed.events) if b"SAVEPOINT `" in event]
    back = next(n for n, event in enumerate(parsed.events) if b"ROLLBACK TO `" in event)
    before = max(n for n in places if n < back)
    whole = both(parsed.bytes()).rows
    parsed.events[before:before] = [parsed.events[before]] * 5000
    found = both(parsed.bytes()).rows
    assert [images(row) for row in found] == [images(row) for row in whole]
    assert len(found) > 1


def test_compressed_rows_that_are_damaged_and_out_of_place():
    """Of two errors in one event, its place in the log comes first on both paths."""
    parsed = of("mariadb-10.11.compressed-full-nolog", WRITE_COMPRESSED, XID)
    index = index_of(parsed, WRITE_COMPRESSED)
    event = parsed.events[index]
    event[len(event) - parsed.tail - 1] ^= 0xFF
    parsed.seal(index)
    damaged = both(parsed.bytes())
    assert damaged.error == "EventDecodeError"
    assert "WRITE_ROWS_COMPRESSED_V1" in damaged.message
    parsed.events.insert(index, parsed.events[index_of(parsed, XID)])
    assert both(parsed.bytes()).error == "BoundaryError"


def test_a_statement_with_two_shapes_of_a_table():
    """Its rows are of the first table map, and the second is of the table before an ALTER."""
    parsed = of("mariadb-10.11.switches:1594", TABLE_MAP, UPDATE_V1)
    whole = both(parsed.bytes(), verify=False).rows
    maps = [n for n, event in enumerate(parsed.events) if event[4] == TABLE_MAP]
    rows = [n for n, event in enumerate(parsed.events) if event[4] == UPDATE_V1]
    assert len(maps) == len(rows) == len(whole) == 2
    parsed.events.insert(rows[1], parsed.events[maps[0]])
    found = both(parsed.bytes(), verify=False).rows
    assert [images(row) for row in found] == [images(row) for row in whole]
