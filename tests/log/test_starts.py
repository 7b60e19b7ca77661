"""A start as text or object, in `open`, `changes` and the command: no row twice, none lost."""

from bisect import bisect_right

import pytest

import tailrace
import tailrace.position
from tailrace.columns.read.begin import known_at
from tailrace.constants import EventType
from tailrace.errors import GtidError, LogError, StorageError, UsageError
from tailrace.events import MariadbGtidEvent
from tailrace.gtid import GtidSet
from tailrace.log.changes import Changes
from tailrace.log.events import gtids_at
from tailrace.log.reader import Reader, read_definitions
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue
from tailrace.selection import Selection, start_of
from tailrace.storage import find
from tailrace.times import Time
from tailrace.transports import SeriesTransport
from tests.cases import each_case
from tests.events.made import raw_event, raw_format
from tests.recorded import SHOP


def rows(batches):
    """What tells each row from all others, in the log's order."""
    return sorted(seq for batch in batches for seq in batch.column("_seq").to_pylist())


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def shop(request):
    """A folder, its transactions, how many rows each has, and all rows."""
    folder = SHOP / request.param
    transactions = list(tailrace.open(folder).transactions())
    starts = [each.start for each in transactions]
    counts = [0] * len(starts)
    batches = list(tailrace.changes(folder))
    for batch in batches:
        for file, at in zip(
            batch.column("_file").to_pylist(), batch.column("_pos").to_pylist(), strict=True
        ):
            place = tailrace.position.Position(file, at)
            counts[bisect_right(starts, place) - 1] += 1
    return folder, transactions, counts, rows(batches)


@pytest.mark.slow
@each_case("number", [0, 245, 400])
def test_what_was_read_is_not_read_again(shop, number):
    """The position at which reading stopped, its GTIDs, their text: all give just the rest."""
    folder, transactions, counts, everything = shop
    log = tailrace.open(folder)
    running = log.transactions()
    for _ in range(number + 1):
        next(running)
    last = transactions[number]
    rest = [each.start for each in transactions[number + 1 :]]
    left = everything[sum(counts[: number + 1]) :]
    for start in (last.end, str(last.end), last.gtid, str(last.gtid), f"gtid:{last.gtid}"):
        assert [each.start for each in tailrace.open(folder, start=start).transactions()] == rest
        assert rows(tailrace.changes(folder, start=start)) == left
        (series,) = find(folder)
        found = Reader(series, selection=Selection.parse(start, None))
        assert list(dict.fromkeys(step.group.start for step in found if step.group)) == rest
    # where `transactions` stands while one is held: that one comes again, and none is lost
    again = tailrace.open(folder, start=str(log.position)).transactions()
    assert [each.start for each in again] == [last.start, *rest]


@each_case(
    ("start", "error", "words"),
    [
        ("rubbish", UsageError, "start is oldest, now, a position"),
        ("2026-11-21", UsageError, "2026-11-21T00:00:00 or gtid:2026-11-21"),
        ("binlog.000077:4", UsageError, "binlog.000001 to binlog.000004"),
        ("binlog.000001:9", StorageError, "no event begins at 9"),
        ("0-100-5", GtidError, "a log of mysql"),
        ("b1499b96-e58b-11f1-8132-02fc00000001:1-999999", GtidError, "not in the logs"),
        (7, UsageError, "start is oldest, now, a position"),
    ],
)
def test_what_is_no_start_is_an_error_of_the_call(start, error, words):
    for function in (tailrace.open, tailrace.changes):
        with pytest.raises(error, match=words):
            function(SHOP / "mysql", start=start)


SECOND = 1_700_000_000
CLOCKS = (  # each file's: when it was created, when each of its transactions was committed
    ([0, [100, 100]], [10, [200]]),  # set back between files
    ([0, [10, 100]], [20, [21]], [30, [200]]),  # set back before a file whose times are all earlier
    ([0, [10, 100, 20]], [30, [31]]),  # set ahead for a moment
    ([0, [10, 20]], [30, [40]], [60, [70]]),
    ([0, [10, 20]], [30, [40]]),  # none then or later
)


