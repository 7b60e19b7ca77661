"""`--from` and `--until`: positions, GTIDs and times."""

from __future__ import annotations

import json
import re

import pytest

from tailrace.errors import UsageError
from tailrace.position import Position
from tailrace.selection import Bound, TableFilter

UUID = "b1499b96-e58b-11f1-8132-02fc00000001"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("binlog.000003:1234", Bound(position=Position("binlog.000003", 1234))),
        ("mysql-bin.2:4", Bound(position=Position("mysql-bin.2", 4))),
        ("binlog.000003", Bound(position=Position("binlog.000003", 4))),
        (f" {UUID}:5 ", Bound(gtid=f"{UUID}:5")),
        (f"{UUID.upper()}:5", Bound(gtid=f"{UUID}:5")),
        (f"{UUID}:tag:5", Bound(gtid=f"{UUID}:tag:5")),
        ("0-100-5", Bound(gtid="0-100-5")),
        ("2026-11-21", Bound(time=1795219200_000000)),
        ("2026-11-21T09:12:36", Bound(time=1795252356_000000)),
        ("2026-11-21 09:12:36.876595", Bound(time=1795252356_876595)),
        ("2026-11-21T10:12:36+01:00", Bound(time=1795252356_000000)),
        ("2026-11-21T09:12:36Z", Bound(time=1795252356_000000)),
    ],
)
def test_parse(text, bound):
    assert Bound.parse(text) == bound


@pytest.mark.parametrize(
    "text", ["", "yesterday", "binlog.000003:", ":4", f"{UUID}:0", f"{UUID}:x", "9-9", "2026-13-01"]
)
def test_what_is_no_place(text):
    with pytest.raises(UsageError):
        Bound.parse(text)


def test_patterns():
    everything, some = TableFilter.of(), TableFilter.of(["shop.*", "orders", "a.b?"])
    assert everything("x", "y")
    assert [some(*name) for name in (("shop", "x"), ("any", "orders"), ("a", "b1"), ("a", "b12"), ("Shop", "x"))] == [
        True, True, True, False, False,
    ]  # fmt: skip


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
        for part in (0, 1):  # by position, by GTID
            ran = run(
                "log", log, "--from", everything[first][part], "--until", everything[last][part]
            )
            assert (ran.status, heads(ran)) == (0, everything[first:last]), (first, last, part)
    start = everything[300][0]
    assert heads(run("log", log, "--from", start)) == everything[300:]
    assert heads(run("log", log, "--until", start)) == everything[:300]


def test_times(run, log):
    everything = heads(run("log", log))
    moment = everything[200][2].replace(" ", "T")
    expected = next(index for index, head in enumerate(everything) if head[2] >= everything[200][2])
    assert heads(run("log", log, "--from", moment)) == everything[expected:]
    assert heads(run("log", log, "--until", moment)) == everything[:expected]
    assert heads(run("log", log, "--from", "2999-01-01")) == []
    assert heads(run("log", log, "--until", "1999-01-01")) == []


def test_from_a_position_names_are_known_by_the_ddl_before_it(run, shop):
    log = shop / "mysql"
    second = [head for head in heads(run("log", log)) if head[0].startswith("binlog.000002")]
    ran = run(
        "log",
        log,
        "--as",
        "json",
        "--tables",
        "orders",
        "--from",
        second[40][0],
        "--until",
        second[200][0],
    )
    rows = [json.loads(line)["after"] for line in ran.lines]
    assert rows
    assert all("customer_id" in row for row in rows)


def test_a_whole_file(run, shop):
    log = shop / "mysql"
    ran = run("log", log, "--from", "binlog.000002", "--until", "binlog.000003")
    assert heads(ran) == [
        head for head in heads(run("log", log)) if head[0].startswith("binlog.000002")
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--from", "binlog.000009:4"],
            "binlog.000009 is not among the logs of mysql: binlog.000001 to binlog.000004",
        ),
        (
            ["--until", "binlog.000009:4"],
            "binlog.000009 is not among the logs of mysql: binlog.000001 to binlog.000004",
        ),
        (["--from", f"{UUID}:999999"], f"no transaction {UUID}:999999 in the logs of mysql"),
        (["--until", f"{UUID}:999999"], f"no transaction {UUID}:999999 in the logs of mysql"),
        (["--from", "binlog.000001:160"], "binlog.000001 at 160"),
        (["--from", "binlog.000001:99999999"], "no position 99999999"),
        (["--from", "soon"], "not a place in a log: 'soon'"),
    ],
)
def test_places_that_are_not_there(run, shop, options, message):
    ran = run("log", shop / "mysql", *options)
    assert ran.status == 2
    assert message in ran.err.splitlines()[-1]


def test_a_position_inside_a_transaction(run, shop):
    head = heads(run("log", shop / "mysql"))[20][0]
    events = run("log", shop / "mysql", "--as", "json", "--events", "--from", head)
    inside = json.loads(events.lines[3])
    ran = run("log", shop / "mysql", "--from", f"{inside['_file']}:{inside['_pos']}")
    assert ran.status == 2
    assert "read from the beginning of the transaction" in ran.err


def test_a_position_of_several_logs(run, shop):
    ran = run("log", shop, "--from", "binlog.000002:4")
    assert ran.status == 2
    assert "a position is one log's" in ran.err
