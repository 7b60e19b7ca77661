"""WL#4398: the semi-synchronous source, and a replica's end of its dumps that the tests hold."""

import socket
import threading
import time
from contextlib import ExitStack
from functools import partial

import pytest

from tailrace.constants import ChecksumAlgorithm
from tailrace.errors import UsageError
from tailrace.events import QueryEvent
from tailrace.observers import TransactionObserver, TransmitDelegate
from tailrace.replication.semisync.source import SemisyncSource, WaitPoint
from tailrace.replication.source.connection import ReplicaConnection
from tailrace.replication.source.request import DumpRequest
from tailrace.replication.source.series import ServedLogs
from tailrace.replication.source.transmit import Transmit
from tailrace.wire.packets import frame
from tailrace.wire.semisync import Acknowledgement
from tests.cases import each_case
from tests.waiting import DEADLINE, ended, in_thread, wait_for
from tests.writing.made import fill, log
from tests.writing.test_observers import statement

SHORT = 0.3
ROTATE = 4


class Replica:
    """A replica's end of a dump: reads packets, acknowledges what is asked for unless paused."""

    def __init__(self, served, delegate, server_id, *, asks="rpl_semi_sync_replica", file=""):
        ours, self._socket = socket.socketpair()
        self.connection = ReplicaConnection(
            ours, user="repl", host="127.0.0.1", port=server_id, thread_id=server_id
        )
        if asks:
            self.connection.variables[asks] = 1
        self.semisync = bool(asks)
        request = DumpRequest(server_id, file, 4, checksum=ChecksumAlgorithm.CRC32)
        self.transmit = Transmit(served, request, self.connection, delegate=delegate)
        self.go = threading.Event()
        self.go.set()
        self.events = []
        self.headers = set()
        self.wanted = []
        self._name = ""
        self._stopped = False
        self._threads = [in_thread(self._dump), in_thread(self._read)]

    def _dump(self):
        try:
            self.transmit.run()
        finally:
            self.connection.release()

    def _read(self):
        stream = self._socket.makefile("rb")
        while head := stream.read(4):
            payload = stream.read(int.from_bytes(head[:3], "little"))
            size = 2 if self.semisync else 0
            if payload[0]:
                return
            self.headers.add(payload[1 : 1 + size])
            event = payload[1 + size :]
            if event[4] == ROTATE:
                self._name = event[27:-4].decode()
            asked = bool(size) and payload[2] == 1
            end = int.from_bytes(event[13:17], "little")
            self.events.append((asked, event[4], end))
            if asked:
                self.wanted.append(end)
                assert self.go.wait(DEADLINE)
                if not self._stopped:
                    self.acknowledge(end)

    def acknowledge(self, end):
        self.send(Acknowledgement(self._name, end).encode())

    def send(self, payload):
        self._socket.sendall(frame(payload, 0))

    def stop(self):
        if self._stopped:
            return
        self._stopped = True
        self.go.set()
        self.transmit.stop()
        ended(*self._threads)
        self._socket.close()


class Chain:
    """A log that is written and served, with a semi-synchronous source."""

    def __init__(self, stack, folder, flavour="mysql", **given):
        given.setdefault("timeout", DEADLINE)
        self.source = SemisyncSource(**given)
        self.log = log(
            folder / "binlog.000001",
            flavour,
            sync="transaction",
            observers=[self.source],
        )
        self.served = ServedLogs(folder)
        self.delegate = TransmitDelegate([self.source])
        self._stack = stack
        stack.callback(self.log.close)
        stack.callback(self.served.close)

    def replica(self, server_id, **given):
        replica = Replica(self.served, self.delegate, server_id, **given)
        self._stack.callback(replica.stop)
        wait_for(lambda: replica.events, "the dump's begin")
        return replica

    def commit(self, number):
        """A commit in another thread."""
        return in_thread(fill, self.log, 1, first=number)


@pytest.fixture
def chain(tmp_path):
    with ExitStack() as stack:
        yield partial(Chain, stack, tmp_path)


