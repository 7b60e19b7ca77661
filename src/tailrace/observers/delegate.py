"""Delegates: the observers of one kind, called in order, added and removed at any time."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from threading import Condition, Lock, get_ident
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, TypeVar

from tailrace.errors import ObserverError, TailraceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

T = TypeVar("T")
V = TypeVar("V")

INTERFACE_VERSION: Final = 2
"""The version of the observers' interface: 1 has the hooks of WL#4398, 2 adds ``after_sync``."""

_log: Final = logging.getLogger("tailrace.observers")


class Observer:
    """The base of observers of all kinds. A class may be of several kinds: it derives from each.

    ``interface_version`` is the version of the interface that the class was written for (the
    worklog's ``len`` of the structure of callbacks). A later version only adds hooks, and fields
    to what they are given. A hook that came after the version that a class states is not called,
    even if the class has a method of that name.
    """

    interface_version: ClassVar[int] = 1

    def system_variables(self) -> Mapping[str, int | str | bool]:
        """What a source that serves logs says of itself while this observer is told of its dumps,
        by name in lower case: a replica asks for some of them. Booleans are shown as ON and OFF.
        """
        return {}

    def status_variables(self) -> Mapping[str, int | str | bool]:
        """Likewise its status variables (SHOW STATUS), with their names as they are shown."""
        return {}


class Seen(Generic[T]):
    """A snapshot of the observers, and the threads whose calls use it."""

    __slots__ = ("methods", "observers", "threads")

    def __init__(
        self, observers: tuple[T, ...], points: Mapping[str, object], since: Mapping[str, int]
    ) -> None:
        self.observers = observers
        self.threads: list[int] = []
        self.methods: dict[str, list[tuple[T, Any]]] = {
            point: [
                (observer, getattr(observer, point))
                for observer in observers
                if version_of(observer) >= since.get(point, 1)
                and (
                    getattr(type(observer), point) is not empty
                    or point in getattr(observer, "__dict__", ())
                )
            ]
            for point, empty in points.items()
        }
        """For each point, the observers that override its method."""

    def holds(self, observer: object) -> bool:
        return any(each is observer for each in self.observers)

    def method(self, observer: object, point: str) -> Any | None:
        """An observer's method for a point; None if it does not override it, or was removed."""
        for each, method in self.methods[point]:
            if each is observer:
                return method
        return None


class Delegate(Generic[T]):
    """Observers of one kind, in the order in which they were added.

    Any thread may add, remove and call. A call uses the observers as they were when it began. The
    same observer (compared by identity) can be added only once. Iterating gives the observers as
    they are at that moment.

    A subclass names the ``kind`` of its observers and the ``points`` at which they are called;
    ``since`` has the interface version of points that came after version 1. Each point is a method
    of the kind; that one does nothing and is not called. Which methods an observer overrides is
    determined when it is added. A call for a point that no observer overrides takes no lock.
    """

    kind: ClassVar[type]
    points: ClassVar[Mapping[str, object]] = {}
    since: ClassVar[Mapping[str, int]] = {}

    def __init__(self, observers: Iterable[T] = ()) -> None:
        self._now: Seen[T] = Seen((), self.points, self.since)
        self._old: list[Seen[T]] = []
        """Snapshots that were replaced but are still in use by calls."""
        self._lock = Lock()
        self._changed = Condition(self._lock)
        for observer in observers:
            self.add(observer)

    @property
    def is_empty(self) -> bool:
        """Whether there is no observer now."""
        return not self._now.observers

    def __iter__(self) -> Iterator[T]:
        return iter(self._now.observers)

    def __contains__(self, observer: object) -> bool:
        return self._now.holds(observer)

    def calls(self, *points: str) -> bool:
        """Whether any observer overrides one of these points now."""
        methods = self._now.methods
        return any(methods[point] for point in points)

    @contextmanager
    def read_lock(self) -> Iterator[tuple[T, ...]]:
        """The observers as they are now, in order; `remove` waits until the block has ended.

        An observer that another thread adds meanwhile is not among them.
        """
        seen = self._enter()
        try:
            yield seen.observers
        finally:
            self._leave(seen)

    def add(self, observer: T) -> None:
        """Add an observer after all others. Raises UsageError if it was added already, if it
        lacks a method, or if it was written for a later version of the interface.
        """
        with self._lock:
            if self._now.holds(observer):
                raise UsageError(f"the observer {name_of(observer)} is registered already")
            if (version := version_of(observer)) > INTERFACE_VERSION:
                raise UsageError(
                    f"the observer {name_of(observer)} was written for version {version} of the"
                    f" observers' interface; this Tailrace has version {INTERFACE_VERSION}: update"
                    " Tailrace"
                )
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
        after = Seen(observers, self.points, self.since)
        if self._now.threads:
            self._old.append(self._now)
        self._now = after

    def _enter(self) -> Seen[T]:
        """Start a call; gives its snapshot. `_leave` must follow, in the same thread."""
        with self._lock:
            seen = self._now
            seen.threads.append(get_ident())
        return seen

    def _leave(self, seen: Seen[T]) -> None:
        with self._lock:
            seen.threads.remove(get_ident())
            if seen is not self._now and not seen.threads:
                self._old.remove(seen)
                self._changed.notify_all()

    def _first_ends(self, point: str, *given: object) -> None:
        """Call all, in order; stop at the first error."""
        if not self._now.methods[point]:
            return
        seen = self._enter()
        try:
            for observer, method in seen.methods[point]:
                call(observer, point, method, *given)
        finally:
            self._leave(seen)

    def _handed_on(self, point: str, io: object, value: V, kind: type[V], what: str) -> V:
        """Call all, in order, each with the previous one's result; stop at the first error."""
        if not self._now.methods[point]:
            return value
        seen = self._enter()
        try:
            for observer, method in seen.methods[point]:
                value = call(observer, point, method, io, value, returns=kind, what=what)
        finally:
            self._leave(seen)
        return value

    def _all_called(self, point: str, *given: object) -> None:
        """Call all, in order, even after an error; raise the first, with the others as notes."""
        if not self._now.methods[point]:
            return
        seen = self._enter()
        try:
            call_all(point, seen.methods[point], *given)
        finally:
            self._leave(seen)


def call(
    observer: object,
    point: str,
    method: Any,
    *given: object,
    returns: type | None = None,
    what: str = "",
) -> Any:
    """Call an observer's method; an error that is not a TailraceError becomes an ObserverError."""
    try:
        value = method(*given)
        if returns is not None and not isinstance(value, returns):
            _reject(value, returns, what)
    except TailraceError:
        raise
    except Exception as error:
        raise failed(observer, point, error) from error
    return value


def call_all(point: str, methods: Iterable[tuple[object, Any]], *given: object) -> None:
    """Call each observer's method, even after an error; raise the first error after all calls,
    with the others as notes.
    """
    first: Exception | None = None
    for observer, method in methods:
        try:
            call(observer, point, method, *given)
        except TailraceError as error:
            if first is None:
                first = error
                continue
            why = error.__cause__ if isinstance(error, ObserverError) else None
            text = f"the observer {name_of(observer)} failed too, in {point}: {why or error!r}"
            first.add_note(text)
            _log.error("%s", text)
    if first is not None:
        raise first


def version_of(observer: object) -> int:
    """The interface version that an observer states; 1 for one that states none."""
    return int(getattr(observer, "interface_version", 1))


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
