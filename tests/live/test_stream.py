"""WL#7672, all but FR1 (`test_stream_open`): names of tests begin with a requirement's number."""

from itertools import pairwise

import pytest
from pymysql.cursors import SSCursor
from pymysql.err import InterfaceError

from tailrace.errors import LocalProtocolError, UsageError
from tailrace.live.stream import BinlogStream
from tailrace.wire.packets import LARGEST
from tests.cases import each_case
from tests.live.dumps import ALL, connect, events_of, is_artificial, write_log
from tests.waiting import wait_for
from tests.wire.recorder import Recorder

ID = 4711
ROTATE, DESCRIPTION = 4, 15


@pytest.fixture
def stream(connection, log):
    return BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL)


# --- NF1.7, NF2.8: what else is issued -----------------------------------------------------------

OTHERS = {
    "query": lambda it: it.query("SELECT 1"),
    "execute": lambda it: it.cursor().execute("SELECT 1"),
    "executemany": lambda it: it.cursor().executemany("DO %s", [(1,)]),
    "unbuffered": lambda it: it.cursor(SSCursor).execute("SELECT 1"),
    "ping": lambda it: it.ping(),
    "select_db": lambda it: it.select_db("mysql"),
    "begin": lambda it: it.begin(),
    "commit": lambda it: it.commit(),
    "rollback": lambda it: it.rollback(),
    "autocommit": lambda it: it.autocommit(not it.get_autocommit()),
    "kill": lambda it: it.kill(1),
    "show_warnings": lambda it: it.show_warnings(),
    "set_character_set": lambda it: it.set_character_set("latin1"),
    "next_result": lambda it: it.next_result(),
    "write_packet": lambda it: it.write_packet(b"\x0e"),
    "connect": lambda it: it.connect(),
    "another stream": lambda it: BinlogStream.open(it, server_id=ID, flags=ALL),
}


def refuse_all(connection, why):
    for what in OTHERS.values():
        with pytest.raises(LocalProtocolError, match=why):
            what(connection)


def test_nf1_7_an_opened_stream_leaves_no_other_command(server, log):
    with Recorder(server.port) as recorder:
        connection = connect(server, port=recorder.port, ssl_disabled=True)
        stream = BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL)
        assert is_artificial(stream.fetch())
        said = bytes(recorder.talks[0].from_client)
        refuse_all(connection, "a binary log dump runs on this connection: it takes no other")
        assert [bytes(each) for each in stream][: len(events_of(log))] == events_of(log)
        assert bytes(recorder.talks[0].from_client) == said  # nothing was sent
        connection.close()


def test_nf2_8_a_fetched_from_stream_leaves_no_other_command(stream, log):
    found = []
    for what in OTHERS.values():
        found.append(bytes(stream.fetch()))
        with pytest.raises(LocalProtocolError, match="a binary log dump runs on this connection"):
            what(stream.connection)
    found += [bytes(each) for each in stream]
    assert found[1 : len(events_of(log)) + 1] == events_of(log)
    refuse_all(stream.connection, "a binary log dump runs")  # at the end of the dump as well


# --- FR2: fetch ----------------------------------------------------------------------------------


def test_fr2_1_and_fr3_1_fetch_and_close_work_only_behind_open(connection, log):
    """There is no stream that was not opened: creating one opens it, or raises the error."""
    with pytest.raises(UsageError):
        BinlogStream(connection, filename=log.name, server_id=-1)
    with connection.cursor() as cursor:
        assert cursor.execute("SELECT 1") == 1
    assert BinlogStream(connection, filename=log.name, server_id=ID, flags=ALL).fetch() is not None


def test_fr2_1_fetch_does_not_work_on_a_closed_connection(stream):
    assert stream.fetch() is not None
    stream.connection.close()
    with pytest.raises(LocalProtocolError, match="was closed"):
        stream.fetch()


