"""Which method an event goes to, and what it may return."""

import pytest

import tailrace
from tailrace.errors import EventDecodeError, TailraceError, UsageError
from tailrace.events import Event, QueryEvent, TransactionPayloadEvent, XidEvent
from tailrace.events.base import REGISTRY
from tailrace.handlers import CONSUMED, EventDropped, Handler, Pipeline, base
from tests.cases import each_case
from tests.events.made import log, raw_event
from tests.handlers.made import BEGIN, DDL, XID, Tag, handling, query, sqls


def test_the_most_specific_method_is_called():
    class Mine(XidEvent, types=()):
        __slots__ = ()

    class Yours(Event, types=()):
        __slots__ = ()

    class Each(Handler):
        def __init__(self):
            self.seen = []

        def on_xid(self, event):
            self.seen.append("xid")
            return event

        def on_event(self, event):
            self.seen.append("event")
            return event

    class More(Each):
        def on_mine(self, event):
            self.seen.append("mine")
            return event

    class Least(Handler):
        pass

    header = XidEvent.make(xid=1).header
    given = [XidEvent(header, bytes(8)), Mine(header, bytes(8)), Yours(header, b""), query("x")]
    for kind, seen in (
        (Each, ["xid", "xid", "event", "event"]),
        (More, ["xid", "mine", "event", "event"]),
    ):
        handler = kind()
        assert [handler.handle(event) for event in given] == given
        assert handler.seen == seen
    assert [Least.method_for(type(event)) for event in given] == [None] * 4
    assert [Least().handle(event) for event in given] == given


def test_user_defined_types_go_to_the_generic_method(tmp_path):
    class TestOwnEvent(Event, types=(200,)):
        __slots__ = ()

    generic = handling(on_event=lambda each: CONSUMED if isinstance(each, TestOwnEvent) else each)
    own = handling(on_test_own=lambda each: query(each.body.decode()))
    try:
        path = log(tmp_path, 1, raw_event(200, b"body"), DDL)
        assert [event.name for event in tailrace.open(path)][1:] == ["UNKNOWN_200", "QUERY"]
        assert [event.name for event in tailrace.open(path, handlers=[generic])][1:] == ["QUERY"]
        assert sqls(tailrace.open(path, handlers=[own]))[0] == "body"
    finally:
        del REGISTRY[200]


def test_a_method_is_found_once_for_a_class(monkeypatch, tmp_path):
    class Two(Handler):
        def on_query(self, event):
            return event

    handlers = [Two(), Two()]
    opened = tailrace.open(log(tmp_path, 1, *[DDL, BEGIN, XID] * 50), handlers=handlers)
    asked = []
    name = base.method_name
    monkeypatch.setattr(base, "method_name", lambda kind: asked.append(kind) or name(kind))
    assert len(list(opened)) == 151
    assert asked.count(QueryEvent) == 1


def test_a_misspelt_method_is_refused():
    class Wrong(Handler):
        def on_qurey(self, event):
            return event

    with pytest.raises(UsageError, match=r"Wrong\.on_qurey: no class of events"):
        Pipeline([Wrong()])
    with pytest.raises(UsageError, match="a pipeline takes handlers, not str"):
        Pipeline().append("no")


def test_what_a_method_returns():
    class Does(Handler):
        def on_query(self, event):
            outcomes = {
                "same": event,
                "other": query("another"),
                "none": CONSUMED,
                "list": [query("one"), query("two")],
                "tuple": (event,),
                "empty": [],
                "generator": (query(str(number)) for number in range(3)),
            }
            return outcomes[event.sql]

    given = ["same", "other", "none", "list", "tuple", "empty", "generator"]
    wanted = ["same", "another", "one", "two", "tuple", "0", "1", "2"]
    assert sqls(Pipeline([Does()]).run(map(query, given))) == wanted
    tagged = Pipeline([Does(), Tag("!")])
    assert sqls(tagged.run(map(query, given))) == [each + "!" for each in wanted]
    assert tagged[0].handle(XidEvent.make(xid=1)) is not None


def test_an_event_is_dropped_only_where_that_is_said(tmp_path):
    """WL#3283, Content handlers: of a handler that forgets to return one hears."""

    class Forgets(Handler):
        opens_payloads = True

        def on_xid(self, event):
            self.last = event.xid

    message = r"Forgets\.on_xid returned None, so its XID is dropped: return CONSUMED if that"
    says = handling(on_xid=lambda _: CONSUMED)
    path = log(tmp_path, 1, BEGIN, XID)
    with pytest.warns(EventDropped, match=message):
        assert [event.name for event in tailrace.open(path, handlers=[Forgets()])][1:] == ["QUERY"]
    payload = TransactionPayloadEvent.of([query("BEGIN"), XidEvent.make(xid=3)])
    with pytest.warns(EventDropped, match=message):
        (given,) = Pipeline([Forgets()]).process(payload)
    assert [event.name for event in given] == ["QUERY"]
    assert [event.name for event in tailrace.open(path, handlers=[says])][1:] == ["QUERY"]


@each_case("wrong", [True, 7, ["text"], "text", object()])
@each_case("behind", [0, 1])
def test_what_no_method_may_return(wrong, behind):
    pipeline = Pipeline([handling(on_query=lambda _: wrong), *[Handler() for _ in range(behind)]])
    with pytest.raises(UsageError, match="a handler returns an event, several, or CONSUMED"):
        list(pipeline.process(query("x")))


def test_many_events_of_one_are_not_held():
    alive = []

    class Many(Handler):
        def on_query(self, event):
            for number in range(1000):
                alive.append(number)
                yield query(str(number))

    out = iter(Pipeline([Many(), Handler()]).process(query("x")))
    next(out)
    next(out)
    assert len(alive) == 2


def test_an_exception_says_where_and_in_which_handler(tmp_path):
    class Fails(Handler):
        def __init__(self, error):
            self.error = error

        def on_xid(self, event):
            raise self.error

    class FailsLate(Fails):
        def on_xid(self, event):
            yield event
            raise self.error

    path = log(tmp_path, 1, BEGIN, XID)
    offset = path.stat().st_size - len(XID)
    for kind in (Fails, FailsLate):
        with pytest.raises(ZeroDivisionError) as caught:
            list(tailrace.open(path, handlers=[kind(ZeroDivisionError("odd"))]))
        assert caught.value.__notes__ == [
            f"in the handler {kind.__name__}, with XID at binlog.000001:{offset}"
        ]
        with pytest.raises(EventDecodeError, match=rf"binlog\.000001 at {offset} \(XID\): mine"):
            list(tailrace.open(path, handlers=[kind(EventDecodeError("mine"))]))
    with tailrace.open(path, handlers=[Fails(TailraceError("mine"))]) as opened:
        opened.connect()
        assert [opened.wait_for_next_event().name for _ in range(2)] == [
            "FORMAT_DESCRIPTION",
            "QUERY",
        ]
        for _ in range(2):
            with pytest.raises(TailraceError, match="mine"):
                opened.wait_for_next_event()
