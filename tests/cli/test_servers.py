"""`log`, `stat` and their options on a running server: the same as on the server's files."""

import json
import re

import pytest

from tests.cases import each_case
from tests.cli.test_errors import assert_refused
from tests.waiting import purge
from tools.servers import ONE_OF_EACH

SECRET = "g3heim.n1cht.zeigen"
ROTATE = "FLUSH BINARY LOGS"
PLAIN = (
    "CREATE DATABASE d",
    "CREATE DATABASE e",
    "USE d",
    "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(4000), c DECIMAL(12,3), d DATETIME(6))",
    "CREATE TABLE e.other (a INT PRIMARY KEY)",
    "CREATE TABLE m (a INT) ENGINE=MyISAM",
    "INSERT INTO t VALUES (1,'x',1.5,'2026-11-21 10:00:00.25'),(2,REPEAT('y',4000),NULL,NULL)",
    "UPDATE t SET b='zß' WHERE a=1",
    "INSERT INTO e.other VALUES (1),(2)",
    "INSERT INTO m VALUES (1)",
    "XA START 'a'", "INSERT INTO t (a) VALUES (3)", "XA END 'a'", "XA PREPARE 'a'",
    "XA ROLLBACK 'a'",
    "XA START 'b'", "INSERT INTO t (a) VALUES (4)", "XA END 'b'", "XA PREPARE 'b'",
    ROTATE,
    "XA COMMIT 'b'",
    "CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET NEW.c = 7",
    "INSERT INTO t (a) VALUES (10)",
    "ALTER TABLE t ADD COLUMN e INT",
    "UPDATE t SET e = a",
    "DELETE FROM t WHERE a = 2",
)  # fmt: skip
MIXED = (
    "BEGIN", "INSERT INTO t (a) VALUES (5)", "SAVEPOINT s", "INSERT INTO t (a) VALUES (6)",
    "INSERT INTO m VALUES (5)", "ROLLBACK TO s", "COMMIT",
    "BEGIN", "INSERT INTO t (a) VALUES (7)", "INSERT INTO m VALUES (6)", "ROLLBACK",
)  # fmt: skip
"""MySQL refuses it where it has GTIDs."""


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def worked(request, fresh_server):
    """A server with two logs of all that is odd, and nobody else's work."""
    options = {"binlog_row_metadata": "FULL"}
    mysql = request.param.startswith("mysql")
    if mysql:
        options["binlog_transaction_compression"] = False
    server = fresh_server(request.param, options)
    for sql in (*PLAIN, *(() if mysql else MIXED)):
        if sql == ROTATE:
            with server.connect() as other, other.cursor() as cursor:
                cursor.execute(sql)  # where an XA transaction is prepared, MariaDB takes no other
        else:
            server.execute(sql)
    server.execute(f"CREATE USER reader@'%' IDENTIFIED BY '{SECRET}'")
    server.execute("GRANT REPLICATION SLAVE ON *.* TO reader@'%'")
    server.settle()  # its log is compared with what was read of it before
    return server


def url(server, user="root", options=""):
    return f"mysql://{user}@127.0.0.1:{server.port}/{options}"


def name(server, user="root"):
    return f"mysql://{user}@127.0.0.1:{server.port}"


def gtids(server):
    """GTID and position of each transaction, as the server's own tool tells them."""
    found = []
    for path in server.binlogs():
        text = server.mysqlbinlog("--base64-output=DECODE-ROWS", path).stdout.decode(
            "utf-8", "replace"
        )
        at = None
        for line in text.splitlines():
            if line.startswith("# at "):
                at = int(line[5:])
            elif (
                told := re.search(r"GTID_NEXT= *'([0-9a-f-]+:\d+)'|\bGTID (\d+-\d+-\d+)", line)
            ) and at:
                found.append((told[1] or told[2], f"{path.name}:{at}"))
    return found


def same(run, server, *arguments, user="root"):
    """What a command says of a server and of its files; its status is 0 for both."""
    live = run(*arguments, url(server, user))
    files = run(*arguments, server.data)
    assert (live.status, files.status) == (0, 0), (live.err, files.err)
    return live, files


HOW = {
    "text": [],
    "json": ["--as", "json"],
    "sql": ["--as", "sql"],
    "undo": ["--as", "undo", "--statements", "skip"],
    "events": ["--as", "json", "--events"],
}


