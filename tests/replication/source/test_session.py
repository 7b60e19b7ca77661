"""Commands of clients that have logged in: statements, registration, and how it ends."""

import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest
from pymysql.constants import COMMAND

import tailrace
from tailrace.errors import UsageError
from tailrace.observers import RelayIoObserver, TransmitObserver
from tailrace.replication.source.listener import Limits
from tailrace.wire.authentication import NativePassword
from tailrace.wire.commands import BinlogDump, BinlogDumpGtid, DumpFlag, RegisterReplica
from tailrace.wire.packets import EndPacket, is_end
from tests.cases import each_case
from tests.replication.source.conftest import PASSWORD, SERVER_ID, ask, connect
from tests.waiting import DEADLINE, wait_for

SHOP = Path(__file__).resolve().parents[3] / "examples" / "shop"
FLAVOURS = ("mysql", "mariadb")
UUID = "896e7882-18fe-11ef-ab88-22222d34d411"


@pytest.fixture(params=FLAVOURS)
def shop(request):
    return SHOP / request.param


@pytest.fixture
def source(serve):
    return serve(SHOP / "mysql")


def command(client, number, payload=b""):
    """Send a command and return the first packet of the answer. Raises pymysql.Error."""
    client._execute_command(number, payload)
    return bytes(client._read_packet().get_all_data())


def rejected(client, number, payload=b""):
    with pytest.raises(pymysql.Error) as caught:
        command(client, number, payload)
    return caught.value.args[:2]


# --- statements ----------------------------------------------------------------------------------


def test_it_says_what_the_logs_say(serve, shop):
    server = serve(shop)
    with tailrace.open(shop) as log:
        version = next(log).server_version
        list(log)
        end = log.position
    ((found, number),) = ask(server, "SELECT @@version, @@global.server_id")
    assert (found, number) == (version, SERVER_ID)
    files = sorted(each for each in shop.glob("*.0*") if each.suffix != ".index")
    rows = ask(server, "SHOW BINARY LOGS")
    assert [row[:2] for row in rows] == [(each.name, each.stat().st_size) for each in files]
    assert ask(server, "SHOW MASTER STATUS")[0][:2] == (end.file, end.offset)
    assert ask(server, "SHOW BINARY LOG STATUS") == ask(server, "show  master\nstatus ;")
    quoted = ask(server, "SELECT @@`server_id`, @@global.`SERVER_ID`")
    assert quoted == [(SERVER_ID, SERVER_ID)]


def test_the_version_of_the_handshake_is_the_logs(serve):
    """MariaDB before 11 has a prefix there, which its replicas remove."""
    for flavour in FLAVOURS:
        server = serve(SHOP / flavour)
        with connect(server) as client:
            assert client.get_server_info() == server.version
    with connect(serve(SHOP / "mariadb", server_version="10.11.2-MariaDB-log")) as client:
        assert client.get_server_info() == "5.5.5-10.11.2-MariaDB-log"


def test_user_variables_are_of_one_session(source):
    with connect(source) as one, connect(source) as other:
        with one.cursor() as cursor:
            cursor.execute("SET @a = 'it''s', @`B c` := 17, @d = -1.5, @e = NULL, @f = @@server_id")
            cursor.execute("SELECT @A, @`b C`, @d, @e, @f AS id, 'x', 2")
            assert [row[0] for row in cursor.description][:5] == ["@A", "@`b C`", "@d", "@e", "id"]
            assert [str(each) for each in cursor.fetchone()] == [
                *("it's", "17", "-1.5", "None", str(SERVER_ID), "x", "2")
            ]
        with other.cursor() as cursor:
            cursor.execute("SELECT @a")
            assert cursor.fetchone() == (None,)
        command(one, 0x1F)
        with one.cursor() as cursor:
            cursor.execute("SELECT @a")
            assert cursor.fetchone() == (None,)


