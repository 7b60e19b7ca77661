"""What an ALTER TABLE does to the rows that a table has, as steps for another database.

A log has no row events for it: the values of an added column, and the values that a column has in
its new type, are computed here as the source computed them. What is not sure to be the same is
rejected (`SchemaError`).
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema.clauses import (
    Convert,
    DropColumn,
    DropConstraint,
    PutColumn,
    RenameColumn,
    RenameTable,
    ShowColumn,
)
from tailrace.schema.foreign_keys import ForeignKey
from tailrace.schema.hidden import UniqueKey
from tailrace.schema.tables import Charset
from tailrace.schema.tokens import Kind, TokenCursor
from tailrace.values.charsets import charset_of
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.schema.clauses import Clause
    from tailrace.schema.session import StatementSession
    from tailrace.schema.tokens import SqlToken
    from tailrace.values.schema import ColumnDefinition

_INTEGERS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXTS: Final = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS: Final = ("tinyblob", "blob", "mediumblob", "longblob")
_LIMITS: Final = (255, 65535, 16777215, 4294967295)
_STRINGS: Final = frozenset({"char", "varchar", *_TEXTS})
_FRACTIONAL: Final = frozenset({"time", "datetime", "timestamp"})
_EMPTY: Final = {"date": "0000-00-00", "datetime": "0000-00-00 00:00:00", "time": "00:00:00"}
_PATTERNS: Final = {
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "datetime": re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?"),
    "time": re.compile(r"-?\d{2,3}:\d\d:\d\d(?:\.\d{1,6})?"),
}
_STRICT: Final = 1 << 21 | 1 << 22
"""``STRICT_TRANS_TABLES`` and ``STRICT_ALL_TABLES``: a value that does not fit is an error."""
_PADS: Final = 1 << 31
"""``PAD_CHAR_TO_FULL_LENGTH``: a CHAR has its spaces at the end."""
_OFFSET: Final = re.compile(r"([+-])(\d\d):(\d\d)")
_EXACT: Final = Context(prec=100)
_DECLARED: Final = re.compile(r"(\w+)(?:\((.*)\))?((?: unsigned| compressed)*)", re.DOTALL)
_MEMBER: Final = re.compile(r"'((?:[^'\\]|'')*)'(?:,|\Z)")


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A column's type by its parts; ``members`` of an ENUM or SET are None if they are unknown."""

    declared: str
    base: str
    numbers: tuple[int, ...] = ()
    members: tuple[str, ...] | None = None
    unsigned: bool = False

    @classmethod
    def of(cls, declared: str) -> DeclaredType:
        """The type that is declared so (``decimal(10,2) unsigned``)."""
        found = _DECLARED.fullmatch(declared)
        if found is None:
            return cls(declared, declared)
        base, inside, rest = found[1], found[2] or "", found[3]
        unsigned = " unsigned" in rest
        if base in {"enum", "set"}:
            members = tuple(each.replace("''", "'") for each in _MEMBER.findall(inside))
            same = ",".join("'" + each.replace("'", "''") + "'" for each in members) == inside
            return cls(declared, base, (), members if same and members else None)
        numbers = tuple(map(int, re.findall(r"\d+", inside)))
        return cls(declared, base, () if base in _INTEGERS else numbers, None, unsigned)

    @property
    def size(self) -> int:
        """Characters, bytes or digits of a fraction; 0 if none are given."""
        return self.numbers[0] if self.numbers else 0

    @property
    def scale(self) -> int:
        """Digits of a DECIMAL after its point."""
        return self.numbers[1] if len(self.numbers) > 1 else 0


@dataclass(frozen=True, slots=True)
class OldColumn:
    """A column before the statement; ``charset`` is None if it is no text or unknown."""

    name: str
    type: DeclaredType
    nullable: bool = True
    charset: str | None = None
    generated: bool = False


