"""Ranges of a table's key with about the same number of rows each, without reading the table.

`EXPLAIN` estimates the rows of a range by two dives into the index. A range that has too many is
bisected: halfway between its first and its last key, the server looks up the nearest keys on both
sides. Estimates and the point halfway only decide how large ranges are: a table that was filled
seconds ago, and whose statistics are old, is one range. The bounds are keys that the server
returned, in its own order, so the ranges cover each row exactly once, whatever the collation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import MalformedPacket, ServerError
from tailrace.schema.tokens import quoted_name, quoted_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tailrace.live.connect import ServerConnection
    from tailrace.snapshot.columns import ServerColumn

_NUMBERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
_MOMENTS: Final = frozenset({"date", "datetime", "timestamp"})
_TEXTS: Final = frozenset({"char", "varchar"})
_BYTES: Final = frozenset({"binary", "varbinary"})
_ORDERED: Final = _NUMBERS | _MOMENTS | _TEXTS | _BYTES
"""Types of which we can say in SQL what lies between two values."""
_LETTERS: Final = frozenset(map(chr, range(0x20, 0x7F)))
_STEPS: Final = 16
_DIGITS: Final = 8
_DEPTH: Final = 100
_ERROR: Final = 0.5
"""Of how many rows a range has for each that is estimated, at least: trees half full are usual."""

KeyBound = tuple[str, ...]
"""Values of the key's first columns, as SQL."""
Key = tuple[tuple[str, bytes], ...]
"""Each column's value, as SQL and as the server printed it."""


@dataclass(frozen=True)
class KeyRange:
    """Rows whose key is above ``low`` and not above ``high``; None is no bound.

    ``rows`` is an estimate. ``clause`` follows the table's name in a SELECT of these rows.
    """

    number: int
    low: KeyBound | None = None
    high: KeyBound | None = None
    rows: int = 0
    clause: str = ""


def key_ranges(
    connection: ServerConnection,
    database: str,
    table: str,
    columns: Sequence[ServerColumn],
    size: int,
) -> list[KeyRange]:
    """Ranges of at most about ``size`` rows, in the order of the key; one if it cannot be cut.

    The session's time zone must be UTC, for these statements and for those that use the ranges.
    """
    name = quoted_table(database, table)
    plan = _Planner(connection, name, *_key(connection, name, columns))
    if not plan.columns or not (ends := plan.ends()):
        return [KeyRange(0, rows=plan.rows(None, None))]
    rows = plan.rows(None, None)
    plan.most = _DEPTH + 4 * rows // size
    cuts = list(plan.cut(None, _bound(ends[1]), *ends, size))
    whole = sum(count for _, count in cuts)
    scale = max(min(rows / max(whole, 1), 1), _ERROR)
    found: list[KeyRange] = []
    low, held = None, 0
    for at, (bound, count) in enumerate(cuts, 1):
        held += round(count * scale)
        if at == len(cuts) or held + cuts[at][1] * scale > size:
            high = None if at == len(cuts) else bound  # rows may have come since
            clause = plan.clause(low, high)
            found.append(KeyRange(len(found), low, high, held, clause))
            low, held = high, 0
    return found


def _bound(key: Key) -> KeyBound:
    return tuple(sql for sql, _ in key)


def _key(
    connection: ServerConnection, name: str, columns: Sequence[ServerColumn]
) -> tuple[str, list[ServerColumn]]:
    """The index that InnoDB keeps the rows in, which servers list first, and its columns by which
    ranges can be cut.
    """
    known = {each.name: each for each in columns}
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW KEYS FROM {name}")
        titles = [each[0] for each in cursor.description]
        parts = [dict(zip(titles, map(_text, row), strict=True)) for row in cursor.fetchall()]
    usable = [
        part
        for part in parts
        if part["Non_unique"] == "0"
        and part.get("Visible", "YES") == "YES"
        and part.get("Ignored", "NO") == "NO"
    ]
    index = usable[0]["Key_name"] if usable else ""
    found: list[ServerColumn] = []
    for part in usable:
        column = known.get(part["Column_name"])
        plain = part["Collation"] == "A" and not part["Sub_part"]
        plain = plain and part["Index_type"] == "BTREE"
        if part["Key_name"] != index or column is None or not plain:
            break
        if column.nullable or column.type not in _ORDERED:
            break
        found.append(column)
    return index, found


def _text(value: bytes | str | int | None) -> str:
    return value.decode() if isinstance(value, bytes) else str("" if value is None else value)


