"""Generators that are stacked on each other (MWL#120, "Generators and consumers").

A source offers each change to the generator on top. A generator takes it and makes events of it, or
defers it to the one below. Consumers are registered with a generator: they get its events and those
of the generators below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from tailrace.generators.event import ReplicationEvent, kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.generators.consumer import Consumer, OnError, Registration
    from tailrace.generators.event import Context
    from tailrace.generators.stack import Stack


class Change(StrEnum):
    """What sources tell of. A source of another package may offer kinds of its own."""

    START = "start"
    """A transaction starts."""
    COMMIT = "commit"
    ROLLBACK = "rollback"
    """Of a whole transaction, or back to a savepoint."""
    STATEMENT_START = "statement start"
    STATEMENT_END = "statement end"
    STATEMENT = "statement"
    """A change that was logged as its statement."""
    LOAD_DATA_BLOCK = "load data block"
    """A block of the file of a LOAD DATA that was logged as its statement."""
    LOAD_DATA = "load data"
    """The statement over the blocks before it."""
    ROWS = "rows"
    """Rows of one table that changed in one way."""
    OTHER = "other"
    """An event of a class that another package added to the log's."""


class Offer(NamedTuple):
    """A change that a source offers to the generators.

    ``change`` is a `Change`, the source's own kind, or the name of an event: then the generator
    whose ``interface`` adds the method for such events takes it, and gives it as it is, since it
    made it before it was materialised. ``context`` is what events read from. ``transaction`` is the
    local id of its transaction. ``rolled_back`` is set for a change that its transaction, or a
    ROLLBACK TO in it, rolls back, or that may still be rolled back (of a local transaction): only
    consumers that want rollbacks get it. ``held`` is set for a change that was offered to them
    before, and that was held for the others until it was committed.
    """

    change: str
    context: Context
    transaction: int
    rolled_back: bool = False
    held: bool = False

    @property
    def ends_transaction(self) -> bool:
        """Whether it is the end of its transaction, not a rollback to a savepoint."""
        if self.change == Change.ROLLBACK:
            return self.context.read("savepoint") is None
        return self.change == Change.COMMIT


@dataclass(slots=True)
class Counts:
    """What a generator did: changes that it was offered, took, and deferred to the one below;
    events that it made.
    """

    offered: int = 0
    taken: int = 0
    deferred: int = 0
    made: int = 0


class Generator(ABC):
    """The base of generators.

    ``name`` is that of its entry point in the group ``tailrace.generators``, ``stands_on`` the name
    of the generator below it ("" for the lowest), ``interface`` the class that its consumers derive
    from, which derives from that of the generator below.
    """

    name: ClassVar[str]
    stands_on: ClassVar[str] = ""
    interface: ClassVar[type[Consumer]]

    def __init__(self, stack: Stack, below: Generator | None = None) -> None:
        self.stack = stack
        self.below = below
        self.counts = Counts()
        self._named: dict[str, tuple[type[ReplicationEvent], ...]] = {}

    def named(self, change: str) -> tuple[type[ReplicationEvent], ...]:
        """The kind of events that a change names, if this generator gives such events."""
        found = self._named.get(change)
        if found is None:
            lower = None if self.below is None else self.below.interface
            own = hasattr(self.interface, change) and not hasattr(lower, change)
            kinds = (kind for kind in kinds_of(ReplicationEvent) if kind.name == change)
            found = self._named[change] = tuple(kinds) if own else ()
        return found

    @abstractmethod
    def kinds(self, offer: Offer) -> tuple[type[ReplicationEvent], ...]:
        """The kinds of events in which it can express a change; none if it defers the change.

        Each consumer gets the first kind that it has a method for. Nothing may be decoded here.
        """

    def always(self, _change: str, /) -> tuple[type[ReplicationEvent], ...] | None:
        """The `kinds` of each change of this sort; None if they depend on the change.

        A source need not offer what no consumer can be told of (`Stack.hears`).
        """
        return None

    @abstractmethod
    def events(self, offer: Offer, kind: type[ReplicationEvent]) -> Iterable[ReplicationEvent]:
        """A change in events of one of its `kinds`: called only if a consumer wants that kind."""

    def register(
        self, consumer: Consumer, *, on_error: OnError = "stop", rollbacks: bool = True
    ) -> Registration:
        """Give a consumer the events of this generator and of those below it.

        It gets the transactions that start from now on; of each event it is told after the
        consumers that were registered before it. Callbacks and any thread may call this.
        ``on_error`` says what an error that it raises does: "stop" ends the stream with that error
        (its position is then before the transaction), "drop" ends the registration, logs the error,
        and continues with the others. Without ``rollbacks`` it is told only of what was committed,
        though it has `trx_rollback`: of local transactions, too, of each in whole at its commit.

        Raises UsageError for an object that does not derive from the generator's ``interface``.
        """
        return self.stack.register(self, consumer, on_error, rollbacks=rollbacks)
