"""Which tables have all their rows in the lake: the one rule, and what a new lake begins with.

A table is complete where a statement that was read says that it was without rows: CREATE TABLE, or
TRUNCATE TABLE later (`tailrace.schema.catalogue.Catalogue`). All else cannot be determined from a
log: such a table may have rows that are older, and is *incomplete*. It is marked so as it comes
into the lake, until it is recreated or emptied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError
from tailrace.live.tables import connected, has_rows
from tailrace.printable import printable
from tailrace.spark.manifest.manifest import INCOMPLETE, Status
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.state.current.timeline import lives
from tailrace.spark.state.source_changes import table_changes
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tailrace.position import Position
    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.input.server_facts import AskedServers, ServerFacts
    from tailrace.spark.manifest.manifest import Manifest
    from tailrace.spark.state.source_changes import SourceTable
    from tailrace.table_filter import TableFilter

_LISTED: Final = 10
_NEEDS: Final = "a CREATE TABLE or TRUNCATE TABLE of it in the log"


def statuses(
    manifest: Manifest,
    taken: Mapping[str, Taken],
    fresh: Mapping[str, SourceTable],
) -> dict[str, Status | None]:
    """What a batch makes of tables: that they are incomplete, or with None that they are no more.

    ``fresh`` are the tables with changes, those that got names from others, and those that are set
    aside, by the lake's key. What the lake had as complete stays so.
    """
    whole = {source: each.whole for source, each in taken.items() if each.splits}
    emptied = {source: _emptied(each) for source, each in taken.items()}
    exchanged = {  # they are set aside for that
        source: {change.table for change in table_changes(each.splits) if change.exchanged}
        for source, each in taken.items()
    }
    gone = {source: _gone(each) for source, each in taken.items()}
    found: dict[str, Status | None] = {}
    for key, (source, name) in fresh.items():
        known = manifest.tables.get(key)
        if source not in whole or not (known is None or known.dropped):
            continue
        moved = name in exchanged[source]
        # only a history may be left of it, which is whole
        is_over = name in emptied[source] and name in gone[source]
        if not (moved or is_over) and TableName.parse(name) not in whole[source]:
            found[key] = _incomplete(manifest, taken, source)
    for key, known in with_status(manifest.tables):
        if known.source not in whole or known.full_name not in whole[known.source]:
            continue
        if known.status(INCOMPLETE) is not None and str(known.full_name) in emptied[known.source]:
            found[key] = None
    return found


def _emptied(taken: Taken) -> set[str]:
    """The tables that statements created or emptied, also under their later names."""
    found: set[str] = set()
    for change in table_changes(taken.splits):
        if change.kind in {"create", "truncate"}:
            found.add(change.table)
        elif change.kind == "rename" and change.table in found and change.renamed is not None:
            found.add(change.renamed)
    return found


def _gone(taken: Taken) -> set[str]:
    """The tables that statements made, renamed or dropped, and that are no more."""
    found = lives((), (), table_changes(taken.splits), lambda _: True)
    return {name for name, life in found.items() if life.dropped}


def _incomplete(manifest: Manifest, taken: Mapping[str, Taken], source: str) -> Status:
    state = manifest.sources.get(source)
    if state is None:
        since = str(taken[source].begin)
    else:
        since = f"{next(iter(state.files), state.file)}:4"
    return Status(
        INCOMPLETE,
        f"its CREATE TABLE is not in the log from {since} on, so rows from before are missing",
        since,
        _NEEDS,
    )


class CompleteTables:
    """Lets a new lake begin with incomplete tables only where that is accepted.

    ``servers`` are asked for tables that have rows of which nothing is in the log, once the log is
    read up to where it ended when they were asked first. With ``follow`` this may be after the
    first batch. The lake exists then, so the tables are only reported.
    """

    def __init__(
        self,
        tables: TableFilter,
        servers: AskedServers,
        *,
        accept: bool,
        follow: bool,
        notice: Callable[[str], None],
    ) -> None:
        self._tables = tables
        self._servers = servers.sources
        self._accept = accept
        self._follow = follow
        self._notice = notice
        self._asked: dict[str, ServerFacts] = {}
        for name, facts in servers.all().items():
            if not follow or facts.end is not None:
                self._asked[name] = facts
                continue
            notice(
                f"{name}: tables with rows of which nothing is in the log are not looked"
                " for: its user may not see where the log ends, which takes REPLICATION"
                " CLIENT (MariaDB: BINLOG MONITOR)"
            )

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
            self._decide(names, begins[0] if not manifest.version else None)
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

    def _decide(self, names: Sequence[str], first: Position | None) -> None:
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
        left = [each for each in sorted(tables) if self._tables(*each)]
        if not left:
            return []
        with connected(self._servers[source]) as connection:
            return [str(TableName(*each)) for each in left if has_rows(connection, each)]


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(map(printable, names[:_LISTED]))
    if len(names) > _LISTED:
        text += f" and {len(names) - _LISTED:,} more"
    return f"{text} {'is' if len(names) == 1 else 'are'}"