def test_fr2_2_fetch_gives_one_record_as_the_server_sent_it(server, log):
    with Recorder(server.port) as recorder:
        connection = connect(server, port=recorder.port, ssl_disabled=True)
        stream = BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL)
        found = [bytes(each) for each in stream]
        came = recorder.talks[0].records()
        connection.close()
    assert came[-len(found) :] == [b"\0" + each for each in found]
    events = events_of(log)
    assert is_artificial(found[0])
    assert found[1 : len(events) + 1] == events


def test_fr2_3_the_end_of_a_dump_that_does_not_wait_is_none(stream):
    assert len(list(stream)) > 50
    assert stream.fetch() is None
    assert stream.fetch() is None
    assert list(stream) == []


def test_fr2_3_a_server_id_of_0_does_not_wait_either(connection, log):
    with BinlogStream.open(connection, filename=log.name, server_id=0) as stream:
        assert len(list(stream)) > 50


def test_fr2_4_and_fr2_6_and_fr2_7_and_fr2_9_buffer_and_size_are_the_last_records(stream):
    assert (stream.buffer, stream.size) == (None, 0)
    records = []
    while (record := stream.fetch()) is not None:
        assert isinstance(record, memoryview)
        assert stream.buffer is record
        assert stream.size == len(record) == int.from_bytes(record[9:13], "little")
        records.append((record, bytes(record)))
    assert (stream.buffer, stream.size) == (None, 0)
    assert len({copy for _, copy in records}) > 50
    assert all(record == copy for record, copy in records)  # one is not overwritten by the next


def test_fr2_9_fetch_moves_file_and_position(server, stream, log):
    """They say where the next event begins, as the server's own files do."""
    assert (stream.filename, stream.position) == (log.name, 4)
    files = {path.name: path for path in server.binlogs()}
    seen, end = [], 4
    while (record := stream.fetch()) is not None:
        if is_artificial(record):
            end = 4  # of a file's begin
        else:
            raw = files[stream.filename if record[4] != ROTATE else seen[-1]].read_bytes()
            begin, end = end, end + len(record)
            assert raw[begin : begin + 17] == record[:17]  # after that, a flag: the log is in use
            assert raw[begin + 19 : end - 4] == record[19:-4]
        assert stream.position == (4 if record[4] == ROTATE else end)
        seen.append(stream.filename)
    last = server.binlogs()[-1]
    assert (stream.filename, stream.position) == (last.name, last.stat().st_size)
    assert (stream.server_id, stream.flags, stream.gtid_set) == (ID, ALL, None)


def test_fr2_9_a_position_that_fetch_has_reached_is_one_to_begin_at(server, log):
    places = []
    with connect(server) as connection, BinlogStream(connection, log.name, 4, flags=ALL) as stream:
        places += [(stream.filename, stream.position, bytes(record)) for record in stream]
    for (file, position, _), (_, _, after) in list(pairwise(places))[5:200:20]:
        with (
            connect(server) as connection,
            BinlogStream(connection, file, position, flags=ALL) as stream,
        ):
            own = (each for each in stream if each[4] != DESCRIPTION and not is_artificial(each))
            assert next(own) == after or after[4] in {ROTATE, DESCRIPTION}


def test_use_case_of_a_file_and_4(server, log):
    """The worklog's ``{logfile, 4}``: all else has a default, on a connection without settings."""
    connection = server.connect()
    with BinlogStream.open(connection, log.name, 4) as stream:
        sizes = [len(record) for record in stream]
    connection.close()
    files = [path for path in server.binlogs() if path.name >= log.name]
    assert sum(sizes) >= sum(path.stat().st_size - 4 for path in files)


# --- FR3: close ----------------------------------------------------------------------------------


def test_fr3_2_behind_close_the_connection_can_only_be_closed(server, log):
    connection = connect(server)
    with BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL) as stream:
        assert stream.fetch() is not None
    stream.close()
    with pytest.raises(LocalProtocolError, match="fetch: the stream was closed"):
        stream.fetch()
    refuse_all(connection, "was closed on this connection: it can only be closed")
    assert connection.open
    connection.close()
    assert not connection.open
    with pytest.raises((LocalProtocolError, InterfaceError)):
        connection.query("SELECT 1")


