"""The feed by GTID: whole transactions, each once, on whichever server has them."""

import random
from contextlib import ExitStack
from threading import Event

import pytest

import tailrace
from tailrace.events import DecodeContext, GtidEvent, MariadbGtidEvent, RowsEvent
from tailrace.gtid import GtidList, GtidSet
from tailrace.live import by_gtid
from tailrace.live.chunks import FileBegin
from tailrace.live.feed import Feed
from tailrace.live.url import Host, Source
from tailrace.transaction import TransactionAssembler
from tests.live.feeding import (
    HEARTBEAT,
    drain,
    empty,
    events_of,
    executed,
    fill,
    source_of,
    take_until,
)
from tests.waiting import wait_for
from tools.applied import address, follow
from tools.proxy import Proxy
from tools.servers import ONE_OF_EACH

GTIDS = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
CLOSED = 1

pytestmark = pytest.mark.usefixtures("patient")


def options_of(name):
    return GTIDS if name.startswith("mysql") else {"log_slave_updates": "ON"}


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def own(request, fresh_server):
    return fresh_server(request.param, options_of(request.param))


def written(server):
    """The bytes of each transaction in the server's files but for ``log_pos``, by GTID."""
    found = {}
    for path in server.binlogs():
        context, held, gtid = DecodeContext(), b"", None
        assembler = TransactionAssembler()
        for offset, _, raw in events_of(path.read_bytes()):
            event = context.decode(raw, file=path.name, offset=offset)
            if isinstance(event, (GtidEvent, MariadbGtidEvent)):
                held, gtid = b"", str(event.gtid)
            done = assembler.feed(event)
            if not assembler.control:
                held += raw
            if done is not None and gtid is not None:
                found[gtid], gtid = held, None
    return found


class Given:
    """The transactions that a feed gave, by GTID, in order; each has to come whole and once."""

    def __init__(self):
        self.transactions = {}
        self.files = []
        self.controls = []
        self._context = DecodeContext()
        self._assembler = TransactionAssembler()
        self._held = b""

    def add(self, item):
        if isinstance(item, FileBegin):
            assert not self._held, "a file begins inside a transaction"
            self.files.append((item.file, item.artificial))
            self._context = DecodeContext()
            self._assembler.feed(self._context.decode(item.description, file=item.file))
            return
        for start, end in zip(item.starts, [*item.starts[1:], len(item.data)], strict=True):
            raw = bytes(item.data[start:end])
            event = self._context.decode(raw, file=item.file, offset=item.offset + start)
            done = self._assembler.feed(event)
            if self._assembler.control:
                self.controls.append((item.file, item.offset + start, raw[4]))
                continue
            self._held += raw
            if done is not None:
                gtid = str(done.gtid)
                assert gtid not in self.transactions, f"{gtid} came twice"
                self.transactions[gtid] = self._held
                self._held = b""

    def equals(self, wanted):
        assert list(self.transactions) == list(wanted)
        assert self.transactions == wanted
        assert not self._held
        assert len(set(self.controls)) == len(self.controls), "a control event came twice"


def take_all(feed, given, server):
    take_until(feed, given, lambda: str(feed.gtids) == str(executed(server)))


def test_all_transactions_of_a_server(own):
    fill(own, 5)
    own.rotate()
    fill(own, 5)
    with Feed(source_of(own), start=empty(own), follow=False) as feed:
        given = drain(feed, Given())
        assert str(feed.gtids) == str(executed(own))
    given.equals(written(own))
    assert [name for name, _ in given.files] == [path.name for path in own.binlogs()]
    # MariaDB 11.8 finds the first transaction by an index, and enters its file there
    assert [artificial for _, artificial in given.files[1:]] == [False] * (len(given.files) - 1)


