"""What a content handler is: methods by event class, and a queue of events to be injected."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, MutableSequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast, overload

from tailrace.errors import LogError, UsageError
from tailrace.events import Event, TransactionPayloadEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

Outcome = Event | Iterable[Event] | None
"""What a handler's method returns: the event, another, several, or None (consumed)."""

AnyEvent = TypeVar("AnyEvent", bound=Event)

Method = Callable[[Any, Any], Outcome]

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def method_name(kind: type[Event]) -> str:
    """The method for events of a class: ``on_write_rows`` for WriteRowsEvent, ``on_event``."""
    name = kind.__name__.removesuffix("Event")
    return f"on_{_WORD.sub('_', name).lower()}" if name else "on_event"


class InjectionQueue(MutableSequence[Event]):
    """The events that a handler wants to put into the log, in order; any thread may append."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.wake: Callable[[], None] | None = None

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return list(self.events)[index] if isinstance(index, slice) else self.events[index]

    @overload
    def __setitem__(self, index: int, value: Event) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Event]) -> None: ...
    def __setitem__(self, index: int | slice, value: Event | Iterable[Event]) -> None:
        events: Any = list(self.events)
        events[index] = value
        for event in events:
            _check(event)
        self.events.clear()
        self.events.extend(events)

    def __delitem__(self, index: int | slice) -> None:
        events = list(self.events)
        del events[index]
        self.events.clear()
        self.events.extend(events)

    def __len__(self) -> int:
        return len(self.events)

    def insert(self, index: int, value: Event) -> None:
        """Put an event before that of this index. Raises UsageError for what is no event."""
        _check(value)
        if index >= len(self.events):
            self.events.append(value)
        else:
            self.events.insert(index, value)
        if self.wake is not None:
            self.wake()

    def __repr__(self) -> str:
        return f"InjectionQueue({list(self.events)!r})"


def _check(value: object) -> None:
    if not isinstance(value, Event):
        raise UsageError(f"events are injected, not {type(value).__name__}")


class Handler:
    """The base of content handlers. A subclass has a method for each event class that it wants.

    The method is named by the class: ``on_query`` for QueryEvent, ``on_rows`` for every
    RowsEvent, ``on_write_rows``, ``on_table_map``, …; the most specific class that has one is
    called. All other events, those of user-defined classes among them, go to ``on_event``, which
    passes them on. A method returns the event, another one, several, or None: it is consumed.

    ``opens_payloads``: the events inside a transaction payload go through this handler's methods
    before the payload's event does, and where they come out changed the payload is made anew of
    them (it is held in memory then). A log that expands its payloads gives each of them once
    more, as an event of its own.
    """

    opens_payloads: ClassVar[bool] = False
    _routes: ClassVar[dict[type[Event], Method | None]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._routes = {}

    @cached_property
    def injected(self) -> InjectionQueue:
        """Events that pass all handlers of the pipeline before the log is read on."""
        return InjectionQueue()

    def inject(self, *events: Event) -> None:
        """Append events to the queue."""
        self.injected.extend(events)

    def on_event(self, event: Event) -> Outcome:
        """What happens with events that have no method: they are passed on."""
        return event

    def at_start(self) -> None:
        """A log begins to be read: forget what was seen of another."""

    def at_end(self) -> Outcome:
        """The log's end: what is still held is returned, as a method does."""
        return None

    def handle(self, event: Event) -> Outcome:
        """Give an event to its method."""
        method = self.method_for(type(event))
        return event if method is None else method(self, event)

    @classmethod
    def method_for(cls, kind: type[Event]) -> Method | None:
        """The method for a class of events, None where they are only passed on."""
        try:
            return cls._routes[kind]
        except KeyError:
            pass
        bases = cast("list[type[Event]]", [one for one in kind.__mro__ if issubclass(one, Event)])
        methods = [getattr(cls, method_name(base), None) for base in bases]
        found: Method = next(filter(None, methods))
        route = None if found is Handler.on_event else found
        if cls.opens_payloads and issubclass(kind, TransactionPayloadEvent):
            own = any(hasattr(cls, method_name(base)) for base in bases if base is not Event)
            route = found if own else open_payload
        cls._routes[kind] = route
        return route

    @classmethod
    def check(cls) -> None:
        """Raises UsageError for a method ``on_…`` that no class of events calls."""
        kinds: list[type[Event]] = [Event, *_all_kinds(Event)]
        known = {method_name(kind) for kind in kinds}
        for name in dir(cls):
            if name.startswith("on_") and name not in known:
                raise UsageError(
                    f"{cls.__name__}.{name}: no class of events has this name"
                    " (on_query is for QueryEvent, on_event for all others)"
                )


def _all_kinds(kind: type[Event]) -> Iterator[type[Event]]:
    for each in kind.__subclasses__():
        yield each
        yield from _all_kinds(each)


def several(outcome: Outcome) -> Iterable[Event]:
    """An outcome as events."""
    if outcome is None:
        return ()
    return (outcome,) if isinstance(outcome, Event) else outcome


def open_payload(handler: Handler, event: TransactionPayloadEvent) -> Outcome:
    """The payload of what a handler makes of the events inside; the same where that is the same.

    None where nothing is left.
    """
    before = list(event)
    after: list[Event] = []
    for inner in before:
        after.extend(several(call(handler, handler.handle, inner)))
    if len(after) == len(before) and all(map(_same, after, before)):
        return event
    return rebuilt(event, after) if after else None


def _same(one: Event, other: Event) -> bool:
    return one is other


def rebuilt(event: TransactionPayloadEvent, inner: Iterable[Event]) -> TransactionPayloadEvent:
    """A payload of other events, in the place of this one and compressed like it."""
    header = event.header
    made = TransactionPayloadEvent.of(
        inner,
        compression=event.compression,
        timestamp=header.timestamp,
        server_id=header.server_id,
        flags=header.flags,
        form=event.form,
    )
    return placed(made, event)


def placed(made: AnyEvent, event: Event) -> AnyEvent:
    """An event in the place of another: it ends where that one ends in the log that is read."""
    made.file, made.offset, made.inner_index = event.file, event.offset, event.inner_index
    if event.offset is not None:
        made.outer_length = event.outer_length or event.header.length
    return made


def call(handler: Handler, method: Callable[[Event], Outcome], event: Event) -> Outcome:
    """Call a method; an exception gets a note of the handler and of the event's place."""
    try:
        return method(event)
    except Exception as error:
        explain(error, handler, event)
        raise


def explain(error: Exception, handler: Handler, event: Event | None) -> None:
    """Note on an exception in which handler it was raised, and at which event."""
    if event is None:
        error.add_note(f"in the handler {type(handler).__name__}, at the log's end")
        return
    if isinstance(error, LogError):
        error.at(event.file, event.offset, event.name)
    place = "" if event.offset is None else f" at {event.file or 'offset'}:{event.offset}"
    inner = "" if event.inner_index is None else f", number {event.inner_index} in its payload"
    error.add_note(f"in the handler {type(handler).__name__}, with {event.name}{place}{inner}")
