"""Stretches of a log (`tailrace.columns.text.stretches`) as SQL: many statements as one text.

A piece's rows are written by a kernel, table by table (`tailrace.sql.batches`). They are then put
in the log's order, or in reverse, with the lines between them: where a transaction ends and the
next one begins, and where the session's settings change. The script writes what is before and after
them (`tailrace.sql.script`), as for single statements.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tailrace.columns.frames import plan as k
from tailrace.columns.frames import text as f
from tailrace.columns.native import kernel
from tailrace.columns.text_output import write
from tailrace.constants import HEADER_SIZE, Flavour, RowsFlag
from tailrace.errors import EventDecodeError, TailraceError
from tailrace.events.rows import ROWS_TYPES
from tailrace.log.reader import TransactionHead
from tailrace.position import Position
from tailrace.sql.batches import BatchSql
from tailrace.sql.rows import once_per_table
from tailrace.sql.settings import difference, of_rows
from tailrace.sql.statement import END, LONGEST, MOST_BYTES, RowStatements, Statement
from tailrace.sql.triggers import guard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tailrace.columns.text.lines import Lines
    from tailrace.columns.text.stretches import DecodedRows, Stretch
    from tailrace.log.reader import Reader
    from tailrace.table_name import TableName

Array = np.ndarray[Any, Any]

_LINE: Final = 130
_OLD_HEADER: Final = b"\x06"
"""Bytes of a rows event's own header if the table's number has four bytes."""
_TABLE_ID: Final = 6
_COMMIT: Final = b"COMMIT;\n"
_BEFORE: Final = _COMMIT + b"-- "
_AFTER: Final = b"START TRANSACTION;\n"
_UNCHECKED: Final = RowsFlag.NO_FOREIGN_KEY_CHECKS | RowsFlag.USE_SQL_FOREIGN_KEY
_FEW: Final = 64
"""Pieces that are written separately."""
_COMMA: Final = 0x2C
_FIRST: Final = np.zeros(1, np.int64)
_LAST_ROW: Final = 0xFFFFFFFF


class _Events(NamedTuple):
    """The rows events of a piece in the order of the output: an array for each attribute."""

    place: Array
    """Offset in the piece."""
    transaction: Array
    settings: Array
    """1 if foreign keys are not checked, plus 2 if unique keys are not."""

    def where(self, which: Array | slice) -> _Events:
        return _Events(*(each[which] for each in self))


class _Texts(NamedTuple):
    """Texts in memory that is held elsewhere; ``keys`` order them."""

    keys: Array
    starts: Array
    sizes: Array
    rows: Array
    """The row's offset in each INSERT that others may join; 0 for other texts."""


