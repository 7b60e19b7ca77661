"""What a server's URL says, and that nothing gives its password away."""

import dataclasses
import os
import pickle
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest

from tailrace.errors import TailraceError, UsageError
from tailrace.gtid import GtidList, GtidSet
from tailrace.live.password import ask_password, in_background
from tailrace.live.scheme import names_server
from tailrace.live.url import Host, Source
from tailrace.position import Position
from tailrace.selection import start_of
from tests.cases import each_case

UUID = "896e7882-18fe-11ef-ab88-22222d34d411"
SECRET = "s3cret-Wörd"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of its own, and nothing of ours in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TAILRACE_PASSWORD", "MYSQL_PWD"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write_options(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


# --- hosts and users -----------------------------------------------------------------------------


@each_case(
    ("url", "hosts"),
    [
        ("mysql://u@db1", [Host("db1", 3306)]),
        ("mysql:u@db1", [Host("db1", 3306)]),
        ("MySQL://u@db1:3307/", [Host("db1", 3307)]),
        (
            "mariadb://u@db1:1,db2,10.0.0.1:65535",
            [Host("db1", 1), Host("db2"), Host("10.0.0.1", 65535)],
        ),
        ("mysql://u@[2001:db8::1]:3307,[::1]", [Host("2001:db8::1", 3307), Host("::1")]),
        ("mysql://u@/?socket=/run/my%20sql.sock", [Host("localhost", 3306, "/run/my sql.sock")]),
        ("mysql:///?socket=/s", [Host("localhost", 3306, "/s")]),
        ("mysql://u@", [Host("localhost", 3306)]),
    ],
)
def test_hosts(url, hosts):
    assert list(Source.parse(url).hosts) == hosts


@each_case(
    ("name", "local"),
    [
        ("localhost", True), ("LOCALHOST", True), ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True),
        ("db1", False), ("10.0.0.1", False), ("::", False), ("localhost.example.com", False),
    ],
)  # fmt: skip
def test_which_hosts_are_this_machine(name, local):
    assert Host(name).is_local is local
    assert Host(name, 3306, "/socket").is_local


def test_user_and_password_are_percent_decoded():
    source = Source.parse("mysql://r%40pl:p%3A%2F%3F%23%40%25@h")
    assert (source.user, source.password()) == ("r@pl", "p:/?#@%")
    assert Source.parse("mysql://u:@h").password() == ""
    assert Source.parse("mysql://u:a:b@h").password() == "a:b"
    sources = {Source.parse(f"mysql://u:{each}@h") for each in "aba"}
    assert len(sources) == 2


def test_the_login_name_is_the_default_user(monkeypatch):
    monkeypatch.setenv("LOGNAME", "pipe")
    assert Source.parse("mysql://h").user == "pipe"
    assert Source.parse("mysql://h", user="x").user == "x"
    assert Source.parse("mysql://y@h", user="x").user == "x"
    monkeypatch.setattr("getpass.getuser", lambda: {}["nobody"])  # as for an unknown user id
    with pytest.raises(UsageError, match="no user is named"):
        Source.parse("mysql://h")


def test_names_server():
    assert names_server("mysql://h")
    assert names_server("MARIADB:h")
    assert not names_server("file:///mysql://h")
    assert not names_server(Path("mysql"))
    assert not names_server("my\u017fql://h")  # its capital is an S, too


