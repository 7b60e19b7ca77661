"""The real servers start, log, and their own tools read what they logged."""

import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from tests.cases import each_case
from tests.conftest import _require
from tests.waiting import wait_for
from tools.servers import NAMES, ServersUnavailable, available, binlog_tool
from tools.servers import fetch as fetch_function
from tools.servers.fetch import _one_line_source, _stanza_source
from tools.servers.server import ServerStartError

MAGIC = b"\xfebin"


def test_it_logs_rows_and_its_own_tool_reads_them(server):
    assert server.query("SELECT @@log_bin, @@binlog_format, @@time_zone") == [(1, "ROW", "+00:00")]
    server.execute("CREATE DATABASE probe")
    server.execute("CREATE TABLE probe.t (id INT PRIMARY KEY, v VARCHAR(20))")
    server.execute("INSERT INTO probe.t VALUES (%s, %s)", (1, "été"))
    assert server.query("SELECT * FROM probe.t") == [(1, "été")]
    server.execute("DROP DATABASE probe")
    log = server.rotate()
    assert log.read_bytes().startswith(MAGIC)
    assert log in server.binlogs()
    text = server.mysqlbinlog("-v", "--base64-output=DECODE-ROWS", log).stdout
    assert b"### INSERT INTO `probe`.`t`" in text
    alone = subprocess.run([*binlog_tool(server.name), str(log)], capture_output=True, check=True)
    assert b"CREATE DATABASE probe" in alone.stdout


def test_options_are_the_servers_and_its_data_outlives_a_crash(fresh_server, tmp_path):
    options = {"binlog_row_metadata": "FULL", "log_bin": "source"}
    server = fresh_server("mariadb-11.8", options, server_id=77, folder=tmp_path / "kept")
    assert server.query("SELECT @@server_id, @@binlog_row_metadata") == [(77, "FULL")]
    server.execute("CREATE DATABASE kept")
    server.kill()
    assert server.pid is None
    server.start()
    assert ("kept",) in server.query("SHOW DATABASES")
    assert [log.name for log in server.binlogs()] == ["source.000001", "source.000002"]
    pid, folder = server.pid, server.folder
    server.stop()
    assert folder.is_dir()
    assert not Path(f"/proc/{pid}").exists()


def test_a_start_that_fails_quotes_the_servers_log(fresh_server):
    with pytest.raises(ServerStartError, match="no-such-option"):
        fresh_server("mariadb-10.11", ["--no-such-option=1"])


def test_sources_are_found_in_both_ways_of_writing():
    line = "deb [arch=amd64 signed-by=/k.gpg] mirror:/x bookworm main contrib"
    assert _one_line_source(line) == ("mirror:/x", "/k.gpg")
    assert _one_line_source("# deb mirror:/x bookworm main") is None
    assert _one_line_source("deb mirror:/x bookworm-security main") is None
    assert _one_line_source("deb mirror:/x bookworm stable") is None
    stanza = "Types: deb\nURIs: mirror:/x\nSuites: trixie trixie-updates\nComponents: main\n"
    assert _stanza_source(stanza) == ("mirror:/x", "")
    assert _stanza_source(stanza + "Signed-By: /k.gpg\n") == ("mirror:/x", "/k.gpg")
    assert _stanza_source(stanza + "Enabled: no\n") is None
    assert _stanza_source(stanza.replace("trixie", "noble")) is None


def test_a_machine_without_apt_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("TAILRACE_SERVERS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = available(NAMES[0])
    assert reason is not None
    assert "apt-get" in reason
    with pytest.raises(ServersUnavailable):
        fetch_function(NAMES[0])
    for required, outcome in (("0", pytest.skip.Exception), ("1", pytest.fail.Exception)):
        monkeypatch.setenv("TAILRACE_REQUIRE_SERVERS", required)
        with pytest.raises(outcome, match="this machine has no apt-get"):
            _require(NAMES[0])


@each_case("start", range(4))
def test_a_statement_that_is_cut_inside_a_character(flavour_server, start):
    """A list of processes has its first 100, or 65,535, bytes; MySQL rejects such bytes there."""
    server = flavour_server
    sql = f"SELECT SLEEP(300) /*{'x' * start}{'🌊' * 20_000}*/"
    with server.connect() as sleeper, server.connect(charset="latin1") as looker:
        number = sleeper.thread_id()

        def sleep():
            with suppress(pymysql.err.Error):
                sleeper.query(sql)

        def sleeps():
            cursor = looker.cursor()
            cursor.execute("SHOW PROCESSLIST")
            return any(row[0] == number and "SLEEP" in str(row[7]) for row in cursor.fetchall())

        thread = threading.Thread(target=sleep)
        thread.start()
        try:
            wait_for(sleeps)
            assert server.dumps() == {}
        finally:
            server.execute(f"KILL {number}")
            thread.join()