def test_what_the_set_holds_is_left_out_gaps_and_all(fresh_server):
    server = fresh_server("mysql-9.7", GTIDS)
    fill(server, 8)
    server.rotate()
    fill(server, 8)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GTID_NEXT = 'AUTOMATIC:tag'")
        cursor.execute("INSERT INTO feed.t (b) VALUES ('tagged')")
    wanted = written(server)
    uuid = server.query("SELECT @@server_uuid")[0][0]
    for runs in ("1-3:5-6:9", "2", "1-16:18-19", "1-2:4-30", "7:tag:1"):
        had = GtidSet.parse(f"{uuid}:{runs}") & executed(server)
        with Feed(source_of(server), start=had, follow=False) as feed:
            given = drain(feed, Given())
            assert feed.gtids == executed(server)
        given.equals({gtid: raw for gtid, raw in wanted.items() if not GtidSet.parse(gtid) <= had})


def test_domains_of_mariadb_each_from_its_own_place(mariadb118):
    server = mariadb118
    fill(server, 2)
    for domain in (0, 1, 2, 1, 0, 2):
        server.execute(f"SET SESSION gtid_domain_id = {domain}")
        server.execute("INSERT INTO feed.t (b) VALUES ('d')")
        server.rotate()
    server.execute("SET SESSION gtid_domain_id = 0")
    wanted = written(server)
    last = {}
    for gtid in wanted:
        last.setdefault(gtid.split("-")[0], []).append(gtid)
    start = GtidList.parse(f"{last['0'][-2]},{last['1'][-2]}")  # and all of domain 2
    with Feed(source_of(server), start=start, follow=False) as feed:
        given = drain(feed, Given())
        assert feed.gtids.position == executed(server).position
    left_out = {*last["0"][:-1], *last["1"][:-1]}
    given.equals({gtid: raw for gtid, raw in wanted.items() if gtid not in left_out})


def test_oldest_and_now_with_several_hosts(own):
    hosts = (Host("127.0.0.1", own.port), Host("localhost", own.port))
    settings = source_of(own)
    fill(own, 1)
    for start, wanted in (("oldest", written(own)), ("now", {})):
        source = Source(hosts=hosts, user="root", tls=settings.tls, start=start)
        with Feed(source, follow=False) as feed:
            drain(feed, Given()).equals(wanted)


def test_each_transaction_once_through_cuts_at_random_bytes(own, monkeypatch):
    """Small buffers, so that transactions are held over chunks, and large ones are given early."""
    monkeypatch.setattr("tailrace.live.dump.SIZE", 4 << 10)
    monkeypatch.setattr(by_gtid, "HELD", 8 << 10)
    for _ in range(3):
        fill(own, 40, 700)
        own.rotate()
    fill(own, 10, 300)
    pick = random.Random(7)
    given = Given()
    with Proxy(own.port) as proxy:
        done = proxy.cut_after_each([pick.randrange(4000, 60_000) for _ in range(8)])
        with Feed(source_of(proxy.port), start=empty(own), follow=False) as feed:
            drain(feed, given)
            assert len(done) >= 5
            assert feed.reconnects >= 5
            assert str(feed.gtids) == str(executed(own))
    given.equals(written(own))
    assert [name for name, _ in given.files] == [path.name for path in own.binlogs()]


def caught_up(replica, source):
    wait_for(
        lambda: executed(replica) == executed(source) and rows(replica) == rows(source),
        lambda: (executed(replica), executed(source)),
    )


def rows(server):
    """Those that were committed: MariaDB counts a GTID before its log has been synced."""
    if not server.query("SHOW DATABASES LIKE 'feed'"):
        return None
    return server.query("SELECT COUNT(*) FROM feed.t")


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def pair(request, fresh_server):
    """A source and its replica, which logs what it applies; the replica's files are its own."""
    source = fresh_server(request.param, options_of(request.param), server_id=1)
    replica = fresh_server(request.param, options_of(request.param), server_id=2)
    follow(replica, by_gtid=True, **address(source))
    fill(source, 5)
    caught_up(replica, source)
    replica.rotate()
    replica.rotate()
    return source, replica


LARGE = (
    "INSERT INTO feed.t (b) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
    " WHERE i < 300) SELECT REPEAT('n', 20000) FROM n"
)


