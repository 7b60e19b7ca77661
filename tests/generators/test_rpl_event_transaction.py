"""MWL#120 `rpl_event_transaction_base` and its events, of logs that real servers recorded."""

import re

import pytest

from tailrace import generators
from tailrace.events.transaction import XaName
from tailrace.generators import GlobalTransactionId
from tests.generators.conftest import run
from tests.recorded import CORPUS


def ends(recording, label):
    """The start and the end of the transaction with a label."""
    events = recording.transaction(label)
    return events[0], events[-1]


def test_rpl_event_transaction_start_and_get_local_trx_id(recorded):
    """Each transaction begins with one; all its events have one number, and others another."""
    for recording in recorded.values():
        number = 0
        for event in recording.events:
            if event.name == "trx_start":
                number += 1
            assert event.local_transaction_id == number


def test_get_is_autocommit_a_log_does_not_tell(recorded):
    for recording in recorded.values():
        for event in recording.named("trx_start", "trx_commit", "trx_rollback"):
            assert event.is_autocommit is None


def test_rpl_event_transaction_commit(recorded):
    """Each transaction that was committed ends with one: as many as the server's tables show."""
    for recording in recorded.values():
        first, *_, last = recording.transaction("two")
        assert (first.name, last.name) == ("trx_start", "trx_commit")
        inside = [e.name for e in recording.transaction("two")]
        statement = "row_write" if recording.format == "ROW" else "stmt_query"
        assert inside.count(statement) == 2


def test_get_global_transaction_id(recorded):
    """What mysqlbinlog shows before each transaction; only once the commit is decided."""
    for recording in recorded.values():
        found = [
            str(event.global_transaction_id)
            for event in recording.named("trx_commit", "trx_rollback")
            if event.global_transaction_id and event.values().get("savepoint") is None
        ]
        prepared = [
            str(event.prepared_transaction_id)
            for event in recording.named("trx_commit", "trx_rollback")
            if event.prepared_transaction_id
        ]
        if recording.mysql:
            shown = recording.shown(r"GTID_NEXT= '([0-9a-f-]{36}:\d+)'")
        else:
            shown = recording.shown(r"\tGTID (\d+-\d+-\d+)")
        assert sorted(found + prepared) == sorted(shown)
        assert len(prepared) == (2 if recording.gtids else 0)
        assert bool(shown) is recording.gtids
        assert "global_transaction_id" not in type(recording.named("trx_start")[0]).accessors


def test_global_transaction_id_cluster_id_and_counter():
    uuid = "ab3fb2ab-e590-11f1-af3c-02fc00000001"
    assert GlobalTransactionId.of(f"{uuid}:7") == (uuid, 7)
    assert GlobalTransactionId.of(f"{uuid}:tag:7") == (f"{uuid}:tag", 7)
    assert GlobalTransactionId.of("0-1-7") == ("0-1", 7)
    for text in (f"{uuid}:7", f"{uuid}:tag:7", "0-1-7"):
        assert str(GlobalTransactionId.of(text)) == text


def test_rpl_event_transaction_rollback(recorded):
    """A transaction over tables of both sorts, whose rows of one the server could not roll back."""
    found = 0
    for recording in recorded.values():
        whole = [e for e in recording.named("trx_rollback") if not e.savepoint and not e.xa]
        shown = recording.shown(r"(?m)^ROLLBACK$")
        assert len(whole) == len(shown)
        found += len(shown)
    assert found


def test_rolled_back_to_a_savepoint(statements):
    (back,) = [e for e in statements.named("trx_rollback") if e.savepoint]
    assert back.savepoint == "here"
    events = [e for e in statements.events if e.local_transaction_id == back.local_transaction_id]
    assert events[-1].name == "trx_commit"


def test_transactional_and_non_transactional_tables(recorded):
    """MariaDB flags what can be rolled back; both end it by XID, else by COMMIT: so they also end a
    statement that changed nothing.
    """
    for recording in recorded.values():
        start, commit = ends(recording, "plain")
        assert commit.transactional_tables is True
        assert commit.non_transactional_tables is (None if recording.mysql else False)
        assert start.transactional_tables is (None if recording.mysql else True)
        start, commit = ends(recording, "non_transactional")
        assert commit.non_transactional_tables is (True if recording.format == "ROW" else None)
        assert commit.transactional_tables is None
        assert start.non_transactional_tables is None


def test_xa(recorded):
    """The changes come when the transaction is committed, with its XA name."""
    for recording in recorded.values():
        ended = [e for e in recording.named("trx_commit", "trx_rollback") if e.xa]
        (commit,) = [e for e in ended if e.xa.gtrid == b"prepared"]
        assert commit.name == "trx_commit"
        assert commit.xa == XaName(3, b"prepared", b"branch")
        (rollback,) = [e for e in ended if e.xa.gtrid == b"rolled"]
        assert rollback.name == "trx_rollback"
        if recording.mysql:  # MariaDB logs one that commits in one phase like any other
            assert [e.name for e in ended if e.xa.gtrid == b"once"] == ["trx_commit"]
        starts = [e.xa for e in recording.named("trx_start") if e.xa]
        assert starts == [e.xa for e in ended]
        if recording.format == "ROW":
            tables = [row[1] for row in recording.tables["t"]]
            for event in recording.transaction("xa committed"):
                if event.name == "row_write":
                    assert event.after_image["v"] in tables


def test_commit_time_stamps(recorded):
    for recording in recorded.values():
        for event in recording.named("trx_commit"):
            assert (event.commit_timestamp is not None) is recording.mysql
        found = {
            (e.commit_timestamp, e.immediate_commit_timestamp, e.last_committed, e.sequence_number)
            for e in recording.named("trx_commit")
            if recording.mysql
        }
        shown = {
            (int(original), int(here), int(last), int(number))
            for last, number, original, here in re.findall(
                r"last_committed=(\d+)\tsequence_number=(\d+)\t[^\n]*"
                r"original_committed_timestamp=(\d+)\timmediate_commit_timestamp=(\d+)",
                recording.text,
            )
        }
        assert found <= shown
        assert bool(found) is recording.mysql


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_the_global_transaction_id_is_a_position_from_which_to_start_a_replica(server):
    """ "It can be used to identify the position from which to start a slave replicating"."""

    class Commits(generators.TransactionConsumer):
        def __init__(self):
            self.ids = []

        def trx_commit(self, event):
            self.ids.append(event.global_transaction_id)

    def commits(start=None):
        told = Commits()
        run(
            generators.EventStream(CORPUS / f"{server}.several-tables", start=start),
            told,
            of="transaction",
        )
        return told.ids

    ids = commits()
    last = ids[len(ids) // 2]
    start = f"{last.cluster}:1-{last.counter}" if server == "mysql-9.7" else str(last)
    assert commits(start) == ids[ids.index(last) + 1 :] != []
