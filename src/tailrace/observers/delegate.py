"""Delegates: the observers of one kind, called in order, added and removed at any time."""

from __future__ import annotations

import logging
from threading import Condition, Lock, get_ident
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, TypeVar

from tailrace.errors import ObserverError, TailraceError, UsageError
from tailrace.observers.relay_io import RelayIoObserver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.observers.relay_io import RelayFlag, RelayIo

T = TypeVar("T")
V = TypeVar("V")

_log: Final = logging.getLogger("tailrace.observers")


class _Seen(Generic[T]):
    """A snapshot of the observers, and the threads whose calls use it."""

    __slots__ = ("methods", "observers", "threads")

    def __init__(self, observers: tuple[T, ...], points: Mapping[str, object]) -> None:
        self.observers = observers
        self.threads: list[int] = []
        self.methods: dict[str, list[tuple[T, Any]]] = {
            point: [
                (observer, getattr(observer, point))
                for observer in observers
                if getattr(type(observer), point) is not empty
                or point in getattr(observer, "__dict__", ())
            ]
            for point, empty in points.items()
        }
        """For each point, the observers that override its method."""

    def holds(self, observer: object) -> bool:
        return any(each is observer for each in self.observers)


class Delegate(Generic[T]):
    """Observers of one kind, in the order in which they were added.

    Any thread may add, remove and call. A call uses the observers as they were when it began. The
    same observer (compared by identity) can be added only once.

    A subclass names the ``points`` at which observers are called. Each point is a method of the
    observers' base class; that one does nothing and is not called. Which methods an observer
    overrides is determined when it is added.
    """

    points: ClassVar[Mapping[str, object]] = {}

    def __init__(self, observers: Iterable[T] = ()) -> None:
        self._now: _Seen[T] = _Seen((), self.points)
        self._old: list[_Seen[T]] = []
        """Snapshots that were replaced but are still in use by calls."""
        self._lock = Lock()
        self._changed = Condition(self._lock)
        for observer in observers:
            self.add(observer)

    @property
    def is_empty(self) -> bool:
        """Whether there is no observer now."""
        return not self._now.observers

    def add(self, observer: T) -> None:
        """Add an observer after all others. Raises UsageError if it was added already, or if it
        lacks a method.
        """
        with self._lock:
            if self._now.holds(observer):
                raise UsageError(f"the observer {name_of(observer)} is registered already")
            try:
                self._replace((*self._now.observers, observer))
            except AttributeError as error:
                raise UsageError(f"{name_of(observer)} is no observer here: {error}") from error

    def remove(self, observer: T) -> None:
        """Remove an observer: when this returns, none of its methods is running any more.

        Called from inside a call of this delegate, it returns at once: running calls, including the
        current one, may then still use the observer. Raises UsageError if it was not added.
        """
        with self._lock:
            if not self._now.holds(observer):
                raise UsageError(f"the observer {name_of(observer)} is not registered")
            self._replace(tuple(each for each in self._now.observers if each is not observer))
            seen = [each for each in self._old if each.holds(observer)]
            inside = any(get_ident() in each.threads for each in (self._now, *self._old))
            if not inside:
                self._changed.wait_for(lambda: not any(each.threads for each in seen))

    def _replace(self, observers: tuple[T, ...]) -> None:
        if self._now.threads:
            self._old.append(self._now)
        self._now = _Seen(observers, self.points)

    def _enter(self) -> _Seen[T]:
        """Start a call; gives its snapshot. `_leave` must follow, in the same thread."""
        with self._lock:
            seen = self._now
            seen.threads.append(get_ident())
        return seen

    def _leave(self, seen: _Seen[T]) -> None:
        with self._lock:
            seen.threads.remove(get_ident())
            if seen is not self._now and not seen.threads:
                self._old.remove(seen)
                self._changed.notify_all()

    def _first_ends(self, point: str, *given: object) -> None:
        """Call all, in order; stop at the first error."""
        seen = self._enter()
        try:
            for observer, method in seen.methods[point]:
                try:
                    method(*given)
                except TailraceError:
                    raise
                except Exception as error:
                    raise failed(observer, point, error) from error
        finally:
            self._leave(seen)

    def _handed_on(self, point: str, io: object, value: V, kind: type[V], what: str) -> V:
        """Call all, in order, each with the previous one's result; stop at the first error."""
        seen = self._enter()
        try:
            for observer, method in seen.methods[point]:
                try:
                    value = method(io, value)
                    if not isinstance(value, kind):
                        _reject(value, kind, what)
                except TailraceError:
                    raise
                except Exception as error:
                    raise failed(observer, point, error) from error
        finally:
            self._leave(seen)
        return value

    def _all_called(self, point: str, *given: object) -> None:
        """Call all, in order, even after an error; raise the first, with the others as notes."""
        first: Exception | None = None
        seen = self._enter()
        try:
            for observer, method in seen.methods[point]:
                try:
                    method(*given)
                except Exception as error:  # noqa: BLE001 - every error is raised after all calls
                    if first is not None:
                        text = f"the observer {name_of(observer)} failed too, in {point}: {error!r}"
                        first.add_note(text)
                        _log.error("%s", text)
                    elif isinstance(error, TailraceError):
                        first = error
                    else:
                        first = failed(observer, point, error)
                        first.__cause__ = error
        finally:
            self._leave(seen)
        if first is not None:
            raise first