@dataclass(frozen=True, slots=True)
class TableStep:
    """One thing to do to a table. ``what`` is ``drop``, ``rename``, ``convert``, ``fill`` (NULLs
    become ``value``), ``add`` or ``rename table``. ``declared`` are the old and the new type;
    ``expression`` has ``{c}`` for the column, and is None if its values stay. ``lenient`` has no
    effect if the column is (``add``) or is not there.
    """

    what: str
    column: str = ""
    new: str = ""
    declared: tuple[str, str] = ("", "")
    expression: str | None = None
    value: Any = None
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Altering:
    """The statement: its clauses, tokens and session, and the columns before it (None: unknown).

    ``moment`` is its time in microseconds UTC, ``time_zone`` the session's where the log has it,
    ``collation`` the table's.
    """

    clauses: Sequence[Clause]
    tokens: Sequence[SqlToken]
    session: StatementSession
    sql_mode: int
    before: Mapping[str, OldColumn] | None
    database: str
    table: str
    explicit_timestamps: bool | None
    moment: int
    time_zone: str | None
    collation: int | None
    is_sqlite: bool

    @property
    def is_strict(self) -> bool:
        """Whether a value that does not fit would have been an error."""
        ignores = any(token.key == "IGNORE" for token in self.tokens[:3])
        return bool(self.sql_mode & _STRICT) and not ignores

    def steps(self) -> list[TableStep]:
        """What to do, in this order. Raises SchemaError with the clause that cannot be done."""
        drops: list[TableStep] = []
        renames: list[TableStep] = []
        others: list[TableStep] = []
        last: list[TableStep] = []
        for clause in self.clauses:
            match clause:
                case DropColumn():
                    drops.append(TableStep("drop", clause.name, lenient=clause.lenient))
                case RenameColumn():
                    renames.append(
                        TableStep("rename", clause.old, new=clause.new, lenient=clause.lenient)
                    )
                case PutColumn() if clause.old is None:
                    if not self._is_left_out(clause):
                        others.append(self._added(clause))
                case PutColumn(old=str(old)):
                    new = clause.column.name
                    lenient = clause.lenient or old.casefold() == new.casefold()  # case may change
                    renames.append(TableStep("rename", old, new=new, lenient=lenient))
                    others += self._modified(clause, old)
                case Convert():
                    others += self._converted(clause)
                case RenameTable():
                    last.append(
                        TableStep(
                            "rename table", clause.database or self.database, new=clause.table
                        )
                    )
                case ForeignKey() | ShowColumn() | UniqueKey() | DropConstraint() | Charset():
                    pass
                case _:
                    raise SchemaError(_CLAUSES.get(type(clause).__name__, type(clause).__name__))
        names = [(step.column.casefold(), step.new.casefold()) for step in renames]
        if any(new in {each for each, _ in names} - {old} for old, new in names):
            raise SchemaError("columns that take each other's names")
        return [*drops, *renames, *others, *last]

    def _is_left_out(self, clause: PutColumn) -> bool:
        """MariaDB's generated columns are in no table that is created here."""
        return clause.column.generated and self.session.flavour is Flavour.MARIADB

    # --- ADD COLUMN ------------------------------------------------------------------------------

    def _added(self, clause: PutColumn) -> TableStep:
        column = clause.column
        new = self._defined(clause)
        tokens = self.tokens[slice(*clause.tokens)]
        keys = {token.key for token in tokens}
        if column.generated:
            raise SchemaError(f"ADD COLUMN {column.name}, a generated column")
        if keys & {"AUTO_INCREMENT", "SERIAL"}:
            raise SchemaError(f"ADD COLUMN {column.name} AUTO_INCREMENT")
        kind = DeclaredType.of(new.declared)
        try:
            default = _default_of(tokens)
            value = None
            if default is not None:
                now = _is_now(default)
                value = self._now(kind, default) if now else _literal(default, kind, new)
            elif kind.base == "timestamp" and not _says_null(tokens):
                self._check_explicit()
            elif not new.nullable:
                value = _implicit(kind)
        except (SchemaError, InvalidOperation, ValueError, OverflowError) as error:
            raise SchemaError(f"ADD COLUMN {column.name}, whose default {error}") from None
        return TableStep(
            "add", column.name, declared=("", new.declared), value=value, lenient=clause.lenient
        )

    def _check_explicit(self) -> None:
        if self.explicit_timestamps is not True:
            raise SchemaError("depends on explicit_defaults_for_timestamp")

    def _now(self, kind: DeclaredType, tokens: Sequence[SqlToken]) -> str:
        """The time of the statement, in a column that has it as its default."""
        given = [token.value for token in tokens[2:3] if tokens[1].key == "("]
        if (given[0] if given and given[0] != ")" else "0") != str(kind.size):
            raise SchemaError("is a time with other digits than the column")
        if kind.base not in {"timestamp", "datetime"}:
            raise SchemaError(f"is a time, which becomes a {kind.declared}")
        zone = dt.timedelta()
        if kind.base == "datetime":
            offset = _OFFSET.fullmatch(
                "+00:00" if self.time_zone == "UTC" else self.time_zone or ""
            )
            if offset is None:
                zone_name = self.time_zone or "of the source"
                raise SchemaError(f"is a time in the time zone {zone_name}")
            zone = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
            zone = -zone if offset[1] == "-" else zone
        seconds, fraction = divmod(self.moment, 1_000_000)
        local = dt.datetime.fromtimestamp(seconds, dt.UTC) + zone
        whole = local.strftime("%Y-%m-%d %H:%M:%S")
        return whole + (f".{fraction:06}"[: kind.size + 1] if kind.size else "")

    def _defined(self, clause: PutColumn) -> ColumnDefinition:
        return clause.column.define(self.collation, self.session)

    # --- MODIFY and CHANGE -----------------------------------------------------------------------

    def _old(self, name: str, what: str) -> OldColumn:
        if self.before is None:
            raise SchemaError(
                f"{what}, whose type until now is unknown (neither its CREATE TABLE nor a row of"
                " the table was read)"
            )
        found = self.before.get(name.casefold())
        if found is None:
            raise SchemaError(f"{what}, which is unknown")
        return found

    def _modified(self, clause: PutColumn, name: str) -> Iterator[TableStep]:
        what = f"MODIFY {name}" if name == clause.column.name else f"CHANGE {name}"
        if clause.lenient and self.before is not None and name.casefold() not in self.before:
            return
        old = self._old(name, what)
        new = self._defined(clause)
        if old.generated and new.generated and self.session.flavour is Flavour.MARIADB:
            return
        if old.generated or new.generated:
            raise SchemaError(f"{what}, a generated column")
        yield from self._changed(old, new, clause.column.name, what)

    def _changed(
        self, old: OldColumn, new: ColumnDefinition, called: str, what: str
    ) -> Iterator[TableStep]:
        declared = "json" if new.logical is Logical.JSON else new.declared
        kind = DeclaredType.of(declared)
        is_text = kind.base in _STRINGS or kind.base in {"enum", "set"}
        if is_text and not self.is_strict:
            charset = None if new.collation is None else charset_of(new.collation)
            if charset is None or charset not in {"utf8mb4", "utf8mb3", old.charset}:
                raise SchemaError(f"{what} to another character set, without a strict sql_mode")
        mariadb = self.session.flavour is Flavour.MARIADB
        if self.sql_mode & _PADS and old.type.base == "char" and old.type.declared != kind.declared:
            raise SchemaError(f"{what}, with PAD_CHAR_TO_FULL_LENGTH")
        expression = converted(
            old.type, kind, strict=self.is_strict, is_sqlite=self.is_sqlite, json_is_text=mariadb
        )
        if isinstance(expression, SchemaError):
            raise SchemaError(f"{what} from {old.type.declared} to {declared}: {expression}")
        yield TableStep(
            "convert",
            called,
            declared=(old.type.declared, declared),
            expression=expression,
        )
        if old.nullable and not new.nullable and not self.is_strict:
            try:
                yield TableStep("fill", called, declared=("", declared), value=_implicit(kind))
            except SchemaError as error:
                raise SchemaError(f"{what}, whose NULLs become a value that {error}") from None

    def _converted(self, clause: Convert) -> Iterator[TableStep]:
        """CONVERT TO CHARACTER SET: the texts stay, if they fit."""
        charset = clause.charset.charset or ""
        what = f"CONVERT TO CHARACTER SET {charset}"
        if charset.lower() == "binary":
            raise SchemaError(f"{what}: texts become bytes")
        if not self.is_strict and charset.lower() not in {"utf8mb4", "utf8", "utf8mb3"}:
            raise SchemaError(f"{what}, without a strict sql_mode")
        if self.before is None:
            raise SchemaError(f"{what}: the table's columns are unknown")
        for column in self.before.values():
            if column.type.base in {"enum", "set"} and not column.type.declared.isascii():
                raise SchemaError(f"{what}: the names of {column.name} are not ASCII")
        yield from ()