def test_user_variables_are_limited_and_end_with_the_session(source):
    """One client that sets more and more of them does not take the server's memory."""
    with connect(source) as client, client.cursor() as cursor:
        cursor.execute(f"SET @a = '{'x' * 60_000}', @b = 1")
        for sql in (
            f"SET @b = 2, @c = '{'x' * 6_000}'",
            "SET @b = 2, " + ", ".join(f"@n{number} = NULL" for number in range(255)),
            f"SET @b = 2, @{'n' * 65} = 1",
            f"SET @b = {'9' * 6_000}",
        ):
            with pytest.raises(pymysql.Error) as caught:
                cursor.execute(sql)
            assert caught.value.args[0] == 1041
        cursor.execute("SELECT @b, @c, @n0")
        assert cursor.fetchone() == (1, None, None)
        cursor.execute(f"SET @a = '{'x' * 65_000}'")
        (session,) = source.sessions
        assert len(session.connection.variables) == 2
    wait_for(lambda: not source.sessions)
    assert len(session.connection.variables) == 0


@each_case(
    ("sql", "code"),
    [
        ("SELECT * FROM mysql.user", 1235),
        ("SELECT LOAD_FILE('/etc/passwd')", 1235),
        ("SELECT 1; SELECT 2", 1235),
        ("SELECT SLEEP(1000)", 1235),
        ("SELECT", 1235),
        ("SELECT @@nothing", 1193),
        ("SELECT @@mysql.version", 1235),
        ("SELECT VERSION(", 1235),
        ("SELECT " + "NOW(USER(" * 2000, 1235),
        ("SELECT 'not closed", 1064),
        ("INSERT INTO t VALUES (1)", 1235),
        ("SET GLOBAL server_id = 1", 1227),
        ("SET @@global.server_id = 1", 1227),
        ("SET PASSWORD = 'x'", 1193),
        ("SET skip_replication = 1", 1193),
        ("SET @a", 1235),
        ("SHOW TABLES", 1235),
        ("SHOW VARIABLES LIKE 1", 1235),
        ("SHOW BINLOG EVENTS", 1235),
        ("KILL 4000000000", 1094),
        ("PURGE BINARY LOGS TO 'x'", 1235),
        ("RESET MASTER", 1235),
        ("", 1235),
        ("/* nothing */", 1235),
        ("\0\xff", 1235),
    ],
)
def test_everything_else_is_an_error_that_ends_nothing(source, sql, code):
    with connect(source) as client, client.cursor() as cursor:
        with pytest.raises(pymysql.Error) as caught:
            client.query(sql)
        assert caught.value.args[0] == code
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


@each_case(
    ("condition", "names"),
    [
        ("LIKE 'server\\_id'", ["server_id"]),
        ("LIKE 'VERSION'", ["version"]),
        ("LIKE 'version%'", ["version", "version_comment"]),
        ("LIKE 'serve_%id'", ["server_id", "server_uuid"]),
        ("WHERE Variable_name = 'LOG_BIN'", ["log_bin"]),
        ("WHERE variable_name IN ('log_bin', 'nothing', 'port')", ["log_bin", "port"]),
        ("LIKE 'nothing'", []),
    ],
)
@pytest.mark.slow
def test_show_variables(source, condition, names):
    for scope in ("", "GLOBAL", "SESSION"):
        rows = ask(source, f"SHOW {scope} VARIABLES {condition}")
        assert [name for name, _ in rows] == names
    assert ask(source, "SHOW VARIABLES LIKE 'log_bin'") == [("log_bin", "ON")]
    assert ask(source, "SELECT @@log_bin, @@autocommit") == [(1, 1)]


@each_case("shown", ["VARIABLES", "STATUS"])
def test_like_with_many_percent_signs_takes_no_time(source, shown):
    """It was a regular expression that tried every length for each of them, for years."""
    assert ask(source, f"SHOW {shown} LIKE '{'%' * 33}z'", read_timeout=DEADLINE) == []
    assert ask(source, f"SHOW {shown} LIKE '{'%_' * 16}%z'", read_timeout=DEADLINE) == []
    assert ask(source, f"SHOW {shown} LIKE '{'%' * 500_000}'", read_timeout=DEADLINE)


@each_case("pattern", ["%", "_%", "%_id", "s%r%_d", "", "%e%e%", "\\%", "serv_r", "%d"])
def test_like_is_that_of_a_server(serve, mysql97, pattern):
    """Of the names that we have too, a server shows the same ones."""
    rows = ask(serve(SHOP / "mysql"), "SHOW VARIABLES")
    known = {name for name, _ in rows} & {name for name, _ in mysql97.query("SHOW VARIABLES")}
    found, theirs = (
        {name for name, _ in shown} & known
        for shown in (
            ask(serve(SHOP / "mysql"), f"SHOW VARIABLES LIKE '{pattern}'"),
            mysql97.query(f"SHOW VARIABLES LIKE '{pattern}'"),
        )
    )
    assert found == theirs
    assert known