@pytest.mark.parametrize("point", WaitPoint)
@pytest.mark.parametrize(
    ("flavour", "asks"), [("mysql", "rpl_semi_sync_replica"), ("mariadb", "rpl_semi_sync_slave")]
)
def test_a_commit_returns_after_the_acknowledgement_only(chain, flavour, point, asks):
    """And at wait point after_sync no observer is told before it that it is committed."""
    told = threading.Event()

    class Tells(TransactionObserver):
        def after_commit(self, io):
            told.set()

    it = chain(flavour, wait_point=point)
    it.log.remove_observer(it.source)
    it.log.add_observer(Tells())
    it.log.add_observer(it.source)
    replica = it.replica(22, asks=asks)
    replica.go.clear()
    commit = it.commit(1)
    wait_for(lambda: replica.wanted and it.source.status.wait_sessions == 1, "the wait")
    time.sleep(SHORT)
    assert not commit.done()
    assert told.is_set() == (point is WaitPoint.AFTER_COMMIT)
    replica.go.set()
    ended(commit)
    assert told.is_set()
    status = it.source.status
    assert (status.yes_tx, status.no_tx, status.tx_waits, status.clients) == (1, 0, 1, 1)
    assert status.wait_sessions == 0
    assert status.tx_avg_wait_time == status.tx_wait_time > SHORT / 2 * 1e6
    (state,) = it.source.replicas
    assert (state.server_id, state.acknowledged) == (22, it.log.position)
    assert replica.headers <= {b"\xef\0", b"\xef\1"}


def test_only_ends_of_transactions_are_asked_for_once_they_are_flushed(chain):
    it = chain()
    replica = it.replica(22)
    for number in range(1, 21):
        fill(it.log, 1, first=number)
    late = it.replica(23)
    wait_for(lambda: late.events[-1][2] == it.log.position.offset, "the second dump's end")
    assert not late.wanted  # all of it is acknowledged by the first
    assert it.source.status.yes_tx == 20
    assert {kind for asked, kind, _ in replica.events if asked} <= {2, 16}


def test_a_replica_that_did_not_ask_gets_no_header_and_is_not_counted(chain):
    it = chain(timeout=SHORT)
    replica = it.replica(22, asks="")
    assert it.source.status.clients == 0
    begun = time.monotonic()
    fill(it.log, 2)
    assert time.monotonic() - begun >= SHORT
    wait_for(lambda: replica.events[-1][2] == it.log.position.offset, "the events")
    assert replica.headers == {b""}
    assert not it.source.replicas
    status = it.source.status
    assert (status.yes_tx, status.no_tx, status.no_times, status.status) == (0, 2, 1, False)


def test_after_a_time_out_it_is_asynchronous_until_a_replica_has_caught_up(chain):
    it = chain()
    replica = it.replica(22)
    fill(it.log, 2)
    assert it.source.status.status
    replica.go.clear()
    it.source.timeout = SHORT
    commits = [it.commit(number) for number in (3, 4, 5)]
    ended(*commits)
    status = it.source.status
    assert (status.status, status.no_times, status.yes_tx, status.no_tx) == (False, 1, 2, 3)
    waits = status.tx_waits
    fill(it.log, 3, first=6)
    assert it.source.status.tx_waits == waits  # nobody waits any more
    replica.go.set()
    wait_for(lambda: it.source.status.status, "the catching up")
    (state,) = it.source.replicas
    assert state.acknowledged == it.log.position
    it.source.timeout = DEADLINE
    fill(it.log, 2, first=9)
    status = it.source.status
    assert (status.status, status.no_times, status.yes_tx, status.no_tx) == (True, 1, 4, 6)


def test_a_new_dump_from_the_logs_end_switches_it_on_again(chain):
    it = chain(timeout=SHORT)
    fill(it.log, 1)
    assert not it.source.status.status
    replica = it.replica(22)
    wait_for(lambda: it.source.status.status, "the acknowledgement of the newest transaction")
    assert replica.wanted


