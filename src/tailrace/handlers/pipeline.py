"""The handlers of a log, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence
from typing import TYPE_CHECKING, Any, Final, overload

from tailrace.errors import UsageError
from tailrace.events import Event
from tailrace.handlers.base import CONSUMED, Handler, Outcome, explain, several, warn_of_drop

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator


_NO_MORE: Final = object()


class Pipeline(MutableSequence[Handler]):
    """A sequence of handlers: the output of each one goes to the next.

    It may be changed at any time, also by a handler. An event passes the handlers that were in the
    pipeline when it entered, so a change takes effect with the next event that is pulled or
    injected. The queue of a removed handler is ignored.

    An event's outputs come out depth first, in order. Then the injection queues are emptied,
    handler by handler, event by event; each event passes all handlers, starting with the first.
    When a handler raises an exception, a note with the handler's name and the event's position is
    added to it.
    """

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self.current: tuple[Handler, ...] = ()
        """The current handlers."""
        self.queues: tuple[deque[Event], ...] = ()
        """Their injection queues' events: any() tells whether a queue has some."""
        self._wake: Callable[[], None] | None = None
        self[:] = handlers

    def _become(self, handlers: list[Handler]) -> None:
        for handler in handlers:
            if not isinstance(handler, Handler):
                raise UsageError(f"a pipeline takes handlers, not {type(handler).__name__}")
            handler.check()
        for handler in self.current:
            handler.injected.wake = None
        for handler in handlers:
            handler.injected.wake = self._wake
        self.current = tuple(handlers)
        self.queues = tuple(handler.injected.events for handler in handlers)

    @overload
    def __getitem__(self, index: int) -> Handler: ...
    @overload
    def __getitem__(self, index: slice) -> list[Handler]: ...
    def __getitem__(self, index: int | slice) -> Handler | list[Handler]:
        return list(self.current)[index] if isinstance(index, slice) else self.current[index]

    @overload
    def __setitem__(self, index: int, value: Handler) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Handler]) -> None: ...
    def __setitem__(self, index: int | slice, value: Handler | Iterable[Handler]) -> None:
        handlers: Any = list(self.current)
        handlers[index] = value
        self._become(handlers)

    def __delitem__(self, index: int | slice) -> None:
        handlers = list(self.current)
        del handlers[index]
        self._become(handlers)

    def __len__(self) -> int:
        return len(self.current)

    def insert(self, index: int, value: Handler) -> None:
        """Insert a handler before the one at this index. Raises UsageError."""
        handlers = list(self.current)
        handlers.insert(index, value)
        self._become(handlers)

    def __repr__(self) -> str:
        return f"Pipeline({list(self.current)!r})"

    def on_injection(self, wake: Callable[[], None] | None) -> None:
        """Set a callback that is called for each injected event, in any thread; None removes it."""
        self._wake = wake
        for handler in self.current:
            handler.injected.wake = wake

    def start(self) -> None:
        """Reading of a log starts."""
        for handler in self.current:
            handler.at_start()

    def process(self, event: Event) -> Iterable[Event]:
        """The output for one event; injected events are left to `drain`."""
        return self._pass(event, self.current, 0)

    def drain(self) -> Iterator[Event]:
        """Empty the injection queues and give the output for their events."""
        while any(self.queues):
            for handler in self.current:
                event = handler.injected.take()
                if event is not None:
                    yield from self._pass(event, self.current, 0)
                    break

    def finish(self) -> Iterator[Event]:
        """The log's end: pass what the handlers still hold through those after them; then
        `drain`.
        """
        handlers = self.current
        for number, handler in enumerate(handlers):
            try:
                outcome = handler.at_end()
            except Exception as error:
                explain(error, handler, None)
                raise
            yield from self._several(outcome, handlers, number + 1, None)
        yield from self.drain()

    def run(self, events: Iterable[Event]) -> Iterator[Event]:
        """The whole output for events of any source: `start` to `finish`."""
        self.start()
        yield from self.drain()
        for event in events:
            yield from self.process(event)
            yield from self.drain()
        yield from self.finish()

    def _pass(self, event: Event, handlers: tuple[Handler, ...], at: int) -> Iterable[Event]:
        """The output for an event that passes the handlers starting at index ``at``."""
        for number in range(at, len(handlers)):
            handler = handlers[number]
            method = handler.method_for(type(event))
            if method is None:
                continue
            try:
                outcome = method(handler, event)
            except Exception as error:
                explain(error, handler, event)
                raise
            if outcome is event:
                continue
            if outcome is CONSUMED:
                return ()
            if outcome is None:
                warn_of_drop(handler, event)
                return ()
            if isinstance(outcome, Event):
                event = outcome
                continue
            if type(outcome) is list and number + 1 == len(handlers):
                for each in outcome:
                    if not isinstance(each, Event):
                        raise _no_outcome(handler, each)
                return outcome
            return self._several(outcome, handlers, number + 1, event)
        return (event,)

    def _several(
        self, outcome: Outcome, handlers: tuple[Handler, ...], at: int, event: Event | None
    ) -> Iterator[Event]:
        """The output for several events that the handler before ``at`` gave."""
        try:
            events = iter(several(outcome))
        except TypeError:
            raise _no_outcome(handlers[at - 1], outcome) from None
        while True:
            try:
                each: object = next(events, _NO_MORE)
            except Exception as error:
                explain(error, handlers[at - 1], event)
                raise
            if each is _NO_MORE:
                return
            if not isinstance(each, Event):
                raise _no_outcome(handlers[at - 1], each)
            yield from self._pass(each, handlers, at)


def _no_outcome(handler: Handler, value: object) -> UsageError:
    return UsageError(
        f"{type(handler).__name__} returned {type(value).__name__}: a handler returns an event,"
        " several, or CONSUMED"
    )