class Hosts:
    """Both servers of a pair, through proxies: the first is gone when ``cut`` is set."""

    def __init__(self, pair):
        source, replica = pair
        self.cut = Event()
        self.first = Proxy(lambda: CLOSED if self.cut.is_set() else source.port)
        self.second = Proxy(replica.port)
        self._proxies = ExitStack()

    def __enter__(self):
        hosts = [self._proxies.enter_context(each) for each in (self.first, self.second)]
        self.source = Source(
            hosts=tuple(Host("127.0.0.1", each.port) for each in hosts),
            user="root",
            tls=source_of(CLOSED).tls,
            heartbeat=HEARTBEAT,
        )
        return self

    def __exit__(self, *_):
        self._proxies.close()

    def cut_after(self, count):
        self.cut = self.first.cut_after(count)


def test_it_moves_to_the_next_host_in_mid_transaction(pair):
    source, replica = pair
    fill(source, 5)
    source.execute("INSERT INTO feed.t (b) VALUES (REPEAT('m', 6000000))")
    fill(source, 5)
    caught_up(replica, source)
    given = Given()
    with Hosts(pair) as hosts, Feed(hosts.source, start=empty(source)) as feed:
        hosts.cut_after(4 << 20)  # inside the large one
        take_until(feed, given, hosts.cut.is_set)
        assert len(given.transactions) < len(written(source))
        take_all(feed, given, source)
        assert feed.session.server_id == replica.server_id
        on_source = len(given.files)
        hosts.second.refuse()
        hosts.cut = Event()
        fill(source, 3)
        take_all(feed, given, source)
        assert feed.session.server_id == source.server_id
        assert len(given.files) > on_source
        assert str(feed.gtids) == str(executed(source))
    assert list(given.transactions) == list(written(source))


def test_what_is_read_of_it_as_rows_is_whole_and_once(pair, monkeypatch):
    """By `tailrace.changes`, `transactions` and `gtids`, through a move in its middle."""
    monkeypatch.setattr(by_gtid, "HELD", 1 << 10)
    source, replica = pair
    fill(source, 1)
    start = executed(source)
    source.execute(LARGE)
    caught_up(replica, source)
    for read in (_rows_of_changes, _rows_of_transactions):
        with Hosts(pair) as hosts:
            hosts.cut_after(3_000_000)
            places = ",".join(f"127.0.0.1:{each.port}" for each in hosts.source.hosts)
            url = f"mysql://root@{places}/?ssl_mode=DISABLED"
            assert read(url, start, executed(source)) == 300
            assert hosts.second.counts.connections


def _rows_of_changes(url, start, end):
    del end
    changes = tailrace.changes(url, start=start)
    return sum(batch.num_rows for batch in changes)


def _rows_of_transactions(url, start, end):
    log = tailrace.open(url, start=start)
    assembler, rows, void = TransactionAssembler(), 0, 0
    for event in log:
        assert log.gtids == start, "what has not ended, or is void, was counted"
        transaction = assembler.feed(event)
        if transaction is None:
            continue
        if transaction.complete:
            rows += sum(isinstance(each, RowsEvent) for each in transaction.events)  # 20 KB each
        else:
            void += 1
    assert void == 1
    assert str(log.gtids) == str(end)
    return rows


def test_a_host_that_lags_is_passed_over(pair):
    source, replica = pair
    word = "REPLICA" if source.flavour == "mysql" else "SLAVE"
    given = Given()
    with Hosts(pair) as hosts, Feed(hosts.source, start="now") as feed:
        take_until(feed, given, lambda: given.files)
        replica.execute(f"STOP {word}")
        fill(source, 2)
        take_all(feed, given, source)
        hosts.first.refuse()
        for _ in range(3):
            assert feed.take(0.3) is None
        replica.execute(f"START {word}")
        caught_up(replica, source)
        fill(source, 2)
        caught_up(replica, source)
        take_all(feed, given, source)
        assert feed.session.server_id == replica.server_id
    wanted = list(written(source))
    assert list(given.transactions) == wanted[-len(given.transactions) :]
