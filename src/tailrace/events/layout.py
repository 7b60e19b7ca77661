"""Layouts: a class of events declares each field once, with the codec that reads and writes it.

The fields are declared in the order of the body::

    class RandEvent(Event, types=(EventType.RAND,)):
        fixed_rest: bytes = FIXED_REST
        seed1: int = field(U64, "the first seed")
        seed2: int = field(U64, "the second seed")

From this the class has its slots, `Event.FIELDS`, `Event.MADE_OF`, and both directions of its body.
A codec reads a value at a cursor and writes it: it knows no event. What depends on the event (its
flags, its format description) is a field of another kind, such as `flagged`.

A class whose body needs more than a list of fields declares them without codecs, and has its own
`read_body` and `write_body`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self, cast

from tailrace.errors import EventDecodeError, EventEncodeError, LogError
from tailrace.events.fields import binary, integer, made, member, parts, statement, text, utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from enum import Enum

    from tailrace.events.fields import Builder, Cursor

REQUIRED: Final = object()
"""Marks, in `Event.MADE_OF`, a field that has no default."""
OF_THE_HEADER: Final = frozenset({"timestamp", "server_id", "header_flags"})
"""Fields of the header that `make` takes. A body's field of such a name is its ``event_...``."""


class Codec(Protocol):
    """How a value is stored. ``what`` names it in errors."""

    def read(self, cursor: Cursor, what: str, /) -> Any:
        """The value at the cursor, which moves past it. Raises EventDecodeError."""

    def write(self, out: Builder, value: Any, what: str, /) -> None:
        """Append the value. Raises EventEncodeError."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A little-endian integer of ``size`` bytes, at least ``least``."""

    size: int
    least: int = 0

    def read(self, cursor: Cursor, what: str) -> int:
        start = cursor.pos  # as `Cursor.unsigned`, without a call
        end = start + self.size
        if end > cursor.end:
            cursor.skip(self.size, what)
        cursor.pos = end
        return int.from_bytes(cursor.buf[start:end], "little")

    def write(self, out: Builder, value: Any, what: str) -> None:
        most = (1 << 8 * self.size) - 1
        out.data += integer(value, what, self.least, most).to_bytes(self.size, "little")


@dataclass(frozen=True, slots=True)
class LengthEncoded:
    """MySQL's length-encoded integer."""

    def read(self, cursor: Cursor, what: str) -> int:
        return cursor.lenenc(what)

    def write(self, out: Builder, value: Any, what: str) -> None:
        out.lenenc(value, what)


@dataclass(frozen=True, slots=True)
class Boolean:
    """A byte that is 0 or not."""

    def read(self, cursor: Cursor, what: str) -> bool:
        return cursor.u8(what) != 0

    def write(self, out: Builder, value: Any, what: str) -> None:
        out.u8(made(value, bool, what), what)


@dataclass(frozen=True, slots=True)
class Member:
    """A byte that is a member of ``kind``; ``unknown`` is the error for another, with ``{}``."""

    kind: type[Enum]
    unknown: str

    def read(self, cursor: Cursor, what: str) -> Enum:
        value = cursor.u8(what)
        try:
            return self.kind(value)
        except ValueError:
            raise EventDecodeError(self.unknown.format(value)) from None

    def write(self, out: Builder, value: Any, what: str) -> None:
        out.u8(cast("int", member(self.kind, value, what)), what)


@dataclass(frozen=True, slots=True)
class Bytes:
    """So many bytes; all that remain if ``size`` is None."""

    size: int | None = None

    def read(self, cursor: Cursor, what: str) -> bytes:
        return cursor.rest() if self.size is None else cursor.take(self.size, what)

    def write(self, out: Builder, value: Any, what: str) -> None:
        out.raw(value, what, self.size)


@dataclass(frozen=True, slots=True)
class Prefixed:
    """Bytes after their length, which errors call ``length_what``.

    ``check`` is what `write` does with the value: `binary`, or `statement` to take text as well.
    """

    length: Codec
    length_what: str
    most: int | None = None
    check: Callable[[Any, str, int | None], bytes] = binary

    def read(self, cursor: Cursor, what: str) -> Any:
        return cursor.take(self.length.read(cursor, self.length_what), what)

    def write(self, out: Builder, value: Any, what: str) -> None:
        raw = self.check(value, what, self.most)
        self.length.write(out, len(raw), what)
        out.data += raw


@dataclass(frozen=True, slots=True)
class Text(Prefixed):
    """A name in UTF-8 after its length."""

    check: Callable[[Any, str, int | None], bytes] = utf8

    def read(self, cursor: Cursor, what: str) -> str:
        return text(cursor.take(self.length.read(cursor, self.length_what), what), what)


