"""Filters of whole transactions: by server, GTID and time."""

import random
from datetime import UTC, datetime

import tailrace
from tailrace.events import (
    GtidEvent,
    MariadbGtidEvent,
)
from tailrace.gtid import GtidList, GtidSet
from tailrace.handlers import ByGtid, ByServerId, ByTime
from tests.cases import each_case
from tests.handlers.logs import (
    CORPUS,
    cases,
    events,
)


def groups(given):
    return [event for event in given if isinstance(event, (GtidEvent, MariadbGtidEvent))]


@each_case("case", cases("gtids", "domains", "xa", "payload-full", "switches", "relay"))
def test_whole_transactions(case):
    bare = events(case)
    whole = [one for one in tailrace.open(CORPUS / case).transactions() if one.gtid is not None]
    seeded = random.Random(case)
    chosen = seeded.sample(whole, len(whole) // 2)
    only = {one.gtid for one in chosen}
    servers = {one.events[0].header.server_id for one in chosen[:1]}
    middle = seeded.choice(whole)
    time = (middle.commit_timestamp or 0) or middle.events[0].timestamp * 1_000_000
    for handler, kept in (
        (ByGtid(only), chosen),
        (ByGtid(without=only), [one for one in whole if one not in chosen]),
        (ByServerId(servers), [one for one in whole if one.events[0].header.server_id in servers]),
        (
            ByServerId(without=servers),
            [one for one in whole if one.events[0].header.server_id not in servers],
        ),
        (ByTime(time), [one for one in whole if _time(one) >= time]),
        (ByTime(end=time), [one for one in whole if _time(one) < time]),
        (ByTime(datetime.fromtimestamp(0, UTC), datetime(2100, 1, 1)), whole),  # noqa: DTZ001
    ):
        with tailrace.open(CORPUS / case, handlers=[handler]) as log:
            out = list(log)
            assert [one for one in log.transactions() if one.gtid] == [
                one for one in whole if one in kept
            ]
        controls = [
            event
            for event in bare
            if event.name in {"FORMAT_DESCRIPTION", "ROTATE", "STOP", "PREVIOUS_GTIDS", "GTID_LIST"}
        ]
        assert [event for event in out if event.name in {one.name for one in controls}] == controls
        inner = [event for event in out if event.inner_index is not None]
        places = {event.offset for one in kept for event in one.events}
        assert {event.offset for event in inner} <= places
        if not kept:
            assert not inner


def _time(one):
    return one.commit_timestamp or one.events[0].timestamp * 1_000_000


def test_sets_and_states_of_gtids():
    case = "mysql-9.7.tagged-gtids"
    done = GtidSet.parse("ab3fb2ab-e590-11f1-af3c-02fc00000001:1-2:orders:1")
    assert [str(e.gtid)[-8:] for e in groups(events(case, ByGtid(done)))] == [
        "000001:1",
        "000001:2",
        "orders:1",
    ]
    assert len(groups(events(case, ByGtid(without=done)))) == len(groups(events(case))) - 3
    case = "mariadb-11.8.domains"
    state = GtidList.parse("0-1-3,5-4294967295-2")
    assert [str(e.gtid) for e in groups(events(case, ByGtid(state)))] == [
        "0-1-1",
        "0-1-2",
        "0-1-3",
        "5-1-1",
        "5-4294967295-2",
    ]
    case = "mysql-9.7.anonymous"
    assert len(groups(events(case, ByGtid(done)))) == 0
    assert events(case, ByGtid(without=done)) == events(case)


@each_case("case", cases("incident"))
def test_an_incident_passes_whatever_is_left_out(case):
    out = events(case, ByServerId([]))
    assert [event.name for event in out if event.name in {"INCIDENT", "QUERY", "XID"}] == [
        "INCIDENT"
    ]
