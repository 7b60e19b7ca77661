"""Rows of record batches as SQL statements, by a kernel: the same as `tailrace.sql.rows` gives.

The batches are those of `tailrace.columns.types.stored_plan_of`. EventDecodeError is raised for
whatever the kernel cannot write as the objects do: an ENUM's error value, images that lack what a
statement needs, sequences and system-versioned tables.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tailrace.columns.arrays import strings
from tailrace.columns.frames import sql as s
from tailrace.columns.json_text import jsonb_to_text
from tailrace.columns.native import kernel
from tailrace.columns.read.finish import check_stored
from tailrace.columns.text.lines import Lines, printable_characters
from tailrace.columns.text.row_json import ImageFrame
from tailrace.columns.text_output import BadRow, layout, write
from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, LogError
from tailrace.schema.tokens import quoted_name
from tailrace.sql.json import document
from tailrace.sql.rows import TableSql
from tailrace.sql.text import plain
from tailrace.sql.values import CLOCKS, TYPES, bytes_of, member_name
from tailrace.values.charsets import UTF8, decoder
from tailrace.values.registry import key_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.values.schema import Column, TableSchema

Array = np.ndarray[Any, Any]

_SLACK: Final = 64


class BatchSql:
    """Writes the rows of one table. With ``undo``, statements that undo them.

    Raises SchemaError like `TableSql`, and EventDecodeError.
    """

    def __init__(self, schema: TableSchema, *, undo: bool) -> None:
        table = TableSql(schema)
        if table.is_sequence or table.period is not None:
            raise EventDecodeError(f"{table.name}: a table that kernels cannot write")
        self._schema = schema
        self._held: list[Array] = []
        self._documents = [
            column.index for column in schema.columns if column.type is ColumnType.JSON
        ]
        words = self._columns = np.zeros((max(len(schema.columns), 1), s.Q_WORDS), np.int64)
        for row, column in zip(words, schema.columns, strict=False):
            self._describe(row, column)
        frame = self._frame = np.zeros(s.S_WORDS, np.int64)
        frame[s.S_UNDO] = undo
        frame[s.S_COLUMNS] = words.ctypes.data
        writable = self._keep(np.array(table.writable, np.int64))
        frame[s.S_WRITABLE : s.S_WRITABLE + 2] = writable.ctypes.data, len(writable)
        conditions = [(index, 0) for index in table.key]
        if not table.whole_key:
            differs = [words[i, s.Q_SAME_BYTES] != words[i, s.Q_EQUALS] for i in table.key]
            conditions += [
                (index, 1) for index, other in zip(table.key, differs, strict=True) if other
            ]
        key = self._keep(np.array(conditions, np.int64).reshape(-1, 2))
        frame[s.S_KEY : s.S_KEY + 2] = key.ctypes.data, len(key)
        names = ", ".join(quoted_name(schema.columns[index].name) for index in table.writable)
        into = f"INSERT INTO {table.target} ("
        for word, text in (
            (s.S_INSERT, into),
            (s.S_INSERT_ALL, f"{into}{names}) VALUES ("),
            (s.S_DELETE, f"DELETE FROM {table.target} WHERE "),  # noqa: S608 - quoted
            (s.S_UPDATE, f"UPDATE {table.target} SET "),  # noqa: S608 - quoted
        ):
            frame[word : word + 2] = self._text(text)
        self._head = len(into) + len(names) + _SLACK
        self._row = int(frame[s.S_INSERT_ALL + 1]) - 1
        self._insert = 2 if undo else 0

    def _keep(self, array: Array) -> Array:
        self._held.append(array)
        return array

    def _text(self, text: str) -> tuple[int, int]:
        data = text.encode()
        kept = self._keep(np.frombuffer(data + bytes(_SLACK), np.uint8))
        return kept.ctypes.data, len(data)

    def _describe(self, words: Array, column: Column) -> None:
        """Describe how a column is written (`tailrace.sql.values.column_sql`)."""
        quoted = quoted_name(column.name)
        words[s.Q_NAME : s.Q_NAME + 2] = self._text(quoted)
        words[s.Q_EQUALS : s.Q_EQUALS + 2] = self._text(f"{quoted} = ")
        words[s.Q_SAME_BYTES : s.Q_SAME_BYTES + 2] = words[s.Q_EQUALS : s.Q_EQUALS + 2]
        words[s.Q_CLOCK] = column.type in CLOCKS
        literal, compared, by_bytes = TYPES[key_of(column)].codes(column)
        if literal in {s.ENUM, s.SET}:
            words[s.Q_ENUM] = literal == s.ENUM
            self._members(words, column)
        elif literal == s.DOCUMENT:
            words[s.Q_PREFIX : s.Q_PREFIX + 2] = self._text("_utf8mb4 ")
        elif literal == s.AS_TEXT and column.collation is None:
            words[s.Q_ASCII] = _ascii_of("ascii").ctypes.data
        elif literal == s.AS_TEXT:
            words[s.Q_PREFIX : s.Q_PREFIX + 2] = self._text(f"_{column.charset} ")
            if column.charset not in UTF8:
                words[s.Q_ASCII] = _ascii_of(column.charset).ctypes.data
        elif compared == s.PADDED:
            words[s.Q_WIDTH] = column.metadata
        words[s.Q_LITERAL], words[s.Q_AS_KEY] = literal, compared
        words[s.Q_AS_BYTES] = compared if by_bytes is None else by_bytes
        if by_bytes is not None:
            words[s.Q_SAME_BYTES : s.Q_SAME_BYTES + 2] = self._text(f"{bytes_of(column)} = ")

    def _members(self, words: Array, column: Column) -> None:
        names = [member_name(text) for text in column.members or ()]
        table = self._keep(np.full((len(names) + 1, 2), -1, np.int64))
        for row, text in zip(table, names, strict=False):
            if text is not None:
                row[:] = self._text(text.replace("'", "''"))
        words[s.Q_MEMBERS : s.Q_MEMBERS + 2] = table.ctypes.data, len(names)

    def lines(self, batch: pa.RecordBatch, start: int) -> Lines:
        """A statement for each row, some of them empty; ``start`` is that of `Lines.of_rows`."""
        frame = self._frame
        operations = batch.column("_op").indices
        frame[s.S_OP] = operations.buffers()[1].address + operations.offset
        held: list[Any] = []
        expected = self._head * len(batch)
        sides: tuple[tuple[int, Literal["before", "after"]], ...]
        sides = ((s.S_BEFORE, "before"), (s.S_AFTER, "after"))
        for word, image in sides:
            frame[word : word + 2] = 0
            images = batch.column(image)
            if images.null_count < len(batch):
                for column in self._schema.columns:
                    check_stored(images.field(column.index), column)
                made = ImageFrame(batch, self._schema, image, lambda _column: "")
                documents, texts, flags = self._documents_of(images)
                held += [made, documents, texts, flags]
                frame[word : word + 2] = made.words.ctypes.data, documents.ctypes.data
                expected += made.expected + sum(text.nbytes for text in texts)
        place = batch.column("_pos")
        frame[s.S_ASKED] = 0
        try:
            rows = write(kernel("row_sql"), frame, place, expected, "rows")
        except BadRow:
            if not frame[s.S_ASKED]:
                raise
            frame[s.S_PRINTABLE] = printable_characters().ctypes.data
            rows = write(kernel("row_sql"), frame, place, expected, "rows")
        return Lines.of_rows(rows, batch, start)

    def rows_begin(self, batch: pa.RecordBatch) -> Array:
        """The offset of the row in each INSERT of all columns; 0 for other statements."""
        operations = batch.column("_op").indices
        ops = np.frombuffer(operations.buffers()[1], np.int8, len(batch), operations.offset)
        whole = ops == self._insert
        present = batch.column("_present")
        if present.null_count < len(batch):
            valid = np.frombuffer(present.buffers()[0], np.uint8)
            bits = np.unpackbits(valid, bitorder="little")
            whole &= bits[present.offset : present.offset + len(batch)] == 0
        return np.where(whole, self._row, 0).astype(np.int64)

    def _documents_of(
        self, images: pa.StructArray
    ) -> tuple[Array, list[pa.StringArray], list[Any]]:
        """JSON documents as text, or as expressions where text is not exact: the words that the
        kernel reads, and the data that they refer to.
        """
        words = np.zeros((len(self._columns), s.J_WORDS), np.int64)
        texts, flags = [], []
        for index in self._documents:
            stored = images.field(index)
            typed = np.zeros(len(stored), np.uint8)
            text = jsonb_to_text(stored, typed)
            words[index, : s.J_TYPED] = layout(text)
            words[index, s.J_TYPED] = typed.ctypes.data
            texts.append(text)
            flags.append(typed)
            if typed.any():
                sql = [""] * len(stored)
                for row in np.flatnonzero(typed).tolist():
                    sql[row] = str(document(stored[row].as_py()))
                texts.append(strings(sql))
                words[index, s.J_EXPRESSIONS :] = layout(texts[-1])
        return words, texts, flags


@cache
def _ascii_of(charset: str) -> Array:
    """For each byte below 128, whether it is the same character in a set, and safe in quotes."""
    decode = decoder(charset)

    def stays(byte: int) -> bool:
        try:
            return decode(bytes([byte])) == chr(byte) and plain(chr(byte))
        except LogError:
            return False

    return np.array([stays(byte) for byte in range(128)] + [0] * _SLACK, np.uint8)
