"""The stack of generators: it hands each change down until one takes it, and calls consumers."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final

from tailrace.errors import LogError, ObserverError, SchemaError, TailraceError, UsageError
from tailrace.generators.consumer import Consumer, Registration, name_of
from tailrace.generators.event import Place, end, put_in
from tailrace.generators.generator import Change, Counts, Generator, Offer
from tailrace.plugin import plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tailrace.generators.consumer import OnError
    from tailrace.generators.event import ReplicationEvent

GROUP: Final = "tailrace.generators"
"""Entry points of this group: the name is the generator's, the object its class."""

_ENDS: Final = frozenset({Change.COMMIT, Change.ROLLBACK})

_log: Final = logging.getLogger("tailrace.generators")


def generators(names: Iterable[str] = ()) -> list[type[Generator]]:
    """The classes of the shipped generators, and of those that packages offer by these names.

    Raises UsageError for a name that no installed package offers.
    """
    found: dict[str, type[Generator]] = {}
    for name in ("row", *names):
        _find(name, found)
    return list(found.values())


def _find(name: str, found: dict[str, type[Generator]]) -> None:
    if not name or name in found:
        return
    kind = plugin(GROUP, name, "generator")
    if not (isinstance(kind, type) and issubclass(kind, Generator)):
        raise UsageError(f"{name} is {kind!r:.100}, not a class of generators")
    _find(kind.stands_on, found)
    found[name] = kind


_Call = tuple[Registration, "Callable[[ReplicationEvent], object]"]


class _Told:
    """Registrations, and which of their methods each kind of events goes to."""

    def __init__(self, registrations: tuple[Registration, ...]) -> None:
        self.registrations = registrations
        self.wants_rollbacks = any(each.wants_rollbacks for each in registrations)
        self._calls: dict[
            tuple[type[ReplicationEvent], ...], list[tuple[type[ReplicationEvent], list[_Call]]]
        ] = {}
        self.heard: dict[str, bool] = {}
        """Of sorts of changes, whether a consumer may be told of them."""

    def calls(
        self, kinds: tuple[type[ReplicationEvent], ...]
    ) -> list[tuple[type[ReplicationEvent], list[_Call]]]:
        """What to call for a change that can be expressed in these kinds of events: each consumer
        gets the first kind that it has a method for.
        """
        try:
            return self._calls[kinds]
        except KeyError:
            pass
        wanted: dict[type[ReplicationEvent], list[_Call]] = {}
        for each in self.registrations:
            for kind in kinds:
                if (method := each.method_for(kind)) is not None:
                    wanted.setdefault(kind, []).append((each, method))
                    break
        found = self._calls[kinds] = list(wanted.items())
        return found


def _as_it_is(offer: Offer, kind: type[ReplicationEvent]) -> tuple[ReplicationEvent]:
    """The event that an offer is by its name: it was made by a generator before."""
    return (kind(offer.context),)


