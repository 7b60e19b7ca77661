"""WL#7672, FR1, requirement by requirement: each test's name begins with the number of its own."""

import re

import pytest
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from tailrace.errors import LocalProtocolError, ServerError, UsageError
from tailrace.gtid import GtidSet
from tailrace.live.stream import RPL_GTID, BinlogStream
from tailrace.wire.commands import BinlogDump, BinlogDumpGtid, DumpFlag
from tests.live.dumps import ALL, connect, events_of, is_artificial, write_log
from tests.wire.recorder import Recorder

ID = 4710
UUID = "896e7882-18fe-11ef-ab88-22222d34d411"
FIRST_ERROR = "Could not find first log file name in binary log index file"
PAST_THE_END = (
    r"Client requested (source|master) to start replication from "
    r"(position > file size|impossible position.*)"
)


def test_fr1_1_open_requires_an_authenticated_connection(server):
    not_connected = server.connect(defer_connect=True)
    with pytest.raises(LocalProtocolError, match="is not open: connect and authenticate first"):
        BinlogStream.open(not_connected, server_id=ID)
    not_connected.connect()
    assert not_connected.open
    not_connected.close()
    with pytest.raises(LocalProtocolError, match=f"127.0.0.1:{server.port} is not open"):
        BinlogStream.open(not_connected, server_id=ID)


def test_fr1_1_open_takes_connections_of_pymysql(server):
    with pytest.raises(UsageError, match="needs a connection of PyMySQL, not a str"):
        BinlogStream.open("mysql://root@127.0.0.1", server_id=ID)


def test_fr1_2_open_works_where_a_statement_does(server, log):
    def in_a_transaction(connection):
        connection.begin()
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO feed.t (b) VALUES ('never committed')")

    def behind_an_error(connection):
        with connection.cursor() as cursor, pytest.raises(Exception, match="SQL syntax"):
            cursor.execute("nonsense")

    def behind_rows(connection):
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 UNION SELECT 2")

    for before in (in_a_transaction, behind_an_error, behind_rows):
        with connect(server) as connection:
            before(connection)
            stream = BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL)
            assert stream.fetch()[4] == 4


def test_fr1_2_open_does_not_work_where_a_statement_does_not(connection, log):
    cursor = connection.cursor(SSCursor)
    cursor.execute("SELECT 1 UNION SELECT 2")
    assert cursor.fetchone() == (1,)
    with pytest.raises(LocalProtocolError, match="have not been read: read them, or close"):
        BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL)
    assert cursor.fetchall() == [(2,)]
    cursor.close()
    with BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL) as stream:
        assert stream.fetch() is not None


def test_fr1_2_nor_before_all_results_of_several_statements_are_read(server, log):
    with connect(server, client_flag=CLIENT.MULTI_STATEMENTS) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1; SELECT 2")
        with pytest.raises(LocalProtocolError, match="have not been read"):
            BinlogStream.open(connection, filename=log.name, server_id=ID, flags=1)
        assert cursor.nextset()
        assert cursor.fetchall() == ((2,),)
        with BinlogStream.open(connection, filename=log.name, server_id=ID, flags=1) as stream:
            assert stream.fetch() is not None


def sent(server, **asked):
    """What `open` says to a server, of a connection without TLS; with the first record's type."""
    with Recorder(server.port) as recorder:
        connection = connect(server, port=recorder.port, ssl_disabled=True)
        said = len(recorder.talks[0].commands())
        with BinlogStream(connection, server_id=ID, announce_checksum=False, **asked) as stream:
            assert stream.fetch()[4] == 4
        connection.close()
    dump, *quit_ = recorder.talks[0].commands()[said:]
    assert quit_ in ([], [b"\1"])
    return dump


def test_fr1_3_without_the_gtid_flag_it_is_com_binlog_dump(server, log):
    for flags in (0, 1, 0xFFF9):  # 2 and 4 change what a server sends, and are taken as well
        asked = BinlogDump.decode(sent(server, filename=log.name, position=4, flags=flags))
        assert asked == BinlogDump(log.name, 4, ID, flags)
    assert BinlogDump.decode(sent(server, flags=DumpFlag.NON_BLOCK)) == BinlogDump("", 4, ID, 1)


def test_fr1_3_gtids_without_the_flag_are_refused(connection):
    with pytest.raises(UsageError, match="gtid_set is sent with RPL_GTID in flags only"):
        BinlogStream.open(connection, server_id=ID, gtid_set=GtidSet())
    connection.ping()


def test_fr1_4_with_the_gtid_flag_it_is_com_binlog_dump_gtid(mysql97):
    gtids = GtidSet.parse(f"{UUID}:1-5:7,{UUID}:shop:3")
    for asked, default in ((gtids, gtids), (None, GtidSet())):
        raw = sent(mysql97, flags=RPL_GTID | 1, gtid_set=asked)
        assert BinlogDumpGtid.decode(raw) == BinlogDumpGtid(default, ID, 1)
    name = mysql97.rotate().name
    raw = sent(mysql97, flags=RPL_GTID | 1, gtid_set=gtids, filename=name, position=4)
    assert BinlogDumpGtid.decode(raw) == BinlogDumpGtid(gtids, ID, 1, name, 4)


def test_fr1_4_by_gtid_the_position_has_64_bits(mysql97):
    name = mysql97.rotate().name
    with connect(mysql97) as connection:
        error = refused(connection, flags=RPL_GTID | 1, filename=name, position=(1 << 40) + 4)
    assert "position > file size" in error.message


