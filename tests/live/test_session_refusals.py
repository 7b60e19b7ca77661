"""Every server_error of a source, provoked on real servers: its type, and that it says what to do."""

import pickle
import struct
from contextlib import contextmanager

import pymysql
import pytest

from tailrace.errors import (
    AccessDenied,
    ConnectionLost,
    DuplicateServerId,
    GtidsAhead,
    LogPurged,
    LogReset,
    ServerError,
    TailraceError,
    TlsError,
    UsageError,
)
from tailrace.gtid import GtidList, GtidSet
from tailrace.live.connect import connect
from tailrace.live.server_errors import server_error
from tailrace.live.session import OLDEST
from tailrace.live.stream import RPL_GTID, BinlogStream
from tailrace.position import Position
from tests.cases import each_case
from tests.live.feeding import empty, events_of, opened, source_of
from tests.waiting import ended, in_thread, purge, wait_for

SERVERS = ["mysql-9.7", "mariadb-11.8", "mariadb-10.11"]
GTIDS = {"mysql-9.7": ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]}


@pytest.fixture(scope="module", params=SERVERS)
def log(request, fresh_server):
    """A server whose log begins behind what it purged."""
    server = fresh_server(request.param, GTIDS.get(request.param))
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT)")
    server.execute("INSERT INTO d.t VALUES (1)")
    server.rotate()
    server.execute("INSERT INTO d.t VALUES (2)")
    purge(server, server.binlogs()[-1].name)
    server.rotate()
    server.execute("INSERT INTO d.t VALUES (3)")
    return server


@contextmanager
def prepared(server, start=OLDEST):
    with opened(source_of(server)) as session:
        session.prepare(start)
        yield session


def refused(server, start):
    """What a dump from there ends with."""
    with prepared(server, start) as session:
        return ending(session.request(start, block=False))


def ending(stream):
    with pytest.raises(TailraceError) as caught:
        for _ in stream:
            pass
    assert "\n" not in str(caught.value)
    return caught.value


def meets(error, kind, *texts, code=1236):
    assert type(error) is kind, error
    if code is not None:
        assert error.code == code
    for text in texts:
        assert text in str(error)


# --- logs and places -----------------------------------------------------------------------------


def test_places_that_are_none(log):
    """Of a purged log the text is that of one that never was: the oldest log's name tells."""
    file = log.binlogs()[-1]
    size = file.stat().st_size
    for place, texts in (
        (Position("nix.000001", 4), ["Could not find", "the name is wrong", "from oldest"]),
        (Position("binlog.000001", 4), ["or the log was purged"]),
        (Position(file.name, size + 1000), ["that log has no such position", "oldest"]),
        *(
            (Position(file.name, at), [f"no event begins at {file.name}:{at}"])
            for at in (5, 150, size - 3)
        ),
    ):
        meets(refused(log, place), ServerError, *texts)
    with prepared(log) as session:
        assert session.oldest_log() == "binlog.000002"


def test_a_place_in_the_magic(log):
    """`BinlogStream` refuses to ask for it, so it is asked for by hand."""
    with prepared(log) as session:
        command = struct.pack("<IHI", 2, 1, 99) + log.binlogs()[-1].name.encode()
        session.connection._execute_command(0x12, command)
        with pytest.raises(pymysql.err.OperationalError) as caught:
            session.connection._read_packet()
    code, text = caught.value.args
    meets(server_error(code, None, text, "here"), ServerError, "begin")


def test_a_damaged_log(fresh_server):
    for name in SERVERS[:2]:
        server = fresh_server(name)
        for value in range(3):
            server.execute(f"CREATE DATABASE d{value}")
        whole = server.rotate()
        raw = bytearray(whole.read_bytes())
        length = events_of(raw)[-2][0] + 9  # of the last event before ROTATE
        raw[length : length + 4] = (7).to_bytes(4, "little")
        whole.write_bytes(raw)
        meets(refused(server, Position(whole.name, 4)), ServerError, "damaged")
        server.stop()


def test_no_log_at_all(fresh_server):
    for name in SERVERS[:2]:
        server = fresh_server(name, ["--skip-log-bin"])
        with opened(source_of(server)) as session:
            with pytest.raises(ServerError, match="log_bin"):
                session.end()
            session.prepare(OLDEST)
            error = ending(session.request(OLDEST, block=False))
            meets(error, ServerError, "Binary log is not open", "log_bin")
        server.stop()


# --- GTIDs ---------------------------------------------------------------------------------------


def test_gtids_that_were_purged(log):
    meets(refused(log, empty(log)), LogPurged, "purged", "copy the data again")


def test_gtids_ahead_of_the_source(log):
    if log.flavour == "mysql":
        own = log.query("SELECT @@server_uuid")[0][0]
        ahead = GtidSet.parse(f"{own}:1-1000")
        with prepared(log) as session:
            error = ending(session.request(ahead, block=False))
        meets(error, GtidsAhead, "more GTIDs than the source has", "find out which")
        with pytest.raises(GtidsAhead, match="1000"):
            refused(log, ahead)
        return
    meets(refused(log, GtidList.parse("0-1-1000")), GtidsAhead, "0-1-1000", "right server")
    log.execute("SET gtid_seq_no = 100")
    log.execute("INSERT INTO d.t VALUES (4)")
    meets(refused(log, GtidList.parse("0-1-50")), GtidsAhead, "hole", "strict mode")
    diverged = refused(log, GtidList.parse("0-9-2"))
    meets(diverged, GtidsAhead, "0-9-2", "right server")


