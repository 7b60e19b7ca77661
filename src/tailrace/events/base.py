"""The base class of all events, the registry of its subclasses, and the state that events change.

Defining a subclass of `Event` that names type codes (``class Mine(Event, types=(200,))``) registers
it. A package can make its classes known without being imported: it names its module, or the class,
in the entry point group ``tailrace.events``. The group is loaded once, when an event of unknown
type is first read. A code that already has a class is given only to a subclass of that class (which
then replaces it), or to the same class defined again, for example by reloading a module.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from struct import Struct
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)
from zlib import crc32

from tailrace.constants import HEADER_SIZE, ChecksumAlgorithm, event_name
from tailrace.errors import (
    EventDecodeError,
    EventEncodeError,
    LogError,
    TailraceError,
    UnknownEvent,
    UsageError,
)
from tailrace.events.description import NO_FORMAT, FormatDescription
from tailrace.events.fields import Builder, Cursor
from tailrace.events.header import EventHeader
from tailrace.events.layout import OF_THE_HEADER, REQUIRED, EventMeta, Field
from tailrace.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
E = TypeVar("E", bound="Event")

Unknown = Literal["error", "opaque"]
_U32: Final = Struct("<I")
_LONGEST_REPR = 60
_MAKE_TAKES: Final = OF_THE_HEADER | {"type", "form"}


@dataclass(slots=True)
class LogState:
    """What an event of a log leaves for the decoding of those after it.

    ``format`` is the last format description's content (None before it), ``checksum_algorithm``
    what it says about checksums (before it: what was agreed with the source), ``table_maps`` the
    table maps in force, by table id. ``unknown`` says what happens to an event whose type is
    neither known nor marked ignorable: an error, or an `OpaqueEvent`. ``lowers_names`` is what is
    known of the server besides: see `FormatDescription`.
    """

    format: FormatDescription | None = None
    checksum_algorithm: ChecksumAlgorithm = ChecksumAlgorithm.NONE
    table_maps: dict[int, Any] = field(default_factory=dict)
    unknown: Unknown = "error"
    lowers_names: bool = False

    def lower_names(self) -> None:
        """Let events from here on know that their server puts names into lower case."""
        self.lowers_names = True
        if self.format is not None and not self.format.lowers_names:
            self.format = replace(self.format, lowers_names=True)


class lazy(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """A field that is decoded when it is first used, and then kept.

    It is not part of an event's value: it is neither compared nor pickled. Its errors name the
    event's position.
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


class EventOutput(Protocol):
    """Where an event is written: any object whose `write` appends bytes."""

    def write(self, data: bytes, /) -> object:
        """Append all of the data."""