class StretchSql:
    """Makes the statements of stretches; with ``undo``, in reverse order, to undo rows.

    Up to ``rows`` INSERTs of a rows event may become one statement (`multi_row`).
    """

    def __init__(self, reader: Reader, *, undo: bool, rows: int = 1) -> None:
        self._most_rows = rows
        self._reader = reader
        self._undo = undo
        self._writer_of = once_per_table(partial(BatchSql, undo=undo))
        self.given = 0
        """Statements of the last stretch that were given before it was rejected."""

    def statements(
        self, stretch: Stretch, guarded: Collection[TableName]
    ) -> Iterator[tuple[list[TableName], list[RowStatements | Statement]]]:
        """The statements of its pieces, and the tables that first occur in each.

        Before rows of a table that is not yet ``guarded``, its guard is inserted (not with
        ``undo``). A stretch that cannot be converted is rejected: its statements are then made step
        by step, including the first ``given`` ones.
        """
        self.given = 0
        pieces = iter(stretch)
        while True:
            try:
                piece = next(pieces, None)
                if piece is None:
                    return
                made = self._piece(piece, stretch.file, guarded)
            except (TailraceError, UnicodeError, MemoryError):
                stretch.rejected = True
                return
            self.given += made[2]
            yield made[0], made[1]

    def _piece(
        self, piece: DecodedRows, file: str, guarded: Collection[TableName]
    ) -> tuple[list[TableName], list[RowStatements | Statement], int]:
        if not file.isprintable():
            raise EventDecodeError("a name that is not allowed in a comment")
        transactions, entries = piece.transactions.copy(), piece.entries
        live = (entries[:, k.E_ROWS] < entries[:, k.E_END]) | (entries[:, k.E_OP] & k.BARE > 0)
        events = self._events(piece, entries[live])
        new: dict[TableName, int] = {}
        runs: list[Lines] = []
        begins: list[Array] = []
        for schema, batch in piece.batches():
            writer = self._writer_of(schema)
            lines = writer.lines(batch, piece.start)
            if not len(lines.keys):
                continue
            table = schema.full_name
            if table not in guarded:
                first = int(lines.keys[0]) >> 32
                new[table] = min(new.get(table, first), first)
            runs.append(lines)
            begins.append(writer.rows_begin(batch) if self._most_rows > 1 else lines.keys)
        count, some = 0, []
        for run in runs:
            full = np.diff(run.offsets) > 0
            count += int(np.count_nonzero(full))
            some.append(full)
        shown = events
        if count < sum(map(len, some)):
            places = [run.keys[full] >> 32 for run, full in zip(runs, some, strict=True)]
            shown = events.where(np.isin(events.place, np.unique(np.concatenate(places))))
        cuts = [] if self._undo else sorted((place, table) for table, place in new.items())
        return (
            list(new),
            self._assembled(
                list(zip(runs, begins, strict=True)), events, shown, transactions, cuts, file
            ),
            count,
        )

    def _events(self, piece: DecodedRows, entries: Array) -> _Events:
        sizes = self._reader.format.post_headers
        if any(sizes[code - 1 : code] == _OLD_HEADER for code in ROWS_TYPES):
            raise EventDecodeError("rows events of an old layout")
        place = entries[:, k.E_POSITION] - piece.start
        at = place + HEADER_SIZE + _TABLE_ID
        flags = piece.data[at].astype(np.int64) | piece.data[at + 1].astype(np.int64) << 8
        unchecked = flags & int(_UNCHECKED) != 0
        if self._undo:
            unchecked |= entries[:, k.E_OP] & 3 == 2  # the row existed before
        relaxed = flags & int(RowsFlag.RELAXED_UNIQUE_CHECKS) != 0
        return _Events(place, entries[:, k.E_TRANSACTION], unchecked + 2 * relaxed)

    def _assembled(
        self,
        runs: Sequence[tuple[Lines, Array]],
        events: _Events,
        shown: _Events,
        transactions: Array,
        cuts: Sequence[tuple[int, TableName]],
        file: str,
    ) -> list[RowStatements | Statement]:
        """The statements in order: texts of many statements, and between them the guards.

        ``events`` are all, ``shown`` are those that have statements.
        """
        places = [int(np.searchsorted(shown.place, place)) for place, _ in cuts]
        begins = sorted({0, *places} - {len(shown.place)})
        if self._undo:
            shown = shown.where(slice(None, None, -1))
        first = np.zeros(len(shown.place), np.bool_)
        first[begins if len(first) else []] = True
        keys = shown.place << 32
        if self._undo:
            keys = -(keys | _LAST_ROW)
        groups = _Groups(transactions, file)
        between = ~first
        between[1:] &= shown.transaction[1:] != shown.transaction[:-1]
        changed = ~first
        changed[1:] &= shown.settings[1:] != shown.settings[:-1]
        ends = [*begins[1:], len(shown.place)]
        wanted = between.copy()
        wanted[begins if len(first) else []] = True
        wanted[[end - 1 for end in ends] if len(first) else []] = True
        seen = np.zeros(len(transactions), np.bool_)
        seen[shown.transaction[wanted]] = True
        seen[[self._transaction_at(events, place) for place, _ in cuts]] = True
        groups.write(seen)
        texts = self._between(shown, keys, between, changed, groups) if len(first) else []
        ordered = _Ordered([*texts, *(self._rows(*run) for run in runs)], in_place=not self._undo)
        if self._most_rows > 1:
            ordered.join(self._most_rows, [run.text for run, _ in runs])
        made: list[RowStatements | Statement] = []
        flavour = self._reader.format.flavour
        done = 0
        for number, begin in enumerate(begins if len(first) else []):
            while done < len(cuts) and places[done] <= begin:
                made.append(self._guard(events, cuts[done], groups, flavour))
                done += 1
            last = ends[number] - 1
            until = int(keys[last + 1]) if last + 1 < len(keys) else None
            data = ordered.take(until)
            made.append(
                RowStatements(
                    data,
                    _settings(flavour, int(shown.settings[begin])),
                    _settings(flavour, int(shown.settings[last])),
                    groups.of(int(shown.transaction[begin])),
                    groups.of(int(shown.transaction[last])),
                    None if self._undo else (groups, runs),
                )
            )
        made += [self._guard(events, cut, groups, flavour) for cut in cuts[done:]]
        return made

    @staticmethod
    def _transaction_at(events: _Events, place: int) -> int:
        return int(events.transaction[np.searchsorted(events.place, place)])

    def _guard(
        self, events: _Events, cut: tuple[int, TableName], groups: _Groups, flavour: Flavour
    ) -> Statement:
        place, table = cut
        group = groups.of(self._transaction_at(events, place))
        return Statement(guard(table, flavour), of_rows(flavour, 0, lenient=False), group)

    def _rows(self, run: Lines, begins: Array) -> _Texts:
        starts = run.offsets[:-1].astype(np.int64) + run.text.ctypes.data
        keys = -run.keys if self._undo else run.keys
        return _Texts(keys, starts, np.diff(run.offsets), begins)

    def _between(
        self, shown: _Events, keys: Array, between: Array, changed: Array, groups: _Groups
    ) -> list[_Texts]:
        """Transaction ends and starts, and the settings between them."""
        starts, sizes = groups.texts(shown.transaction[between])
        heads = keys[between]
        split = changed[between]
        texts = []
        if split.any():
            size = len(_COMMIT)
            commits = np.full(int(split.sum()), size, np.int64)
            texts.append(_Texts(heads[split], starts[split], commits, 0 * commits))
            starts, sizes = starts + size * split, sizes - size * split
        if changed.any():
            flavour = self._reader.format.flavour
            states = shown.settings
            literals = {
                (old, new): _literal(flavour, old, new) for old in range(4) for new in range(4)
            }
            found = np.flatnonzero(changed)
            pairs = [literals[pair] for pair in zip(states[found - 1], states[found], strict=True)]
            texts.append(
                _Texts(
                    keys[found],
                    np.array([each.ctypes.data for each in pairs], np.int64),
                    np.array([len(each) for each in pairs], np.int64),
                    np.zeros(len(pairs), np.int64),
                )
            )
        texts.append(_Texts(heads, starts, sizes, 0 * starts))
        return texts


