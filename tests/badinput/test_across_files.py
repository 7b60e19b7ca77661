"""Transactions that one file begins and the next one continues (relay logs), or makes void."""

import pytest

from tailrace.columns import changes, plan_splits, read_split
from tailrace.columns.read.planner import SplitPlanner
from tailrace.errors import BoundaryError, EventDecodeError, TruncatedEvent
from tests.badinput.test_verdicts import (
    GTID,
    MYSQL,
    QUERY,
    TABLE_MAP,
    WRITE,
    XID,
    a_rotate,
    both,
    index_of,
    later_head,
    of,
    statement,
)
from tests.cases import each_case
from tools.campaign import verdicts
from tools.campaign.mutate import Parsed


@pytest.fixture(scope="module")
def made():
    """Events to make files of: a head for the first file, heads for later ones, and the rest."""
    parsed = of(MYSQL, GTID, QUERY, TABLE_MAP, WRITE, XID)
    first = max(n for n, event in enumerate(parsed.events) if event[4] == GTID)
    gtid, begin, *rows, xid = parsed.events[first:]
    return {
        "head": parsed.events[:first],
        "begin": [gtid, begin],
        "rows": rows,
        "commit": [xid],
        "rotate": [a_rotate()],
        "later": [later_head(parsed)] * 2,  # the relay log's and the source's
        "restarted": [parsed.events[0]],
        **{
            sql.split(" `")[0]: [sealed(statement(parsed, sql.encode()), parsed.tail)]
            for sql in ("ROLLBACK", "SAVEPOINT `a`", "ROLLBACK TO `a`")
        },
    }


def sealed(event, tail):
    alone = Parsed([bytearray(event)], tail)
    alone.seal(0)
    return alone.events[0]


def content(made, names):
    """A file's bytes."""
    return b"\xfebin" + b"".join(event for name in names for event in made[name])


def series_of(made, *files):
    return verdicts.series_of(*(content(made, names) for names in files))


def read_into(found, series):
    for batch in changes(series, statements="skip"):
        found.extend(batch.column("_seq").to_pylist())


FIRST = ("head", "begin", "rows", "rotate")
LATER = ("later", "begin", "rows", "commit")
CONTINUED = {
    "commit": ((FIRST, ("later", "rows", "commit")), 2),
    "commit alone": ((FIRST, ("later", "commit")), 1),
    "rollback": ((FIRST, ("later", "rows", "ROLLBACK")), 0),
    "rollback in the third": ((FIRST, ("later", "rows", "rotate"), ("later", "ROLLBACK")), 0),
    "rollback to": (
        (
            ("head", "begin", "rows", "SAVEPOINT", "rows", "rotate"),
            ("later", "rows", "ROLLBACK TO", "rows", "commit"),
        ),
        2,
    ),
    "no end": ((FIRST, ("later", "rows")), 0),
}


@each_case("name", CONTINUED)
def test_continued(name, made):
    """Both paths agree, whether a transaction is held or looked ahead for; no split is of half."""
    files, times = CONTINUED[name]
    series = series_of(made, *files)
    objects = both(*(content(made, names) for names in files))
    before = len(verdicts.by_objects(series_of(made, ("head",)), verify=True).rows)
    whole = series_of(made, ("head", "begin", "rows", "commit"))
    once = len(verdicts.by_objects(whole, verify=True).rows) - before
    assert (len(objects.rows) - before, once > 0) == (times * once, True)
    for plan in (plan_splits, SplitPlanner().plan):
        with pytest.raises(BoundaryError, match="continues here that began in the previous file"):
            plan(series)


def test_void_by_the_next_file(made):
    """The server crashed, and its file does not say that it was in use."""
    files = ("head", "begin", "rows"), ("restarted", "begin", "rows", "commit")
    series = series_of(made, *files)
    objects = both(*(content(made, names) for names in files))
    assert objects.rows
    for plan in (plan_splits, SplitPlanner().plan):
        rows = sum(batch.num_rows for split in plan(series) for batch in read_split(split))
        assert rows == len(objects.rows)


def test_rows_before_an_error_are_given_once():
    """A bad row, and then an event before which all that is planned is decoded."""
    good = of(MYSQL, GTID, QUERY, TABLE_MAP, WRITE, XID)
    partial = of("mysql-9.7.json-partial-full", 39)
    bad = Parsed([bytearray(event) for event in good.events], good.tail)
    index = index_of(bad, WRITE)
    event = bad.events[index]
    del event[len(event) - bad.tail - 1 : len(event) - bad.tail]
    bad.seal(index)
    begin = index_of(good, GTID)
    events = [*good.events, *bad.events[begin:], *partial.events[index_of(partial, GTID) :]]
    series = verdicts.series_of(b"\xfebin" + b"".join(events))
    found = []
    with pytest.raises(EventDecodeError, match=r"corpus\.keyed: "):
        read_into(found, series)
    assert found
    assert len(found) == len(set(found))


def test_rows_without_an_end_before_damage(made):
    """A file in mid-series is cut inside the end of a transaction: none of its rows is given."""
    whole = content(made, ("head", "begin", "rows", "commit"))
    series = verdicts.series_of(whole[:-5], content(made, LATER))
    found = []
    with pytest.raises(TruncatedEvent):
        read_into(found, series)
    assert len(found) == len(verdicts.by_objects(series_of(made, ("head",)), verify=True).rows)
