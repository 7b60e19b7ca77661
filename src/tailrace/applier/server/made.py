"""Rows that no log has, as the rows events of a server: of materialised streams, for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import ChecksumAlgorithm, RowsFlag
from tailrace.errors import UnsupportedType
from tailrace.events import FormatDescription
from tailrace.log.changes import Change
from tailrace.writing.cache import MadeEvents, cached
from tailrace.writing.consumer import table_of
from tailrace.writing.local_events import CachedItems
from tailrace.writing.options import WriterOptions
from tailrace.writing.rows import RowsSource, WrittenTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.constants import Flavour
    from tailrace.generators import ModifiedTable, RowBatch

_MICROSECOND: Final = 1_000_000
_OPTIONS: Final = WriterOptions()


class RowsMade:
    """Makes events of a server's flavour and version from rows' images."""

    def __init__(self, flavour: Flavour, server_version: str) -> None:
        self._form = FormatDescription.of(
            flavour, server_version=server_version, checksum_algorithm=ChecksumAlgorithm.NONE
        )
        self._tables: dict[ModifiedTable, WrittenTable] = {}
        self._made = MadeEvents()

    def changes(self, event: RowBatch) -> Iterator[Change]:
        """The rows of an event. Raises SchemaError and UnsupportedType for a table whose columns
        are unknown, ValueRejected for a row that lacks columns or that a column cannot hold.
        """
        table = self._tables.get(event.table)
        form = self._form
        if table is None:
            if any(column.type == "vector" for column in event.table.columns):
                raise UnsupportedType(
                    f"{event.table.database}.{event.table.name}: the dimensions of a VECTOR are"
                    " unknown: leave the table out (--exclude)"
                )
            made = table_of(event.table, form.flavour, form.server_version)
            table = WrittenTable.of(made, len(self._tables) + 1, _OPTIONS, form)
            self._tables[event.table] = table
        flags = RowsFlag(0)  # one statement of all: that of a MyISAM table ends its transaction
        if event.disable_foreign_key_checks:
            flags |= RowsFlag.NO_FOREIGN_KEY_CHECKS
        if event.disable_unique_checks:
            flags |= RowsFlag.RELAXED_UNIQUE_CHECKS
        header = {
            "timestamp": (event.timestamp or 0) // _MICROSECOND,
            "server_id": event.server_id or 0,
            "form": form,
        }
        source = RowsSource(
            table,
            table.table_map,
            event.operation,
            _OPTIONS,
            flags=int(flags),
            header=header,
            made=self._made,
        )
        table_map = cached(table.table_map)
        schemas = {table.table_map.table_id: table.table.schema}
        for chunk in source.of(event.before_images or (), event.after_images or ()):
            items = CachedItems(form, schemas, {}).read([memoryview(table_map + bytes(chunk.data))])
            yield from (item for item in items if isinstance(item, Change))
