"""Events that handlers put into the log."""

import copy
import pickle
import threading

import pytest

import tailrace
from tailrace.errors import UsageError
from tailrace.events import FormatDescriptionEvent, XidEvent
from tailrace.handlers import Handler, Pipeline
from tests.cases import each_case
from tests.events.made import log
from tests.handlers.made import BEGIN, DDL, XID, Tag, query, sqls
from tests.waiting import DEADLINE


class Injects(Handler):
    """At a statement of this text, these."""

    def __init__(self, at, *sql):
        self.at, self.sql = at, sql

    def on_query(self, event):
        if event.sql == self.at:
            self.inject(*map(query, self.sql))
        return event


def test_injected_events_pass_all_handlers_before_the_next_is_pulled():
    pulled = []

    def source():
        for sql in ("a", "b"):
            pulled.append(sql)
            yield query(sql)

    first, last = Injects("never"), Injects("a", "x", "y")
    seen = []
    for event in Pipeline([first, Tag(""), last]).run(source()):
        seen.append((event.sql, list(pulled)))  # noqa: PERF401 - pulled grows meanwhile
    assert seen == [("a", ["a"]), ("x", ["a"]), ("y", ["a"]), ("b", ["a", "b"])]
    tagged = Pipeline([Injects("a", "x"), Tag("1"), Injects("x1", "z"), Tag("2")])
    assert sqls(tagged.run([query("a"), query("b")])) == ["a12", "x12", "z12", "b12"]


def test_injection_before_the_first_at_the_last_and_by_handlers_order(tmp_path):
    one, two = Handler(), Handler()
    opened = tailrace.open(
        log(tmp_path, 1, DDL), handlers=[one, two, Injects("CREATE TABLE t (id INT)", "end")]
    )
    two.inject(query("second"))
    one.inject(query("first"))
    one.injected.append(query("again"))
    assert sqls(opened) == ["first", "again", "second", "CREATE TABLE t (id INT)", "end"]
    assert opened.position.offset == (tmp_path / "binlog.000001").stat().st_size


def test_injecting_from_outside_between_two_events(tmp_path):
    handler = Handler()
    opened = tailrace.open(log(tmp_path, 1, DDL, BEGIN, XID), handlers=[handler])
    out = []
    for event in opened:
        out.append(event.name)
        if isinstance(event, FormatDescriptionEvent):
            handler.inject(XidEvent.make(xid=1))  # no place in a log: only the log's own are judged
    assert out == ["FORMAT_DESCRIPTION", "XID", "QUERY", "QUERY", "XID"]


def test_the_queue_is_a_mutable_sequence():
    handler = Handler()
    events = [query(str(number)) for number in range(5)]
    handler.injected.extend(events)
    assert handler.injected[1] is events[1]
    assert handler.injected[1:3] == events[1:3]
    handler.injected[0] = events[4]
    handler.injected[1:3] = []
    del handler.injected[0]
    del handler.injected[:0]
    handler.injected.insert(1, events[0])
    assert list(handler.injected) == [events[3], events[0], events[4]]
    handler.injected.reverse()
    assert sqls(Pipeline([handler]).drain()) == ["4", "0", "3"]
    assert not handler.injected
    for wrong in ("text", None, b"bytes"):
        with pytest.raises(UsageError, match="only events can be injected"):
            handler.inject(wrong)


def test_every_change_that_adds_wakes_who_waits():
    """WL#3283, get_injection_queue: a sequence container in all its operations."""
    handler = Handler()
    woken = []
    Pipeline([handler]).on_injection(lambda: woken.append(len(handler.injected)))
    handler.injected[:] = [query("a")]
    assert woken == [1]
    handler.injected[0] = query("b")
    handler.injected += [query("c")]
    handler.injected.insert(0, query("d"))
    assert woken == [1, 1, 2, 3]
    del handler.injected[0]
    handler.injected.clear()
    assert woken == [1, 1, 2, 3]


def test_assigning_the_queue_is_assigning_all_of_it(tmp_path):
    """WL#3283, get_injection_queue: the queue stays the one that the reader waits for."""
    handler = Handler()
    queue = handler.injected
    handler.injected = [query("a"), query("b")]
    assert handler.injected is queue
    handler.injected += [query("c")]
    handler.injected = iter([*queue, query("d")])
    opened = tailrace.open(log(tmp_path, 1, DDL), handlers=[handler])
    assert sqls(opened) == ["a", "b", "c", "d", "CREATE TABLE t (id INT)"]
    for wrong in (None, 1, query("x"), ["text"], "text"):
        with pytest.raises(UsageError):
            handler.injected = wrong
        with pytest.raises(UsageError):
            handler.injected[:] = wrong
    assert not queue


def test_a_slice_that_is_assigned_comes_to_a_waiting_reader(tmp_path):
    handler = Handler()
    opened = tailrace.open(log(tmp_path, 1, DDL), handlers=[handler], follow=True)
    with opened:
        opened.connect()
        assert len([opened.wait_for_next_event(DEADLINE) for _ in range(2)]) == 2
        timer = threading.Timer(0.2, handler.injected.__setitem__, [slice(None), [query("x")]])
        timer.start()
        assert sqls([opened.wait_for_next_event(DEADLINE)]) == ["x"]


@each_case(
    "copied", [copy.copy, copy.deepcopy, lambda handler: pickle.loads(pickle.dumps(handler))]
)
def test_a_copy_of_a_handler_has_a_queue_of_its_own(copied):
    """WL#3283, Copy constructor."""
    handler = Injects("a", "x")
    pipeline = Pipeline([handler])
    pipeline.on_injection(lambda: None)
    handler.inject(query("first"))
    other = copied(handler)
    assert (other.at, other.sql) == ("a", ("x",))
    assert sqls(other.injected) == ["first"]
    other.inject(query("second"))
    assert sqls(handler.injected) == ["first"]
    assert sqls(pipeline.drain()) == ["first"]
    assert sqls(other.injected) == ["first", "second"]
    assert sqls(copied(Injects("b")).injected) == []


def test_the_queue_of_a_handler_that_was_taken_out_is_not_looked_at():
    handler = Handler()
    pipeline = Pipeline([handler])
    handler.inject(query("x"))
    pipeline.remove(handler)
    assert list(pipeline.run([])) == []
    pipeline.append(handler)
    assert sqls(pipeline.run([])) == ["x"]


def test_a_queue_needs_no_init():
    class Mine(Handler):
        def __init__(self):
            """Does not call that of its base."""

    mine = Mine()
    mine.inject(query("x"))
    assert sqls(Pipeline([mine]).drain()) == ["x"]


def test_injecting_from_many_threads_loses_nothing():
    handler = Handler()
    pipeline = Pipeline([handler])

    def work(name):
        for number in range(300):
            handler.inject(query(f"{name} {number}"))

    workers = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    got = []
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        got += sqls(pipeline.drain())
    got += sqls(pipeline.drain())
    assert len(got) == 1200
    for name in range(4):
        mine = [each for each in got if each.startswith(f"{name} ")]
        assert mine == [f"{name} {number}" for number in range(300)]