@each_case("how", HOW)
def test_log_is_the_files_log(run, worked, how):
    live, files = same(run, worked, "log", *HOW[how])
    assert len(live.lines) > 10
    if how in {"sql", "undo"}:  # the first line says what was read
        assert live.lines[0].startswith(f"-- tailrace 0.1.0: {name(worked)}, ")
        assert live.lines[1:] == files.lines[1:]
    elif how == "events":
        assert len(live.lines) == len(files.lines)
        for ours, theirs in zip(live.lines, files.lines, strict=True):
            if ours != theirs:  # the flag that says that the file is in use is never sent
                a, b = json.loads(ours), json.loads(theirs)
                assert a["event"] == "FORMAT_DESCRIPTION"
                assert (a.pop("flags"), b.pop("flags")) == (0, 1)
                assert (a["fields"].pop("in_use"), b["fields"].pop("in_use")) == (False, True)
                assert a == b
    else:
        assert live.out == files.out
    assert live.err.replace(name(worked), "data") == files.err


def test_a_user_who_may_only_replicate(run, worked, monkeypatch):
    monkeypatch.setenv("TAILRACE_PASSWORD", SECRET)
    live, files = same(run, worked, "log", "--as", "json", user="reader")
    assert live.out == files.out


def test_stat_is_the_files_stat(run, worked):
    live, files = same(run, worked, "stat", "--as", "json")
    ours, theirs = json.loads(live.out), json.loads(files.out)
    assert ours.pop("log") == name(worked)
    assert theirs.pop("log") == "data"
    assert ours == theirs
    assert ours["bytes"] == sum(path.stat().st_size for path in worked.binlogs())
    live, files = same(run, worked, "stat")
    assert live.lines[1:] == files.lines[1:]


def test_parts(run, worked):
    """From and until a GTID, a position, a time; of some tables; with other names."""
    transactions = gtids(worked)
    first, last = transactions[7], transactions[-3]
    assert first[1].endswith("1:" + first[1].rpartition(":")[2])
    for arguments in (
        ["--start", first[0], "--until", last[0]],
        ["--until", last[1]],
        ["--start", first[0], "--until", last[1]],
        ["--start", "2026-01-01T00:00", "--until", "2100-01-01T00:00"],
        ["--start", "2100-01-01T00:00"],
        ["--tables", "d.t"],
        ["--rewrite-db", "d=n", "--tables", "n.*"],
    ):
        live, files = same(run, worked, "log", "--as", "json", *arguments)
        assert live.lines == files.lines, arguments


def test_from_a_position(run, worked):
    """Also in a file's midst: the server is asked for it, and nothing before it is read."""
    for _, place in gtids(worked):
        live, files = same(run, worked, "log", "--as", "json", "--start", place)
        assert live.out == files.out
    last = worked.binlogs()[-1].name
    live, files = same(run, worked, "log", "--as", "json", "--start", last)
    assert live.out == files.out


def test_a_start_in_the_url(run, worked):
    transactions = gtids(worked)
    _, place = transactions[9]
    live = run("log", "--as", "json", url(worked, options=f"?position={place}"))
    assert live.out == run("log", "--as", "json", "--start", place, worked.data).out
    before = transactions[8][0]
    if worked.flavour == "mysql":
        before = before.replace(":", ":1-")
    for option in ("gtid", "start"):
        live = run("log", "--as", "json", url(worked, options=f"?{option}={before}"))
        assert live.err == ""
        assert live.out == run("log", "--as", "json", "--start", place, worked.data).out
    live = run("log", "--as", "json", url(worked, options="?start=now"))
    assert (live.status, live.out) == (0, "")
    assert_refused(
        run("log", "--start", place, url(worked, options="?start=now")),
        "its URL says to begin at now, and binlog.",
    )


def test_verify(run, worked):
    live, files = same(run, worked, "check")
    assert live.lines == [line.rpartition("/")[2] for line in files.lines]
    assert all(": in order, " in line for line in live.lines)


def test_raw(run, worked, tmp_path):
    """A part of a server's log as a file; its list of GTIDs is that of the same part of the files."""
    gtid, place = gtids(worked)[9]
    for number, start in enumerate((None, gtid, place)):
        chosen = [] if start is None else ["--start", start]
        written = []
        for source in (url(worked), worked.data):
            path = tmp_path / f"{number}{len(written)}" / "cut.000001"
            path.parent.mkdir()
            ran = run("log", "--as", "raw", "--into", path, *chosen, source)
            assert ran.status == 0, ran.err
            events = [
                json.loads(line) for line in run("log", "--as", "json", "--events", path).lines
            ]
            for event in events[:1]:
                del event["timestamp"], event["fields"]["created"]
            written.append([event for event in events if event["event"] != "STOP"])
        assert [plain(event) for event in written[0]] == [plain(event) for event in written[1]]
        assert len(written[0]) > 10