def test_gtid_mode_is_by_default_what_the_logs_have(serve):
    server = serve(SHOP / "mysql")
    ((mode, executed, purged),) = ask(server, "SELECT @@gtid_mode, @@gtid_executed, @@gtid_purged")
    with tailrace.transactions(SHOP / "mysql") as transactions:
        logged = tailrace.GtidSet.parse(",".join(str(each.gtid) for each in transactions))
    assert executed == logged.text()
    assert (mode, purged) == ("ON", "")
    assert ask(serve(SHOP / "mysql", gtid_mode=False), "SELECT @@gtid_mode") == [("OFF",)]


@pytest.mark.parametrize(("given", "mode"), [((), "OFF"), (("--gtid-mode", "on"), "ON")])
def test_gtid_mode_of_logs_without_a_transaction_has_to_be_given(tmp_path, given, mode):
    """They begin alike, whether their transactions will have GTIDs or not."""
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    with (
        tailrace.create(tmp_path / "binlog.000001", flavour="mysql", server_id=7, server_uuid=uuid),
        serving(tmp_path, *given) as (said, _),
        pymysql.connect(port=port_in(said), user="repl", password=PASSWORD) as client,
        client.cursor() as cursor,
    ):
        cursor.execute("SELECT @@gtid_mode, @@enforce_gtid_consistency")
        assert cursor.fetchone() == (mode, mode)


def test_a_replica_with_more_gtids_is_rejected_only_for_the_uuid_of_the_source(serve):
    """A server checks its own transactions: others may reach a replica in other ways."""
    with tailrace.open(SHOP / "mysql") as log:
        list(log)
        logged = log.gtids
    (uuid, _), *_ = logged.sources
    more = tailrace.GtidSet.parse(f"{uuid}:1-100000")
    raw = BinlogDumpGtid(more, 71, DumpFlag.NON_BLOCK).encode()

    def attach(server):
        client = connect(server)
        client.query("SET @source_binlog_checksum = 'CRC32'")
        client._execute_command(raw[0], raw[1:])
        return client

    assert records(attach(serve(SHOP / "mysql")))
    code, text = how_it_ended(attach(serve(SHOP / "mysql", server_uuid=uuid)))
    assert code == 1236
    assert text.startswith("Replica has more GTIDs than the source has")


def test_the_uuid_stays_the_same_for_a_server_id(serve):
    ((one,),) = ask(serve(SHOP / "mysql"), "SELECT @@server_uuid")
    ((again,),) = ask(serve(SHOP / "mysql"), "SELECT @@server_uuid")
    ((other,),) = ask(serve(SHOP / "mysql", server_id=7), "SELECT @@server_uuid")
    assert one == again != other
    given = "6f5d6b0c-6a8c-4f4e-9a53-7d1f0d7a0d5b"
    assert ask(serve(SHOP / "mysql", server_uuid=given), "SELECT @@server_uuid") == [(given,)]


class Observer(TransmitObserver):
    interface_version = 2

    def system_variables(self):
        return {"plugin_enabled": True, "plugin_text": "x"}

    def status_variables(self):
        return {"Plugin_events": 2}


def test_observers_add_variables(serve):
    server = serve(SHOP / "mysql", observers=[Observer()])
    assert ask(server, "SELECT @@plugin_enabled, @@global.plugin_text") == [(1, "x")]
    assert ask(server, "SHOW VARIABLES LIKE 'plugin%'") == [
        ("plugin_enabled", "ON"),
        ("plugin_text", "x"),
    ]
    assert ask(server, "SHOW STATUS LIKE 'plugin%'") == [("Plugin_events", "2")]


# --- commands ------------------------------------------------------------------------------------


def test_ping_statistics_and_options(source):
    with connect(source) as client:
        client.ping(reconnect=False)
        assert re.match(rb"Uptime: \d+  Threads: 1", command(client, COMMAND.COM_STATISTICS))
        assert is_end(command(client, COMMAND.COM_SET_OPTION, struct.pack("<H", 0)))
        client.select_db("anything")


