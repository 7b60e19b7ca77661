"""Dispatch by class, what methods may return, and the pipeline while it runs."""

import pytest

import tailrace
from tailrace.constants import EventType
from tailrace.handlers import CONSUMED, Handler, Pipeline
from tests.events.made import log, query_body, raw_event
from tests.events.test_payload import PLAIN, compress, payload_body
from tests.handlers.made import BEGIN, DDL, XID, Tag, handling, query, sqls

E = EventType


def test_the_order_is_depth_first():
    seen = []

    class Doubles(Handler):
        def on_query(self, event):
            seen.append(f"double {event.sql}")
            return [query(event.sql + "a"), query(event.sql + "b")]

    class Notes(Handler):
        def on_query(self, event):
            seen.append(event.sql)
            return event

    out = Pipeline([Doubles(), Doubles(), Notes()]).process(query("x"))
    assert sqls(out) == ["xaa", "xab", "xba", "xbb"]
    assert seen == ["double x", "double xa", "xaa", "xab", "double xb", "xba", "xbb"]


def test_it_is_a_mutable_sequence():
    a, b, c = Tag("a"), Tag("b"), Tag("c")
    pipeline = Pipeline([a])
    pipeline.append(c)
    pipeline.insert(1, b)

    def out():
        return sqls(pipeline.process(query("")))[0]

    assert out() == "abc"
    assert (len(pipeline), pipeline[1], pipeline[-1], pipeline[1:], pipeline.index(c)) == (
        3,
        b,
        c,
        [b, c],
        2,
    )
    pipeline.reverse()
    assert out() == "cba"
    pipeline[0], pipeline[1] = pipeline[1], pipeline[0]
    assert out() == "bca"
    pipeline.remove(c)
    assert out() == "ba"
    pipeline[1:] = [c, a]
    assert out() == "bca"
    del pipeline[0]
    assert pipeline.pop() is a
    assert out() == "c"
    pipeline += [a]
    assert b not in pipeline
    pipeline.clear()
    assert out() == ""


def test_a_change_while_running_holds_from_the_next_event_on(tmp_path):
    opened = tailrace.open(log(tmp_path, 1, *[raw_event(E.QUERY, query_body(b"x"))] * 5))
    late = Tag("!")

    class Changes(Handler):
        def on_query(self, event):
            if late not in opened.handlers:
                opened.handlers.append(late)
                opened.handlers.insert(0, Tag("?"))
            return event

    opened.handlers.append(Changes())
    events = iter(opened)
    next(events)
    assert sqls([next(events), next(events)]) == ["x", "x?!"]
    opened.handlers.remove(late)
    assert sqls([next(events)]) == ["x?"]
    opened.handlers.clear()
    assert sqls(events) == ["x", "x"]


def test_removing_itself():
    class Once(Handler):
        def on_query(self, event):
            pipeline.remove(self)
            return CONSUMED

    pipeline = Pipeline([Once(), Tag("!")])
    assert sqls(pipeline.run(map(query, ["a", "b"]))) == ["b!"]


def test_the_end(tmp_path):
    class Holds(Handler):
        def at_start(self):
            self.held = []

        def on_query(self, event):
            self.held.append(event)
            return CONSUMED

        def at_end(self):
            self.inject(query("injected"))
            return self.held

    opened = tailrace.open(log(tmp_path, 1, DDL, DDL), handlers=[Tag("1"), Holds(), Tag("2")])
    for _ in range(2):
        out = sqls(opened)
        assert (
            out == ["CREATE TABLE t (id INT)12"] * 2
        )  # the injected one is held, and the log over

    class Fails(Handler):
        def at_end(self):
            raise ValueError("odd")

    opened.handlers[:] = [Fails()]
    with pytest.raises(ValueError, match="odd") as caught:
        list(opened)
    assert caught.value.__notes__ == ["in the handler Fails, at the log's end"]


def test_positions_count_what_was_read_not_what_came_out(tmp_path):
    path = log(tmp_path, 1, BEGIN, XID, DDL, BEGIN)
    opened = tailrace.open(path, handlers=[handling(on_event=lambda _: CONSUMED)])
    assert list(opened) == []
    assert opened.position.offset == path.stat().st_size - len(BEGIN)
    assert opened.incomplete


def test_inner_events_go_through_the_handlers(tmp_path):
    without = handling(on_rows=lambda _: CONSUMED)
    gtid = raw_event(E.ANONYMOUS_GTID, bytes(25))
    path = log(tmp_path, 1, gtid, raw_event(E.TRANSACTION_PAYLOAD, payload_body(compress(PLAIN))))
    left = ["TRANSACTION_PAYLOAD", "QUERY", "TABLE_MAP", "XID"]
    assert [event.name for event in tailrace.open(path, handlers=[without])][2:] == left
    payload = list(tailrace.open(path, handlers=[without], expand_payloads=False))[-1]
    assert [event.name for event in payload] == ["QUERY", "TABLE_MAP", "WRITE_ROWS", "XID"]

    inside = handling(on_rows=lambda _: CONSUMED, opens_payloads=True)
    whole = list(tailrace.open(path, handlers=[inside]))
    assert [event.name for event in whole][2:] == left
    assert [event.name for event in whole[2]] == left[1:]
    assert whole[2].offset == payload.offset

    looks = handling(on_rows=lambda each: each, opens_payloads=True)
    untouched = list(tailrace.open(path, handlers=[looks], expand_payloads=False))[-1]
    assert untouched.body == payload.body


def test_transactions_are_made_of_what_comes_out(tmp_path):
    no_ddl = handling(on_query=lambda each: each if each.sql == "BEGIN" else CONSUMED)
    opened = tailrace.open(log(tmp_path, 1, DDL, BEGIN, XID, DDL, BEGIN), handlers=[no_ddl])
    assert [(one.kind, len(one.events)) for one in opened.transactions()] == [
        ("commit", 2),
        (None, 1),
    ]
    assert opened.incomplete
