"""`--include-gtids`, `--exclude-gtids`, `--skip-gtids`, `--server-id`, `--hexdump`."""

import json
import re

import pytest

import tailrace
from tailrace.constants import EventType
from tests.cases import each_case
from tests.cli.test_errors import assert_refused
from tools.servers import Server

UUID = "b1499b96-e58b-11f1-8132-02fc00000001"
TAGGED = "mysql-9.7.tagged-gtids"
MARIADB = "mariadb-11.8.domains"


def shown(ran):
    """The GTIDs of the transactions of a log that was printed as text."""
    assert ran.status == 0, ran.err
    found = (line.split("  ") for line in ran.lines if re.match(r"\S+\.\d+:\d+  ", line))
    return [fields[1] for fields in found]


def by_tool(flavour, log, *options):
    """The same, as the server's own mysqlbinlog shows them."""
    text = Server(flavour).mysqlbinlog(*options, log).stdout.decode()
    found = re.findall(r"^SET @@SESSION\.GTID_NEXT= '(.*?)'", text, re.MULTILINE)
    return [gtid for gtid in found if gtid != "AUTOMATIC"]


@pytest.mark.server
@each_case("option", ["--include-gtids", "--exclude-gtids"])
@each_case("gtids", [f"{UUID}:3", f"{UUID}:2-5:8,{UUID[:-1]}2:1-9", f"{UUID}:1-99999"])
def test_gtids_as_the_server_s_tool_picks_them(run, shop, option, gtids):
    log = shop / "mysql" / "binlog.000001"
    assert shown(run("log", log, option, gtids)) == by_tool("mysql-9.7", log, option, gtids)


@pytest.mark.server
def test_tagged_gtids(run, corpus):
    log = next((corpus / TAGGED).glob("*.0*"))
    everything = by_tool("mysql-9.7", log)
    tagged = next(gtid for gtid in everything if gtid.count(":") == 2)
    for option in ("--include-gtids", "--exclude-gtids"):
        assert shown(run("log", log, option, tagged)) == by_tool("mysql-9.7", log, option, tagged)


def test_gtids_of_mariadb_one_by_one(run, corpus):
    everything = shown(run("log", corpus / MARIADB))
    some = everything[1::2]
    assert shown(run("log", corpus / MARIADB, "--include-gtids", ",".join(some))) == some
    rest = everything[::2]
    assert shown(run("log", corpus / MARIADB, "--exclude-gtids", ",".join(some))) == rest


@pytest.mark.server
def test_the_server_that_committed_first(run, corpus):
    """The servers' own tools pick MariaDB's by the same option."""
    logs = sorted((corpus / MARIADB).glob("*.0*"))
    servers = {gtid.split("-")[1] for gtid in shown(run("log", *logs))}
    for server in servers:
        text = Server("mariadb-11.8").mysqlbinlog("--server-id", server, *logs).stdout.decode()
        found = re.findall(r"^#\d+ +[\d:]+ server id (\d+) .*\tGTID (\S+)", text, re.MULTILINE)
        assert found
        assert {one for one, _ in found} == {server}
        assert shown(run("log", *logs, "--server-id", server)) == [gtid for _, gtid in found]


