"""Events of generators: read-only views of what a source says (MWL#120 `rpl_event_base`).

An event holds no data. Its accessors ask a `Context`, which the source made: for a log it stands on
the log's own events, for a materialised stream on its bytes, for a local transaction on what the
program said. What nobody asks for is never decoded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    Self,
    TypeVar,
    overload,
)

from tailrace.errors import UsageError
from tailrace.generators.formats import format_named, output_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tailrace.generators.formats import Output
    from tailrace.position import Position

T = TypeVar("T")


OUT_OF_BUFFER: Final = -2
"""What `ReplicationEvent.materialise` returns for a buffer that is too small (MWL#120)."""


class Place(NamedTuple):
    """The transaction of an event: its local id; ``rolled_back`` and ``held`` as in `Offer`."""

    transaction: int
    rolled_back: bool
    held: bool = False


NO_PLACE: Final = Place(0, rolled_back=False)


class Context(ABC):
    """What events read from: one per change that a source tells of."""

    __slots__ = ()
    is_rows: ClassVar[bool] = False
    """Whether it is a `RowsContext`, which is asked of each change."""

    @property
    def extra(self) -> Sequence[str]:
        """Names that it has values for, those among them that the event's class does not declare;
        () if it has no others.
        """
        return ()

    @abstractmethod
    def read(self, accessor: str) -> Any:
        """The value of an accessor, by its name; None if the source cannot tell it."""


class KeptContext(Context):
    """The values of all accessors, read once."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    @property
    def extra(self) -> Sequence[str]:
        """The names of its values."""
        return tuple(self._values)

    def read(self, accessor: str) -> Any:
        """The value that was read; None for an accessor of a later version."""
        return self._values.get(accessor)


class Accessor(Generic[T]):
    """One fact that an event tells. Declared in the class of the event, by `accessor`."""

    def __init__(self, text: str) -> None:
        self.__doc__ = text
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, event: None, owner: type) -> Self: ...
    @overload
    def __get__(self, event: ReplicationEvent, owner: type) -> T: ...
    def __get__(self, event: ReplicationEvent | None, owner: type) -> T | Self:
        if event is None:
            return self
        value: T = context_of(event).read(self.name)
        return value


def accessor(text: str) -> Any:
    """Declare an accessor; ``text`` says what it gives."""
    return Accessor(text)


class ReplicationEvent:
    """The base of all events of generators; only its subclasses can be made.

    An event is valid during the call that gives it to a consumer: later each accessor raises
    UsageError. `keep` gives a copy that lasts. The same event goes to every consumer, and nothing
    can be set on it.
    """

    __slots__ = ("_context", "_place")

    _context: Context | None
    _place: Place
    name: ClassVar[str] = ""
    """The name of the event, which is that of the consumers' method for it: ``trx_start``."""
    is_batch: ClassVar[bool] = False
    """Whether it stands for several events: only consumers with a method for it get it."""
    accessors: ClassVar[tuple[str, ...]] = ()
    """The names of its accessors."""

    position: Accessor[Position | None] = accessor(
        "Where it stands in the log, as file and offset; None without a log."
    )
    server_id: Accessor[int | None] = accessor("The id of the server where the change was made.")
    timestamp: Accessor[int | None] = accessor("When it was executed, in microseconds UTC.")

    def __init__(self, context: Context) -> None:
        if not self.name:
            raise TypeError(f"{type(self).__name__} is a base: only kinds of it can be made")
        object.__setattr__(self, "_context", context)
        object.__setattr__(self, "_place", NO_PLACE)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = {
            key: None
            for kind in reversed(cls.__mro__)
            for key, value in vars(kind).items()
            if isinstance(value, Accessor)
        }
        cls.accessors = tuple(found)

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"an event cannot be changed: {key}")

    __delattr__ = None  # type: ignore[assignment]

    @property
    def is_valid(self) -> bool:
        """Whether the accessors can be read."""
        return self._context is not None

    @property
    def is_rolled_back(self) -> bool:
        """Whether its transaction, or a ROLLBACK TO in it, rolls it back later, or still may (of
        a local transaction).
        """
        return self._place.rolled_back

    def values(self) -> dict[str, Any]:
        """The values of all accessors, by name; also those that a stream has in addition."""
        read = context_of(self).read
        return {each: read(each) for each in names_of(self)}

    def keep(self) -> Self:
        """A copy that lasts after the callback. It reads every accessor, once."""
        return self.replace()

    def replace(self, **values: Any) -> Self:
        """A copy that lasts, with other values of some accessors.

        Names that its class does not declare are added to it: `values` has them, and streams.
        """
        return kept(type(self), self.values() | values, self._place)

    def __reduce__(self) -> Any:
        """Pickles, and copies as `keep` does."""
        return kept, (type(self), self.values(), self._place)

    @overload
    def materialise(self, to: None = None, *, format: str = "native") -> bytes: ...
    @overload
    def materialise(self, to: object, *, format: str = "native") -> int: ...
    def materialise(self, to: object = None, *, format: str = "native") -> bytes | int:  # noqa: A002 - so the field calls it
        """The event as bytes, which `tailrace.generators.de_materialise` makes an event of again.

        Without ``to`` it returns the bytes. Into a ``bytearray`` or a writable ``memoryview``, from
        its beginning, it returns how many bytes it wrote; `OUT_OF_BUFFER` if they do not fit, and
        nothing is written then. A function is called with the bytes, in pieces; an object with
        ``write`` (a file, a stream of the storage layer) or ``sendall`` (a socket) gets them:
        returns how many they were.

        ``format`` is the name of an entry point of the group ``tailrace.materialised_formats``.
        Raises UsageError for a format that is not there and for what it cannot hold, and when the
        event is over.
        """
        pieces: list[bytes] = []
        if to is None or isinstance(to, (bytearray, memoryview)):
            self._write_to(pieces.append, format)
            data = b"".join(pieces)
            if to is None:
                return data
            with memoryview(to) as view, view.cast("B") as flat:
                if len(data) > len(flat):
                    return OUT_OF_BUFFER
                flat[: len(data)] = data
            return len(data)
        return self._write_to(output_to(to), format)

    def _write_to(self, output: Output, name: str) -> int:
        written = 0

        def counted(data: bytes) -> None:
            nonlocal written
            output(data)
            written += len(data)

        with format_named(name).writer(counted) as writer:
            writer.event(self)
        if not written:
            raise UsageError(f"{self.name}: the format {name} holds no such event by itself")
        return written

    def __repr__(self) -> str:
        if not self.is_valid:
            return f"{type(self).__name__}(over)"
        told = (f"{key}={value!r:.80}" for key, value in self.values().items() if value is not None)
        return f"{type(self).__name__}({', '.join(told)})"


