"""Small events, and a handler that leaves its mark on statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import EventType
from tailrace.events import QueryEvent
from tailrace.handlers import Handler
from tests.events.made import query_body, raw_event

if TYPE_CHECKING:
    from tailrace.handlers import Outcome

DDL = raw_event(EventType.QUERY, query_body(b"CREATE TABLE t (id INT)"))
BEGIN = raw_event(EventType.QUERY, query_body(b"BEGIN"))
XID = raw_event(EventType.XID, bytes(8))


def query(sql: str) -> QueryEvent:
    return QueryEvent.make(sql=sql)


def sqls(given: object) -> list[str]:
    return [event.sql for event in given if isinstance(event, QueryEvent)]


def handling(*, opens_payloads: bool = False, **methods: object) -> Handler:
    """A handler with these methods, which take the event alone."""
    made = {name: lambda _self, event, do=do: do(event) for name, do in methods.items()}
    return type("Handling", (Handler,), {"opens_payloads": opens_payloads, **made})()


class Tag(Handler):
    """Writes its name behind each statement."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_query(self, event: QueryEvent) -> Outcome:
        return query(event.sql + self.name)
