"""WL#3283, "Content handlers": each class of events has its method."""

from tailrace.events import (
    DeleteRowsEvent,
    Event,
    IncidentEvent,
    IntVarEvent,
    QueryEvent,
    RotateEvent,
    TableMapEvent,
    UpdateRowsEvent,
    UserVarEvent,
    WriteRowsEvent,
    XidEvent,
)
from tailrace.handlers import Handler

METHODS = {
    QueryEvent: "on_query",
    WriteRowsEvent: "on_rows",
    UpdateRowsEvent: "on_rows",
    DeleteRowsEvent: "on_rows",
    TableMapEvent: "on_table_map",
    XidEvent: "on_xid",
    UserVarEvent: "on_user_var",
    IncidentEvent: "on_incident",
    RotateEvent: "on_rotate",
    IntVarEvent: "on_int_var",
    Event: "on_event",
}


def test_each_class_of_events_has_its_method():
    called = []

    def method(name):
        return lambda _handler, event: called.append(name) or event

    handler = type("Each", (Handler,), {name: method(name) for name in METHODS.values()})()
    handler.check()
    for kind in METHODS:
        event = kind(XidEvent.make(xid=1).header, bytes(8))
        assert handler.handle(event) is event
    assert called == list(METHODS.values())
