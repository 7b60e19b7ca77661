"""Whether the tables that a new lake is to have are there: it keeps the patterns of its begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import UsageError
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from tailrace.spark.input.server_facts import ServerFacts
    from tailrace.table_filter import TableFilter


class WantedTables:
    """Says which patterns fit no table, before a lake is created with them.

    ``servers`` have been asked, files are read first: with ``files`` tables may be in these, too,
    and what the user of a server must not see is looked for in its log. A name that fits none is an
    error. With ``follow`` a table may be created later, so it is one only where no name fits and
    there is no pattern with ``*``. ``notice`` is told the rest. Raises UsageError.
    """

    def __init__(
        self,
        tables: TableFilter,
        servers: Collection[ServerFacts],
        *,
        files: bool,
        follow: bool,
        notice: Callable[[str], None],
    ) -> None:
        self.tables = tables.watched()
        self._follow = follow
        self._notice = notice
        self._known = set[TableName]().union(*(each.tables for each in servers))
        self._open = not tables.takes_all
        if self._open and not (files or any(each.hides for each in servers)):
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
