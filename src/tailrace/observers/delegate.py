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
    """The observers as they stand, and the threads whose calls see them so."""

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
        """For each point the observers that have a method of their own there."""

    def holds(self, observer: object) -> bool:
        return any(each is observer for each in self.observers)


class Delegate(Generic[T]):
    """Observers of one kind, in the order in which they were added.

    Any thread may add, remove and call. A call sees the observers as they stood when it began.
    The same observer (the object, whatever it equals) is in it once.

    A subclass names the ``points`` at which observers are called, each with the method of their
    base class, which does nothing and is not called. What methods an observer has is looked at
    when it is added.
    """

    points: ClassVar[Mapping[str, object]] = {}

    def __init__(self, observers: Iterable[T] = ()) -> None:
        self._now: _Seen[T] = _Seen((), self.points)
        self._old: list[_Seen[T]] = []
        """Those that are replaced and that calls still see."""
        self._lock = Lock()
        self._changed = Condition(self._lock)
        for observer in observers:
            self.add(observer)

    @property
    def is_empty(self) -> bool:
        """Whether there is no observer now."""
        return not self._now.observers

    def add(self, observer: T) -> None:
        """Add an observer behind all others. Raises UsageError for one that is in it already, or
        that lacks a method.
        """
        with self._lock:
            if self._now.holds(observer):
                raise UsageError(f"the observer {name_of(observer)} is registered already")
            try:
                self._replace((*self._now.observers, observer))
            except AttributeError as error:
                raise UsageError(f"{name_of(observer)} is no observer here: {error}") from error

    def remove(self, observer: T) -> None:
        """Remove an observer: when this returns, none of its methods runs any more.

        Called from inside a call of this delegate it returns at once: calls that run, the own one
        among them, may then still see it. Raises UsageError for one that is not in it.
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
        """A call begins; gives what it sees. `_leave` must follow, in the same thread."""
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
        """Call all, in order; the first error ends it."""
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
        """Call all, in order, each with what the one before returned; the first error ends it."""
        seen = self._enter()
        try:
            for observer, method in seen.methods[point]:
                try:
                    value = method(io, value)
                    if not isinstance(value, kind):
                        _refuse(value, kind, what)
                except TailraceError:
                    raise
                except Exception as error:
                    raise failed(observer, point, error) from error
        finally:
            self._leave(seen)
        return value

    def _all_called(self, point: str, *given: object) -> None:
        """Call all, in order, also behind an error; the first is raised, others are noted on it."""
        first: Exception | None = None
        seen = self._enter()
        try:
            for observer, method in seen.methods[point]:
                try:
                    method(*given)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is raised behind all
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
    """What errors call an observer: its class."""
    kind = type(observer)
    return f"{kind.__module__}.{kind.__qualname__}"


def failed(observer: object, point: str, error: Exception) -> ObserverError:
    """What leaves a delegate for an error of an observer's that is none of the tree's."""
    return ObserverError(
        f"the observer {name_of(observer)} failed in {point}: {type(error).__name__}: {error}"
    )


def _refuse(value: object, kind: type, what: str) -> NoReturn:
    raise TypeError(f"it returned {type(value).__name__}, not {what} ({kind.__name__})")


class RelayIoDelegate(Delegate[RelayIoObserver]):
    """Calls relay I/O observers. Each method calls that of every observer, in order.

    The rule for an observer that raises: in ``thread_start``, ``before_request_transmit``,
    ``after_read_event`` and ``after_queue_event`` the first that raises ends the call, no other
    observer is called, and the reader ends with its state intact. In ``thread_stop`` and
    ``after_reset_replica`` all are called, and the first error is raised behind them, with a note
    of each other. What leaves is an ObserverError that names the observer and has what it raised
    as its cause; a TailraceError (such as SemisyncError, ConnectionLost) leaves as it is. Returning
    what is not the point's type is such an error, too.
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
        """A reader begins, before the first connection."""
        self._first_ends("thread_start", io)

    def thread_stop(self, io: RelayIo) -> None:
        """A reader ends, after its connection was closed."""
        self._all_called("thread_stop", io)

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:
        """Before the dump is requested: the flags, each observer given those of the one before."""
        return self._handed_on("before_request_transmit", io, flags, int, "the flags")

    def after_read_event(self, io: RelayIo, packet: memoryview) -> memoryview:
        """A packet was read: the event in it, each observer given what the one before left."""
        return self._handed_on("after_read_event", io, packet, memoryview, "the event")

    def after_queue_event(self, io: RelayIo, event: memoryview, flags: RelayFlag) -> None:
        """An event was written to the log."""
        self._first_ends("after_queue_event", io, event, flags)

    def after_reset_replica(self, io: RelayIo) -> None:
        """The reader forgot its source."""
        self._all_called("after_reset_replica", io)
