"""Writing the stream that a generator gives, and reading it as a source (MWL#120)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.closing import Closing
from tailrace.errors import EventDecodeError, UsageError
from tailrace.generators.event import ReplicationEvent, kinds_of, place_of, put_in
from tailrace.generators.formats import format_named, output_to
from tailrace.generators.generator import Change, Offer
from tailrace.generators.source import EventReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from tailrace.generators.consumer import Consumer, OnError, Registration
    from tailrace.generators.formats import MaterialisedWriter, Source
    from tailrace.generators.generator import Generator


class Materialiser(Closing):
    """Writes the events of generators to a stream: what a consumer of that level is told.

    ``target`` is a function that takes bytes, a bytearray, an object with ``write`` (a file, a
    stream of the storage layer) or with ``sendall`` (a socket); it stays open. ``format`` is the
    name of an entry point of the group ``tailrace.materialised_formats``. With
    ``flush_at_commit``, each transaction is handed to the target at its end; otherwise a block at a
    time, and what is left when the materialiser is closed, which also writes the stream's end.

    >>> import tailrace.generators as generators
    >>> stream, events = bytearray(), []
    >>> with generators.EventStream("examples/shop/mysql") as log:
    ...     with generators.Materialiser(stream) as materialiser:
    ...         registration = materialiser.register(log.row)
    ...         log.run()
    >>> class Names(generators.RowConsumer):
    ...     def event(self, event):
    ...         events.append(event.name)
    >>> with generators.MaterialisedStream(stream) as read:
    ...     registration = read.row.register(Names())
    ...     read.run()
    >>> events[0], events[-1]
    ('trx_start', 'trx_commit')
    """

    def __init__(
        self,
        target: Any,
        *,
        format: str = "native",  # noqa: A002 - so the field calls it
        flush_at_commit: bool = False,
    ) -> None:
        self._writer: MaterialisedWriter = format_named(format).writer(output_to(target))
        self._flush_at_commit = flush_at_commit
        self._closed = False

    def register(
        self, generator: Generator, *, rollbacks: bool = False, on_error: OnError = "stop"
    ) -> Registration:
        """Write what a generator gives from now on.

        Rows come in batches, as the source has them; the reader gives them one by one to those that
        want that. With ``rollbacks`` the stream also has what was rolled back, for readers that
        want it; of local transactions it has each change twice then, when it was made and when it
        was committed.
        """
        if not rollbacks:
            return generator.register(self._consumer(generator, self.write), on_error=on_error)

        def held(event: ReplicationEvent) -> None:
            if made.active and place_of(event).held:
                self._write(event)

        wanting = self._consumer(generator, self._write, "trx_rollback")
        made = generator.register(wanting, on_error=on_error)
        generator.register(self._consumer(generator, held), on_error=on_error)
        return made

    @staticmethod
    def _consumer(
        generator: Generator, write: Callable[[ReplicationEvent], None], *more: str
    ) -> Consumer:
        """A consumer of the generator's interface, whatever package that is of."""
        interface = generator.interface
        names = {each.name for each in kinds_of(ReplicationEvent) if each.is_batch}
        methods = {"event", *more, *(name for name in names if hasattr(interface, name))}

        def called(_: Consumer, event: ReplicationEvent, /) -> None:
            write(event)

        kind = type("Materialiser", (interface,), dict.fromkeys(methods, called))
        made: Consumer = kind()
        return made

    def write(self, event: ReplicationEvent) -> None:
        """Write an event, from wherever it is. Raises UsageError for what cannot be held."""
        place = place_of(event)
        put_in(event, place._replace(held=False))  # the stream has it once
        try:
            self._write(event)
        finally:
            put_in(event, place)

    def _write(self, event: ReplicationEvent) -> None:
        if self._closed:
            raise UsageError(f"{event.name}: the materialiser is closed")
        self._writer.event(event)
        if self._flush_at_commit and event.name in {"trx_commit", "trx_rollback"}:
            self._writer.flush()

    def flush(self) -> None:
        """Hand what was written to the target."""
        self._writer.flush()

    def close(self) -> None:
        """Write the stream's end. The target stays open; events after that are a UsageError."""
        self._closed = True
        self._writer.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """`close`; after an error the end is not written, so that no reader takes it for whole."""
        if kind is None:
            self.close()
        self._closed = True


class MaterialisedStream(EventReader):
    """A stream of materialised events as a source: consumers see the calls of the first source.

    ``source`` is bytes, an object with ``read`` (a file, a stream of the storage layer) or with
    ``recv`` (a socket); it stays open. Consumers register with one of its generators, as with those
    of `EventStream`, and `run` tells them. ``also`` names generators of other packages. Events of
    a kind that no generator here gives are passed over; ``stack.unclaimed`` counts them.
    """

    def __init__(
        self,
        source: Source,
        *,
        format: str = "native",  # noqa: A002
        also: Iterable[str] = (),
    ) -> None:
        super().__init__(also)
        self._reader = format_named(format).reader(source)

    def offer_all(self) -> Iterator[None]:
        """Offer the stream's events.

        Raises LogError for a stream that is damaged, ends without its end mark or inside a
        transaction, after the events before.
        """
        started: dict[int, Offer | None] = {}
        for offer in self._reader.offers():
            number = offer.transaction
            if offer.change != Change.START and number not in started:
                raise EventDecodeError(
                    f"the stream has a {offer.change} of transaction {number} without its start"
                )
            if offer.change == Change.START:
                started[number] = offer if offer.rolled_back else None
            elif not offer.rolled_back and (first := started.get(number)) is not None:
                # Those that want no rollbacks are told of the start before the first that counts.
                started[number] = None
                self.stack.offer(Offer(first.change, first.context, number))
            self.stack.offer(offer)
            if offer.ends_transaction:
                started.pop(number, None)
                yield None
        if started:
            raise EventDecodeError(
                f"the stream ends inside a transaction, the one of id {min(started)}"
            )


def de_materialise(data: Any, *, format: str = "native") -> ReplicationEvent:  # noqa: A002
    """The event of `ReplicationEvent.materialise`: it lasts, and reads its bytes when it is asked.

    ``data`` is bytes, or what a stream is read from. An event of an unknown kind is an
    `UndeclaredEvent`. Raises LogError for damaged bytes, and if there is no event, or more than
    one.
    """
    events = format_named(format).reader(data).events()
    found = next(events, None)
    if found is None or next(events, None) is not None:
        raise EventDecodeError("these are the bytes of several events, or of none, not of one")
    return found
