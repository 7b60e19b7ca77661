"""`--start` and `--until`: positions, GTIDs and times."""

import json
import re
from datetime import UTC, datetime

import pytest

from tailrace.errors import UsageError
from tailrace.gtid import Gtid, GtidList, GtidSet, MariadbGtid
from tailrace.position import Position
from tailrace.selection import start_of, until_of
from tailrace.table_filter import TableFilter
from tailrace.times import Time
from tests.cases import each_case

UUID = "b1499b96-e58b-11f1-8132-02fc00000001"


@each_case(
    ("text", "bound"),
    [
        ("oldest", "oldest"),
        (" NOW ", "now"),
        ("binlog.000003:1234", Position("binlog.000003", 1234)),
        ("mysql-bin.2:4", Position("mysql-bin.2", 4)),
        ("a:b.000003:5", Position("a:b.000003", 5)),
        ("-:120", Position("-", 120)),
        ("binlog.000003", Position("binlog.000003", 4)),
        (f"{UUID}:1-5:8", GtidSet.parse(f"{UUID}:1-5:8")),
        (f"{UUID}:5-5", GtidSet.parse(f"{UUID}:5")),
        (f" {UUID}:5 ", GtidSet.parse(f"{UUID}:1-5")),
        (f"{UUID.upper()}:5", GtidSet.parse(f"{UUID}:1-5")),
        (f"{UUID}:tag:5", GtidSet.parse(f"{UUID}:tag:1-5")),
        (f"{UUID}:1,\n{UUID[:-1]}2:3", GtidSet.parse(f"{UUID}:1,{UUID[:-1]}2:3")),
        ("gtid:", GtidSet()),
        ("0-100-5", GtidList.parse("0-100-5")),
        ("0-100-5,1-1-7", GtidList.parse("0-100-5,1-1-7")),
        ("gtid:2026-11-21", GtidList.parse("2026-11-21")),
        ("2026-11-21T09:12:36", Time(1795252356_000000)),
        ("2026-11-21 09:12:36.876595", Time(1795252356_876595)),
        ("2026-11-21T10:12:36+01:00", Time(1795252356_000000)),
        ("2026-11-21T09:12:36Z", Time(1795252356_000000)),
        ("2026-11-21T09:12", Time(1795252320_000000)),
        (datetime(2026, 11, 21, 9, 12, 36, tzinfo=UTC), Time(1795252356_000000)),
        (Gtid.parse(f"{UUID}:5"), GtidSet.parse(f"{UUID}:1-5")),
        (MariadbGtid(0, 100, 5), GtidList.parse("0-100-5")),
        (Position("b.1", 4), Position("b.1", 4)),
        (GtidSet.parse(f"{UUID}:5"), GtidSet.parse(f"{UUID}:5")),
        (None, None),
    ],
)
def test_starts(text, bound):
    assert start_of(text) == bound
    if bound is not None:
        assert start_of(bound) == bound


def test_until_one_gtid_is_just_that():
    assert until_of(f"{UUID}:5") == GtidSet.parse(f"{UUID}:5")
    assert until_of(f"{UUID}:1-5") == GtidSet.parse(f"{UUID}:1-5")
    assert until_of("binlog.000003") == Position("binlog.000003", 4)
    with pytest.raises(UsageError):
        until_of("oldest")


@each_case(
    "text",
    [
        *("", "yesterday", "rubbish", "binlog.000003:", ":4", "9-9", "binlog"),
        *(f"{UUID}:0", f"{UUID}:x", UUID, "gtid:x", "2026-11-21T25:00", "99999999999999999999-1-1"),
        *(7, 7.5, b"now"),
    ],
)
def test_what_is_no_place(text):
    with pytest.raises(UsageError, match=r"^from(:| is)"):
        start_of(text, "from")


def test_a_datetime_without_zone():
    with pytest.raises(UsageError, match="tzinfo"):
        start_of(datetime(2026, 11, 21))  # noqa: DTZ001 - as a user may


def test_patterns():
    everything, some = TableFilter.of(), TableFilter.of(["shop.*", "orders", "a.b?"])
    assert everything("x", "y")
    assert [some(*name) for name in (("shop", "x"), ("any", "orders"), ("a", "b1"), ("a", "b12"), ("Shop", "x"))] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert TableFilter.of(some, "shop.log") == TableFilter(some.only, ("shop.log",))


