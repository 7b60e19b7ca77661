"""The changes of a log, or of a server's stream, as the source of generators."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from tailrace.generators.log_context import Originals
from tailrace.generators.offers import TransactionOffers
from tailrace.generators.source import EventReader
from tailrace.generators.stack import Stack, generators
from tailrace.log.changes import MOST_HELD, Ended, RolledBack
from tailrace.log.iteration import Iteration
from tailrace.log.sources import Reading
from tailrace.transaction import Boundary, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.generators.generator import Offer
    from tailrace.gtid import GtidState
    from tailrace.log.reader import Step
    from tailrace.log.sources import Source
    from tailrace.position import Position
    from tailrace.schema.catalogue import Catalogue
    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.table_filter import TableFilter


class _LogIteration(Iteration):
    """Offers what a log holds to a stack; gives None after each transaction."""

    def __init__(self, reading: Reading, stack: Stack, *, verify_checksums: bool) -> None:
        super().__init__(reading, verify_checksums=verify_checksums, statements="error")
        self._stack = stack
        self._numbers = count(1)
        self._whole = reading.wants.takes_all
        self.in_doubt = 0

    def _of_log(self) -> Iterator[None]:
        stack, numbers = self._stack, self._numbers
        first: Event | None = None
        last: Step | None = None
        opened: TransactionOffers | None = None
        events: list[Event] = []
        size = 0

        def steps() -> Iterator[Step]:
            nonlocal first, last, events, size
            for step in self._reader:
                self._feed(step)
                inside = step.event.inner_index is not None
                if not inside and (step.boundary is Boundary.BEGIN or first is None):
                    first, events, size = step.event, [], 0
                if not inside and self._whole:
                    size += step.event.header.length
                    if size <= MOST_HELD:
                        events.append(step.event)
                    else:
                        events = []
                last = step
                yield step
                if step.boundary is Boundary.OUTSIDE:
                    first = None
                    self._advance(self._resume_after(step), ended=False)

        def begin(event: Event) -> TransactionOffers:
            """The transaction of which ``event`` was read last."""
            over = last is not None and (
                last.boundary is Boundary.END or last.event.inner_index is not None
            )
            found = Originals(events) if over and size <= MOST_HELD and events else None
            return TransactionOffers(stack, next(numbers), first or event, event, originals=found)

        for item in self.changes.with_rolled_back(steps()):
            if last is None:
                continue
            if isinstance(item, Ended):
                if item.event is not None and item.kind is not TransactionKind.XA_PREPARE:
                    opened = opened or begin(item.event)
                    opened.end(
                        item.event,
                        rolled_back=item.kind is TransactionKind.ROLLBACK,
                        gtid=None if item.group is None else item.group.gtid,
                        prepared=None if item.prepared is None else item.prepared.gtid,
                    )
                opened = first = None
                self._advance(self._resume_after(last))
                yield None
                if self.stopped:
                    return
                continue
            if opened is None:
                opened = begin(last.event)
            opened.last = last.event
            if not isinstance(item, RolledBack):
                opened.offer(item, rolled_back=False)
                continue
            if opened.originals is not None:
                opened.originals.is_whole = False
            if stack.wants_rollbacks:
                opened.offer(item.item, rolled_back=True)
        self.in_doubt += self.changes.prepared


class _Collects(Stack):
    """Holds what it is offered, also what was rolled back."""

    def __init__(self) -> None:
        super().__init__(generators())
        self.held: list[Offer] = []

    @property
    def wants_rollbacks(self) -> bool:
        return True

    def hears(self, change: str) -> bool:  # noqa: ARG002 - for a stack that may hear of all
        return True

    def offer(self, offer: Offer) -> None:
        self.held.append(offer)


def offers_of(source: Source) -> Iterator[Offer]:
    """The changes of a log, for a source that offers them to its own stack; those of a transaction
    are held until its end. Their contexts last. Raises what reading raises.
    """
    collected = _Collects()
    iteration = _LogIteration(Reading.of(source), collected, verify_checksums=True)
    try:
        for _ in iteration.all():
            offers, collected.held = collected.held, []
            yield from offers
    finally:
        iteration.end()


class EventStream(EventReader):
    """The events of a log, a folder, a URL or a server, given to consumers (MWL#120).

    Consumers register with one of its generators; `run` then reads the source and tells them.
    ``source`` and the arguments after it are those of `tailrace.rows`. ``also`` names generators of
    other packages (entry points of the group ``tailrace.generators``).

    Only what was committed is given, in the order of commits, but for consumers that have
    ``trx_rollback``. The changes of an XA transaction are given when it is committed.

    >>> import tailrace.generators as generators
    >>> class Count(generators.RowConsumer):
    ...     rows = 0
    ...     def event(self, event):
    ...         self.rows += event.name.startswith("row_")
    >>> counted = Count()
    >>> with generators.EventStream("examples/shop/mysql", tables="shop.reviews") as stream:
    ...     registration = stream.row.register(counted)
    ...     stream.run()
    >>> counted.rows > 0
    True
    """

    def __init__(
        self,
        source: Source,
        *,
        start: Bound | None = None,
        until: Bound | None = None,
        follow: bool = False,
        tables: str | Sequence[str] | TableFilter | None = None,
        exclude: str | Sequence[str] | None = None,
        schema: str | Path | None = None,
        keyring: Keyring | str | Path | None = None,
        layers: Layers | None = None,
        lower_case_table_names: LowerCase = None,
        verify_checksums: bool = True,
        also: Iterable[str] = (),
    ) -> None:
        reading = Reading.of(
            source,
            start=start,
            until=until,
            follow=follow,
            tables=tables,
            exclude=exclude,
            schema=schema,
            lower_case_table_names=lower_case_table_names,
            keyring=keyring,
            layers=layers,
        )
        super().__init__(also)
        self._iteration = _LogIteration(reading, self.stack, verify_checksums=verify_checksums)
        self.follow = follow

    @property
    def position(self) -> Position:
        """Where to resume after the transactions that all consumers have finished."""
        return self._iteration.known_position

    @property
    def gtids(self) -> GtidState | None:
        """The GTIDs after which to resume, there; None if they are not known."""
        return self._iteration.known_gtids

    @property
    def definitions(self) -> Catalogue:
        """By the log's statements up to there, in files from the first one on; by ``schema``; and
        what is added before reading begins.
        """
        return self._iteration.definitions

    @property
    def in_doubt(self) -> int:
        """XA transactions that were still prepared at the end: their changes were not given."""
        return self._iteration.in_doubt

    def offer_all(self) -> Iterator[None]:
        """Offer the source's changes; with ``follow`` until `stop`.

        After an error the position is before the transaction in which it happened.
        """
        return self._iteration.all()

    def on_file(self, told: Callable[[str, str], None]) -> None:
        """Have a function called with each file's name and mark (`tailrace.log.reader.Reader`),
        before its events; of all files from where reading begins. `run` raises what it raises.
        """
        self._iteration.on_file(told)

    def again(self) -> str:
        """Where to resume."""
        return f"open one that starts at {self.position}"

    def stop(self) -> None:
        """Let `run` return after the transaction that is being told of. Any thread may call it."""
        super().stop()
        self._iteration.stop()

    def close(self) -> None:
        """End the reading, and release files and connections."""
        super().close()
        self._iteration.end()