_CLAUSES: Final = {
    "PrimaryKey": "ADD or DROP PRIMARY KEY",
    "Versioning": "ADD or DROP SYSTEM VERSIONING",
}


def _says_null(tokens: Sequence[SqlToken]) -> bool:
    """Whether NULL or NOT NULL is among a column's attributes."""
    return any(token.key == "NULL" for token in tokens)


def _default_of(tokens: Sequence[SqlToken]) -> list[SqlToken] | None:
    """The tokens after DEFAULT, None if it has none or NULL."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if token.key == "DEFAULT" and not depth:
            found = list(tokens[at + 1 :])
            inside = 0
            while found and found[0].key == "(":
                found = found[1:]
                inside += 1
            end = 2 if found and found[0].key in {"+", "-"} else 1
            if any(each.key != ")" for each in found[end : end + inside]):
                raise SchemaError("is an expression")
            return None if found and found[0].key == "NULL" else found
    return None


def _is_now(tokens: Sequence[SqlToken]) -> bool:
    return bool(tokens) and tokens[0].key in {
        "CURRENT_TIMESTAMP",
        "NOW",
        "LOCALTIME",
        "LOCALTIMESTAMP",
    }


def _literal(tokens: list[SqlToken], kind: DeclaredType, column: ColumnDefinition) -> Any:
    """The value of a literal default as a row of the log has it."""
    end = [tokens[-1]._replace(kind=Kind.END, value="", key="")] if tokens else []
    cursor = TokenCursor([*tokens, *end])
    sign = "-" if cursor.accept("-") else ""
    cursor.accept("+")
    token = cursor.token
    if token.kind is Kind.NUMBER:
        return _number(Decimal(sign + token.value), sign + token.value, kind)
    if token.key in {"TRUE", "FALSE"}:
        number = int(token.key == "TRUE")
        return _number(Decimal(number), str(number), kind)
    if token.kind is Kind.BYTES and kind.base in {*_INTEGERS, "bit", "year"}:
        return _number(Decimal(_of_bytes(token.value)), token.value, kind)
    if token.kind is Kind.STRING:
        return _string(cursor.text(), kind, column)
    raise SchemaError(f"is no literal: {token.value!r}")


def _of_bytes(text: str) -> int:
    digits = text[2:].rstrip("'")
    return int(digits or "0", 2 if text[0] in "bB" or text[:2].lower() == "0b" else 16)


def _number(number: Decimal, text: str, kind: DeclaredType) -> Any:
    base = kind.base
    if "e" in text.lower() and base not in {"double", "float"} and number != int(number):
        raise SchemaError(f"is {text}, which is rounded to a {base}")
    if base == "year" and not (number == 0 or 1901 <= number <= 2155):
        raise SchemaError(f"is {text}, which becomes a year")
    if base in {"double", "float"} and kind.numbers and number != 0:
        raise SchemaError(f"is {text}, which becomes a {kind.declared}")
    if base in _INTEGERS or base in {"bit", "year"}:
        return int(number.quantize(Decimal(1), ROUND_HALF_UP, _EXACT))
    if base == "decimal":
        return number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _EXACT)
    if base == "double":
        return float(number)
    if base == "float":
        return struct.unpack("<f", struct.pack("<f", float(number)))[0]
    if base in _STRINGS and re.fullmatch(r"-?(?:0|[1-9]\d*)", text):
        return text
    raise SchemaError(f"is {text}, which becomes a {base}")


def _string(text: str, kind: DeclaredType, column: ColumnDefinition) -> Any:
    base = kind.base
    if base in {*_INTEGERS, "bit", "year", "decimal", "double", "float"}:
        if (
            not re.fullmatch(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", text)
            or base == "bit"
            or (base == "year" and len(text) != 4)
        ):
            raise SchemaError(f"is {text!r}, which becomes a {base}")
        return _number(Decimal(text), text, kind)
    if column.logical is Logical.JSON or base in _STRINGS:
        return text.rstrip(" ") if base == "char" else text
    if base in {"enum", "set"} and kind.members is not None:
        wanted = [text] if base == "enum" else [each for each in text.split(",") if each]
        if all(each in kind.members for each in wanted):
            return ",".join(sorted(wanted, key=kind.members.index))
    if base in {"varbinary", *_BLOBS} and text.isascii():
        return text.encode()
    pattern = _PATTERNS.get(base)
    if pattern is not None and pattern.fullmatch(text):
        if base == "date":
            return text
        whole, _, fraction = text.partition(".")
        if base == "datetime" and " " not in whole:
            whole += " 00:00:00"
        if len(fraction) <= kind.size:
            return whole + (f".{fraction:0<{kind.size}}" if kind.size else "")
    raise SchemaError(f"is {text!r}, which becomes a {kind.declared}")


def _implicit(kind: DeclaredType) -> Any:
    """The value of a column that has no default and cannot be NULL."""
    base = kind.base
    if base in _INTEGERS or base in {"bit", "year", "decimal", "double", "float"}:
        return _number(Decimal(0), "0", kind)
    if base in _STRINGS or base == "set":
        return ""
    if base == "enum" and kind.members:
        return kind.members[0]
    if base in {"varbinary", *_BLOBS}:
        return b""
    if base in _EMPTY:
        return _EMPTY[base] + (f".{'0' * kind.size}" if kind.size and base != "date" else "")
    raise SchemaError(f"is that of {kind.declared} without DEFAULT")


# --- values in another type ----------------------------------------------------------------------


def converted(
    old: DeclaredType, new: DeclaredType, *, strict: bool, is_sqlite: bool, json_is_text: bool
) -> str | SchemaError | None:
    """The expression that makes a column's values those of another type: ``{c}`` is the column.

    None if they stay as they are; an error, which is not raised, if that is not known.
    """
    if old.declared == new.declared:
        return None
    one, two = old.base, new.base
    if json_is_text:
        one, two = (("longtext" if each == "json" else each) for each in (one, two))
    wide = _is_wider(old, new)
    no = SchemaError("this conversion is not known")
    narrow = SchemaError("values may be cut, without a strict sql_mode")
    if one in _INTEGERS and two in _INTEGERS:
        if not (wide or strict):
            return narrow
        texts = [each.base == "bigint" and each.unsigned for each in (old, new)]
        if is_sqlite and texts[0] != texts[1]:
            return "CAST({c} AS TEXT)" if texts[1] else "CAST({c} AS INTEGER)"
        return None
    if one in {*_INTEGERS, "decimal"} and two == "decimal":
        if new.scale < (old.scale if one == "decimal" else 0):
            return SchemaError("values would be rounded")
        if not (wide or strict):
            return narrow
        if not is_sqlite:
            return f"round({{c}}::numeric, {new.scale})"
        return _with_zeros("CAST({c} AS TEXT)", old.scale if one == "decimal" else 0, new.scale)
    if one in {*_INTEGERS, "decimal"} and two in _STRINGS:
        if not strict:
            return narrow
        if old.unsigned:
            return SchemaError("texts have zeros in front, if it is ZEROFILL")
        if is_sqlite:
            return "CAST({c} AS TEXT)"
        return f"round({{c}}, {old.scale})::text" if one == "decimal" else "{c}::text"
    if one == "float" and two == "double":
        return SchemaError("values would be rounded") if old.numbers or new.numbers else None
    if one in {*_STRINGS, "enum", "set"} and two in _STRINGS:
        return _as_text(old, new, one, two, strict=strict)
    if one == two == "enum" or one == two == "set":
        return _as_members(old, new, strict=strict)
    if one in {"varbinary", *_BLOBS} and two in {"varbinary", *_BLOBS}:
        return None if _bytes(old, one) <= _bytes(new, two) else SchemaError("values may be cut")
    if one == two and one in _FRACTIONAL and new.size >= old.size:
        return _with_zeros("{c}", old.size, new.size) if is_sqlite else None
    if one == "date" and two == "datetime":
        return _with_zeros("{c} || ' 00:00:00'", 0, new.size) if is_sqlite else None
    return no


def _with_zeros(text: str, old: int, new: int) -> str | None:
    """A text with more digits after its point."""
    if new == old:
        return None if text == "{c}" else text
    return f"{text} || '{'' if old else '.'}{'0' * (new - old)}'"


def _is_wider(old: DeclaredType, new: DeclaredType) -> bool:
    """Whether a number's type has all values of another one."""
    if new.base == "decimal":
        digits = new.size - new.scale
        signs = old.unsigned or not new.unsigned
        if old.base == "decimal":
            return signs and digits >= old.size - old.scale
        return signs and digits >= len(str(1 << _INTEGERS[old.base]))
    if old.base in _INTEGERS and new.base in _INTEGERS:
        one, two = _INTEGERS[old.base], _INTEGERS[new.base]
        if old.unsigned == new.unsigned:
            return two >= one
        return old.unsigned and two > one
    return False


