"""Rows of one statement as rows events: from Python's rows, and from Arrow's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from tailrace.constants import EventType, Flavour
from tailrace.errors import UsageError
from tailrace.events import DeleteRowsEvent, RowsEvent, UpdateRowsEvent, WriteRowsEvent
from tailrace.printable import short_repr
from tailrace.values.encode import RowEncoder
from tailrace.writing.cache import RowsChunk, cached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.events import FormatDescription, TableMapEvent
    from tailrace.schema.table import Table
    from tailrace.values.encode import RowGroup
    from tailrace.writing.cache import MadeEvents
    from tailrace.writing.options import WriterOptions


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table with its id: ``table_map`` but for its header, and what encodes its rows."""

    table: Table
    table_map: TableMapEvent
    encoder: RowEncoder

    @classmethod
    def of(
        cls, table: Table, table_id: int, options: WriterOptions, form: FormatDescription
    ) -> Self:
        """Raises EventEncodeError for a table that no table map can describe."""
        table_map = table.table_map(table_id, metadata=options.metadata.value, form=form)
        mariadb = table.flavour is Flavour.MARIADB
        encoder = RowEncoder(table.schema, options.image, filler=mariadb, surrogates=mariadb)
        return cls(table, table_map, encoder)


Change = Literal["insert", "update", "delete"]

_CLASSES: Final[dict[str, type[RowsEvent]]] = {
    "insert": WriteRowsEvent,
    "update": UpdateRowsEvent,
    "delete": DeleteRowsEvent,
}
_T = EventType
_PLAIN: Final = {
    (Flavour.MYSQL, "insert"): _T.WRITE_ROWS,
    (Flavour.MYSQL, "update"): _T.UPDATE_ROWS,
    (Flavour.MYSQL, "delete"): _T.DELETE_ROWS,
    (Flavour.MARIADB, "insert"): _T.WRITE_ROWS_V1,
    (Flavour.MARIADB, "update"): _T.UPDATE_ROWS_V1,
    (Flavour.MARIADB, "delete"): _T.DELETE_ROWS_V1,
}
_COMPRESSED: Final = {
    _T.WRITE_ROWS_V1: _T.WRITE_ROWS_COMPRESSED_V1,
    _T.UPDATE_ROWS_V1: _T.UPDATE_ROWS_COMPRESSED_V1,
    _T.DELETE_ROWS_V1: _T.DELETE_ROWS_COMPRESSED_V1,
}
LEAST_COMPRESSED: Final = 256
"""Bytes of rows or SQL from which on MariaDB compresses (``log_bin_compress_min_len``)."""


def is_arrow(rows: Any) -> bool:
    """Whether these are Arrow's, or a data frame's; told without importing pyarrow."""
    return type(rows).__module__.partition(".")[0] == "pyarrow" or hasattr(
        rows, "__arrow_c_stream__"
    )


class RowsSource:
    """What makes rows events of one statement: its table map, kind, flags and the log's options.

    ``header`` is what every event's header says: timestamp, server id, form. ``made`` has what
    comes before the rows, for table maps of the same ids.
    """

    def __init__(
        self,
        known: WrittenTable,
        table_map: TableMapEvent,
        kind: Change,
        options: WriterOptions,
        *,
        flags: int,
        header: dict[str, Any],
        made: MadeEvents,
    ) -> None:
        self.schema = known.table.schema
        self._encoder = known.encoder
        self.kind = kind
        self.options = options
        self._table_map = table_map
        self._flags = flags
        self._header = header
        self._made = made
        flavour = table_map.form.flavour
        self._type = _PLAIN[flavour, kind]
        self.mariadb = flavour is Flavour.MARIADB
        self.compress = options.compress and self.mariadb

    def event(self, row_data: bytes, before: bytes | None, after: bytes | None) -> bytearray:
        """One rows event in cache form."""
        if self.compress and len(row_data) >= LEAST_COMPRESSED:
            code = _COMPRESSED[self._type]
            return bytearray(cached(self._event(code, row_data, before, after)))
        return self._made.get(
            (self._type, self._table_map.table_id, self._flags, before, after),
            lambda: self._event(self._type, b"", before, after),
            self._header["timestamp"],
            self._header["server_id"],
            row_data,
        )

    def _event(
        self, code: EventType, row_data: bytes, before: bytes | None, after: bytes | None
    ) -> RowsEvent:
        return _CLASSES[self.kind].make(
            type=int(code),
            table_map=self._table_map,
            flags=self._flags,
            row_data=row_data,
            present_before=before,
            present_after=after,
            **self._header,
        )

    def of(self, before: Any, after: Any) -> Iterator[RowsChunk]:
        """Events of rows of either sort. Raises UsageError for what is no rows."""
        given = after if self.kind == "insert" else before
        if isinstance(given, (str, bytes)) or not (is_arrow(given) or isinstance(given, Iterable)):
            raise UsageError(
                "rows are mappings, sequences, rows of a log, or an Arrow table or data frame, not"
                f" {short_repr(given)}"
            )
        if is_arrow(before) or is_arrow(after):
            from tailrace.writing.arrow import chunks  # noqa: PLC0415 - needs pyarrow and numba

            return chunks(self, before, after)
        return self.of_rows(before, after)

    def of_rows(
        self, before: Iterable[Any] | None, after: Iterable[Any] | None
    ) -> Iterator[RowsChunk]:
        """Events of Python's rows. Raises what `RowEncoder` does."""
        encoder = self._encoder
        if self.kind == "update":
            groups = encoder.update(before or (), after)
        elif self.kind == "insert":
            groups = encoder.insert(after or ())
        else:
            groups = encoder.delete(before or ())
        return self._pack(groups)

    def _pack(self, groups: Iterable[RowGroup]) -> Iterator[RowsChunk]:
        """Rows gathered into events of at most ``max_rows_event_size`` bytes of rows."""
        most = self.options.max_rows_event_size
        bitmaps: tuple[bytes | None, bytes | None] = (None, None)
        held: list[bytes] = []
        size = 0
        for group in groups:
            present = (group.present_before, group.present_after)
            if held and present != bitmaps:
                yield self._chunk(held, bitmaps)
                held, size = [], 0
            bitmaps = present
            for image in group.images:
                if held and (size + len(image) > most or not image):
                    yield self._chunk(held, bitmaps)
                    held, size = [], 0
                held.append(image)
                size += len(image)
        if held:
            yield self._chunk(held, bitmaps)

    def _chunk(self, images: list[bytes], bitmaps: tuple[bytes | None, bytes | None]) -> RowsChunk:
        return RowsChunk(self.event(b"".join(images), *bitmaps), 1, 0)