def test_stat_and_records_of_those_that_are_picked(run, shop):
    log = shop / "mysql"
    everything = run("log", log, "--as", "json").lines
    gtids = list(dict.fromkeys(json.loads(line)["_gtid"] for line in everything))
    one = gtids[len(gtids) // 2]
    wanted = [line for line in everything if json.loads(line)["_gtid"] == one]
    assert run("log", log, "--as", "json", "--include-gtids", one).lines == wanted
    found = json.loads(run("stat", log, "--as", "json", "--include-gtids", one).out)
    assert found["transactions"] == 1
    counted = sum(
        each["inserts"] + each["updates"] + each["deletes"] for each in found["tables"].values()
    )
    assert counted == len(wanted)


def test_definitions_in_what_is_left_out_still_count(run, shop):
    """Names of columns come from the CREATE TABLE of a transaction that is not shown."""
    log = shop / "mysql"
    record = json.loads(run("log", log, "--as", "json").lines[-1])
    lines = run("log", log, "--as", "json", "--include-gtids", record["_gtid"]).lines
    assert json.loads(lines[-1]) == record


def test_none_that_fits_is_said(run, shop, corpus):
    ran = run("log", shop / "mysql", "--include-gtids", f"{UUID}:999999")
    assert ran.status == 0
    assert "no transaction has the requested GTIDs" in ran.err
    assert "no transaction has" in run("stat", shop / "mysql", "--server-id", "77").err
    assert "no transaction has" in run("log", shop / "mysql", "--include-gtids", "0-1-1").err
    assert "no transaction has" in run("log", corpus / MARIADB, "--include-gtids", f"{UUID}:1").err


@each_case("text", ["", "rubbish", UUID, f"{UUID}:0", "0-1", "0-1-2,", "0-1-2-3"])
def test_no_gtids(run, shop, text):
    assert_refused(run("log", shop / "mysql", "--include-gtids", text), "--include-gtids")


def test_without_gtids(run, shop, tmp_path):
    log = shop / "mysql"
    lines = run("log", log, "--as", "json").lines
    without = run("log", log, "--as", "json", "--skip-gtids").lines
    assert all(json.loads(line)["_gtid"] is None for line in without)
    assert [{**json.loads(line), "_gtid": None} for line in lines] == list(map(json.loads, without))
    assert set(shown(run("log", log, "--skip-gtids"))) == {"no GTID"}


@pytest.mark.server
@each_case("case", ["shop", TAGGED])
def test_a_log_without_gtids(run, shop, corpus, tmp_path, case):
    """The server's own tool reads it; its transactions are anonymous, its changes the same."""
    log = shop / "mysql" if case == "shop" else corpus / case
    into = tmp_path / "new.000001"
    ran = run("log", log, "--as", "raw", "--into", into, "--skip-gtids")
    assert ran.status == 0, ran.err
    assert run("check", into).status == 0
    names = {event.type for event in tailrace.open(into)}
    assert EventType.ANONYMOUS_GTID in names
    assert not names & {EventType.GTID, EventType.GTID_TAGGED}
    assert set(by_tool("mysql-9.7", into, "--verify-binlog-checksum")) == {"ANONYMOUS"}
    moved = ("_file", "_pos", "_seq", "_gtid")
    old, new = (
        [
            {name: value for name, value in json.loads(line).items() if name not in moved}
            for line in run("log", each, "--as", "json", "--statements", "skip").lines
        ]
        for each in (log, into)
    )
    assert old == new


def test_a_log_of_mariadb_keeps_its_gtids(run, corpus, tmp_path):
    into = tmp_path / "new.000001"
    ran = run("log", corpus / MARIADB, "--as", "raw", "--into", into, "--skip-gtids")
    assert_refused(ran, "begins with its GTID")
    assert not list(tmp_path.iterdir())


def dumped(text, beginning):
    """The bytes that lines of a hexadecimal dump show, by position."""
    found = {}
    for position, octets in re.findall(beginning, text, re.MULTILINE):
        at = int(position, 16)
        for each in octets.split():
            found[at] = int(each, 16)
            at += 1
    return found


@pytest.mark.server
@each_case("case", ["mysql-9.7.image-full-full", "mariadb-11.8.domains"])
def test_bytes_as_the_server_s_tool_shows_them(run, corpus, case):
    """By position, all of the file's; and all that follow its first four."""
    log = min((corpus / case).glob("*.0*"))
    line = r"^# ([0-9a-f]{8}) ((?:[0-9a-f]{2} +)+(?:[0-9a-f]{2})?)"
    flavour = case[: case.index(".", case.index(".") + 1)]
    theirs = dumped(Server(flavour).mysqlbinlog("--hexdump", log).stdout.decode("latin1"), line)
    ran = run("log", log, "--hexdump")
    assert ran.status == 0, ran.err
    ours = dumped(ran.out, line)
    assert {at: ours[at] for at in theirs} == theirs
    assert bytes(ours[at] for at in sorted(ours)) == log.read_bytes()[4:]


def test_bytes_of_the_tables_that_are_asked_for(run, shop):
    everything = run("log", shop / "mysql", "--hexdump").out
    events = re.findall(r"^# at \d+: (\S+), ", everything, re.MULTILINE)
    assert {"FORMAT_DESCRIPTION", "TRANSACTION_PAYLOAD", "WRITE_ROWS"} <= set(events)
    some = run("log", shop / "mysql", "--hexdump", "--tables", "shop.orders").out
    found = set(re.findall(r"^# at \d+: (\S+), ", some, re.MULTILINE))
    assert found
    assert found <= {"WRITE_ROWS", "UPDATE_ROWS", "DELETE_ROWS"}
    assert_refused(run("log", shop / "mysql", "--hexdump", "--as", "json"), "--hexdump")