def heads(ran):
    """Position, GTID and time of each transaction in the text."""
    found = re.findall(r"^(\S+\.\d+:\d+)  (\S+)  ([\d: .-]+)$", ran.out, re.MULTILINE)
    return [(position, gtid, time) for position, gtid, time in found]


@pytest.fixture(params=["mysql", "mariadb"])
def log(request, shop):
    return shop / request.param


def test_ranges(run, log):
    everything = heads(run("log", log))
    assert len(everything) > 500
    for first, last in ((0, 3), (5, 6), (240, 300), (400, 520), (100, 100)):
        ran = run("log", log, "--start", everything[first][0], "--until", everything[last][0])
        assert (ran.status, heads(ran)) == (0, everything[first:last]), (first, last)
        # by GTID: after the one that was read, up to the last that is to be read
        ran = run("log", log, "--start", everything[first][1], "--until", everything[last][1])
        assert (ran.status, heads(ran)) == (0, everything[first + 1 : last + 1]), (first, last)
    start = everything[300][0]
    assert heads(run("log", log, "--start", start)) == everything[300:]
    assert heads(run("log", log, "--until", start)) == everything[:300]


def test_times(run, log):
    everything = heads(run("log", log))
    moment = everything[200][2].replace(" ", "T")
    expected = next(index for index, head in enumerate(everything) if head[2] >= everything[200][2])
    assert heads(run("log", log, "--start", moment)) == everything[expected:]
    assert heads(run("log", log, "--until", moment)) == everything[:expected]
    assert heads(run("log", log, "--start", "2999-01-01T00:00")) == []
    assert heads(run("log", log, "--until", "1999-01-01T00:00")) == []


def test_from_a_position_names_are_known_by_the_ddl_before_it(run, shop):
    log = shop / "mysql"
    second = [head for head in heads(run("log", log)) if head[0].startswith("binlog.000002")]
    bounds = ("--start", second[40][0], "--until", second[200][0])
    ran = run("log", log, "--as", "json", "--tables", "orders", *bounds)
    rows = [json.loads(line)["after"] for line in ran.lines]
    assert rows
    assert all("customer_id" in row for row in rows)


@pytest.mark.slow
@each_case(
    ("flavour", "until"),
    [
        ("mysql", "binlog.000002"),
        ("mariadb", "binlog.000003:4"),
        ("mysql", "transaction"),
        ("mariadb", "gtid"),
    ],
)
def test_an_end_where_no_transaction_is_open(run, shop, tmp_path, flavour, until):
    """Nothing says that the log ends inside a transaction."""
    log = shop / flavour
    everything = heads(run("log", log))
    number = 120
    if until == "transaction":
        until = everything[number][0]
    elif until == "gtid":
        until = everything[number - 1][1]
    else:
        number = sum(Position.parse(head[0]) < start_of(until) for head in everything)
    ways = [["--as", "text"], ["--as", "json"], ["--as", "sql"]]
    ways += [["--as", "raw", "--into", tmp_path / "cut.000001"], ["--as", "json", "--events"]]
    for way in ways:
        ran = run("log", log, "--until", until, *way)
        assert ran.status == 0
        assert "inside" not in ran.out[-200:] + ran.err
        assert "no end" not in ran.err
        if way[1] == "text":
            assert heads(ran) == everything[:number]
    assert len(heads(run("log", tmp_path))) == number
    undone = run("log", log, "--as", "undo", "--until", until, "--statements", "skip")
    assert (undone.status, "no end" in undone.err) == (0, False)
    counted = json.loads(run("stat", log, "--as", "json", "--until", until).out)
    assert (counted["transactions"], counted["unfinished"]) == (number, 0)
    assert run("check", tmp_path).status == 0


def test_a_position_inside_a_transaction(run, shop):
    head = heads(run("log", shop / "mysql"))[20][0]
    events = run("log", shop / "mysql", "--as", "json", "--events", "--start", head)
    inside = json.loads(events.lines[3])
    ran = run("log", shop / "mysql", "--start", f"{inside['_file']}:{inside['_pos']}")
    assert ran.status == 2
    assert "read from the beginning of the transaction" in ran.err