def test_transactions_without_gtids_and_a_source_without(fresh_server):
    """Behind one that has a GTID: logs that begin with others a source leaves out in silence."""
    server = fresh_server("mysql-9.7", GTIDS["mysql-9.7"])
    server.execute("CREATE DATABASE with_gtid")
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
        server.execute(f"SET GLOBAL gtid_mode = {mode}")
    server.execute("CREATE DATABASE without_gtid")
    for mode in ("ON_PERMISSIVE", "ON"):
        server.execute(f"SET GLOBAL gtid_mode = {mode}")
    meets(refused(server, GtidSet()), ServerError, "anonymous transaction", "by position")
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"):
        server.execute(f"SET GLOBAL gtid_mode = {mode}")
    with opened(source_of(server)) as session:
        assert not session.has_gtids
        with pytest.raises(UsageError, match="gtid_mode"):
            session.prepare(GtidSet())
    given = source_of(server)
    with connect(given, given.hosts[0]) as connection:
        stream = BinlogStream.open(connection, server_id=9, flags=RPL_GTID | 1)
        meets(ending(stream), ServerError, "GTID_MODE = OFF", "gtid_mode=ON")
    meets(refused(server, OLDEST), ServerError, "GTID-transaction", "OFF_PERMISSIVE")


# --- connections ---------------------------------------------------------------------------------


def test_a_statement_that_was_killed(log):
    """KILL QUERY and KILL CONNECTION, both in the midst of a statement."""
    heavy = "SELECT COUNT(*) FROM information_schema.collations a, information_schema.collations b,"
    heavy += " information_schema.collations c, information_schema.collations d"
    for kill in ("KILL QUERY", "KILL"):
        with prepared(log) as session:
            asking = in_thread(session.query, heavy)
            number = session.connection.thread_id()
            asked = f"SELECT info FROM information_schema.processlist WHERE id = {number}"
            wait_for(lambda asked=asked: "COUNT" in str(log.query(asked)))
            log.execute(f"{kill} {number}")
            with pytest.raises(ConnectionLost):
                ended(asking)


def test_without_the_privilege(log):
    log.execute("CREATE USER IF NOT EXISTS nobody@'127.0.0.1'")
    given = source_of(log, user="nobody")
    with connect(given, given.hosts[0]) as connection:
        error = ending(BinlogStream.open(connection, server_id=9, flags=1))
    meets(error, AccessDenied, "REPLICATION SLAVE", "GRANT", code=1227)


# --- codes that are not provoked here ------------------------------------------------------------


@each_case(
    ("code", "kind"),
    [
        (1040, ConnectionLost), (1053, ConnectionLost), (1158, ConnectionLost), (1159, ConnectionLost),
        (1160, ConnectionLost), (1161, ConnectionLost), (1317, ConnectionLost), (1927, ConnectionLost),
        (2003, ConnectionLost), (2006, ConnectionLost), (2013, ConnectionLost), (4031, ConnectionLost),
        (1044, AccessDenied), (1045, AccessDenied), (1130, AccessDenied), (1227, AccessDenied), (1698, AccessDenied),
        (1862, AccessDenied), (2059, AccessDenied), (2061, AccessDenied), (3159, TlsError), (4052, DuplicateServerId),
        (1064, ServerError), (1105, ServerError), (1153, ServerError), (1236, ServerError),
    ],
)  # fmt: skip
def test_codes(code, kind):
    error = server_error(code, "HY000", "one line\n  and another", "mysql://u@h:1")
    assert type(error) is kind
    assert "mysql://u@h:1: one line and another" in str(error)
    assert str(code) in str(error)


def test_what_was_asked_for():
    error = server_error(
        1236, None, "Could not find first log file name", "here", asked="b.000007:4"
    )
    assert "(asked for b.000007:4)" in str(error)


@each_case(
    ("text", "kind"),
    [
        # as MySQL 5.7 and 8.0 say it
        ("A slave with the same server_uuid/server_id as this slave has connected to the master", DuplicateServerId),
        ("Slave has more GTIDs than the master has, using the master's SERVER_UUID.", GtidsAhead),
        ("Client requested master to start replication from position > file size", ServerError),
        ("The slave is connecting using CHANGE MASTER TO MASTER_AUTO_POSITION = 1, but the master has purged binary logs containing GTIDs that the slave requires.", LogPurged),
        ("Cannot replicate because the master purged required binary logs.", LogPurged),
    ],
)  # fmt: skip
def test_texts_of_older_servers(text, kind):
    assert type(server_error(1236, "HY000", text, "here")) is kind


@each_case(
    "text",
    [
        "Could not find first log file name in binary log index file",
        "Client requested source to start replication from position > file size",
        "Client requested master to start replication from impossible position",
        (
            "bogus data in log event; the first event 'b.000001' at 160, the last event read from"
            " './b.000001' at 123, the last byte read from './b.000001' at 179."
        ),
    ],
)
def test_wl7672_fr1_6_only_a_log_that_was_read_before_was_reset(text):
    first = server_error(1236, "HY000", text, "here")
    assert type(first) is ServerError
    assert "reset" not in str(first)
    assert type(server_error(1236, "HY000", text, "here", resumed=True)) is LogReset


def test_wl7672_fr2_5_the_text_is_the_servers_own_and_all_of_it():
    said = "two\n  lines, \x1b[31mred\x1b[0m, " + "x" * 2000
    for code, kind in ((1105, ServerError), (1053, ConnectionLost)):
        error = server_error(code, "HY000", said, "here")
        assert type(error) is kind
        assert (error.code, error.sqlstate, error.text) == (code, "HY000", said)
        assert str(error) != said
        again = pickle.loads(pickle.dumps(error))
        assert (again.code, again.sqlstate, again.text) == (code, "HY000", said)
        assert str(again) == str(error)
    assert server_error(2013, None, "Lost connection", "here").text is None  # the client's own