@each_case(
    "url",
    [
        "http://h", "mysql", "mysql://u@h:", "mysql://u@h:x", "mysql://u@h:0", "mysql://u@h:65536", "mysql://u@h,",
        "mysql://u@h,h", "mysql://u@[::1", "mysql://u@[h]", "mysql://u@a b", "mysql://u@h/db", "mysql://u@h#x",
        "mysql://u@h?x", "mysql://u@h?socket=/s", "mysql://u@?socket=", "mysql://u%ff@h", "mysql://u%00@h", "mysql://u:%00@h",
        "mysql://u@h?heartbeat=1&heartbeat=2",
        *(f"mysql://u@h/?{query}" for query in (
            "server_id=0", "server_id=4294967296", "server_id=-1", "server_id=x", "server_id=", "server_id=1.5", "heartbeat=0",
            "heartbeat=-1", "heartbeat=nan", "heartbeat=inf", "heartbeat=x", "retry=-1", "connect_timeout=0", "start=first",
            "position=now", "position=0-1-1", "gtid=binlog.000003:4", "position=binlog.000003:3", "position=:4", "position=/a/b.000001:4", "start=now&gtid=", "position=a.1:4&gtid=0-1-1",
            "start=oldest&position=a.1:4", "ssl-mode=maybe", "tls-version=TLSv1.1", "tls-version=", "ssl-ca=", "password=x", "nix=1",
            "ssl-mode=REQUIRED&ssl-ca=/ca.pem", "ssl-mode=DISABLED&ssl-cert=/c.pem", "ssl-mode=PREFERRED&ssl-capath=/c",
            "gtid=x", "gtid=0-1", f"gtid={UUID}:0", "gtid=0-1-1,x", f"gtid={UUID}:1,0-1-1", "heartbeat", "skip_torn_tail=maybe",
        )),
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_server(url):
    with pytest.raises(UsageError):
        Source.parse(url)


# --- options -------------------------------------------------------------------------------------


@each_case(
    ("query", "start"),
    [
        ("", None),
        ("start=oldest", "oldest"),
        ("start=now", "now"),
        ("position=binlog.000003:1234", Position("binlog.000003", 1234)),
        ("position=a%3Ab.000003:5000000000", Position("a:b.000003", 5_000_000_000)),
        (f"gtid={UUID}:1-5:8", GtidSet.parse(f"{UUID}:1-5:8")),
        (f"gtid={UUID}:tag:1", GtidSet.parse(f"{UUID}:tag:1")),
        ("gtid=0-1-100,7-2-3", GtidList.parse("0-1-100,7-2-3")),
        ("gtid=", GtidSet()),
    ],
)
def test_where_to_begin(query, start):
    found = Source.parse(f"mysql://u@h/?{query}").start
    assert found == start
    assert type(found) is type(start)


@each_case("text", ["binlog.000003:1234", "0-1-100", "2026-11-21T09:30:00+02:00"])
def test_a_start_is_read_as_everywhere(text):
    assert Source.parse("mysql://u@h", start=text).start == start_of(text)
    assert Source.parse(f"mysql://u@h/?start={quote(text)}").start == start_of(text)


def test_numbers():
    source = Source.parse(
        "mysql://u@h/?server_id=4294967295&heartbeat=0.5&Connect-Timeout=3&retry=60"
    )
    assert (source.server_id, source.heartbeat, source.connect_timeout, source.retry) == (
        4294967295, 0.5, 3.0, 60.0,
    )  # fmt: skip
    default = Source.parse("mysql://u@h")
    assert (default.server_id, default.heartbeat, default.retry) == (None, 10.0, None)
    assert (source.retry_first, default.retry_first) == (True, False)


def test_an_unknown_option_names_the_known_ones():
    with pytest.raises(UsageError, match=r"known are .*heartbeat.*ssl_mode"):
        Source.parse("mysql://u@h/?hartbeat=3")
    with pytest.raises(UsageError, match=r"known are .*heartbeat"):
        Source.parse("mysql://u@h", hartbeat=3)


def test_overrides_win():
    source = Source.parse(
        "mysql://u@h/?start=now&heartbeat=3", start=Position("b.1", 4), heartbeat=4, password="p"
    )
    assert (source.start, source.heartbeat, source.password()) == (Position("b.1", 4), 4.0, "p")
    assert Source.parse("mysql://u@h/?start=now", gtid="0-1-1").start == GtidList.parse("0-1-1")
    assert Source.parse("mysql://u@h/?start=now", start=None).start == "now"
    with pytest.raises(UsageError, match="give one of them"):
        Source.parse("mysql://u@h", start="now", gtid="")


# --- the option file -----------------------------------------------------------------------------


def test_the_option_file_says_what_the_url_does_not(home):
    write_options(
        home / ".my.cnf",
        "[mysql]\nuser=no\n[client]\nuser=filed\npassword='f#1'\nhost=db9\nport=3399\nssl-ca=/ca.pem\n"
        "default-character-set=utf8mb4\n[tailrace]\nheartbeat=2\n",
    )
    source = Source.parse("mysql:///")
    assert source.hosts == (Host("db9", 3399),)
    assert (source.user, source.password(), source.heartbeat) == ("filed", "f#1", 2.0)
    assert source.tls.ca == "/ca.pem"
    there = Source.parse("mysql://u@h/?heartbeat=3&ssl-mode=REQUIRED")
    assert (there.hosts, there.user, there.heartbeat) == ((Host("h"),), "u", 3.0)


def test_a_named_option_file_takes_the_place_of_the_other(home):
    write_options(home / ".my.cnf", "[client]\npassword=home\n")
    other = write_options(home / "other.cnf", "[client]\npassword=other\nsocket=/run/s\n")
    source = Source.parse(f"mysql://u@/?defaults-file={other}")
    assert source.password() == "other"
    assert source.hosts[0].socket == "/run/s"
    assert Source.parse("mysql://u@h/?defaults_file=").password() == ""
    with pytest.raises(UsageError, match="cannot be read"):
        Source.parse("mysql://u@h", defaults_file=home / "missing.cnf")


def test_our_group_takes_known_options_only(home):
    for line in ("hartbeat=3", "start=now", "heartbeat"):
        write_options(home / ".my.cnf", f"[tailrace]\n{line}\n")
        with pytest.raises(UsageError, match=r"\.my\.cnf"):
            Source.parse("mysql://u@h")


@each_case(
    ("lines", "mode"),
    [
        ("ssl-mode=required", "REQUIRED"), ("skip-ssl", "DISABLED"), ("ssl=0", "DISABLED"), ("ssl", None),
        ("ssl-verify-server-cert", "VERIFY_IDENTITY"), ("ssl-verify-server-cert=OFF", "REQUIRED"),
    ],
)  # fmt: skip
def test_older_names_of_tls_in_an_option_file(home, lines, mode):
    write_options(home / ".my.cnf", f"[client]\n{lines}\n")
    assert Source.parse("mysql://u@h").tls.mode == mode
    write_options(home / ".my.cnf", "[client]\nssl=maybe\n")
    with pytest.raises(UsageError, match="ssl is ON or OFF, not 'maybe'"):
        Source.parse("mysql://u@h")


# --- passwords -----------------------------------------------------------------------------------


def test_where_the_password_is_found(home, monkeypatch):
    plain = Source.parse("mysql://u@h")
    given = Source.parse("mysql://u:url@h")
    assert (plain.password(), plain.has_password, given.has_password) == ("", False, True)
    monkeypatch.setenv("MYSQL_PWD", "pwd")
    assert plain.password() == "pwd"
    write_options(home / ".my.cnf", "[client]\nuser=u\n")
    assert plain.password() == "pwd"
    write_options(home / ".my.cnf", "[client]\npassword=file\n")
    assert plain.password() == "file"
    monkeypatch.setenv("TAILRACE_PASSWORD", "ours")
    assert plain.password() == "ours"
    assert plain.has_password
    assert given.password() == "url"
    assert plain.with_password("asked").password() == "asked"


def test_nothing_is_asked_without_a_terminal(monkeypatch):
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert ask_password("u@h") is None
    monkeypatch.delattr("os.O_NOCTTY")  # as on a system without job control
    assert not in_background()


def test_no_text_of_a_source_holds_the_password(monkeypatch):
    source = Source.parse(f"mysql://u:{SECRET}@db1:3307,[::1]/?gtid=")
    shown = [repr(source), str(source), source.name, f"{source!r}", repr(source.given_password),
             str(source.given_password), repr(source.__dict__), repr(dataclasses.fields(source))]  # fmt: skip
    assert not any(SECRET in text for text in shown)
    assert source.name == "mysql://u@db1:3307,[::1]:3306"
    assert source.name_at(source.hosts[1]) == "mysql://u@[::1]:3306"


@each_case(
    "url",
    [
        # what stands in a URL where a password holds a character that it must not
        f"mysql://u:{SECRET}@x@h/", f"mysql://u:a/{SECRET}@h/", f"mysql://u:a?{SECRET}@h/", f"mysql://u:a#{SECRET}@h",
        f"mysql://u:a?{SECRET}=1@h", f"mysql://u:{SECRET}", f"mysql://u:{SECRET}/x", f"mysql://u:{SECRET}@h/db",
        f"mysql://u:{SECRET}@h:port", f"mysql://u:{SECRET}@h/?nix=1", f"mysql://u:{SECRET}@h/?gtid=x", f"mysql://u:{SECRET}%ff@h",
        f"mysql://u:{SECRET}%00@h", f"mysql://u:{SECRET}@[x]", f"mysql://h1,u:{SECRET}@h2,u:{SECRET}@h3", f"mysql://u:1,{SECRET}@h:x",
        f"mysql:u:{SECRET}", f"mysql://u:x,{SECRET}", f"mysqlx://u:{SECRET}@h",
    ],
)  # fmt: skip
def test_no_message_quotes_a_password(url):
    with pytest.raises(TailraceError) as caught:
        Source.parse(url)
    text = "".join(traceback.format_exception(caught.value))
    raised = [line for line in text.splitlines() if "Error" in line]
    assert raised
    assert not any(SECRET in line for line in raised)
    assert SECRET not in repr(caught.value.args)


def test_a_source_is_pickled_without_its_password(home, monkeypatch):
    source = Source.parse(f"mysql://u@h/?gtid={UUID}:1-5&ssl-mode=REQUIRED")
    write_options(home / ".my.cnf", f"[client]\npassword={SECRET}\n")
    raw = pickle.dumps(source)
    assert SECRET.encode() not in raw
    again = pickle.loads(raw)
    assert again == source
    monkeypatch.setenv("TAILRACE_PASSWORD", "of the other process")
    assert again.password() == "of the other process"


def test_a_password_of_the_url_is_not_pickled():
    for source in (
        Source.parse(f"mysql://u:{SECRET}@h"),
        Source.parse("mysql://u@h", password=SECRET),
    ):
        with pytest.raises(UsageError, match="TAILRACE_PASSWORD") as caught:
            pickle.dumps(source)
        assert SECRET not in str(caught.value)
