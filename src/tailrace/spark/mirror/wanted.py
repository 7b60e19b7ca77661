"""Whether the tables that a new lake is to have are there: it keeps the patterns of its begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import UsageError
from tailrace.live.tables import connected, not_to_be_seen, tables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tailrace.live.url import Source
    from tailrace.table_filter import TableFilter
    from tailrace.table_name import TableName


class WantedTables:
    """Says which patterns fit no table, before a lake is created with them.

    Servers are asked at once, files are read first: their logs alone know. A name that fits none is
    an error. With ``follow`` a table may be created later, so it is one only where no name fits and
    there is no pattern with ``*``. ``notice`` is told the rest.
    """

    def __init__(self, tables: TableFilter, *, follow: bool, notice: Callable[[str], None]) -> None:
        self.tables = tables.watched()
        self._follow = follow
        self._notice = notice
        self._known: set[TableName] = set()
        self._open = not tables.takes_all

    def ask(self, servers: Sequence[Source], *, files: bool) -> None:
        """Look for the tables on servers; with ``files`` among the sources they may be there, too.

        What the user of a server must not see is looked for in its log. Raises UsageError, and what
        connecting raises.
        """
        hidden = files
        for server in servers if self._open else ():
            with connected(server) as connection:
                found = tables_of(connection)
                hidden |= not_to_be_seen(connection, self.tables, found)
            self._known |= found
        if self._open and not hidden:
            self._decide("on the server" if len(servers) == 1 else "on the servers")

    def read(self, tables: Iterable[TableName]) -> None:
        """The tables that the first batch of logs knows of. Raises UsageError."""
        if self._open:
            self._known |= set(tables)
            self._decide("in the logs")

    def _decide(self, where: str) -> None:
        self._open = False
        missing = self.tables.unmatched(self._known)
        if (text := missing.left_out(where)) is not None:
            self._notice(text)
        if (text := missing.missing(where)) is None:
            return
        if self._follow and (missing.wildcards or not missing.all):
            self._notice(f"not yet there: {text}")
        elif missing.names or missing.all:
            raise UsageError(
                f"{text}; for one that is created later give a pattern with *, and --follow"
            )
        else:
            self._notice(text)
