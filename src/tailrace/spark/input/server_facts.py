"""What a run needs to know of its servers, which it asks at its start on one connection each."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.errors import ServerError, TailraceError
from tailrace.live.driver import translated
from tailrace.live.session import Session
from tailrace.live.tables import lower_case, not_to_be_seen, tables_of, unlogged_cascades

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.schema.foreign_keys import ForeignKey
    from tailrace.table_filter import TableFilter
    from tailrace.table_name import TableName

_AGAIN_SECONDS: Final = 60.0
"""Until a server that could not be asked is asked again."""


@dataclass(frozen=True)
class ServerFacts:
    """A server's answers; the last three only for a new lake.

    - ``lowers_names``: whether it puts names into lower case; None where it does not say;
    - ``cascades``: the foreign keys whose cascaded changes it does not log, by table; None: it logs
      them;
    - ``tables``: those that the user may see;
    - ``hides``: whether a pattern that fits none of them may fit one that the user cannot see;
    - ``end``: where the log ended after that, None where the user must not know.
    """

    lowers_names: bool | None
    cascades: Mapping[TableName, list[ForeignKey]] | None
    tables: frozenset[TableName] = frozenset()
    hides: bool = False
    end: Position | None = None

    @classmethod
    def of(
        cls, source: Source, wanted: TableFilter | None, given: bool | None = None
    ) -> ServerFacts:
        """Ask a server. Raises what asking raises.

        ``wanted`` are the tables of a new lake. If the user has said whether the server puts names
        into lower case, ``given``, that counts for them.
        """
        with Session.open(source) as session, translated(session.name):
            connection = session.connection
            lowers = None
            with suppress(ServerError), translated(session.name):  # a source of replicas only
                lowers = lower_case(connection)
            cascades = unlogged_cascades(connection)
            if wanted is None:
                return cls(lowers, cascades)
            tables, end = tables_of(connection), None
            with suppress(ServerError):
                end = session.end()  # all that were found are created before it
            folds = lowers if given is None else given
            patterns = wanted.lowered() if folds else wanted
            hides = not_to_be_seen(connection, patterns, tables)
            return cls(lowers, cascades, frozenset(tables), hides, end)


class AskedServers:
    """The servers of a run (``sources``, by what they are called in the lake), and their facts.

    ``wanted`` and ``lowers_names`` are as in `ServerFacts.of`; ``wanted`` is None where the lake
    exists.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        wanted: TableFilter | None,
        lowers_names: bool | None,
        notice: Callable[[str], None],
    ) -> None:
        self.sources = sources
        self._given = lowers_names
        self._wanted = wanted
        self._notice = notice
        self._facts: dict[str, ServerFacts] = {}
        self._due: dict[str, float] = {}
        """When those are asked again that did not answer."""

    def facts(self, name: str) -> ServerFacts | None:
        """A server's facts; None for files, and while a server cannot be asked.

        Raises for a new lake what asking raises: what the log lacks of its tables must be known.
        """
        due = self._due.get(name)
        if name in self._facts or name not in self.sources or (due or 0.0) > time.monotonic():
            return self._facts.get(name)
        try:
            self._facts[name] = ServerFacts.of(self.sources[name], self._wanted, self._given)
        except TailraceError as error:
            if self._wanted is not None:
                raise
            if due is None:
                self._notice(
                    f"{name}: its tables and foreign keys could not be asked, so what the log does"
                    f" not have of them is not looked for: {error}"
                )
            self._due[name] = time.monotonic() + _AGAIN_SECONDS
        return self._facts.get(name)

    def all(self) -> dict[str, ServerFacts]:
        """The facts of all that answer."""
        found = ((name, self.facts(name)) for name in self.sources)
        return {name: facts for name, facts in found if facts is not None}