@dataclass(frozen=True, slots=True)
class TupleOf:
    """A tuple of values: the codec of each, and what errors in reading call it."""

    codecs: tuple[tuple[Codec, str], ...]

    def read(self, cursor: Cursor, _what: str) -> tuple[Any, ...]:
        return tuple([codec.read(cursor, what) for codec, what in self.codecs])

    def write(self, out: Builder, value: Any, what: str) -> None:
        for (codec, _), each in zip(self.codecs, parts(value, len(self.codecs), what), strict=True):
            codec.write(out, each, what)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A tuple of values after their number. A value has at least one byte."""

    number: Codec
    number_what: str
    each: Codec

    def read(self, cursor: Cursor, what: str) -> tuple[Any, ...]:
        count = self.number.read(cursor, self.number_what)
        return tuple(self.each.read(cursor, what) for _ in range(count))

    def write(self, out: Builder, value: Any, what: str) -> None:
        self.number.write(out, len(parts(value, None, what)), what)
        for each in value:
            self.each.write(out, each, what)


def tagged_fields(cursor: Cursor) -> Iterator[tuple[int, bytes]]:
    """The number and bytes of each field up to the number 0. Raises EventDecodeError."""
    while kind := cursor.lenenc("a field's type"):
        yield kind, cursor.lenenc_bytes("a field")


def write_tagged_field(out: Builder, kind: int, value: bytes, what: str) -> None:
    """Append a field: number, length and bytes. Raises EventEncodeError."""
    out.lenenc(kind, what)
    out.lenenc_bytes(value, what)


def write_unknown_fields(out: Builder, unknown: Any, known: range) -> None:
    """Append ``unknown_fields``, whose numbers must not be known ones, and the end.

    Raises EventEncodeError.
    """
    for each in parts(unknown, None, "unknown_fields"):
        kind, value = parts(each, 2, "unknown_fields")
        if kind in known:
            raise EventEncodeError(f"unknown_fields: a field of type {kind} is known")
        write_tagged_field(out, kind, value, "unknown_fields")
    out.lenenc(0, "the end")


U8, U16, U24, U32, U64 = map(Unsigned, (1, 2, 3, 4, 8))
LENENC: Final = LengthEncoded()
BOOLEAN: Final = Boolean()
REST: Final = Bytes()


@dataclass(frozen=True, slots=True)
class Field:
    """A declared field; `field` and the functions after it make one, the class names it."""

    codec: Any  # a Codec, or None
    what: str
    default: Any = REQUIRED
    argument: str | None = None
    shown: bool = True
    made: bool = True
    name: str = ""
    slot: str = ""

    SLOT: ClassVar[str] = "{}"

    def named(self, name: str) -> Self:
        """The field under its name in the class."""
        argument = self.argument or argument_of(name)
        return replace(self, name=name, slot=self.SLOT.format(name), argument=argument)

    @property
    def stored(self) -> bool:
        """Whether the field reads and writes itself."""
        return self.codec is not None or type(self) is not Field

    def read(self, event: Any, cursor: Cursor) -> None:
        """Set the event's slot. Raises EventDecodeError."""
        setattr(event, self.name, self.codec.read(cursor, self.what))

    def announce(self, event: Any) -> None:
        """Before an event is written: set what announces the field, or raise EventEncodeError."""

    def write(self, event: Any, out: Builder) -> None:
        """Write the event's value. Raises EventEncodeError."""
        self.codec.write(out, getattr(event, self.name), self.argument)


def field(
    codec: Codec | None = None,
    what: str = "",
    *,
    default: Any = REQUIRED,
    argument: str | None = None,
    shown: bool = True,
) -> Any:
    """A field that is stored as ``codec`` says; errors in reading call it ``what``.

    ``default`` and ``argument`` (if it is not the field's name) are those of `Event.make`;
    ``shown`` says whether it is among `Event.FIELDS`.
    """
    return Field(codec, what, default, argument, shown)


def derived() -> Any:
    """A slot that `Event.read_body` sets and `Event.make` does not take: other fields give it."""
    return Field(None, "", shown=False, made=False)


