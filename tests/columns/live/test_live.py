"""`changes` of a running server gives what it gives of the server's files."""

import json
import threading

import pytest

import tailrace
from tailrace import changes
from tailrace.errors import AccessDenied, NoSuchColumn, StatementChange, UsageError
from tailrace.gtid import GtidList, GtidSet
from tailrace.live.transport import ServerTransport
from tailrace.live.url import Source
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.position import Position
from tailrace.selection import Selection
from tailrace.storage import find
from tests.columns.oracle import assert_same_rows as assert_same
from tests.live.feeding import source_of
from tests.live.work import run_cases
from tests.waiting import DEADLINE, wait_for
from tools.load import Load
from tools.servers import ONE_OF_EACH

WORDS = ("xa", "savepoints", "statements", "mixed", "load-data", "compressed-full", "domains")
WORDS += ("replace", "two-phase", "small-events", "ddl", "characters-full", "json-partial")


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def worked(request, fresh_server):
    """A server that has run cases of the corpus and some random load."""
    server = fresh_server(request.param, {"max_binlog_size": 1 << 20})
    ran = run_cases(server, WORDS)
    assert len(ran) > 8
    # `changes` rejects a compressed XA transaction that is rolled back, and who begins inside does
    # not know the character sets of the clients' own tables
    exact = {"compressed": False, "own": False}
    with Load(server, seed=7, clients=3, rate=150, huge=0, large=2.0, **exact) as load:
        run_cases(server, ("integers", "savepoints", "xa"))
        wait_for(lambda: len(load.acknowledged()) > 40)
    server.rotate()
    return server


def files(server):
    (series,) = find(server.data / "binlog.index")
    return series


def test_all_of_a_log(worked):
    """From its beginning, and by GTIDs: whole transactions, after none."""
    nothing = GtidSet() if worked.flavour == "mysql" else GtidList()
    for start in (None, nothing):
        found = changes(source_of(worked), start=start, statements="skip")
        assert assert_same(found, changes(files(worked), statements="skip")) > 500


def sequences(source, **options):
    """The rows' numbers by the column path, and by the object path; both in order."""
    batches = changes(source, statements="skip", **options)
    fast = sorted(int(each) for batch in batches for each in batch.column("_seq").to_pylist())
    rows = tailrace.rows(source, statements="skip", **options)
    return fast, sorted(row.sequence for row in rows)


def log_of_definitions(server):
    """The file with the case of DDL. Who begins inside does not know its tables' character sets:
    MariaDB logs them in CREATE and ALTER only, unless `binlog_row_metadata` is FULL.
    """
    with tailrace.open(files(server)) as events:
        (name,) = {
            event.file
            for event in events
            if event.name == "QUERY" and event.sql.startswith("CREATE TABLE other.far")
        }
    return name


