"""What a new lake may begin with: the tables that its patterns name, and complete ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError, UsageError
from tailrace.live.tables import connected, has_rows
from tailrace.printable import printable
from tailrace.spark.lake.asides import STATES
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tailrace.position import Position
    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.input.server_facts import ServerFacts
    from tailrace.spark.input.sources import Sources
    from tailrace.spark.manifest.lake_options import LakeOptions
    from tailrace.spark.manifest.manifest import Manifest, Status
    from tailrace.spark.state.source_changes import SourceTable

_LISTED: Final = 10


class NewLake:
    """Lets a lake begin only with the tables that it is to have: it keeps its first patterns.

    Servers have been asked for tables, files are read first: where there are any, tables may be in
    these, too, and what the user of a server must not see is looked for in its log. A name that
    fits no table is an error. With ``follow`` a table may be created later, so it is one only where
    no name fits and there is no pattern with ``*``. ``notice`` is told the rest.

    A lake that keeps states begins with incomplete tables only if ``accept`` allows it. Servers are
    asked for tables that have rows of which nothing is in the log, once the log is read up to where
    it ended when they were asked first. With ``follow`` this may be after the first batch. The lake
    exists then, so the tables are only reported.

    Raises UsageError where a name fits no table.
    """

    def __init__(
        self,
        options: LakeOptions,
        sources: Sources,
        *,
        accept: bool,
        follow: bool,
        notice: Callable[[str], None],
    ) -> None:
        self._selected = options.tables
        self.tables = options.tables.watched()
        self._sources = sources.asked.sources
        self._accept = accept
        self._follow = follow
        self._notice = notice
        servers = sources.asked.all()
        self._known = set[TableName]().union(*(each.tables for each in servers.values()))
        self._open = not options.tables.takes_all
        if self._open and not (sources.files or any(each.hides for each in servers.values())):
            self._decide_names("on the server" if len(servers) == 1 else "on the servers")
        self._asked: dict[str, ServerFacts] = {}
        for name, facts in servers.items() if not STATES.isdisjoint(options.keep) else ():
            if not follow or facts.end is not None:
                self._asked[name] = facts
                continue
            notice(
                f"{name}: tables with rows of which nothing is in the log are not looked"
                " for: its user may not see where the log ends, which takes REPLICATION"
                " CLIENT (MariaDB: BINLOG MONITOR)"
            )

    def read(self, tables: Iterable[TableName]) -> None:
        """The tables that the first batch of logs knows of. Raises UsageError."""
        if self._open:
            self._known |= set(tables)
            self._decide_names("in the logs")

    def _decide_names(self, where: str) -> None:
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

    def check(
        self,
        manifest: Manifest,
        found: Mapping[str, Status | None],
        fresh: Mapping[str, SourceTable],
        taken: Mapping[str, Taken],
        *,
        whole: bool = True,
    ) -> None:
        """Look at a batch before it is committed: at what `statuses` ``found``, and at servers, if
        their logs were read as far as they were to be (``whole``).

        Raises `PipelineError` where the lake is not to begin so.
        """
        names = [] if manifest.version else [fresh[key].name for key in found]
        reached = self._reached(taken) if whole else []
        for source in reached:
            seen = {TableName.parse(each.name) for each in fresh.values() if each.source == source}
            seen |= {each.full_name for each in manifest.tables.values() if each.source == source}
            names += self._untouched(source, seen.union(taken[source].whole))
        if names:
            begins = [each.begin for each in taken.values()]
            self._decide_rows(names, begins[0] if not manifest.version else None)
        for source in reached:
            del self._asked[source]

    def _reached(self, taken: Mapping[str, Taken]) -> list[str]:
        """The servers whose logs are read up to where they ended when they were asked."""
        found = []
        for source in self._asked.keys() & taken.keys():
            end = self._asked[source].end
            if not self._follow or (end is not None and not taken[source].end < end):
                found.append(source)
        return found

    def _decide_rows(self, names: Sequence[str], first: Position | None) -> None:
        begin = "the log begins" if first is None else str(first)
        text = (
            f"{_listed(sorted(set(names)))} incomplete: rows from before {begin}"
            f"{'' if first is None else ', where the log that is read begins,'} are not in it"
        )
        if self._accept or first is None:
            self._notice(text)
            return
        raise PipelineError(
            f"{text}. --incomplete accept creates the lake with what the log has; else leave them "
            "out by --exclude, or give all logs since their CREATE TABLE"
        )

    def _untouched(self, source: str, known: Collection[tuple[str, str]]) -> list[str]:
        """The tables of a server that have rows, or may have, and that are not in the log."""
        tables = self._asked[source].tables.difference(known)
        left = [each for each in sorted(tables) if self._selected(*each)]
        if not left:
            return []
        with connected(self._sources[source]) as connection:
            return [str(TableName(*each)) for each in left if has_rows(connection, each)]


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(map(printable, names[:_LISTED]))
    if len(names) > _LISTED:
        text += f" and {len(names) - _LISTED:,} more"
    return f"{text} {'is' if len(names) == 1 else 'are'}"