def plain(event):
    """An event without the second in which the file was begun."""
    control = event["event"] in {
        "FORMAT_DESCRIPTION",
        "PREVIOUS_GTIDS",
        "GTID_LIST",
        "BINLOG_CHECKPOINT",
    }
    return {name: value for name, value in event.items() if not (control and name == "timestamp")}


def test_two_servers_and_files_together(run, worked, shop):
    ran = run("stat", "--as", "json", url(worked), shop / "mysql")
    assert [json.loads(line)["log"] for line in ran.lines] == ["mysql", name(worked)]
    assert_refused(
        run("log", "--start", "binlog.000001", url(worked), shop / "mysql"),
        f"a position is one log's, and there are several (mysql, {name(worked)}): give one",
    )


NO_GTID = {"mysql": "11111111-e58b-11f1-8132-02fc00000001:999999", "mariadb": "0-1-999999"}


def test_places_that_are_not_there(run, worked):
    none = NO_GTID[worked.flavour]
    ran = run("log", "--until", none, url(worked))
    assert ran.status == 2
    assert f"{name(worked)} ends, and these GTIDs were not read: {none}" in ran.err
    words = "lacks GTIDs of the start" if worked.flavour == "mysql" else "1236"
    assert_refused(run("log", "--start", none, url(worked)), words)
    assert_refused(run("log", "--start", "other.000001", url(worked)), "1236")
    assert_refused(run("log", "--start", "binlog.000009", url(worked)), "1236")
    for end in ("other.000001", "binlog.000009:4"):
        for command in ("log", "stat"):
            ran = run(command, "--until", end, url(worked))
            logs = f"{name(worked)}: binlog.000001 to binlog.000002"
            assert_refused(ran, f"{end.partition(':')[0]} is not among the logs of {logs}")
            assert not ran.out


def test_places_that_a_user_without_privileges_asks_for(run, worked, monkeypatch):
    """Who may not ask for the names of the logs: it is told at the end."""
    monkeypatch.setenv("TAILRACE_PASSWORD", SECRET)
    reader = url(worked, "reader")
    assert_refused(
        run("log", "--until", "other.000001", reader),
        f"other.000001 is not a log of {name(worked, 'reader')}, binlog.000001 is",
    )
    ran = run("log", "--until", "binlog.000009:4", reader)
    assert ran.status == 2
    assert (
        f"binlog.000009:4 is past the end of {name(worked, 'reader')}: it ends in binlog.000002"
        in ran.err
    )
    assert "Traceback" not in ran.err


@each_case("command", [["log"], ["log", "--follow"], ["stat"]])
def test_what_servers_refuse(run, worked, command, monkeypatch):
    """One line, status 2, what to do, and no password."""
    secret = url(worked, f"reader:{SECRET}")
    wrong = url(worked, f"reader:{SECRET}x")
    nobody = url(worked, f"reader:{SECRET}").replace(str(worked.port), "1") + "?retry=0"
    for arguments, message in (
        ([wrong], "1045"),
        ([nobody], "refused"),
        ([f"{secret}?position=binlog.000007:4"], "1236"),
        ([f"{secret}?position=binlog.000001:99999999"], "1236"),
        ([f"{secret}?unknown=1"], "unknown"),
        ([f"{secret}?start=now", "--start", "binlog.000001:4"], "its URL says to begin at now"),
        ([secret, "--start", wrong], "--start is oldest, now, a position"),
        ([secret, "--keyring", "keys.json"], "a keyring has the keys of files"),
        ([secret, "--nonsense"], "nonsense"),
        ([secret, "--until", f"x{secret}"], "--until is now, a position"),
        ([secret, "--as", wrong], "--as"),
    ):
        ran = run(*command, *arguments)
        assert_refused(ran, message)
        assert SECRET not in ran.out + ran.err, arguments


def test_a_url_in_place_of_a_command(run, worked):
    ran = run(url(worked, f"reader:{SECRET}"))
    assert ran.status == 2
    assert SECRET not in ran.err
    assert "reader:***@" in ran.err


def test_purged(run, worked):
    """The last test of this file's servers: their first log goes."""
    worked.execute("FLUSH BINARY LOGS")
    purge(worked, "binlog.000002")
    ran = run("log", "--start", "binlog.000001:4", url(worked))
    assert_refused(ran, "binlog.000001")
    gone = gtids(worked)[0][0]
    old = gone.rpartition(":")[0] + ":1" if worked.flavour == "mysql" else "0-1-1"
    for command in ("log", "stat"):
        ran = run(command, url(worked, options=f"?gtid={old}"))
        assert_refused(ran, "purged")
    live, files = same(run, worked, "log", "--as", "json")
    assert live.out == files.out
    assert json.loads(live.lines[0])["_file"] == "binlog.000002"
