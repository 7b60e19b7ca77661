"""The base of content handlers: one method per event class, and a queue of injected events."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, MutableSequence
from copy import copy
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast, overload

from tailrace.errors import LogError, UsageError
from tailrace.events import Event, TransactionPayloadEvent
from tailrace.warn import warn

if TYPE_CHECKING:
    from collections.abc import Iterator

Outcome = Event | Iterable[Event] | None
"""What a handler's method returns: the event, another one, several, or `CONSUMED`.

None stands for nothing where there is no event (`Handler.at_end`). From a method it drops the
event, with an `EventDropped` warning: a ``return`` may have been forgotten.
"""

CONSUMED: Final[tuple[Event, ...]] = ()
"""What a method returns to consume an event: no event takes its place."""

AnyEvent = TypeVar("AnyEvent", bound=Event)

Method = Callable[[Any, Any], Outcome]

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def method_name(kind: type[Event]) -> str:
    """The method's name for a class: ``on_write_rows`` for WriteRowsEvent, ``on_event`` for
    Event.
    """
    name = kind.__name__.removesuffix("Event")
    return f"on_{_WORD.sub('_', name).lower()}" if name else "on_event"


class EventDropped(UserWarning):
    """A handler's method returned None for an event, and not `CONSUMED`: the event is dropped."""


class InjectionQueue(MutableSequence[Event]):
    """The events that a handler inserts into the log, in order. Any thread may change it.

    ``wake`` is called whenever events were added. A copy has the same events, and wakes nobody.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: deque[Event] = deque(events)
        self.wake: Callable[[], None] | None = None
        self._lock = RLock()

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
        if isinstance(index, slice):
            value = _several(value)
        with self._lock:
            events: Any = list(self.events)
            events[index] = value
            for event in events:
                _check(event)
            self._become(events)
        self._added()

    def __delitem__(self, index: int | slice) -> None:
        with self._lock:
            events = list(self.events)
            del events[index]
            self._become(events)

    def _become(self, events: list[Event]) -> None:
        self.events.clear()
        self.events.extend(events)

    def _added(self) -> None:
        if self.wake is not None:
            self.wake()

    def __len__(self) -> int:
        return len(self.events)

    def insert(self, index: int, value: Event) -> None:
        """Insert an event before the one at this index. Raises UsageError if it is not an event."""
        _check(value)
        with self._lock:
            self.events.insert(index, value)
        self._added()

    def take(self) -> Event | None:
        """Remove the first event and return it; None if there is none."""
        with self._lock:
            return self.events.popleft() if self.events else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self.events),)

    def __repr__(self) -> str:
        return f"InjectionQueue({list(self.events)!r})"


def _several(values: object) -> list[Any]:
    if isinstance(values, Event) or not isinstance(values, Iterable):
        raise UsageError(f"a slice of the queue is set to several events, not to {values!r:.200}")
    return list(values)


def _check(value: object) -> None:
    if not isinstance(value, Event):
        raise UsageError(f"only events can be injected, not {type(value).__name__}")


class Handler:
    """The base of content handlers. A subclass has a method for each event class it handles.

    The method is named after the class: ``on_query`` for QueryEvent, ``on_rows`` for every
    RowsEvent, ``on_write_rows``, ``on_table_map``, …. The method of the most specific class is
    called. All other events, including those of user-defined classes, go to ``on_event``, which
    passes them on. A method returns the event, another one, several, or `CONSUMED`. None, which a
    method without ``return`` gives, drops the event with an `EventDropped` warning.

    A copy of a handler (`copy.copy`, `copy.deepcopy`, pickle) has an injection queue of its own,
    with the same events.

    ``opens_payloads``: the events inside a transaction payload go through this handler's methods
    before the payload's event does. Where they come out changed, the payload is rebuilt from them
    (it is then held in memory). A log that expands its payloads gives each of these events again,
    as an event of its own.
    """

    opens_payloads: ClassVar[bool] = False
    _routes: ClassVar[dict[type[Event], Method | None]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._routes = {}

    @property
    def injected(self) -> InjectionQueue:
        """Events that pass all handlers of the pipeline before more of the log is read.

        Setting it to events is setting all of the queue (``injected[:] = events``).
        """
        queue: InjectionQueue | None = self.__dict__.get("injected")
        if queue is None:
            queue = self.__dict__.setdefault("injected", InjectionQueue())
        return queue

    @injected.setter
    def injected(self, events: Iterable[Event]) -> None:
        if events is not self.injected:  # as after `injected += events`
            self.injected[:] = events

    def inject(self, *events: Event) -> None:
        """Append events to the queue."""
        self.injected.extend(events)

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        fields, *slots = state if isinstance(state, tuple) else (state,)
        if fields and "injected" in fields:
            fields = {**fields, "injected": copy(fields["injected"])}
        return (fields, *slots) if slots else fields

    def on_event(self, event: Event) -> Outcome:
        """Handle events that have no method: they are passed on."""
        return event

    def at_start(self) -> None:
        """Reading of a log starts: forget the state of the previous one."""

    def at_end(self) -> Outcome:
        """The log's end: return what is still held, as a method does."""
        return None

    def handle(self, event: Event) -> Outcome:
        """Give an event to its method."""
        method = self.method_for(type(event))
        return event if method is None else method(self, event)

    @classmethod
    def method_for(cls, kind: type[Event]) -> Method | None:
        """The method for a class of events; None where they are only passed on."""
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
        """Raises UsageError for a method ``on_…`` that matches no class of events."""
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
    """Rebuild the payload from the handler's results for its events; unchanged if they are.

    `CONSUMED` where no event is left.
    """
    before = list(event)
    after: list[Event] = []
    for inner in before:
        outcome = call(handler, handler.handle, inner)
        if outcome is None:
            warn_of_drop(handler, inner)
        after.extend(several(outcome))
    if len(after) == len(before) and all(map(_same, after, before)):
        return event
    return rebuilt(event, after) if after else CONSUMED