class _Groups:
    """Transactions; the requested ones are written."""

    def __init__(self, transactions: Array, file: str) -> None:
        self._transactions = transactions
        self._file = file
        self._bounds = np.zeros(1, np.int64)
        self._number = np.zeros(len(transactions), np.int64)
        self._data = np.zeros(0, np.uint8)

    def write(self, wanted: Array) -> None:
        """Write the lines between the requested transactions and those before them."""
        if not wanted.any():
            return
        count = len(wanted)
        texts = [each + bytes(40) for each in (self._file.encode(), _BEFORE, _AFTER)]
        held = [np.frombuffer(text, np.uint8) for text in texts]
        frame = np.zeros(f.H_WORDS, np.int64)
        frame[f.H_ENTRIES] = self._transactions.ctypes.data
        for word, text in zip((f.H_FILE, f.H_BEFORE, f.H_BEHIND), held, strict=True):
            frame[word : word + 2] = text.ctypes.data, len(text) - 40
        valid = pa.py_buffer(np.packbits(wanted, bitorder="little"))
        rows = pa.Array.from_buffers(pa.int8(), count, [valid, pa.py_buffer(bytes(count))])
        lines = write(kernel("transaction_lines"), frame, rows, _LINE * count, "transactions")
        _, offsets, data = lines.buffers()
        self._bounds = np.frombuffer(offsets, np.int32, count + 1, 4 * lines.offset).astype(
            np.int64
        )
        self._data = np.frombuffer(data, np.uint8)

    def texts(self, numbers: Array) -> tuple[Array, Array]:
        """Addresses and sizes of the lines written for transactions."""
        starts = self._bounds[numbers]
        return starts + self._data.ctypes.data, self._bounds[numbers + 1] - starts

    def of(self, number: int) -> TransactionHead:
        """A transaction whose lines were written."""
        words = self._transactions[number]
        start, end = self._bounds[number : number + 2].tolist()
        text = self._data[start + len(_BEFORE) : end - len(_AFTER) - 1].tobytes().decode()
        position = Position(self._file, int(words[k.T_START]))
        gtid = text.removeprefix(f"{position}  ").partition("  ")[0]
        return TransactionHead(
            position,
            None if words[k.T_KIND] == k.NO_GTID else gtid,
            None if words[k.T_STAMP] < 0 else int(words[k.T_STAMP]),
            int(words[k.T_SECONDS]),
        )