_Event = TypeVar("_Event", bound=ReplicationEvent)


def kept(kind: type[_Event], values: Mapping[str, Any], place: Place, *given: Any) -> _Event:
    """An event that lasts, of a kind, with these values; the kind is also made with ``given``."""
    made = kind(KeptContext(values), *given)
    put_in(made, place)
    return made


def context_of(event: ReplicationEvent) -> Context:
    """What an event's accessors read from. Raises UsageError after the callback."""
    found = event._context  # noqa: SLF001 - of this module
    if found is None:
        raise UsageError(
            f"this {event.name} event is over: an event is valid only during the callback that it"
            " is given to; event.keep() gives a copy that lasts"
        )
    return found


def names_of(event: ReplicationEvent) -> tuple[str, ...]:
    """The names of an event's accessors, and of the other values that it has."""
    extra = context_of(event).extra
    return tuple(dict.fromkeys((*event.accessors, *extra))) if extra else event.accessors


def place_of(event: ReplicationEvent) -> Place:
    """The transaction that an event is in."""
    return event._place  # noqa: SLF001 - of this module


def put_in(event: ReplicationEvent, place: Place) -> None:
    """Say which transaction an event is in."""
    object.__setattr__(event, "_place", place)


def end(event: ReplicationEvent) -> None:
    """The callbacks are over: the event is not valid any more."""
    object.__setattr__(event, "_context", None)


def kinds_of(base: type[ReplicationEvent]) -> Iterator[type[ReplicationEvent]]:
    """The kinds of events that derive from one, those that can be made."""
    for each in base.__subclasses__():
        if isinstance(each.name, str) and each.name:  # of some, each object has a name of its own
            yield each
        yield from kinds_of(each)
