"""What every event is, and the registry of their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar, overload

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.events.context import DecodeContext
    from tailrace.events.header import EventHeader

T = TypeVar("T")

REGISTRY: Final[dict[int, type[Event]]] = {}
"""Event type code to class. `tailrace.events` fills it; a code that is not in it is unknown."""

_NAMES: Final = {int(code): code.name for code in EventType}
_LONGEST_REPR = 60


def event_name(code: int) -> str:
    """An event type's name, ``UNKNOWN_77`` for a code that has none."""
    return _NAMES.get(code) or f"UNKNOWN_{code}"


class lazy(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """A field that is decoded when it is first asked for, and then kept.

    It is no part of an event's value: it is neither compared nor pickled. Its errors name the
    event's place.
    """

    def __init__(self, decode: Callable[[Any], T]) -> None:
        self._decode = decode
        self.__doc__ = decode.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, event: None, owner: type) -> Self: ...
    @overload
    def __get__(self, event: Event, owner: type) -> T: ...
    def __get__(self, event: Event | None, owner: type) -> Self | T:
        if event is None:
            return self
        cache = event._cache  # noqa: SLF001 - the event's own descriptor
        if cache is None:
            cache = event._cache = {}  # noqa: SLF001 - the event's own descriptor
        elif self._name in cache:
            kept: T = cache[self._name]
            return kept
        try:
            value = self._decode(event)
        except LogError as error:
            raise error.at(event.file, event.offset, event.name) from error.__cause__
        cache[self._name] = value
        return value


class Event:
    """One event of a log.

    ``header`` and ``body`` (without header and checksum) are its bytes; ``checksum`` its stored
    CRC32, or None without one. ``file`` and ``offset`` say where it begins, by our own 64-bit
    count; for an event from inside a transaction payload, where the payload's event begins, with
    ``inner_index`` its number in there and ``outer_length`` that event's bytes (else None).

    A subclass names its type codes, decodes in `read_body`, and lists its public fields in
    ``FIELDS``. Cheap fields are attributes, dear ones `lazy`. Events compare by value, and pickle.
    """

    __slots__ = (
        "_cache",
        "body",
        "checksum",
        "file",
        "header",
        "inner_index",
        "offset",
        "outer_length",
    )

    FIELDS: ClassVar[tuple[str, ...]] = ()
    CHANGES_CONTEXT: ClassVar[bool] = False
    _VALUES: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, types: Iterable[int] = (), **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = dict.fromkeys(
            name for base in reversed(cls.__mro__) for name in getattr(base, "__slots__", ())
        )
        cls._VALUES = tuple(name for name in names if name != "_cache")
        for code in types:
            REGISTRY[int(code)] = cls

    def __init__(self, header: EventHeader, body: bytes) -> None:
        self.header = header
        self.body = body
        self.checksum: int | None = None
        self.file: str | None = None
        self.offset: int | None = None
        self.inner_index: int | None = None
        self.outer_length: int | None = None
        self._cache: dict[str, Any] | None = None

    @classmethod
    def decode_body(cls, header: EventHeader, body: bytes, context: DecodeContext) -> Self:
        """The event of these bytes. Raises LogError without a place; the context adds it."""
        event = cls(header, body)
        event.read_body(context)
        return event

    def read_body(self, _context: DecodeContext, /) -> None:
        """Set the fields from ``self.body``; what a subclass reads, it will write."""

    def update(self, context: DecodeContext) -> None:
        """Change the context as reading on past this event does (where CHANGES_CONTEXT)."""

    @property
    def type(self) -> int:
        """The type code."""
        return self.header.type

    @property
    def name(self) -> str:
        """The type's name, as ``WRITE_ROWS``."""
        return event_name(self.header.type)

    @property
    def timestamp(self) -> int:
        """Seconds UTC; when the statement began, not when it was committed."""
        return self.header.timestamp

    @property
    def end_offset(self) -> int | None:
        """Where the next event begins (for an inner event: where the payload's event ends)."""
        if self.offset is None:
            return None
        return self.offset + (self.outer_length or self.header.length)

    def fields(self) -> dict[str, Any]:
        """The decoded fields by name; decodes those that were not yet."""
        return {name: getattr(self, name) for name in self.FIELDS}

    def error(self, message: str, kind: Callable[..., LogError] = EventDecodeError) -> LogError:
        """An error that names this event's place, to be raised."""
        return kind(message, file=self.file, offset=self.offset, event_type=self.name)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._VALUES)

    def __hash__(self) -> int:
        return hash((self.header, self.body))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._VALUES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._cache = None
        for name, value in state.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        place = "" if self.offset is None else f" {self.file or ''}@{self.offset}"
        parts = "".join(f" {name}={_short(getattr(self, name))}" for name in self.FIELDS)
        return f"<{self.name}{place}{parts}>"


def _short(value: object) -> str:
    if isinstance(value, (bytes, str)):
        value = value[: _LONGEST_REPR + 1]
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_REPR else shown[: _LONGEST_REPR - 1] + "…"