@each_case("flavour", ["mysql", "mariadb"])
@each_case("files", CLOCKS)
def test_no_transaction_is_lost_by_a_clock_that_was_set_back(tmp_path, flavour, files):
    """From a time on is from the first transaction that was committed then or later, wherever it
    is: in `open`, `changes` and `Reader`, which the command reads with.
    """
    table = tailrace.Table.parse("create table shop.t (id int)", flavour=flavour)
    now = SECOND
    path = tmp_path / "binlog.000001"
    out = tailrace.create(path, flavour=flavour, server_id=1, now=lambda: now * 1_000_000)
    times = []
    with out:
        for number, (created, committed) in enumerate(files):
            if number:
                now = SECOND + created
                out.rotate()
            for each in committed:
                now = SECOND + each
                times.append(each)
                with out.transaction() as transaction:
                    transaction.insert(table, [(len(times),)])
    start = Time((SECOND + 50) * 1_000_000)
    first = next((n for n, time in enumerate(times) if time >= 50), len(times))
    wanted = list(range(first + 1, len(times) + 1))
    (series,) = find(tmp_path)
    starts = [each.start for each in tailrace.open(tmp_path).transactions()]
    opened = [
        starts.index(each.start) + 1 for each in tailrace.open(tmp_path, start=start).transactions()
    ]
    reader = Reader(series, selection=Selection(start=start))
    walked = [row.values[0] for each in Changes(reader) for row in each.rows()]
    batches = tailrace.changes(tmp_path, start=start)
    columns = [row["id"] for each in batches for row in each.column("after").to_pylist()]
    assert (opened, walked, columns) == (wanted, wanted, wanted)


ENDS_IN_BEGIN = (
    ("CREATE TABLE t1 (id INT)", "ALTER TABLE t1 CHANGE id new_id INT COMMENT 'BEGIN'"),
    ("CREATE TABLE t1 (new_id INT)", "RENAME TABLE t1 TO BEGIN"),
    ("CREATE TABLE t1 (id INT)", "ALTER TABLE t1 CHANGE id new_id INT -- \0BEGIN"),
)


@each_case("checksum", ["none", "crc32"])
@each_case("statements", ENDS_IN_BEGIN)
def test_definitions_before_a_start_may_end_in_begin(tmp_path, statements, checksum):
    """Only the statement BEGIN is none. `read_definitions` of the object path and `known_at` of the
    column path, and with them the command and `changes`, know the same columns.
    """
    renamed = "RENAME" in statements[1]
    table = tailrace.Table.parse(
        f"CREATE TABLE `{'BEGIN' if renamed else 't1'}` (new_id INT)", database="d"
    )
    path = tmp_path / "binlog.000001"
    with tailrace.create(
        path, flavour="mysql", server_id=1, checksum=checksum, metadata="minimal"
    ) as out:
        for statement in statements:
            with out.transaction() as transaction:
                transaction.query(statement, "d")
        with out.transaction() as transaction:
            transaction.insert(table, [(1,)])
    start = [each.start for each in tailrace.open(path).transactions()][2]
    (series,) = find(path)
    by_events = Catalogue()
    read_definitions(series, start, by_events)
    by_columns = known_at(series, start, Catalogue())
    assert by_events.lookup("d", table.name) == by_columns.lookup("d", table.name) is not None
    reader = Reader(series, selection=Selection(start=start))
    rows = [row for change in Changes(reader) for row in change.rows()]
    assert [row.after.as_dict() for row in rows] == [{"new_id": 1}]
    batches = tailrace.changes(path, start=start)
    assert [row for each in batches for row in each.column("after").to_pylist()] == [{"new_id": 1}]


# --- GTIDs with gaps -----------------------------------------------------------------------------

UUID = "896e7882-18fe-11ef-ab88-22222d34d411"


@pytest.fixture(params=["mysql", "mariadb"])
def gaps(request, tmp_path):
    """Ten transactions: CREATE, rows, ALTER, wider rows; in two files.

    MariaDB's are in two domains, one after the other.
    """
    table = tailrace.Table.parse("create table shop.t (id int primary key)", flavour=request.param)
    wide = tailrace.Table.parse(
        "create table shop.t (id int primary key, more int)",
        flavour=request.param,
    )
    path = tmp_path / "logs" / "binlog.000001"
    path.parent.mkdir()
    with tailrace.create(path, flavour=request.param, server_id=1, metadata="minimal") as out:
        for number in range(1, 11):
            name = f"{UUID}:{number}" if request.param == "mysql" else f"{number % 2}-1-{number}"
            with out.transaction(gtid=name) as transaction:
                if number == 1:
                    transaction.query("create table t (id int primary key)", "shop")
                elif number == 5:
                    transaction.query("alter table t add column more int", "shop")
                else:
                    row = (number,) if number < 5 else (number, 1)
                    transaction.insert(table if number < 5 else wide, [row])
            if number == 6:
                out.rotate()
    return path.parent, request.param


