"""WL#4398, `thread_start` and `thread_stop`: the replica's state of semi-synchronous replication."""

from __future__ import annotations

from tailrace.replication.semisync.replica import SemisyncReplica
from tests.replication.semisync.loop import Reader


def test_the_state_is_set_when_the_reader_starts_and_when_it_ends(source):
    observer = SemisyncReplica()
    for _ in range(2):
        assert not observer.enabled
        with Reader(source, observer):
            assert observer.enabled
    assert not observer.enabled
    assert observer.waiting == 0