@each_case("number", [0, 0x04, 0x0C, 0x11, 0x16, 0x1C, 0xFF])
def test_an_unknown_command_ends_nothing(serve, number):
    with connect(serve(SHOP / "mysql")) as client:
        assert rejected(client, number, b"payload")[0] == 1047
        client.ping(reconnect=False)


def test_a_dump_by_gtid_of_mysql_is_none_of_mariadb(serve):
    with connect(serve(SHOP / "mariadb")) as client:
        assert rejected(client, 0x1E, b"payload")[0] == 1047


def test_replicas_register_and_are_shown(serve, shop):
    server = serve(shop)
    mysql = shop.name == "mysql"
    with connect(server) as client:
        client.query(f"SET @replica_uuid = '{UUID}'")
        raw = RegisterReplica(71, "replica.example", port=3307).encode()
        assert command(client, COMMAND.COM_REGISTER_SLAVE, raw[1:])[:1] == b"\0"
        for sql in ("SHOW REPLICAS", "SHOW SLAVE HOSTS"):
            (row,) = ask(server, sql)
            assert row[:4] == (71, "replica.example", 3307, SERVER_ID)
            assert row[4:] == ((UUID,) if mysql else ())
        own = RegisterReplica(SERVER_ID).encode()
        assert rejected(client, COMMAND.COM_REGISTER_SLAVE, own[1:])[0] == 1593
    wait_for(lambda: ask(server, "SHOW REPLICAS") == [])


@each_case("number", [COMMAND.COM_REGISTER_SLAVE, COMMAND.COM_BINLOG_DUMP, 0x1E])
def test_a_malformed_command_ends_the_connection_with_an_error(source, number):
    with connect(source) as client:
        assert rejected(client, number, b"\x01")[0] == 1835
        with pytest.raises(pymysql.Error):
            client.ping(reconnect=False)


def dump(client, file="", position=4, server_id=71, flags=DumpFlag.NON_BLOCK):
    client.query("SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'")
    client.query("SET @mariadb_slave_capability = 4")
    raw = BinlogDump(file, position, server_id, flags).encode()
    client._execute_command(COMMAND.COM_BINLOG_DUMP, raw[1:])


def records(client):
    found = []
    while True:
        raw = bytes(client._read_packet().get_all_data())
        if is_end(raw):
            assert EndPacket.decode(raw)
            return found
        found.append(raw[1:])


def test_a_dump_ends_the_connection_at_the_logs_end(source):
    with connect(source) as client:
        dump(client)
        assert len(records(client)) > 10
        with pytest.raises(pymysql.Error):
            client.ping(reconnect=False)
    wait_for(lambda: source.sessions == [])


# --- how it ends ---------------------------------------------------------------------------------


def waiting_dump(server, server_id=71, uuid=""):
    """A dump that has sent all there is."""
    client = connect(server, read_timeout=DEADLINE)
    if uuid:
        client.query(f"SET @replica_uuid = '{uuid}'")
    dump(client, server_id=server_id, flags=0)
    end = ask(server, "SHOW MASTER STATUS")[0]
    session = next(
        each for each in server.sessions if each.connection.thread_id == client.thread_id()
    )
    wait_for(lambda: session.transmit and str(session.transmit.position) == f"{end[0]}:{end[1]}")
    return client


def how_it_ended(client):
    with pytest.raises(pymysql.Error) as caught:
        records(client)
    return caught.value.args[:2]


@each_case("uuid", ["", UUID])
def test_a_replica_that_comes_again_replaces_its_older_dump(serve, uuid):
    server = serve(SHOP / "mysql")
    first = waiting_dump(server, uuid=uuid)
    unrelated = waiting_dump(server, 72)
    second = waiting_dump(server, uuid=uuid)
    code, text = how_it_ended(first)
    assert code == 1236
    assert "same server_uuid/server_id as this replica has connected" in text
    wait_for(lambda: len(server.sessions) == 2)
    unrelated.close()
    second.close()