class _Ordered:
    """Texts in the order of their keys, taken part by part.

    With ``in_place``, contiguous texts may be given without a copy.
    """

    def __init__(self, texts: Sequence[_Texts], *, in_place: bool) -> None:
        self._in_place = in_place
        texts = [each for each in texts if len(each.keys)]
        if not texts:
            texts = [_Texts(*(np.zeros(0, np.int64) for _ in range(4)))]
        keys = np.concatenate([each.keys for each in texts])
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._starts = np.concatenate([each.starts for each in texts])
        self._sizes = np.concatenate([each.sizes for each in texts]).astype(np.int64)
        self._rows = np.concatenate([each.rows for each in texts])
        self._at = 0

    def join(self, most: int, memory: Sequence[Array]) -> None:
        """Join up to this many INSERTs of an event to one statement (`multi_row`).

        ``memory`` holds the rows' texts: the terminators at their ends are replaced by commas
        there.
        """
        order = self._order
        sizes, heads = self._sizes[order], self._rows[order]
        alone = (heads == 0) | (sizes > LONGEST)
        follows = np.zeros(len(order), np.bool_)
        follows[1:] = np.abs(self._keys[1:]) >> 32 == np.abs(self._keys[:-1]) >> 32
        follows[1:] &= ~alone[1:] & ~alone[:-1]
        if not follows.any():
            return
        numbers = np.arange(len(order))
        first = np.maximum.accumulate(np.where(follows, 0, numbers))
        follows &= (numbers - first) % most != 0
        total = np.cumsum(sizes - heads)
        first = np.maximum.accumulate(np.where(follows, 0, numbers))
        if (follows & (total - total[first] + sizes[first] > MOST_BYTES)).any():
            raise EventDecodeError("INSERTs that are limited by their bytes")
        joins = order[follows]
        before = order[np.flatnonzero(follows) - 1]
        marks = self._starts[before] + self._sizes[before] - END
        for text in memory:
            start = text.ctypes.data
            here = marks[(marks >= start) & (marks < start + len(text))]
            _view(start, start + len(text))[here - start] = _COMMA
        self._starts[joins] += self._rows[joins]
        self._sizes[joins] -= self._rows[joins]

    def take(self, until: int | None) -> list[Array]:
        """The texts before those of a key, or all that are left."""
        end = len(self._keys) if until is None else int(np.searchsorted(self._keys, until))
        order = self._order[self._at : end]
        self._at = end
        if self._in_place:
            starts, sizes = self._starts[order], self._sizes[order]
            ends_at = starts + sizes
            breaks = np.flatnonzero(starts[1:] != ends_at[:-1]) + 1
            if len(breaks) <= _FEW:
                begins = starts[np.concatenate([_FIRST, breaks])]
                ends = ends_at[np.concatenate([breaks - 1, [len(order) - 1]])]
                return [_view(*each) for each in zip(begins.tolist(), ends.tolist(), strict=True)]
        out = np.empty(int(self._sizes[order].sum()), np.uint8)
        frame = np.zeros(f.LINES_WORDS, np.int64)
        frame[f.L_ROWS], frame[f.L_ORDER] = len(order), order.ctypes.data
        frame[f.L_STARTS], frame[f.L_SIZES] = self._starts.ctypes.data, self._sizes.ctypes.data
        frame[f.L_OUT] = out.ctypes.data
        kernel("gather_lines")(frame.ctypes.data)
        return [out]


def _view(start: int, end: int) -> Array:
    """Bytes in memory that another object holds."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))


def _settings(flavour: Flavour, state: int) -> tuple[tuple[str, str], ...]:
    flags = (RowsFlag.NO_FOREIGN_KEY_CHECKS if state & 1 else 0) | (
        RowsFlag.RELAXED_UNIQUE_CHECKS if state & 2 else 0
    )
    return of_rows(flavour, flags, lenient=False)


@cache
def _literal(flavour: Flavour, old: int, new: int) -> Array:
    """The SQL that changes a session from one state to the other."""
    text = difference(dict(_settings(flavour, old)), _settings(flavour, new))
    return np.frombuffer(f"{text};\n".encode(), np.uint8)