@dataclass(frozen=True, slots=True)
class FlaggedField(Field):
    """What `flagged` makes."""

    by: str = ""
    bits: int = 0

    def read(self, event: Any, cursor: Cursor) -> None:
        found = getattr(event, self.by) & self.bits
        setattr(event, self.name, self.codec.read(cursor, self.what) if found else None)

    def announce(self, event: Any) -> None:
        by = argument_of(self.by)
        flags = integer(getattr(event, self.by), by, 0, 0xFF)
        if getattr(event, self.name) is None:
            if flags & self.bits:
                raise EventEncodeError(f"{self.name}: it is missing, but {by} announce it")
        elif self.bits & self.bits - 1 == 0:
            setattr(event, self.by, flags | self.bits)
        elif not flags & self.bits:
            raise EventEncodeError(f"{self.name}: {by} do not announce it")

    def write(self, event: Any, out: Builder) -> None:
        if getattr(event, self.name) is not None:
            Field.write(self, event, out)


def flagged(codec: Codec, what: str, by: str, bits: int) -> Any:
    """A field that exists if the field ``by`` has one of ``bits``, and is None otherwise.

    If ``bits`` is a single bit, `Event.make` sets it.
    """
    return FlaggedField(codec, what, None, by=by, bits=int(bits))


@dataclass(frozen=True, slots=True)
class TailField(Field):
    """What `tail` makes: only where the bytes begin is stored."""

    check: Callable[[Any, str], bytes] = binary

    SLOT: ClassVar[str] = "_{}_at"

    def getter(self) -> property:
        """The property that gives the bytes."""
        slot = self.slot
        return property(lambda event: event.body[getattr(event, slot) :])

    def read(self, event: Any, cursor: Cursor) -> None:
        setattr(event, self.slot, cursor.pos)
        cursor.pos = cursor.end

    def write(self, event: Any, out: Builder) -> None:
        out.data += self.check(getattr(event, self.name), cast("str", self.argument))


def tail(*, argument: str | None = None, shown: bool = True) -> Any:
    """All bytes to the body's end, which are copied when they are used.

    As a field with another ``argument``, they are a text, which `Event.make` takes as such, too.
    """
    check = binary if argument is None else statement
    return TailField(None, "", argument=argument, shown=shown, check=check)


@dataclass(frozen=True, slots=True)
class FixedRestField(Field):
    """The bytes of a fixed part that is longer than the known one: a newer server wrote it.

    The format description says how many there are (facts sheet 1.4); no server writes any yet. For
    `Event.make`, they are zeros by default.
    """

    def read(self, event: Any, cursor: Cursor) -> None:
        form = event.form
        extra = form.extra_post_header(event.header.type) if form.differs else 0
        event.fixed_rest = cursor.take(extra, "the post-header") if extra else b""

    def write(self, event: Any, out: Builder) -> None:
        try:
            extra = event.form.extra_post_header(event.header.type) if event.form.differs else 0
        except LogError as error:
            raise EventEncodeError(f"form: {error.message}") from None
        rest = binary(getattr(event, self.name), self.name)
        if rest and len(rest) != extra:
            raise EventEncodeError(f"{self.name}: {len(rest)} bytes where the form has {extra}")
        out.data += rest or bytes(extra)


FIXED_REST: Final[Any] = FixedRestField(None, "", b"", shown=False, name="fixed_rest")
"""Declared as ``fixed_rest``, after the last known field of the fixed part."""


def argument_of(name: str) -> str:
    """What `Event.make` calls a field."""
    return f"event_{name}" if name in OF_THE_HEADER else name


class EventMeta(type):
    """The metaclass of events: it makes slots, FIELDS, MADE_OF and LAYOUT of declared fields."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> EventMeta:
        declared = [each.named(key) for key, each in namespace.items() if isinstance(each, Field)]
        if not declared:
            return super().__new__(cls, name, bases, namespace, **kwargs)
        base: Any = bases[0]
        made_of, made_from = dict(base.MADE_OF), dict(base.MADE_FROM)
        for each in declared:
            del namespace[each.name]
            if isinstance(each, TailField):
                namespace[each.name] = each.getter()
            if each.made:
                made_of[each.argument] = each.default
            if each.made and each.argument != each.name:
                made_from[each.argument] = each.name
        shown = (each.name for each in declared if each.shown)
        namespace.setdefault("FIELDS", (*base.FIELDS, *shown))
        namespace["MADE_OF"] = made_of | dict(namespace.get("MADE_OF", ()))
        namespace["MADE_FROM"] = made_from | dict(namespace.get("MADE_FROM", ()))
        namespace["__slots__"] = (
            *namespace.get("__slots__", ()),
            *(each.slot for each in declared),
        )
        if "read_body" not in namespace and all(each.stored for each in declared):
            namespace["LAYOUT"] = (*(base.LAYOUT or ()), *declared)
        return super().__new__(cls, name, bases, namespace, **kwargs)