def test_what_is_read_already_after_others_is_left_out(gaps):
    folder, flavour = gaps
    # read were 1, 2, 5 and 7; or of the even numbers all up to 6, of the odd ones up to 3
    start = f"{UUID}:1-2:5:7" if flavour == "mysql" else "0-1-6,1-1-3"
    read = {1, 2, 5, 7} if flavour == "mysql" else {1, 2, 3, 4, 6}
    expected = [number for number in range(1, 11) if number not in read]
    found = [
        int(str(each.gtid).rpartition(":" if flavour == "mysql" else "-")[2])
        for each in tailrace.open(folder, start=start).transactions()
    ]
    assert found == expected
    batches = list(tailrace.changes(folder, start=start))
    values = sorted(row["id"] for batch in batches for row in batch.column("after").to_pylist())
    assert values == [number for number in expected if number != 5]
    # what was left out had changed the table: the rows after it are known by it
    wide = [batch for batch in batches if "more" in batch.schema.field("after").type.names]
    assert sum(batch.num_rows for batch in wide) == len([n for n in expected if n > 5])
    (series,) = find(folder)
    reader = Reader(series, selection=Selection.parse(start, None))
    steps = [step.group.gtid for step in reader if step.group]
    assert [
        int(each.rpartition(":" if flavour == "mysql" else "-")[2]) for each in dict.fromkeys(steps)
    ] == expected


def test_an_incident_after_transactions_that_were_read_is_not_left_out(tmp_path):
    """MariaDB logs an INCIDENT without a GTID: it is a transaction of its own, which nobody has
    read. `open`, `Changes` and `changes` all meet it.
    """
    table = tailrace.Table.parse("create table shop.t (id int)", flavour="mariadb")
    path = tmp_path / "binlog.000001"
    with tailrace.create(path, flavour="mariadb", server_id=1, checksum="none") as out:
        for gtid in ("0-1-1", "1-1-1", "0-1-2", "1-1-2"):
            with out.transaction(gtid=gtid) as transaction:
                transaction.insert(table, [(1,)])
    *_, stop = tailrace.open(path)
    incident = raw_event(EventType.INCIDENT, b"\1\0\0")
    path.write_bytes(path.read_bytes()[: stop.offset] + incident)
    start = start_of("0-1-1,1-1-2")
    found = list(tailrace.open(path, start=start))
    assert [str(each.gtid) for each in found if isinstance(each, MariadbGtidEvent)] == ["0-1-2"]
    assert found[-1].header.type == EventType.INCIDENT
    (series,) = find(path)
    for read in (
        Changes(Reader(series, selection=Selection(start=start))),
        tailrace.changes(path, start=start),
    ):
        with pytest.raises(LogError, match="lost events"):
            list(read)


def test_a_transaction_that_became_void_was_not_read(tmp_path):
    """A server that crashed in a transaction began again: whoever waits for its GTID is told that it
    was not read, from the beginning as from a position after it.
    """
    table = tailrace.Table.parse("create table shop.t (id int)")
    path = tmp_path / "binlog.000001"
    with tailrace.create(path, flavour="mysql", server_id=1, checksum="none") as out:
        for number in (1, 2, 3):
            with out.transaction(gtid=f"{UUID}:{number}") as transaction:
                transaction.insert(table, [(number,)])
    _, two, three = tailrace.open(path).transactions()
    raw = path.read_bytes()
    kept = raw[: two.events[-1].offset] + raw_format(created=1)
    moved = b"".join(
        raw[each.offset : each.offset + 13] + bytes(4) + raw[each.offset + 17 : each.end_offset]
        for each in three.events
    )
    path.write_bytes(kept + moved)
    last = len(kept)
    (series,) = find(path)
    known = gtids_at(SeriesTransport(series), Position(path.name, last))
    assert known == GtidSet.parse(f"{UUID}:1")
    for start in (None, Position(path.name, last)):
        reader = Reader(series, selection=Selection.parse(start, f"{UUID}:1-2"))
        with pytest.raises(UsageError, match=f"not read: {UUID}:2"):
            list(reader)


def test_until_a_set_was_read(gaps):
    folder, flavour = gaps
    (series,) = find(folder)
    until = f"{UUID}:2:6" if flavour == "mysql" else "0-1-6,1-1-3"
    for end, last in ((until, 6), ("now", 10)):
        reader = Reader(series, selection=Selection.parse(None, end))
        found = dict.fromkeys(step.group.gtid for step in reader if step.group)
        assert len(found) == last
        assert not reader.inside
    # what stands before the start counts as read
    start = next(
        each.start
        for each in tailrace.open(folder).transactions()
        if str(each.gtid).endswith(("1:7", "-7"))
    )
    reader = Reader(series, selection=Selection.parse(start, until))
    assert [step for step in reader if step.group] == []


# --- columns -------------------------------------------------------------------------------------


def test_columns_that_no_table_has():
    with pytest.raises(UsageError, match=r"no nope: shop\.orders has customer_id, id,"):
        list(tailrace.changes(SHOP / "mysql", tables="shop.orders", columns=["id", "nope"]))
    found = tailrace.changes(SHOP / "mysql", tables="shop.orders", columns="id")
    assert {name for batch in found for name in batch.schema.field("after").type.names} == {"id"}