def test_reading_ends_where_the_object_path_ends(worked):
    """At positions, times and GTIDs, also after a start; ``until`` as in `tailrace.rows`."""
    url = source_of(worked)
    found = [*tailrace.transactions(files(worked), statements="skip")]
    every, _ = sequences(url)
    sizes = set()
    for each in found[len(found) // 5 :: len(found) // 3]:
        for until in (each.position, str(each.start), each.timestamp, each.gtid):
            if until is not None:
                fast, slow = sequences(url, until=until)
                assert fast == slow, until
                sizes.add(len(fast))
    assert len(sizes) > 2
    assert max(sizes) < len(every)
    definitions = log_of_definitions(worked)
    starts = [each for each in found if each.position.file != definitions]
    begin, end = starts[len(starts) // 4], starts[len(starts) // 2]
    for given in (
        {"start": begin.position, "until": end.position},
        {"start": begin.position, "until": end.gtid},
    ):
        if given["until"] is not None:
            fast, slow = sequences(url, **given)
            assert fast == slow
            assert 0 < len(fast) < len(every)


def test_a_followed_log_ends_where_one_asks(worked):
    url = source_of(worked)
    found = [*tailrace.transactions(files(worked), statements="skip")]
    until = found[len(found) // 2].position
    ended = list(changes(url, statements="skip", follow=True, until=until))
    assert sum(batch.num_rows for batch in ended) > 0
    with pytest.raises(UsageError, match="is past the end"):
        sequences(url, until="binlog.000999:4")


def test_reading_resumes_after_a_batch(worked):
    """What was prepared at a position and committed later is not lost."""
    url = source_of(worked)
    every, _ = sequences(url)
    batches = changes(url, statements="skip")
    taken, states = set(), []
    definitions = log_of_definitions(worked)
    for batch in batches:
        taken |= {int(each) for each in batch.column("_seq").to_pylist()}
        if batch.position.file != definitions:
            states.append((set(taken), str(batch.position)))
    assert {*taken} == {*every}
    for before, state in states[:: max(1, len(states) // 4)]:
        rest, _ = sequences(url, start=state)
        assert before | {*rest} == {*every}
    assert batches.gtids is not None
    assert sequences(url, start=str(batches.position))[0] == []


def test_some_tables_and_columns(worked):
    options = {"statements": "skip", "tables": ["random_load.*"], "columns": ["n", "client", "id"]}
    found = changes(source_of(worked), **options)
    assert assert_same(found, changes(files(worked), **options)) > 20


def test_statements_are_an_error(worked):
    with pytest.raises(StatementChange):
        list(changes(files(worked)))
    with pytest.raises(StatementChange):
        list(changes(source_of(worked)))


@pytest.mark.quick
def test_from_a_position(flavour_server):
    """What stands before it is not given, also where the position is not a file's begin."""
    server = flavour_server
    server.execute("set global binlog_row_metadata = FULL")
    server.execute("create database placed")
    server.execute("create table placed.t (id int primary key)")
    server.execute("insert into placed.t values (1), (2)")
    column = server.query(
        "show binary log status" if server.name == "mysql-9.7" else "show master status"
    )
    begin = Position(column[0][0], int(column[0][1]))
    server.execute("insert into placed.t values (3)")
    server.rotate()
    server.execute("insert into placed.t values (4)")
    options = {"tables": ["placed.*"], "statements": "skip"}
    found = changes(source_of(server), start=begin, **options)
    rows = [row for batch in found for row in batch.to_pylist()]
    expected = [row for batch in changes(files(server), **options) for row in batch.to_pylist()]
    server.execute("drop database placed")
    assert [str(row) for row in rows] == [str(row) for row in expected[2:]]
    assert [tuple(row["after"].values()) for row in rows] == [(3,), (4,)]


def test_compressed_transactions(fresh_server):
    options = {"binlog_transaction_compression": "ON", "binlog_row_metadata": "FULL"}
    gtids = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
    server = fresh_server("mysql-9.7", options | gtids)
    run_cases(server, ("xa", "savepoints", "integers-full", "small-events"))
    server.execute("create database big")
    server.execute("create table big.t (id int primary key auto_increment, v longtext)")
    server.execute("insert into big.t (v) values (repeat('abc', 8000000)), (repeat('x', 30))")
    server.rotate()
    for start in (None, GtidSet()):
        found = changes(source_of(server), start=start, statements="skip")
        assert assert_same(found, changes(files(server), statements="skip")) > 10


class Prepared:
    """An XA transaction that was prepared, and is rolled back in the end where nothing else was."""

    def __init__(self, server, name, number):
        self.name = name
        self.connection = server.connect()
        self.run(f"xa start '{name}'", f"insert into live_xa.t values ({number})")
        self.run(f"xa end '{name}'", f"xa prepare '{name}'")

    def run(self, *statements):
        with self.connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)

    def end(self, how):
        if self.connection.open:
            self.run(f"xa {how} '{self.name}'")
            self.connection.close()


def logged(server, begin):
    """The change records of the object path: the columns' names are the DDL's, before `begin`."""
    transport = ServerTransport(source_of(server))
    reader = Reader(
        transport, selection=Selection(begin), wants=lambda database, _table: database == "live_xa"
    )
    return [json.loads(line) for change in Changes(reader) for line in change.json_lines()]


def test_xa_comes_when_it_is_committed(flavour_server):
    """Following: not when it is prepared; nothing of one that is rolled back."""
    server = flavour_server
    server.execute("create database live_xa")
    server.execute("create table live_xa.t (id int primary key)")
    server.rotate()
    begin = Position(server.binlogs()[-1].name, 4)
    kept, gone, left = [
        Prepared(server, name, number) for number, name in enumerate(("kept", "gone", "left"), 1)
    ]
    batches = changes(source_of(server), start=begin, follow=True, tables=["live_xa.*"])

    def following():
        return [next(iter(row["after"].values())) for row in next(batches).to_pylist()]

    try:
        server.execute("insert into live_xa.t values (4)")
        assert following() == [4]
        gone.end("rollback")
        kept.end("commit")
        assert following() == [1]
        server.execute("insert into live_xa.t values (5)")
        assert following() == [5]
        batches.close()
        found = changes(source_of(server), start=begin, tables=["live_xa.*"])
        rows = [row["after"] for batch in found for row in batch.to_pylist()]
        # What is prepared and not decided when the log ends: as of files.
        assert [next(iter(row.values())) for row in rows] == [4, 1, 5, 3]
        assert [next(iter(row["after"].values())) for row in logged(server, begin)] == [4, 1, 5, 3]
        url = f"mysql://root@127.0.0.1:{server.port}/?ssl_mode=DISABLED"
        objects = tailrace.rows(url, start=begin, tables="live_xa.*")
        assert [next(iter(row.values.values())) for row in objects] == [4, 1, 5, 3]
        whole = tailrace.transactions(url, start=begin, tables="live_xa.*")
        assert [len(each.rows) for each in whole if each.rows] == [1, 1, 1, 1]
        last = Position(server.binlogs()[-1].name, server.binlogs()[-1].stat().st_size)
        assert objects.position == whole.position == last
    finally:
        batches.close()
        for each in (kept, gone, left):
            each.end("rollback")
        server.execute("drop database live_xa")


def test_a_schema_of_the_users(mysql97, tmp_path):
    """Names that the log does not have, and that no statement in what is read tells."""
    mysql97.execute("create database named")
    mysql97.execute("create table named.t (number int primary key, said varchar(20))")
    mysql97.rotate()
    begin = Position(mysql97.binlogs()[-1].name, 4)
    mysql97.execute("insert into named.t values (1, 'x')")
    schema = tmp_path / "schema.sql"
    schema.write_text("create table named.t (number int primary key, said varchar(20));")
    (batch,) = changes(source_of(mysql97), start=begin, tables=["named.t"], schema=schema)
    assert batch.to_pylist()[0]["after"] == {"number": 1, "said": "x"}
    mysql97.execute("drop database named")


def test_refusals(mysql97, tmp_path):
    source = source_of(mysql97)
    with pytest.raises(UsageError, match="keyring"):
        list(changes(source, keyring=tmp_path))
    with pytest.raises(UsageError, match="layers are of files"):
        list(changes(source, layers=["zstd"]))
    with pytest.raises(AccessDenied):
        list(changes(Source.parse(f"mysql://nobody@127.0.0.1:{mysql97.port}/", password="x")))


def test_a_column_that_no_table_has_is_told_of_while_it_is_followed(fresh_server):
    """There is no end at which it would be an error."""
    server = fresh_server("mariadb-11.8")
    server.execute("CREATE DATABASE named")
    server.execute("CREATE TABLE named.t (a INT PRIMARY KEY)")
    server.execute("INSERT INTO named.t VALUES (1)")
    url = f"mysql://root@127.0.0.1:{server.port}/?ssl_mode=DISABLED"
    batches = changes(url, tables="named.t", columns=["a", "nope"], follow=True)
    with pytest.warns(NoSuchColumn, match=r"there is no nope: named\.t has a \(so far\)"):
        next(batches)
    batches.close()


def test_where_now_is_is_known_before_anything_happens(fresh_server):
    """It was ``:4``, which no start takes: who stopped in a quiet time had no place to resume."""
    server = fresh_server("mysql-9.7")
    url = f"mysql://root@127.0.0.1:{server.port}/?ssl_mode=DISABLED"
    log = server.binlogs()[-1]
    now = Position(log.name, log.stat().st_size)
    for read in (tailrace.rows, tailrace.transactions, changes):
        found = read(url, start="now", follow=True)
        thread = threading.Thread(target=list, args=[found])
        thread.start()
        wait_for(lambda found=found: found.position == now, lambda found=found: found.position)
        found.close()
        thread.join(DEADLINE)
        assert found.position == now