def test_fr1_4_what_is_in_the_gtid_set_is_not_sent(mysql97):
    server = mysql97
    log = write_log(server)
    uuid = server.query("SELECT @@server_uuid")[0][0]
    executed = GtidSet.parse(server.query("SELECT @@global.gtid_executed")[0][0])
    *_, (_, end) = executed.sources[uuid, ""]
    last = end - 1
    wanted = GtidSet.parse(f"{uuid}:{last - 1}-{last}")
    with connect(server) as connection:
        stream = BinlogStream.open(
            connection, server_id=ID, flags=RPL_GTID | 1, gtid_set=executed - wanted
        )
        found = [bytes(each) for each in stream if not is_artificial(each)]
    numbers = [int.from_bytes(each[36:44], "little") for each in found if each[4] == 33]
    assert numbers == [last - 1, last]
    with connect(server) as connection:
        everything = list(BinlogStream.open(connection, server_id=ID, flags=RPL_GTID | 1))
    assert len([each for each in everything if each[4] in {33, 42}]) == len(executed)
    assert set(events_of(log)) <= {bytes(each) for each in everything}


@pytest.mark.parametrize("server", ["mariadb-11.8", "mariadb-10.11"], indirect=True)
def test_fr1_4_mariadb_has_no_such_command(server, connection):
    with pytest.raises(UsageError, match=r"has no COM_BINLOG_DUMP_GTID: .* @slave_connect_state"):
        BinlogStream.open(connection, server_id=ID, flags=RPL_GTID)
    write_log(server)
    state = server.query("SELECT @@gtid_binlog_pos")[0][0]  # of each domain that other tests used
    write_log(server)
    with connection.cursor() as cursor:
        cursor.execute("SET @slave_connect_state = %s", (state,))
    stream = BinlogStream.open(connection, server_id=ID, flags=ALL)
    found = [each for each in stream if each[4] == 162]
    gtids = (each.split("-") for each in state.split(","))
    last = {int(domain): int(number) for domain, _, number in gtids}
    domain = int.from_bytes(found[0][27:31], "little")
    assert int.from_bytes(found[0][19:27], "little") == last[domain] + 1


WRONG = [
    ({"position": 3}, "position must lie between 4 and 4294967295, not 3"),
    ({"position": 1 << 32}, "past 4 GiB, and COM_BINLOG_DUMP has 32 bits for it: begin at an earl"),
    ({"position": 1 << 64}, "position must lie"),
    ({"position": "4"}, "position is a whole number, not '4'"),
    ({"position": True}, "position is a whole number, not True"),
    ({"server_id": -1}, "server_id must lie between 0 and 4294967295"),
    ({"server_id": "7"}, "server_id is a whole number"),
    ({"flags": 1 << 32}, "flags must lie"),
    ({"flags": "GTID"}, "flags is a whole number"),
    (
        {"flags": 1 << 17},
        r"the upper half of flags may hold RPL_GTID \(0x10000\) only, not 0x20000",
    ),
    ({"filename": "b" * 512}, "filename has at most 511 bytes"),
    ({"filename": "b\0"}, "filename has at most 511 bytes, none of them 0"),
    ({"filename": b"binlog.000001"}, "filename is text, not bytes"),
    ({"filename": None}, "filename is text, not NoneType"),
]
WRONG_GTID = [
    ({"gtid_set": f"{UUID}:1"}, "gtids is a GtidSet, not str"),
    ({"position": 3}, "position must lie between 4 and 18446744073709551615"),
    ({"position": 1 << 64}, "position must lie"),
]


def test_fr1_5_what_is_asked_for_must_be_valid(server):
    cases = [({"server_id": ID, **wrong}, what) for wrong, what in WRONG]
    if server.flavour == "mysql":
        cases += [
            ({"server_id": ID, "flags": RPL_GTID, **wrong}, what) for wrong, what in WRONG_GTID
        ]
    with Recorder(server.port) as recorder:
        connection = connect(server, port=recorder.port, ssl_disabled=True)
        said = bytes(recorder.talks[0].from_client)
        for wrong, what in cases:
            with pytest.raises(UsageError, match=what):
                BinlogStream.open(connection, **wrong)
        connection.ping()  # which is the first that was sent
        assert bytes(recorder.talks[0].from_client)[len(said) :] == b"\1\0\0\0\x0e"
        with connection.cursor() as cursor:
            cursor.execute("SELECT 7")
            assert cursor.fetchall() == ((7,),)
        connection.close()


def refused(connection, **asked):
    stream = BinlogStream.open(connection, server_id=ID, **{"flags": ALL, **asked})
    with pytest.raises(ServerError) as caught:
        list(stream)
    assert (stream.buffer, stream.size) == (None, -1)
    assert (caught.value.code, caught.value.sqlstate) == (1236, "HY000")
    with pytest.raises(LocalProtocolError, match="fetch: the stream ended with an error"):
        stream.fetch()
    return caught.value


def test_fr1_6_the_server_refuses_a_log_that_is_not_there(connection):
    error = refused(connection, filename="nothing.000001")
    assert type(error) is ServerError  # and not a LogReset: nothing was read before
    assert error.text == FIRST_ERROR
    assert FIRST_ERROR in str(error)
    assert f"127.0.0.1:{connection.port}" in str(error)


def test_fr1_6_the_server_refuses_a_position_behind_the_end(connection, log):
    error = refused(connection, filename=log.name, position=log.stat().st_size + 1)
    assert type(error) is ServerError
    assert re.fullmatch(PAST_THE_END, error.text or "")
    assert (error.text or "") in str(error)


def test_fr1_6_the_server_refuses_whom_it_did_not_hear_of_checksums(server, log):
    with server.connect() as connection:
        error = refused(connection, filename=log.name, announce_checksum=False)
    assert "can not handle replication events with the checksum" in error.message
    assert "SET @source_binlog_checksum" in str(error)