class _Planner:
    """The statements about one table."""

    def __init__(
        self, connection: ServerConnection, name: str, index: str, columns: list[ServerColumn]
    ) -> None:
        self.columns = columns
        self._connection = connection
        self._name = name
        self._index = index
        self._names = [quoted_name(each.name) for each in columns]
        self.most = 0
        """How many more ranges may be cut: with estimates that never shrink there is no end."""

    def cut(
        self,
        low: KeyBound | None,
        high: KeyBound,
        first: Key,
        last: Key,
        size: int,
        depth: int = 0,
    ) -> Iterator[tuple[KeyBound, int]]:
        """The upper bounds of ranges between two bounds, and each range's rows."""
        rows = self.rows(low, high)
        if rows > size and depth < _DEPTH and self.most > 0:
            self.most -= 1
            upto, above = self._around(low, high, first, last)
            if upto and above:
                bound = _bound(upto)
                yield from self.cut(low, bound, first, upto, size, depth + 1)
                yield from self.cut(bound, high, above, last, size, depth + 1)
                return
        yield high, rows

    def _around(
        self, low: KeyBound | None, high: KeyBound | None, first: Key, last: Key
    ) -> tuple[Key | None, Key | None]:
        """The keys on both sides of the point halfway; none if the server rejects it: it may be an
        old one, without window functions. Then the range is not cut.
        """
        try:
            if not (middle := self._between(first, last)):
                return None, None
            upto = self._nearest(low, high, "<=", middle)
            return upto, upto and self._nearest(low, high, ">", middle)
        except ServerError:
            return None, None

    def rows(self, low: KeyBound | None, high: KeyBound | None) -> int:
        """The server's estimate of a range."""
        # without DISTINCT, MySQL does not look into an index that it is forced to use
        what = "EXPLAIN /*!80000 FORMAT=TRADITIONAL */ SELECT DISTINCT 1"
        row, titles = self._row(f"{what} FROM {self._name}{self.clause(low, high)}")
        return int(row[titles.index("rows")] or 0) if row else 0

    def ends(self) -> tuple[Key, Key] | None:
        """The first and the last key; None if there are no rows."""
        first, last = self._nearest(None, None, ">", ()), self._nearest(None, None, "<=", ())
        return (first, last) if first and last else None

    def _nearest(
        self, low: KeyBound | None, high: KeyBound | None, side: str, point: KeyBound
    ) -> Key | None:
        """The key between two bounds that is the nearest one above a point, or not above it."""
        wanted = ", ".join(
            f"CAST({name} AS BINARY), {name}" if column.type in _TEXTS else f"{name}, {name}"
            for name, column in zip(self._names, self.columns, strict=True)
        )
        direction = "" if side == ">" else " DESC"
        order = ", ".join(f"{name}{direction}" for name in self._names)
        clause = self.clause(low, high, *([self._beyond(side, point)] if point else []))
        row, _ = self._row(f"SELECT {wanted} FROM {self._name}{clause} ORDER BY {order} LIMIT 1")  # noqa: S608 - quoted
        if row is None:
            return None
        if len(row) != 2 * len(self.columns) or None in row:
            raise MalformedPacket(
                f"{self._connection.name}: {self._name} has no such key: {row!r:.80}"
            )
        pairs = zip(self.columns, row[::2], row[1::2], strict=True)
        return tuple((_literal(column, raw), shown) for column, raw, shown in pairs)

    def _row(self, sql: str) -> tuple[Any, list[str]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone(), [each[0] for each in cursor.description or ()]

    def clause(self, low: KeyBound | None, high: KeyBound | None, *more: str) -> str:
        """What follows the table's name in a SELECT of a range."""
        parts = [self._beyond(">", low)] if low else []
        parts += [self._beyond("<=", high)] if high else []
        where = f" WHERE {' AND '.join([*parts, *more])}" if parts or more else ""
        return f" FORCE INDEX ({quoted_name(self._index)}){where}" if self.columns else ""

    def _beyond(self, side: str, bound: KeyBound) -> str:
        """(a, b) > bound, or <=, in the form for which both servers seek in the index."""
        pairs = list(zip(self._names, bound, strict=False))
        whole = [
            " AND ".join(
                [f"{name} = {value}" for name, value in pairs[:at]]
                + [f"{pairs[at][0]} {side if at == len(pairs) - 1 else side[0]} {pairs[at][1]}"]
            )
            for at in range(len(pairs))
        ]
        return f"({' OR '.join(f'({each})' for each in whole)})"

    def _between(self, first: Key, last: Key) -> KeyBound:
        """A point between two keys, in the first column where they differ; () if there is none."""
        for at, (one, other) in enumerate(zip(first, last, strict=True)):
            if one != other:
                column = self.columns[at]
                point = self._halfway(column, one[1], other[1])
                return () if point is None else (*(sql for sql, _ in first[:at]), point)
        return ()

    def _halfway(self, column: ServerColumn, low: bytes, high: bytes) -> str | None:
        if column.type in _NUMBERS:
            with localcontext(prec=100):
                one, other = Decimal(low.decode()), Decimal(high.decode())
                step = Decimal((0, (1,), int(one.as_tuple().exponent)))
                return f"{(one + (other - one) / 2).quantize(step, ROUND_FLOOR):f}"
        if column.type in _MOMENTS:
            begin, until = _moment(low.decode()), _moment(high.decode())
            text = (begin + (until - begin) / 2).isoformat(" ")
            return f"'{text[:10] if column.type == 'date' else text}'"
        if column.type in _BYTES:
            one_key, other_key = ([each + 1 for each in value] for value in (low, high))
            digits = _digits_between(one_key, other_key, 257)
            return None if digits is None else f"X'{bytes(each - 1 for each in digits).hex()}'"
        texts = low.decode(errors="replace"), high.decode(errors="replace")
        pairs = zip(*texts, strict=False)
        start, end = next((sorted(map(ord, pair)) for pair in pairs if pair[0] != pair[1]), (0, 0))
        some = map(chr, range(start, end, (end - start) // _STEPS + 1))
        ranks = self._alphabet(column, "".join((*texts, *some)))
        letters = {rank: letter for letter, rank in ranks.items()}
        one_text, other_text = ([ranks.get(each, 1) for each in text] for text in texts)
        digits = _digits_between(one_text, other_text, max(letters) + 1)
        if digits is None:
            return None
        text = "".join(letters[each] for each in digits)
        own = f"CONVERT(_utf8mb4 X'{text.encode().hex()}' USING {column.charset})"
        return f"{own} COLLATE {column.collation}"

    def _alphabet(self, column: ServerColumn, more: Iterable[str]) -> dict[str, int]:
        """Letters that a column may hold, each with its place in the order of the collation."""
        each = " UNION ALL ".join(
            f"SELECT _utf8mb4 X'{letter.encode(errors='replace').hex()}' AS c"
            for letter in _LETTERS.union(more)
        )
        own = f"CONVERT(c USING {column.charset})"
        with self._connection.cursor() as cursor:
            cursor.execute(
                f"SELECT HEX(c), DENSE_RANK() OVER (ORDER BY {own} COLLATE {column.collation}) "  # noqa: S608 - hex, and names the server gave
                f"FROM ({each}) AS letters WHERE HEX(CONVERT({own} USING utf8mb4)) = HEX(c)"
            )
            found = cursor.fetchall()
        return {bytes.fromhex(_text(letter)).decode(): int(rank) for letter, rank in found}


def _literal(column: ServerColumn, value: bytes) -> str:
    if column.type in _NUMBERS:
        return value.decode("ascii")
    if column.type in _MOMENTS:
        return f"'{value.decode('ascii')}'"
    return f"{f'_{column.charset} ' if column.type in _TEXTS else ''}X'{value.hex()}'"


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)  # naive, as the server prints it
    except ValueError:  # a date that the calendar lacks
        year, month, day = map(int, text[:10].split("-"))
        return datetime(year or 1970, month or 1, min(day or 1, 28))  # noqa: DTZ001 - as above


def _digits_between(low: list[int], high: list[int], base: int) -> list[int] | None:
    """Digits above 0 between two sequences of them, compared like text; None if there are none."""
    pairs = enumerate(zip(low, high, strict=False))
    start = next((at for at, (one, other) in pairs if one != other), min(len(low), len(high)))
    one, other = (
        sum(digit * base ** (_DIGITS - at) for at, digit in enumerate(each[start:][:_DIGITS], 1))
        for each in (low, high)
    )
    if one >= other:
        return None
    number = one + (other - one) // 2
    digits = low[:start]
    for at in range(_DIGITS - 1, -1, -1):
        digit = number // base**at % base
        if not digit:
            break
        digits.append(digit)
    return digits