def name_of(observer: object) -> str:
    """An observer's name in errors: its class."""
    kind = type(observer)
    return f"{kind.__module__}.{kind.__qualname__}"


def failed(observer: object, point: str, error: Exception) -> ObserverError:
    """The error that a delegate raises when an observer raised one that is not a TailraceError."""
    return ObserverError(
        f"the observer {name_of(observer)} failed in {point}: {type(error).__name__}: {error}"
    )


def _reject(value: object, kind: type, what: str) -> NoReturn:
    raise TypeError(f"it returned {type(value).__name__}, not {what} ({kind.__name__})")


class RelayIoDelegate(Delegate[RelayIoObserver]):
    """Calls relay I/O observers. Each method calls that of every observer, in order.

    The rule for an observer that raises: in ``thread_start``, ``before_request_transmit``,
    ``after_read_event`` and ``after_queue_event`` the first error ends the call. No other observer
    is called, and the reader ends with its state intact. In ``thread_stop`` and
    ``after_reset_replica`` all observers are called. The first error is raised after them, with a
    note for each other one. What is raised is an ObserverError that names the observer and has the
    original error as its cause; a TailraceError (such as SemisyncError, ConnectionLost) is raised
    as it is. Returning a value of the wrong type for the point is also such an error.
    """

    points: ClassVar[Mapping[str, object]] = {
        point: getattr(RelayIoObserver, point)
        for point in (
            "thread_start",
            "thread_stop",
            "before_request_transmit",
            "after_read_event",
            "after_queue_event",
            "after_reset_replica",
        )
    }

    def thread_start(self, io: RelayIo) -> None:
        """A reader starts, before the first connection."""
        self._first_ends("thread_start", io)

    def thread_stop(self, io: RelayIo) -> None:
        """A reader ends, after its connection was closed."""
        self._all_called("thread_stop", io)

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:
        """Before the dump is requested: the flags; each observer receives the previous one's
        result.
        """
        return self._handed_on("before_request_transmit", io, flags, int, "the flags")

    def after_read_event(self, io: RelayIo, packet: memoryview) -> memoryview:
        """A packet was read: the event in it; each observer receives the previous one's result."""
        return self._handed_on("after_read_event", io, packet, memoryview, "the event")

    def after_queue_event(self, io: RelayIo, event: memoryview, flags: RelayFlag) -> None:
        """An event was written to the log."""
        self._first_ends("after_queue_event", io, event, flags)

    def after_reset_replica(self, io: RelayIo) -> None:
        """The reader forgot its source."""
        self._all_called("after_reset_replica", io)