def warn_of_drop(handler: Handler, event: Event) -> None:
    """Warn that a method returned None, which drops the event."""
    method = handler.method_for(type(event))
    name = getattr(method, "__qualname__", type(handler).__name__)
    warn(
        f"{name} returned None, so its {event.name} is dropped: return CONSUMED if that is meant,"
        " else the event",
        EventDropped,
    )


def _same(one: Event, other: Event) -> bool:
    return one is other


def rebuilt(event: TransactionPayloadEvent, inner: Iterable[Event]) -> TransactionPayloadEvent:
    """A payload of other events, at the position of this one and compressed in the same way."""
    header = event.header
    made = TransactionPayloadEvent.of(
        inner,
        compression=event.compression,
        timestamp=header.timestamp,
        server_id=header.server_id,
        header_flags=header.flags,
        form=event.form,
    )
    return placed(made, event)


def placed(made: AnyEvent, event: Event) -> AnyEvent:
    """An event at the position of another: it ends where that one ends in the log being read."""
    made.file, made.offset, made.inner_index = event.file, event.offset, event.inner_index
    if event.offset is not None:
        made.outer_length = event.outer_length or event.header.length
    return made


def call(handler: Handler, method: Callable[[Event], Outcome], event: Event) -> Outcome:
    """Call a method; an exception gets a note that names the handler and the event's position."""
    try:
        return method(event)
    except Exception as error:
        explain(error, handler, event)
        raise


def explain(error: Exception, handler: Handler, event: Event | None) -> None:
    """Add a note to an exception: the handler in which it was raised, and at which event."""
    if event is None:
        error.add_note(f"in the handler {type(handler).__name__}, at the log's end")
        return
    if isinstance(error, LogError):
        error.at(event.file, event.offset, event.name)
    place = "" if event.offset is None else f" at {event.file or 'offset'}:{event.offset}"
    inner = "" if event.inner_index is None else f", number {event.inner_index} in its payload"
    error.add_note(f"in the handler {type(handler).__name__}, with {event.name}{place}{inner}")