def test_of_transactions_that_are_sent_at_once_the_last_ones_acknowledgement_is_for_all(chain):
    """But a small one does not wait until a large one is sent."""
    it = chain()
    commits = [it.commit(number) for number in range(4)]
    wait_for(lambda: it.source.status.wait_sessions == 4, "the waits")
    small = it.log.position.offset

    def large():
        with it.log.transaction() as transaction:
            transaction.query(f"create table t (a int) comment '{'x' * 300_000}'", "shop")

    commits.append(in_thread(large))
    wait_for(lambda: it.source.status.wait_sessions == 5, "the last one's wait")
    replica = it.replica(22)
    ended(*commits)
    assert replica.wanted[-2:] == [small, it.log.position.offset]
    status = it.source.status
    assert (status.yes_tx, status.tx_waits, status.no_tx) == (5, 5, 0)
    assert status.net_waits == len(replica.wanted) == 5  # small ones that are far from the end

    fill(it.log, 1, first=10)
    replica.stop()
    commits = [it.commit(number) for number in range(20, 24)]
    wait_for(lambda: it.source.status.wait_sessions == 4, "the waits")
    again = it.replica(22, file="binlog.000001")
    ended(*commits)
    assert again.wanted[-1] == it.log.position.offset
    assert len(again.wanted) == 1


def test_one_that_is_removed_counts_no_replica_and_the_dumps_go_on(chain):
    """WL#4398: plugins come and go; the replica still expects the two bytes."""
    it = chain()
    replica = it.replica(22)
    fill(it.log, 1)
    wait_for(lambda: it.source.replicas[0].acknowledgements, "the acknowledgement")
    it.delegate.remove(it.source)
    assert it.source.status.clients == 0
    assert it.source.replicas == []
    it.log.remove_observer(it.source)
    fill(it.log, 2, first=2)
    ends = [it.log.position.offset]
    wait_for(lambda: [end for _, _, end in replica.events][-1:] == ends, "the events")
    assert replica.headers == {b"\xef\0", b"\xef\1"}
    assert replica.wanted != ends
    replica.stop()
    assert it.source.status.clients == 0


def test_two_acknowledgements_are_of_two_replicas(chain):
    it = chain(replicas=2)
    first, again = it.replica(22), it.replica(22)
    commit = it.commit(1)
    wait_for(lambda: first.wanted and again.wanted, "the requests")
    time.sleep(SHORT)
    assert not commit.done()
    other = it.replica(23)
    ended(commit)
    assert other.wanted
    assert it.source.status.clients == 3
    other.stop()
    wait_for(lambda: it.source.status.clients == 2, "the replica's end")


def test_without_wait_no_replica_nothing_waits_while_none_is_there(chain):
    it = chain(wait_no_replica=False)
    fill(it.log, 2)
    assert (it.source.status.no_tx, it.source.status.status) == (2, False)
    replica = it.replica(22)
    wait_for(lambda: it.source.status.status, "the catching up")
    replica.go.clear()
    commit = it.commit(3)
    wait_for(lambda: it.source.status.wait_sessions, "the wait")
    replica.stop()
    ended(commit)  # it ends with the replica
    assert it.source.status.no_tx == 3


def test_one_acknowledgement_ends_the_waits_of_several_threads(chain):
    it = chain()
    replica = it.replica(22)
    replica.go.clear()
    commits = [it.commit(number) for number in range(1, 9)]
    wait_for(lambda: it.source.status.wait_sessions == 8, "the waits")
    wait_for(lambda: replica.transmit.position == it.log.position, "the events")
    replica.acknowledge(it.log.position.offset)
    ended(*commits)
    (state,) = it.source.replicas
    assert (state.acknowledgements, it.source.status.yes_tx) == (1, 8)


