"""Tools and libraries attach to our source: they get what a real one sends, and the files have."""

import subprocess
import warnings
from itertools import islice

import pytest
from pymysqlreplication import BinLogStreamReader

import tailrace
from tests.cases import each_case
from tests.replication.source.conftest import PASSWORD, ask
from tests.waiting import DEADLINE
from tests.wire.test_traffic import COMMON
from tools.servers import ONE_OF_EACH

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def source(request, fresh_server):
    """A real server with several logs, whose data folder is served."""
    name = request.param
    made = fresh_server(name, COMMON[name.partition("-")[0]])
    made.execute("CREATE DATABASE shop")
    made.execute("CREATE TABLE shop.t (a INT PRIMARY KEY, b LONGTEXT)")
    for at in range(30):
        made.execute("INSERT INTO shop.t VALUES (%s, REPEAT('x', %s))", [at, at * 1000])
        if at % 10 == 9:
            made.rotate()
    made.settle()
    return made


@pytest.fixture
def server(source, serve):
    return serve(source.data / "binlog.index")


def remote(source, server, *more):
    account = ["-uroot"] if server is source else ["-urepl", f"-p{PASSWORD}"]
    argv = [*source.prefix.binlog_tool(), "--read-from-remote-server", "-h127.0.0.1"]
    argv += [] if source.flavour == "mysql" else ["--ssl-verify-server-cert=0"]
    return [*argv, f"-P{server.port}", *account, *map(str, more)]


def run(argv, status=0, **settings):
    ran = subprocess.run(argv, capture_output=True, timeout=DEADLINE, check=False, **settings)
    assert ran.returncode == status, ran.stderr[-2000:]
    return ran.stdout


def test_the_servers_own_mysqlbinlog_copies_the_files(source, server, tmp_path):
    """``--raw``: byte for byte, except for the bit that says that a file is in use."""
    first, *_ = names = [row[0] for row in ask(server, "SHOW BINARY LOGS")]
    run(remote(source, server, "--raw", "--to-last-log", first), cwd=tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == names
    for name in names:
        copy, original = ((folder / name).read_bytes() for folder in (tmp_path, source.data))
        assert copy[:21] + b"\0" + copy[22:] == original[:21] + b"\0" + original[22:], name


def test_mysqlbinlog_by_gtid(source, server):
    """Without what it has: the transactions of one file alone are left."""
    first, second, *_ = [row[0] for row in ask(server, "SHOW BINARY LOGS")]
    known = server._logs.gtids_at(second, 4).text()
    if source.flavour == "mysql":
        argv = remote(source, server, f"--exclude-gtids={known}", first, "--to-last-log")
        argv[argv.index("--read-from-remote-server")] = (
            "--read-from-remote-source=BINLOG-DUMP-GTIDS"
        )
    else:
        argv = remote(source, server, f"--start-position={known}", first, "--to-last-log")
    text = run(argv)
    whole = run(remote(source, server, "--to-last-log", first))
    assert b"BINLOG '" in text
    assert 0 < text.count(b"BINLOG '") < whole.count(b"BINLOG '")


def test_the_client_of_the_command_line(source, server):
    """It asks for ``version_comment`` and more before the first statement."""
    argv = source.prefix.command("mysql", "mariadb")
    argv += ["--no-defaults", "-h127.0.0.1", f"-P{server.port}", "-urepl", f"-p{PASSWORD}", "-N"]
    argv += [] if source.flavour == "mysql" else ["--ssl-verify-server-cert=0"]
    text = run([*argv, "-e", "SHOW BINARY LOGS; SHOW MASTER STATUS; SELECT 1+1"], status=1)
    lines = text.decode().splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [
        row[0] for row in ask(server, "SHOW BINARY LOGS")
    ]
    assert lines[-1].split()[:2] == [str(each) for each in ask(server, "SHOW MASTER STATUS")[0][:2]]


@each_case("by_gtid", [False, True])
def test_python_mysql_replication(source, server, by_gtid):
    """It reads all rows. (A real MariaDB's log it reads again and again: it is not compared.)"""
    first = ask(server, "SHOW BINARY LOGS")[0][0]
    settings = {"host": "127.0.0.1", "port": server.port, "user": "repl", "password": PASSWORD}
    more = {"is_mariadb": source.flavour == "mariadb"}
    if by_gtid:
        other = "896e7882-18fe-11ef-ab88-22222d34d411:1"
        more["auto_position"] = "0-1-1" if source.flavour == "mariadb" else other
    else:
        more |= {"log_file": first, "log_pos": 4, "resume_stream": True}
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        reader = BinLogStreamReader(connection_settings=settings, server_id=77, **more)
        try:
            found = [row for event in islice(reader, 500) for row in getattr(event, "rows", ())]
        finally:
            reader.close()
    assert [len(next(iter(reversed(row["values"].values())))) for row in found] == [
        at * 1000 for at in range(30)
    ]


def test_a_receiver_copies_our_source_byte_for_byte(source, server, tmp_path):
    """A relay of a relay."""
    tailrace.receive(f"{source.flavour}://repl:{PASSWORD}@127.0.0.1:{server.port}/", tmp_path / "c")
    for name, _ in (row[:2] for row in ask(server, "SHOW BINARY LOGS")):
        copy, original = (each.read_bytes() for each in (tmp_path / "c" / name, source.data / name))
        assert copy[22:] == original[22:]