@each_case("hook", ["transmit_start", "before_send_event"])
def test_an_observer_that_raises_rejects_or_ends_the_dump_and_the_replica_is_told(serve, hook):
    """WL#4398; another dump that begins without it is sent."""

    def breaks(*_given):
        raise ValueError("not this one")

    observer = type("Breaks", (TransmitObserver,), {hook: breaks})()
    server = serve(SHOP / "mysql", observers=[observer])
    with connect(server) as client:
        dump(client, server_id=0)
        code, text = how_it_ended(client)
    assert code == 1105
    assert f"Breaks failed in {hook}: ValueError: not this one" in text
    server.delegate.remove(observer)
    with connect(server) as client:
        dump(client, server_id=0)
        records(client)


def test_tools_without_an_id_replace_nobody(source):
    """``mysqlbinlog`` says 0."""
    first = waiting_dump(source, 72)
    with connect(source) as client:
        dump(client, server_id=0)
        records(client)
    wait_for(lambda: len(source.sessions) == 1)
    assert source.sessions[0].connection.thread_id == first.thread_id()
    first.close()


def test_kill_ends_a_dump_of_the_same_user(source):
    """As MariaDB's replicas do when they stop; KILL QUERY ends no idle connection."""
    for kill, codes in (("KILL QUERY", {1317}), ("KILL", {1317, 2013})):
        dumping = waiting_dump(source)
        with connect(source) as idle, connect(source) as client:
            client.query(f"KILL QUERY {idle.thread_id()}")
            idle.ping(reconnect=False)
            client.query(f"{kill} {dumping.thread_id()}")
        assert how_it_ended(dumping)[0] in codes
        wait_for(lambda: source.sessions == [])


def test_the_log_of_a_dump_that_sent_nothing(source, caplog):
    """It has no set without a GTID, and no position None."""
    caplog.set_level("INFO", "tailrace")
    raw = BinlogDumpGtid(tailrace.GtidSet.parse(""), 71, DumpFlag.NON_BLOCK).encode()
    with connect(source) as client:
        client._execute_command(raw[0], raw[1:])  # it did not say that it knows checksums
        assert how_it_ended(client)[0] == 1236
    wait_for(lambda: not source.sessions)
    assert "replica 71 reads from the beginning" in caplog.text
    assert re.search(r": sent nothing$", caplog.text, re.MULTILINE)


def test_the_log_of_a_client_that_ends_its_connection(source, caplog):
    """It is no connection that was lost, without a dump nor with one."""
    caplog.set_level("INFO", "tailrace")
    idle = connect(source)
    name = source.sessions[0].connection.name
    idle._force_close()
    waiting_dump(source)._force_close()
    wait_for(lambda: not source.sessions)
    assert f"{name}: it ended the connection\n" in caplog.text
    assert "replica 71: it ended the connection\n" in caplog.text
    assert "lost" not in caplog.text


@each_case(("nanoseconds", "seconds"), [(1, 1e-3), (2_000_000, 2e-3), (-1, 0), (0, 0)])
def test_heartbeats_have_a_millisecond_between_them(serve, mysql97, nanoseconds, seconds):
    """Servers send thousands in a second to a client that wants them after 1 ns. No replica asks
    for that: its own limit is ours.
    """
    server = serve(SHOP / "mysql")
    with mysql97.connect() as replica, replica.cursor() as cursor:
        cursor.execute(
            "CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 0.0009 FOR CHANNEL 'c'"
        )
        cursor.execute("SHOW WARNINGS")
        assert "less than 1 millisecond" in str(cursor.fetchall())
        cursor.execute("RESET REPLICA ALL FOR CHANNEL 'c'")
    assert not [*mysql97.data.glob("*relay*")]  # nor is it a replica for tests that follow
    client = connect(server)
    client.query(f"SET @source_heartbeat_period = {nanoseconds}")
    dump(client, flags=0)
    wait_for(lambda: server.sessions[0].transmit)
    assert server.sessions[0].transmit.request.heartbeat == seconds


def test_nobody_kills_another_users_dump(serve, tmp_path):
    native = "mysql_native_password *23AE809DDACAF96AF0FD78ED04B6A265E05AA257"
    (tmp_path / "users").write_text(f"repl {native}\nother {native}\n", "utf-8")
    server = serve(SHOP / "mysql", users=tmp_path / "users")
    with (
        connect(server, password="123") as one,
        connect(server, user="other", password="123") as two,
    ):
        with pytest.raises(pymysql.Error) as caught:
            two.query(f"KILL {one.thread_id()}")
        assert caught.value.args[0] == 1094
        one.ping(reconnect=False)