class Event(metaclass=EventMeta):
    """One event of a log.

    ``header`` and ``body`` (without header and checksum) are its bytes; ``checksum`` is its stored
    CRC32, or None without one. ``file`` and ``offset`` say where it begins, by our own 64-bit
    count. For an event inside a transaction payload, they say where the payload event begins, and
    ``inner_index`` is its number in the payload. ``outer_length`` is set if the event takes other
    than its own length in its file: it is the payload event's length for an inner event, and the
    length that was read for an event made by `replace` (else None). ``form`` is the format
    description that defines the layout of its body.

    The fields are decoded from the body when one of them is first used: an event that is only
    passed on is never decoded. `make` is the inverse, from fields to an event.

    A subclass names its type codes: defining it registers it. It declares its fields
    in the order of the body, each with its codec (`tailrace.events.layout`), and has from them its
    slots, ``FIELDS`` (the public fields), ``MADE_OF`` (the arguments of `make`, with their
    defaults) and ``MADE_FROM`` (an argument's field, if it has another name). What it gives itself
    is added to these; ``FIELDS`` it gives as a whole. ``flags`` is a field of the body
    (of TABLE_MAP, rows, GTID and GTID_LIST events); the header's are ``header_flags``, in reading
    and in `make`. ``sql`` and other texts may be given as bytes, and are copied as bytes.

    A body that is more than a list of fields has its own `read_body`, which sets the slots from the
    body, and `write_body`, which builds the body from them. Fields that need no slot are
    properties, and fields that are expensive to decode are `lazy`; but when `write_body` runs, all
    arguments of `make` are slots. Events compare by value, and pickle.
    """

    __slots__ = (
        "_borrowed",
        "_cache",
        "body",
        "checksum",
        "file",
        "form",
        "header",
        "inner_index",
        "offset",
        "outer_length",
    )

    FIELDS: ClassVar[tuple[str, ...]] = ()
    MADE_OF: ClassVar[Mapping[str, Any]] = {}
    MADE_FROM: ClassVar[Mapping[str, str]] = {}
    LAYOUT: ClassVar[tuple[Field, ...] | None] = None
    """The declared fields, if these are all of the body. An empty body is ``()``."""
    FIXED_PART: ClassVar[int] = 0
    """The size of the fixed part, where a body that is shorter is reported as such."""
    TYPES: ClassVar[tuple[int, ...]] = ()
    CHANGES_CONTEXT: ClassVar[bool] = False
    FROM_CONTEXT: ClassVar[tuple[str, ...]] = ()
    """Slots that `update` fills from earlier events, and that therefore pickle as well."""
    OWN_LOG_POS: ClassVar[bool] = False
    """Whether the header's ``log_pos`` is one of its fields."""
    _READ: ClassVar[frozenset[str]] = frozenset()
    _LAZY: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, types: Iterable[int] = (), **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if reserved := sorted(_MAKE_TAKES & set(cls.MADE_OF)):
            raise UsageError(
                f"{cls.__name__}.MADE_OF: {reserved[0]!r} is the header's; use another name, and"
                " give the field's name in MADE_FROM"
            )
        cls.TYPES = register(cls, types)
        names = {name for base in cls.__mro__ for name in getattr(base, "__slots__", ())}
        cls._LAZY = tuple(name for name in dir(cls) if isinstance(getattr(cls, name), lazy))
        cls._READ = frozenset(names - set(Event.__slots__) - set(cls.FROM_CONTEXT))

    def __init__(self, header: EventHeader, body: bytes) -> None:
        self.header = header
        self.body = body
        self.form = NO_FORMAT
        self.checksum: int | None = None
        self.file: str | None = None
        self.offset: int | None = None
        self.inner_index: int | None = None
        self.outer_length: int | None = None
        self._cache: dict[str, Any] | None = None
        self._borrowed: memoryview | None = None

    if not TYPE_CHECKING:  # type checkers would accept every misspelt name

        def __getattr__(self, name: str) -> Any:
            """A field that is not decoded yet: decode the body."""
            if name == "body":  # it is in memory that was lent, see `borrow`
                self.body = bytes(self._borrowed)
                self._borrowed = None
                return self.body
            if name not in self._READ:
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            self._read()
            return object.__getattribute__(self, name)

    def borrow(self, memory: memoryview) -> Self:
        """The same event, its body in memory of the caller's until it is first used."""
        self._borrowed = memory
        del self.body
        return self

    def peek(self) -> bytes | memoryview:
        """The body where it is: nothing is copied."""
        return self.body if self._borrowed is None else self._borrowed

    def _read(self) -> None:
        """Decode the body."""
        try:
            self.read_body(self.form)
        except LogError as error:
            for name in self._READ:  # fields that were read before the error are not valid
                try:
                    object.__delattr__(self, name)
                except AttributeError:
                    continue
            raise error.at(self.file, self.offset, self.name) from error.__cause__

    @classmethod
    def make(
        cls,
        *,
        type: int | None = None,  # noqa: A002 - the header's word
        timestamp: int = 0,
        server_id: int = 0,
        header_flags: int = 0,
        form: FormatDescription = NO_FORMAT,
        **fields: Any,
    ) -> Self:
        """An event with these fields (``MADE_OF`` names them), in the layout of ``form``.

        ``type`` says which type, if a class has several and the fields do not say it; ``timestamp``
        is in seconds UTC, ``header_flags`` are `EventFlag` (``flags`` is a field of the body).
        Raises EventEncodeError, which names the field, for a field that is missing, unknown, or
        more than the format can hold.
        """
        if not isinstance(form, FormatDescription):
            raise EventEncodeError(f"form: {form!r} is no FormatDescription")
        given = {**cls.MADE_OF, **fields}
        if len(given) > len(cls.MADE_OF):
            unknown = min(set(fields) - set(cls.MADE_OF))
            hint = ": the header's are header_flags" if unknown == "flags" else ""
            raise EventEncodeError(f"{cls.__name__} has no field {unknown!r}{hint}")
        for name, value in given.items():
            if value is REQUIRED:
                raise EventEncodeError(f"{cls.__name__} misses its field {name!r}")
        code = cls.type_of(given, form) if type is None else type
        header = EventHeader.checked(
            code, timestamp=timestamp, server_id=server_id, header_flags=header_flags
        )
        if code not in cls.TYPES if cls.TYPES else code in REGISTRY:
            raise EventEncodeError(f"type: {event_name(code)} is no {cls.__name__}")
        draft_class, slots = _draft_class(cls)
        draft = draft_class(header, b"")
        draft.form = form
        for slot, value in zip(slots, given.values(), strict=True):  # `given` is in their order
            setattr(draft, slot, value)
        try:
            body = draft.write_body(form)
        except LogError as error:
            raise error.at(event_type=draft.name) from error.__cause__
        event = cls(draft.finished(header.resized(HEADER_SIZE + len(body))), body)
        return draft._given_context(event)  # noqa: SLF001 - the draft is an event of ours

    @classmethod
    def type_of(cls, _fields: Mapping[str, Any], _form: FormatDescription, /) -> int:
        """The type code of an event with these fields. Raises EventEncodeError if undetermined."""
        if len(cls.TYPES) == 1:
            return cls.TYPES[0]
        names = ", ".join(event_name(each) for each in cls.TYPES) or "its code"
        raise EventEncodeError(f"type: {cls.__name__} is one of several, say which: {names}")

    def replace(self, **changes: Any) -> Self:
        """The same event with some fields changed: those of ``MADE_OF``, ``type``, ``form`` and
        the header's ``timestamp``, ``server_id`` and ``header_flags``.

        It keeps its position and ``log_pos``, and has no checksum. If only fields of the
        header change, the body stays as it is; else it is rewritten from the fields.
        Raises EventEncodeError.
        """
        header = self.header
        said: dict[str, Any] = {
            "type": header.type,
            "timestamp": header.timestamp,
            "server_id": header.server_id,
            "header_flags": header.flags,
            "form": self.form,
        }
        if changes and changes.keys() <= OF_THE_HEADER:
            event = self._with_header(**{name: said[name] for name in OF_THE_HEADER} | changes)
            carried_pos = True
        else:
            event = self.make(**{**said, **self.carried(changes), **changes})
            carried_pos = not self.OWN_LOG_POS
        if carried_pos:
            event.header = event.header.resized(event.header.length, header.log_pos)
        event.file, event.offset, event.inner_index = self.file, self.offset, self.inner_index
        event.outer_length = self.outer_length or header.length
        return event

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """The fields that `replace` keeps from this event: the fields of ``MADE_OF`` that neither
        change nor follow from those that do.
        """
        return {
            name: getattr(self, self.MADE_FROM.get(name, name))
            for name in self.MADE_OF
            if name not in changes
        }

    def _with_header(self, **header: int) -> Self:
        """A copy with the same body and a changed header."""
        size = HEADER_SIZE + len(self.body)
        event = type(self)(EventHeader.checked(self.type, **header).resized(size), self.body)
        return self._given_context(event)

    def finished(self, header: EventHeader, /) -> EventHeader:
        """The header of an event that is being made, with the fields that the header holds."""
        return header

    def _given_context(self, event: E) -> E:
        event.form = self.form
        for name in self.FROM_CONTEXT:
            setattr(event, name, getattr(self, name))
        return event

    def read_body(self, _form: FormatDescription, /) -> None:
        """Set the slots from ``self.body``, by LAYOUT. Raises LogError without a position."""
        layout, body = self.LAYOUT, self.body
        if layout is None:
            return
        if len(body) < self.FIXED_PART:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {self.FIXED_PART}")
        cursor = Cursor(body)
        for each in layout:
            each.read(self, cursor)
        if cursor.pos != cursor.end:
            cursor.finish(self.name)

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The body made from the slots: the inverse of `read_body`. Raises EventEncodeError."""
        if self.LAYOUT is None:
            raise EventEncodeError(f"{type(self).__mro__[1].__name__} has no write_body")
        for each in self.LAYOUT:
            each.announce(self)
        out = Builder()
        for each in self.LAYOUT:
            each.write(self, out)
        return out.done()

    def encode(
        self, checksum: ChecksumAlgorithm | None = None, *, log_pos: int | None = None
    ) -> bytes:
        """The whole event, as it is in a log: header, body, checksum.

        With neither argument, byte for byte as it was read (an event that was made has no
        checksum). ``checksum`` says whether it gets one; ``log_pos`` is where it ends in its file
        (the low 32 bits are written).
        """
        if checksum is None:
            if self.checksum is not None:
                if log_pos is None:
                    return b"".join((self.header.encode(), self.body, _U32.pack(self.checksum)))
                checksum = ChecksumAlgorithm.CRC32
            else:
                checksum = ChecksumAlgorithm.NONE
        tail = checksum.size
        raw = self.header.encode(HEADER_SIZE + len(self.body) + tail, log_pos) + self.body
        return raw + _U32.pack(crc32(raw)) if tail else raw

    def write(
        self,
        out: EventOutput,
        checksum: ChecksumAlgorithm | None = None,
        *,
        log_pos: int | None = None,
    ) -> None:
        """Write the whole event to an output; arguments and bytes are those of `encode`.

        ``out`` is any object whose ``write`` appends bytes: a stream of `tailrace.storage` (a
        `BinlogFile`, a `BinlogCache`, a stack of layers), or a file of Python's. Raises what that
        raises, StorageError for a stream.
        """
        if not callable(getattr(out, "write", None)):
            raise UsageError(f"a {type(out).__name__} is no output: it has no write")
        out.write(self.encode(checksum, log_pos=log_pos))

    def update(self, context: LogState) -> None:
        """Change the state for the events after this one (where CHANGES_CONTEXT)."""

    @property
    def type(self) -> int:
        """The type code."""
        return self.header.type

    @property
    def name(self) -> str:
        """The type's name, such as ``WRITE_ROWS``."""
        return event_name(self.header.type)

    @property
    def timestamp(self) -> int:
        """Seconds UTC of the statement's start, not of its commit."""
        return self.header.timestamp

    @property
    def server_id(self) -> int:
        """The id of the server where the event was logged first."""
        return self.header.server_id

    @property
    def header_flags(self) -> int:
        """The header's flags (`EventFlag`)."""
        return self.header.flags

    @property
    def end_offset(self) -> int | None:
        """Where the event ends in its file, in bytes; None if its offset is not known."""
        if self.offset is None:
            return None
        return self.offset + (self.outer_length or self.header.length)

    def fields(self) -> dict[str, Any]:
        """The decoded fields by name; decodes those that are not decoded yet."""
        return {name: getattr(self, name) for name in self.FIELDS}

    def check(self) -> None:
        """Decode all of the body, and all events inside, to raise any errors in them."""
        self.check_fields()

    def check_fields(self) -> None:
        """Decode all fields, but no events inside."""
        self._read()
        self.fields()
        for name in self._LAZY:
            getattr(self, name)

    def error(self, message: str, kind: Callable[..., LogError] = EventDecodeError) -> LogError:
        """An error that names this event's position; the caller raises it."""
        return kind(message, file=self.file, offset=self.offset, event_type=self.name)

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_KEPT, *self.FROM_CONTEXT)}

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._state() == other._state()

    def __hash__(self) -> int:
        return hash((self.header, self.body))

    def __getstate__(self) -> dict[str, Any]:
        return self._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._cache = self._borrowed = None
        for name, value in state.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        place = "" if self.offset is None else f" {self.file or ''}@{self.offset}"
        parts = "".join(f" {name}={_short(getattr(self, name))}" for name in self.FIELDS)
        return f"<{self.name}{place}{parts}>"

    def _shown(self) -> dict[str, Any]:
        """What a notebook shows besides the header."""
        return self.fields()

    def _repr_html_(self) -> str:
        """Its header and its fields, for a notebook."""
        from tailrace.notebook import pairs  # noqa: PLC0415 - in notebooks only

        place = "" if self.offset is None else f" {self.file or ''}:{self.offset}"
        shown: list[tuple[str, object]] = [
            ("timestamp", f"{self.timestamp} ({time_text(self.timestamp * 1_000_000)} UTC)"),
            ("server_id", self.server_id),
            ("length", self.header.length),
        ]
        try:
            shown += self._shown().items()
        except TailraceError as error:
            shown.append(("error", str(error)))
        return pairs(f"{self.name}{place}", shown)