class Stack:
    """Generators, each on the one that it stands on, and the consumers registered with them.

    ``kinds`` are their classes from the lowest on, as `generators` gives them. Sources call
    `offer`.
    """

    def __init__(self, kinds: Iterable[type[Generator]]) -> None:
        self._by_name: dict[str, Generator] = {}
        top: Generator | None = None
        for kind in kinds:
            if kind.stands_on != ("" if top is None else top.name):
                raise UsageError(
                    f"the generator {kind.name!r} stands on {kind.stands_on or 'none'!r}, and not"
                    f" on {'none' if top is None else top.name!r}"
                )
            self._by_name[kind.name] = top = kind(self, top)
        if top is None:
            raise UsageError("a stack has at least one generator")
        self._top = top
        self._told = _Told(())
        self._open: set[int] = set()
        self._late: dict[int, list[Registration]] = {}
        self._lock = RLock()
        self._flow = RLock()
        self.unclaimed = 0
        """Changes that no generator took."""

    def __getitem__(self, name: str) -> Generator:
        """A generator by its name. Raises UsageError if the stack has none of that name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UsageError(
                f"this stack has no generator {name!r}, but {', '.join(self._by_name)}"
            ) from None

    def __iter__(self) -> Iterator[Generator]:
        """The generators, from the lowest on."""
        return iter(self._by_name.values())

    @property
    def counts(self) -> dict[str, Counts]:
        """What each generator did, by its name."""
        return {each.name: each.counts for each in self}

    @property
    def registrations(self) -> tuple[Registration, ...]:
        """The registrations that have not ended, in their order."""
        return self._told.registrations

    @property
    def wants_rollbacks(self) -> bool:
        """Whether a consumer is told what was rolled back."""
        return self._told.wants_rollbacks

    def register(
        self,
        generator: Generator,
        consumer: Consumer,
        on_error: OnError,
        *,
        rollbacks: bool = True,
    ) -> Registration:
        """See `Generator.register`."""
        if on_error not in ("stop", "drop"):
            raise UsageError(f'on_error is "stop" or "drop", and not {on_error!r}')
        if not isinstance(consumer, generator.interface):
            raise UsageError(
                f"consumers of the {generator.name} generator derive from"
                f" {generator.interface.__name__}: {name_of(consumer)} does not"
            )
        made = Registration(consumer, generator, on_error, rollbacks=rollbacks)
        with self._lock:
            self._told = _Told((*self._told.registrations, made))
            for number in self._open:
                self._late.setdefault(number, []).append(made)
        return made

    def deregister(self, registration: Registration) -> None:
        """See `Registration.cancel`."""
        with self._lock:
            if registration not in self._told.registrations:
                raise UsageError("this registration has ended already")
            registration.active = False
            self._told = _Told(
                tuple(each for each in self._told.registrations if each is not registration)
            )

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is offered inside is told without offers of other threads in between."""
        with self._flow:
            yield

    def hears(self, change: str) -> bool:
        """Whether a consumer may be told of changes of this sort; others need not be offered."""
        told = self._told
        heard = told.heard.get(change)
        if heard is None:
            heard = told.heard[change] = self._may_be_told(told, change)
        return heard

    def _may_be_told(self, told: _Told, change: str) -> bool:
        generator: Generator | None = self._top
        while generator is not None:
            kinds = generator.always(change)
            if kinds is None or kinds:
                return kinds is None or bool(told.calls(kinds))
            generator = generator.below
        return True

    def offer(self, offer: Offer) -> None:
        """Hand a change to the generator on top, which takes or defers it; tell consumers.

        Returns when all consumers were told. Any thread may call this; one change is told of at a
        time. Of a transaction the first is a `Change.START`. A start may be offered again, without
        ``rolled_back``, once the first change comes that counts: it is told to those that were not
        told of the one before.

        Raises what a consumer raised that stops the stream: a TailraceError as it is, any other as
        an ObserverError. LogError and SchemaError, which accessors raise for a damaged log, stop
        the stream whatever the consumer's rule is. UsageError for a change of a transaction that
        has not started.
        """
        with self._flow:
            told, left_out = self._audience(offer)
            try:
                self._hand_down(offer, told, left_out)
            finally:
                if offer.change in _ENDS and offer.ends_transaction:
                    with self._lock:
                        self._open.discard(offer.transaction)
                        self._late.pop(offer.transaction, None)

    def _audience(self, offer: Offer) -> tuple[_Told, Collection[Registration]]:
        """The registrations, and which of them are left out of a change."""
        number, again = offer.transaction, False
        with self._lock:
            if offer.change == Change.START:
                again = number in self._open
                self._open.add(number)
            elif number not in self._open:
                raise UsageError(
                    f"{offer.change} of transaction {number}, which has not started: a source"
                    " offers the start first"
                )
            told, late = self._told, self._late.get(number, ()) if self._late else ()
        if not (offer.rolled_back or again or offer.held):
            return told, late
        wanted = offer.rolled_back
        return told, {
            *late,
            *(each for each in told.registrations if each.wants_rollbacks is not wanted),
        }

    def _hand_down(self, offer: Offer, told: _Told, left_out: Collection[Registration]) -> None:
        generator: Generator | None = self._top
        change = offer.change
        kinds: tuple[type[ReplicationEvent], ...] = ()
        events: Callable[[Offer, type[ReplicationEvent]], Iterable[ReplicationEvent]]
        while generator is not None:
            generator.counts.offered += 1
            kinds, events = generator.kinds(offer), generator.events
            if not kinds and type(change) is not Change:
                kinds, events = generator.named(change), _as_it_is
            if kinds:
                break
            generator.counts.deferred += 1
            generator = generator.below
        if generator is None:
            self.unclaimed += 1
            return
        generator.counts.taken += 1
        wanting = told.calls(kinds)
        if not wanting:
            return
        place = Place(offer.transaction, offer.rolled_back, offer.held)
        for kind, calls in wanting:
            wanted = [each for each in calls if each[0] not in left_out] if left_out else calls
            if not wanted:
                continue
            for event in events(offer, kind):
                generator.counts.made += 1
                put_in(event, place)
                try:
                    if not self._tell(event, wanted):
                        break
                finally:
                    end(event)

    def _tell(self, event: ReplicationEvent, calls: list[_Call]) -> bool:
        """Call consumers; returns whether one of them is still registered."""
        heard = False
        for registration, method in calls:
            if not registration.active:
                continue
            try:
                method(event)
            except (LogError, SchemaError):
                raise
            except Exception as error:
                failed = partial(self._failed, registration, event)
                if registration.on_error == "stop":
                    if isinstance(error, TailraceError):
                        error.add_note(failed(error))
                        raise
                    raise ObserverError(failed(error)) from error
                registration.error = error
                if registration.active:
                    self.deregister(registration)
                _log.exception("%s; it is dropped", failed(error))
            heard = heard or registration.active
        return heard

    @staticmethod
    def _failed(registration: Registration, event: ReplicationEvent, error: Exception) -> str:
        at = "" if event.position is None else f" at {event.position}"
        return (
            f"the consumer {name_of(registration.consumer)} failed in {event.name}{at}:"
            f" {type(error).__name__}: {error}"
        )
