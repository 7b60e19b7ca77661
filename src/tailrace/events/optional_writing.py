"""Writes the optional metadata of a table map: the inverse of `optional_metadata` (facts sheet
2.2).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events.build import Builder, binary, integer, made, parts, utf8
from tailrace.events.fields import Cursor
from tailrace.events.optional_metadata import CHARACTER, SIGNED_OR_NOT, OptionalField

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from tailrace.constants import Flavour
    from tailrace.events.column_metadata import ColumnSpec

_T = ColumnType
_O = OptionalField
_IN_ORDER: Final = (
    _O.SIGNEDNESS,
    _O.DEFAULT_CHARSET,
    _O.GEOMETRY_TYPE,
    _O.VECTOR_DIMENSIONALITY,
    _O.COLUMN_NAME,
    _O.ENUM_AND_SET_DEFAULT_CHARSET,
    _O.SET_STR_VALUE,
    _O.ENUM_STR_VALUE,
    _O.SIMPLE_PRIMARY_KEY,
    _O.COLUMN_VISIBILITY,
)
"""The order in which both servers write them (tests/corpus)."""
_OTHER_FORM: Final = {
    _O.COLUMN_CHARSET: _O.DEFAULT_CHARSET,
    _O.ENUM_AND_SET_COLUMN_CHARSET: _O.ENUM_AND_SET_DEFAULT_CHARSET,
    _O.PRIMARY_KEY_WITH_PREFIX: _O.SIMPLE_PRIMARY_KEY,
}
"""For the second form of a field, the first form, which says the same."""
_KNOWN: Final = frozenset(_O)
_ENUMS: Final = frozenset({_T.ENUM, _T.SET})
_EVERY: Final = frozenset(_T)
_BINARY: Final = 63

Like = tuple[OptionalField, bytes] | None
"""A field as it was read."""


def write_optional(
    columns: Sequence[ColumnSpec],
    key: Sequence[int] | None,
    prefixes: Sequence[int] | None,
    flavour: Flavour,
    like: bytes = b"",
) -> bytes:
    """The optional metadata for what the columns and the key say.

    ``like`` holds optional metadata that was read: fields keep its order and their form in it, and
    unknown fields keep their bytes. If one column has a property, all columns of its kind must have
    it. Raises EventEncodeError.
    """
    write = _Writer(columns, key, prefixes, flavour)
    left = list(_IN_ORDER)
    out = Builder()
    for code, value in _fields(binary(like, "optional_metadata")):
        if code not in _KNOWN:
            _field(out, code, value)
            continue
        first = _OTHER_FORM.get(_O(code), _O(code))
        if first in left:
            left.remove(first)
            write.field(out, first, (_O(code), value))
    for code in left:
        write.field(out, code, None)
    return out.done()


def _fields(raw: bytes) -> list[tuple[int, bytes]]:
    """Type and bytes of each field. Raises EventEncodeError."""
    cursor = Cursor(raw)
    fields = []
    try:
        while cursor.remaining:
            fields.append((cursor.u8("a field's type"), cursor.lenenc_bytes("a field")))
    except EventDecodeError as error:
        raise EventEncodeError(f"optional_metadata: {error.message}") from None
    return fields


def _field(out: Builder, code: int, value: bytes) -> None:
    out.u8(code, "optional_metadata")
    out.lenenc_bytes(value, "optional_metadata")


def _first_number(raw: bytes) -> int:
    try:
        return Cursor(raw).lenenc("a collation")
    except EventDecodeError as error:
        raise EventEncodeError(f"optional_metadata: {error.message}") from None


def _number(value: int, what: str) -> bytes:
    out = Builder()
    out.lenenc(value, what)
    return out.done()


class _Writer:
    def __init__(
        self,
        columns: Sequence[ColumnSpec],
        key: Sequence[int] | None,
        prefixes: Sequence[int] | None,
        flavour: Flavour,
    ) -> None:
        self.columns = columns
        self.character = CHARACTER[flavour]
        self.key, self.prefixes = _checked_key(key, prefixes, len(columns))
        self._plain: dict[OptionalField, Callable[[], bytes | None]] = {
            _O.SIGNEDNESS: lambda: self._bits("unsigned", SIGNED_OR_NOT),
            _O.GEOMETRY_TYPE: lambda: self._numbers("geometry_type", {_T.GEOMETRY}),
            _O.VECTOR_DIMENSIONALITY: lambda: self._numbers("dimensions", {_T.VECTOR}),
            _O.COLUMN_NAME: self._names,
            _O.SET_STR_VALUE: lambda: self._members(_T.SET),
            _O.ENUM_STR_VALUE: lambda: self._members(_T.ENUM),
            _O.COLUMN_VISIBILITY: lambda: self._bits("visible", _EVERY),
        }

    def field(self, out: Builder, code: OptionalField, like: Like) -> None:
        """Write a field, if the columns have it; in the form in which it was read."""
        if code is _O.SIMPLE_PRIMARY_KEY:
            self._key(out, like)
        elif code is _O.DEFAULT_CHARSET:
            self._charset(out, code, self.character, like)
        elif code is _O.ENUM_AND_SET_DEFAULT_CHARSET:
            self._charset(out, code, _ENUMS, like)
        else:
            value = self._plain[code]()
            if value or (value is not None and like):
                _field(out, code, value)

    def _said(self, field: str, kinds: AbstractSet[ColumnType]) -> list[tuple[str, Any]] | None:
        """A property of the columns of these kinds, with a label for each; None if none has it."""
        said = [
            (f"columns: column {index + 1}, {field}", getattr(column, field))
            for index, column in enumerate(self.columns)
            if column.type in kinds
        ]
        silent = [what for what, value in said if value is None]
        if said and len(silent) == len(said):
            return None
        if silent:
            raise EventEncodeError(f"{silent[0]}: it is missing, and other columns have it")
        return said

    def _bits(self, field: str, kinds: AbstractSet[ColumnType]) -> bytes | None:
        """One bit for each column, the first column's the highest of the first byte."""
        said = self._said(field, kinds)
        if said is None:
            return None
        raw = bytearray((len(said) + 7) // 8)
        for at, (what, value) in enumerate(said):
            if made(value, bool, what):
                raw[at >> 3] |= 0x80 >> (at & 7)
        return bytes(raw)

    def _numbers(self, field: str, kinds: AbstractSet[ColumnType]) -> bytes | None:
        said = self._said(field, kinds)
        return None if said is None else b"".join(_number(value, what) for what, value in said)

    def _names(self) -> bytes | None:
        said = self._said("name", _EVERY)
        if said is None:
            return None
        out = Builder()
        for what, value in said:
            out.lenenc_bytes(utf8(value, what, 0xFF), what)
        return out.done()

    def _members(self, kind: ColumnType) -> bytes | None:
        said = self._said("members", {kind})
        if said is None:
            return None
        out = Builder()
        for what, value in said:
            out.lenenc(len(parts(value, None, what)), what)
            for each in value:
                out.lenenc_bytes(each, what)
        return out.done()

    def _charset(
        self, out: Builder, code: OptionalField, kinds: AbstractSet[ColumnType], like: Like
    ) -> None:
        said = self._said("collation", kinds)
        if said is None or not (said or like):
            return
        counts = Counter(integer(value, what, 0, 0xFFFF) for what, value in said)
        default, most = counts.most_common(1)[0] if counts else (_BINARY, 0)
        as_default = 2 * (len(said) - most) < len(said)  # the servers' rule
        if like is not None:
            as_default = like[0] is code
            read = _first_number(like[1]) if as_default else default
            default = read if read in counts or not counts else default
        if not as_default:
            _field(out, code + 1, b"".join(_number(value, what) for what, value in said))
            return
        pairs = [_number(default, "columns")]
        for at, (what, value) in enumerate(said):
            if value != default:
                pairs += [_number(at, what), _number(value, what)]
        _field(out, code, b"".join(pairs))

    def _key(self, out: Builder, like: Like) -> None:
        if self.key is None:
            return
        simple = not any(self.prefixes) and (like is None or like[0] is _O.SIMPLE_PRIMARY_KEY)
        if simple:
            value = b"".join(_number(column, "primary_key") for column in self.key)
            _field(out, _O.SIMPLE_PRIMARY_KEY, value)
            return
        pairs = Builder()
        for column, prefix in zip(self.key, self.prefixes, strict=True):
            pairs.lenenc(column, "primary_key")
            pairs.lenenc(prefix, "primary_key_prefixes")
        _field(out, _O.PRIMARY_KEY_WITH_PREFIX, pairs.done())


def _checked_key(
    key: Sequence[int] | None, prefixes: Sequence[int] | None, columns: int
) -> tuple[Sequence[int] | None, Sequence[int]]:
    if key is None:
        if prefixes is not None:
            raise EventEncodeError("primary_key: it is missing, but primary_key_prefixes is given")
        return None, ()
    for numbers, what in ((key, "primary_key"), (prefixes or (), "primary_key_prefixes")):
        parts(numbers, None, what)
    for column in key:
        integer(column, "primary_key", 0, columns - 1)
    if prefixes is None:
        return key, (0,) * len(key)
    if len(prefixes) != len(key):
        raise EventEncodeError(
            f"primary_key_prefixes: {len(prefixes)} where {len(key)} columns make the key"
        )
    for prefix in prefixes:
        integer(prefix, "primary_key_prefixes", 0, (1 << 64) - 1)
    return key, prefixes