def test_fr3_2_closing_in_mid_stream_ends_the_dump(server):
    """Also where the server has sent more than was read, and waits to send the rest."""
    with server.connect() as writer, writer.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS streamed")
        cursor.execute("CREATE TABLE streamed.large (b LONGBLOB)")
        cursor.execute("INSERT INTO streamed.large VALUES (REPEAT('x', 30000000))")
        cursor.execute("DROP TABLE streamed.large")
    connection = connect(server)
    thread = connection.thread_id()
    with BinlogStream.open(connection, filename=server.binlogs()[-1].name, server_id=ID) as stream:
        assert stream.fetch() is not None
        wait_for(lambda: thread in server.dumps().values())
    connection.close()
    server.execute("CREATE DATABASE IF NOT EXISTS streamed")  # a server notices when it sends

    def gone():
        server.execute("DROP DATABASE IF EXISTS streamed_3")
        return thread not in server.dumps().values()

    wait_for(gone)


# --- records: byte by byte as they stand in the source's file, with TLS and without ---------------


def dumped(server, log, **settings):
    """The records of one file, from the artificial ROTATE before it to its own, that one too."""
    with connect(server, **settings) as connection:
        stream = BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL)
        found = []
        for record in stream:
            found.append(bytes(record))
            if record[4] == 4 and not is_artificial(record):
                return found
    pytest.fail("no ROTATE at the end")


@each_case("tls", [False, True])
def test_a_dump_of_a_log_is_the_file_event_by_event(server, tls):
    log = write_log(server)
    settings = {"ssl": {"verify_mode": "none"}} if tls else {"ssl_disabled": True}
    with connect(server, **settings) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        assert bool(cursor.fetchall()[0][1]) == tls
    rotate, *events = dumped(server, log, **settings)
    assert is_artificial(rotate)
    assert rotate[19:27] == bytes((4, 0, 0, 0, 0, 0, 0, 0))
    assert rotate[27:].startswith(log.name.encode())
    assert events == events_of(log)


def overhead(server):
    """Bytes of a rows event beside the one large value in it."""
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS streamed")
        cursor.execute("DROP TABLE IF EXISTS streamed.large")
        cursor.execute("CREATE TABLE streamed.large (a INT PRIMARY KEY, b LONGBLOB)")
    log = insert(server, [1000])
    return max(map(len, events_of(log))) - 1000


def insert(server, sizes):
    """A log with rows events that hold values of these sizes."""
    server.rotate()
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'full'")
        for number, size in enumerate(sizes):
            cursor.execute(
                "INSERT INTO streamed.large VALUES (%s, REPEAT('x', %s))", (number, size)
            )
            cursor.execute("DELETE FROM streamed.large LIMIT 0")
    log = server.rotate()
    server.execute("TRUNCATE TABLE streamed.large")
    return log


def test_records_of_more_than_one_packet(server):
    """A record's packets hold the OK byte and the event: 16 MiB - 1 each but the last."""
    beside = overhead(server)
    payloads = [LARGEST - 1, LARGEST, LARGEST + 1, 2 * LARGEST, 2 * LARGEST + 1, 36 << 20]
    log = insert(server, [payload - 1 - beside for payload in payloads])
    events = events_of(log)
    large = [event for event in events if len(event) > LARGEST // 2]
    assert [len(event) + 1 for event in large] == payloads
    found = dumped(server, log, ssl_disabled=True)
    assert list(map(len, found[1:])) == list(map(len, events))
    assert found[1:] == events


def test_heartbeats_are_records_as_well(server):
    log = write_log(server)
    with connect(server) as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET @source_heartbeat_period=50000000, @master_heartbeat_period=50000000"
            )
        server.settle()
        current = server.binlogs()[-1]
        assert current != log
        with BinlogStream.open(connection, filename=current.name, server_id=ID) as stream:
            while stream.fetch()[4] != 27:
                pass
            assert current.name.encode() in bytes(stream.buffer)
            assert int.from_bytes(stream.buffer[13:17], "little") == current.stat().st_size