GROUP: Final = "tailrace.events"
"""The entry point group."""

REGISTRY: Final[dict[int, type[Event]]] = {}
"""Event type code to class; a code that is missing once the group is loaded is unknown."""

_loaded: Final[set[str]] = set()


_KEPT: Final = tuple(name for name in Event.__slots__ if not name.startswith("_"))
"""The slots that two equal events share, and that pickle."""


def register(kind: type[Event], types: Iterable[int]) -> tuple[int, ...]:
    """Give the codes to a class. Raises UsageError for an invalid code, or another class's."""
    codes = tuple(types)
    for code in codes:
        if not isinstance(code, int) or not 0 <= code <= 0xFF:
            raise UsageError(f"{kind.__name__}: an event type is a number up to 255, not {code!r}")
        before = REGISTRY.get(code)
        if before is not None and not issubclass(kind, before) and _name(kind) != _name(before):
            raise UsageError(
                f"{_name(kind)}: event type {code} ({event_name(code)}) is {_name(before)}'s;"
                " only a subclass of that may take its place"
            )
    codes = tuple(map(int, codes))
    REGISTRY.update(dict.fromkeys(codes, kind))
    return codes


def _name(kind: type[Event]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def class_of(code: int) -> type[Event] | None:
    """The class of a type code, None for an unknown one.

    Raises UnknownEvent if a package that might know it cannot be loaded.
    """
    kind = REGISTRY.get(code)
    if kind is None and GROUP not in _loaded:
        _load(code)
        kind = REGISTRY.get(code)
    return kind


def _load(code: int) -> None:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise UnknownEvent(
                f"event type {code} is not known, and the package that may know it cannot be"
                f" loaded: entry point {entry.name} = {entry.value} of {GROUP}"
                f" ({type(error).__name__}: {error}); repair or remove that package"
            ) from error
    _loaded.add(GROUP)


_DRAFTS: Final[dict[type[Event], tuple[type[Event], tuple[str, ...]]]] = {}


def _draft_class(kind: type[E]) -> tuple[type[E], tuple[str, ...]]:
    """The class of events while they are made: slots store what events read from the body. And the
    slot of each of ``MADE_OF``.
    """
    known = _DRAFTS.get(kind)
    if known is None:
        slots = tuple(kind.MADE_FROM.get(name, name) for name in kind.MADE_OF)
        held = tuple(
            name for name in slots if isinstance(getattr(kind, name, None), (property, lazy))
        )
        draft = type(kind.__name__, (kind,), {"__slots__": held})
        known = _DRAFTS[kind] = draft, slots
    return cast("tuple[type[E], tuple[str, ...]]", known)


def _short(value: object) -> str:
    if isinstance(value, (bytes, str)):
        value = value[: _LONGEST_REPR + 1]
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_REPR else shown[: _LONGEST_REPR - 1] + "…"
