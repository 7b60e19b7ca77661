"""The tables that a log writes to: what is made once for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.constants import Flavour
from tailrace.values.encode import RowEncoder

if TYPE_CHECKING:
    from tailrace.events import FormatDescription, TableMapEvent
    from tailrace.schema.table import Table
    from tailrace.writing.options import WriterOptions


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table with its id: ``table_map`` but for its header, and what encodes its rows."""

    table: Table
    table_map: TableMapEvent
    encoder: RowEncoder


class WrittenTables:
    """Tables by their definition: the same one has one id, above those that the log had before."""

    def __init__(self, options: WriterOptions, last_id: int) -> None:
        self._options = options
        self._last_id = last_id
        self._known: dict[Table, WrittenTable] = {}

    def get(self, table: Table, form: FormatDescription) -> WrittenTable:
        """What is known of a table. Raises EventEncodeError for one that no table map can say."""
        known = self._known.get(table)
        if known is None:
            table_map = table.table_map(
                self._last_id + 1, metadata=self._options.metadata.value, form=form
            )
            filler = table.flavour is Flavour.MARIADB
            encoder = RowEncoder(table.schema, self._options.image, filler=filler)
            known = self._known[table] = WrittenTable(table, table_map, encoder)
            self._last_id += 1
        return known