def test_close_ends_all_and_says_why(source):
    dumping, idle = waiting_dump(source), connect(source)
    source.close()
    assert how_it_ended(dumping)[0] == 1053
    with pytest.raises(pymysql.Error):
        idle.ping(reconnect=False)
    assert source.wait(0)
    assert source.sessions == []
    source.close()
    with pytest.raises(pymysql.Error):
        connect(source)
    assert not [each for each in threading.enumerate() if each.name.startswith("tailrace replica")]


def test_as_many_as_are_allowed(serve):
    server = serve(SHOP / "mysql", limits=Limits(connections=2))
    one, other = connect(server), connect(server)
    with pytest.raises(pymysql.Error, match="Too many connections"):
        connect(server)
    one.close()
    other.close()
    wait_for(lambda: server.sessions == [])
    connect(server).close()


def test_as_many_as_one_user_may_have(serve, tmp_path, mysql97):
    """The others still get in; the error is the one of a server."""
    users = tmp_path / "users"
    stored = NativePassword.of_password(PASSWORD).stored.decode()
    users.write_text("".join(f"{name} mysql_native_password {stored}\n" for name in ("repl", "b")))
    server = serve(SHOP / "mysql", users=users, limits=Limits(user_connections=2))
    one, other = connect(server), connect(server)
    with pytest.raises(pymysql.Error) as ours:
        connect(server)
    connect(server, user="b").close()
    one.close()
    wait_for(lambda: len(server.sessions) == 1)
    connect(server).close()
    other.close()
    mysql97.execute("CREATE USER many IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1")
    given = {"host": "127.0.0.1", "port": mysql97.port, "user": "many", "password": "x"}
    with pymysql.connect(**given), pytest.raises(pymysql.Error) as theirs:
        pymysql.connect(**given)
    mysql97.execute("DROP USER many")
    code, text = theirs.value.args
    assert ours.value.args == (code, text.replace("many", "repl").replace("value: 1", "value: 2"))