def test_acknowledgements_of_what_was_not_sent_or_damaged_ones_release_nothing(chain, caplog):
    it = chain()
    replica = it.replica(22)
    replica.go.clear()
    commit = it.commit(1)
    wait_for(lambda: replica.wanted, "the request")
    for payload in (
        Acknowledgement("binlog.000001", 1 << 40).encode(),
        Acknowledgement("binlog.000009", 4).encode(),
        b"\xef\1",
        b"nothing",
        b"\1",
    ):
        replica.send(payload)
    wait_for(lambda: len(caplog.messages) >= 4, "the warnings")
    time.sleep(SHORT)
    assert not commit.done()
    replica.go.set()
    ended(commit)
    assert sum("which was not sent to it" in text for text in caplog.messages) == 2


@pytest.mark.parametrize(
    ("flavour", "point"),
    [("mysql", WaitPoint.AFTER_SYNC), ("mariadb", WaitPoint.AFTER_COMMIT)],
)
def test_a_rollback_that_was_logged_waits_too(chain, flavour, point):
    it = chain(flavour, wait_point=point)
    replica = it.replica(22)
    replica.go.clear()
    events = statement(flavour, QueryEvent.make(sql="ROLLBACK"))
    thread = in_thread(it.log.write_transaction, events)
    wait_for(lambda: it.source.status.wait_sessions, "the wait")
    replica.go.set()
    ended(thread)
    assert it.source.status.yes_tx == 1


def test_the_log_rotates_and_acknowledgements_are_compared_by_the_file_first(chain):
    it = chain()
    replica = it.replica(22)
    fill(it.log, 5)
    it.log.rotate()
    fill(it.log, 5, first=6)
    assert it.source.status.yes_tx == 10
    assert str(it.source.replicas[0].acknowledged.file) == "binlog.000002"
    del replica


def test_after_reset_master_positions_and_counters_are_forgotten(chain):
    it = chain()
    replica = it.replica(22)
    fill(it.log, 3)
    assert it.source.status.yes_tx == 3
    replica.stop()
    it.source.timeout = SHORT
    it.log.reset()
    assert it.source.status.yes_tx == 0
    fill(it.log, 1)
    status = it.source.status
    assert (status.yes_tx, status.no_tx) == (0, 1)  # what was acknowledged was another log


def test_the_status_variables_have_the_names_of_mysqls(fresh_server):
    server = fresh_server("mysql-9.7", {"plugin-load-add": "semisync_source.so"})
    names = {
        kind: {row[0] for row in server.query(f"SHOW GLOBAL {kind} LIKE 'rpl_semi_sync_source%'")}
        for kind in ("STATUS", "VARIABLES")
    }
    source = SemisyncSource(timeout=2.5, wait_point="after_commit", replicas=2)
    assert source.status_variables().keys() == names["STATUS"]
    ours = {name for name in source.system_variables() if "_source_" in name}
    assert names["VARIABLES"] - ours == {"rpl_semi_sync_source_trace_level"}
    assert not ours - names["VARIABLES"]
    variables = source.system_variables()
    assert variables["rpl_semi_sync_source_timeout"] == 2500
    assert variables["rpl_semi_sync_master_wait_point"] == "AFTER_COMMIT"


@each_case(
    ("given", "text"),
    [
        ({"timeout": 0}, "timeout: 0 is not a time"),
        ({"timeout": float("nan")}, "timeout: nan is not a time"),
        ({"timeout": float("inf")}, "timeout: inf is not a time"),
        ({"timeout": "x"}, "timeout: 'x' is not a time"),
        ({"replicas": 0}, "replicas: 0 is no number"),
        ({"replicas": 1.5}, "replicas: 1.5 is no number"),
        ({"wait_no_replica": "no"}, "wait_no_replica: 'no' is neither True nor False"),
        ({"wait_point": "never"}, "wait_point: 'never' is none of after_sync, after_commit"),
    ],
)
def test_wrong_arguments(given, text):
    with pytest.raises(UsageError, match=text):
        SemisyncSource(**given)