def _as_text(
    old: DeclaredType, new: DeclaredType, one: str, two: str, *, strict: bool
) -> str | SchemaError | None:
    if two in _TEXTS:
        most = _LIMITS[_TEXTS.index(two)]
        if one in _TEXTS:
            fits = _TEXTS.index(two) >= _TEXTS.index(one)
        else:
            fits = (4 * old.size <= most) if one in {"char", "varchar"} else strict
        return None if fits else SchemaError("values may be cut")
    cut = None
    if not (one in {"char", "varchar"} and old.size <= new.size):
        cut = f"substr({{c}}, 1, {new.size})"
    return f"rtrim({cut or '{c}'}, ' ')" if two == "char" and one != "char" else cut


def _as_members(old: DeclaredType, new: DeclaredType, *, strict: bool) -> SchemaError | None:
    if old.members is None or new.members is None:
        return SchemaError("its names are unknown")
    kept = [each for each in new.members if each in old.members]
    if new.base == "set":
        same = kept == list(old.members)
        return None if same else SchemaError("its names are not kept in their order")
    if len(kept) == len(old.members):
        return None
    folded = {each.casefold() for each in new.members if each not in old.members}
    gone = {each for each in old.members if each not in new.members}
    if strict and all(each.isascii() and each.casefold() not in folded for each in gone):
        return None
    return SchemaError("not all of its names are kept")


def _bytes(kind: DeclaredType, base: str) -> int:
    return _LIMITS[_BLOBS.index(base)] if base in _BLOBS else kind.size


def old_columns(definitions: Iterable[ColumnDefinition]) -> dict[str, OldColumn]:
    """Columns by their folded names, from a table's definition."""
    return {
        each.name.casefold(): OldColumn(
            each.name,
            DeclaredType.of("json" if each.logical is Logical.JSON else each.declared),
            each.nullable,
            None if each.collation is None else charset_of(each.collation),
            each.generated,
        )
        for each in definitions
    }