@contextmanager
def serving(logs, *options, files=20_000, first="serving"):
    """The command as a process that may have so many files open: what it says, and the process."""
    command = [sys.executable, "-m", "tailrace", "serve", logs, *options]
    command += ["--listen", "127.0.0.1:0", "--server-id", 9, "--user", "repl"]
    with subprocess.Popen(
        ["/bin/sh", "-c", f"ulimit -n {files}; exec {shlex.join(map(str, command))}"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TAILRACE_SERVE_PASSWORD": PASSWORD},
    ) as process:
        try:
            said = process.stderr.readline()
            assert first in said, said
            yield said, process
        finally:
            process.kill()


def port_in(said):
    return int(re.search(r"serving .*127\.0\.0\.1:(\d+)", said)[1])


def test_it_waits_for_the_first_log(tmp_path):
    """As of a relay whose receiver was started at the same time."""
    logs = tmp_path / "copy"
    with serving(logs, "--wait", first="waiting") as (said, process):
        assert said == f"tailrace: waiting for the first log: {logs}: no such file or folder\n"
        logs.mkdir()
        assert "no log in this folder" in process.stderr.readline()
        shutil.copy(SHOP / "mysql" / "binlog.000001", logs)
        port = port_in(process.stderr.readline())
        with pymysql.connect(port=port, user="repl", password=PASSWORD) as client:
            client.ping(reconnect=False)
        process.terminate()
        assert process.wait(DEADLINE) == 0
    with serving(tmp_path / "none", "--wait", first="waiting") as (_, process):
        process.terminate()
        assert process.wait(DEADLINE) == 0


@pytest.mark.slow
def test_no_more_than_the_process_has_files_for():
    """Clients that log in and do nothing do not take the files that dumps need."""
    with serving(SHOP / "mysql", files=128) as (said, _):
        port = port_in(said)
        clients = []
        error = None
        while error is None and len(clients) < 128:
            try:
                clients.append(pymysql.connect(port=port, user="repl", password=PASSWORD))
            except pymysql.OperationalError as caught:
                error = caught
        assert error is not None
        assert error.args == (1040, "Too many connections")
        assert len(clients) > 20
        for number, client in enumerate(clients, 100):
            dump(client, server_id=number, flags=0)
        for client in clients:
            for _ in range(20):
                assert client._read_packet().get_all_data()[0] == 0


def test_a_log_that_cannot_be_read_any_more_is_an_error_of_its_client(serve, tmp_path, monkeypatch):
    """Error 1053, at which replicas connect again."""
    monkeypatch.setattr("tailrace.replication.source.transmit._OUTAGE", 0.1)
    shutil.copytree(SHOP / "mysql", tmp_path / "logs")
    server = serve(tmp_path / "logs")
    with connect(server) as client:
        shutil.rmtree(tmp_path / "logs")
        dump(client, "binlog.000003")
        code, text = how_it_ended(client)
        assert code == 1053
        assert str(tmp_path) not in text


# --- the arguments -------------------------------------------------------------------------------


@each_case(
    ("given", "says"),
    [
        ({"server_id": 0}, "server_id is a number from 1"),
        ({"server_id": 1 << 32}, "server_id is a number"),
        ({"listen": "0.0.0.0:0"}, "give a certificate"),
        ({"listen": "*:0"}, "give a certificate"),
        ({"listen": "nowhere"}, "HOST:PORT"),
        ({"user": None}, "give a user"),
        ({"users": "x"}, "not both"),
        ({"password": ""}, "1 to 256 bytes"),
        ({"tls_key": "x"}, "--tls-key goes with --tls-cert"),
        ({"server_id": "9"}, "server_id is a whole number"),
        ({"listen": ("a", 1)}, "listen is text"),
        ({"limits": 3}, "limits is a Limits"),
        ({"server_version": "9.7\0"}, "zero byte"),
        ({"server_version": "9.7.0-" + "x" * 5000}, "--server-version"),
        ({"tls_cert": __file__}, f"--tls-cert {re.escape(__file__)}: not a certificate"),
        ({"server_uuid": "x"}, "UUID"),
        ({"observers": [RelayIoObserver()]}, "serve calls transmit observers only"),
        ({"password": None}, "TAILRACE_SERVE_PASSWORD"),
    ],
)
def test_arguments_that_do_not_fit(monkeypatch, given, says):
    monkeypatch.delenv("TAILRACE_SERVE_PASSWORD", raising=False)
    settings = {"server_id": 1, "user": "repl", "password": PASSWORD} | given
    with pytest.raises((UsageError, ValueError, tailrace.errors.GtidError), match=says):
        tailrace.serve(SHOP / "mysql", **settings).close()


def test_an_observer_may_close_the_server(serve):
    class Stopping(TransmitObserver):
        def transmit_start(self, io, file, position):
            server.close()
            stopped.append(io)

    stopped = []
    server = serve(SHOP / "mysql", observers=[Stopping()])
    dump(connect(server))
    wait_for(lambda: stopped)
    assert server.wait(0)


def test_the_password_of_the_environment(monkeypatch, serve):
    monkeypatch.setenv("TAILRACE_SERVE_PASSWORD", "of the environment")
    server = serve(SHOP / "mysql", password=None)
    connect(server, password="of the environment").close()
    with pytest.raises(pymysql.Error):
        connect(server)


def test_a_dump_does_not_hold_the_packet_that_began_it(serve):
    """Two dumps with GTID sets that exceed the limit together are both served."""
    server = serve(SHOP / "mysql", limits=Limits(packets=300_000))
    other = ",".join(f"{number:08x}-0000-0000-0000-000000000001:1" for number in range(5000))
    clients = []
    for server_id in (71, 72):
        client = connect(server)
        client.query("SET @source_binlog_checksum = 'CRC32'")
        raw = BinlogDumpGtid(tailrace.GtidSet.parse(other), server_id, 0).encode()
        assert 150_000 < len(raw) < 300_000
        client._execute_command(raw[0], raw[1:])
        clients.append(client)
        assert client._read_packet().get_all_data()
    wait_for(lambda: all(each.transmit for each in server.sessions))
    assert [each.connection.is_gone() for each in server.sessions] == [False, False]
    for client in clients:
        client.close()
