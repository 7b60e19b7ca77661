"""Columns that the log does not name (``binlog_row_metadata=MINIMAL``): the server is asked.

The server is also asked where MariaDB's updates lack columns that it may generate: the log does not
mark generated columns, and only a definition determines them (`Column.may_be_lacking`).

Where the CREATE TABLE was not read either, a table of a server is set aside. Then the server is
asked for the table's definition, and for where its log ends. Once the lake has the log up to there,
the table is taken up again with that definition: it is used where all that the log says of the rows
fits it, and where no statement after the first of them changed the table up to there. What was
learned goes into the schema history of the lake's manifest, so that it is asked for once.

What no log shows is not seen: a change by a statement that is not logged (``sql_log_bin=0``), or
columns that were renamed back and forth.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import ConnectionLost
from tailrace.live.tables import definitions_of
from tailrace.log_name import file_number
from tailrace.position import Position, parts_of, sequence_at
from tailrace.schema.catalogue import Learned
from tailrace.schema.tables import TableState
from tailrace.spark.lake.asides import in_order, set_aside
from tailrace.spark.state.current.timeline import is_named
from tailrace.spark.state.failure import Failure
from tailrace.spark.state.source_changes import table_changes
from tailrace.table_name import TableName
from tailrace.values.schema import ColumnDefinition, TableDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from tailrace.columns import Split, TableChange
    from tailrace.live.url import Source
    from tailrace.spark.manifest.manifest import Manifest, Status
    from tailrace.spark.manifest.manifest import TableState as LakeTable
    from tailrace.spark.mirror.decode import Written
    from tailrace.spark.state.changelog import Named, Unnamed
    from tailrace.values.schema import TableSchema


_AGAIN_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Answer:
    """What there is for a table's columns: a definition, or the reason why there is none.

    Of a table that was renamed, its definition is that which it has as ``called``, and what comes
    after ``learned.end`` is done to it by the statements in the log. ``end`` is where the log ended
    when the server was asked. ``by_log`` says that the log gave the answer, or said whom to ask.
    """

    learned: Learned | None
    reason: str = ""
    end: Position | None = None
    called: TableName | None = None
    by_log: bool = False
    flavour: Flavour | None = None

    @property
    def pending(self) -> bool:
        """Whether the table is still to be asked for by its other name."""
        return self.called is not None and self.learned is None and not self.reason


@dataclass(frozen=True)
class _Fate:
    """What became of a table's rows: under which name they are, from which statement on.

    ``gone`` says that there is no such table any more; ``changed`` is the ``_seq`` of the first
    statement that changed its columns, None where there is none.
    """

    name: TableName
    renamed: int | None = None
    gone: bool = False
    changed: int | None = None


@dataclass
class Missing:
    """What a batch's rows without names come to, of one source.

    ``failed`` are tables to be set aside. The rows of ``bare`` ones are taken without names, for
    their table is gone or was replaced, and nobody can tell them any more; those in ``forget`` are
    not what the server's definition is of. ``offers`` are definitions that later rows in the log
    give.
    """

    failed: dict[TableName, Failure] = field(default_factory=dict)
    bare: set[TableName] = field(default_factory=set)
    forget: set[TableName] = field(default_factory=set)
    offers: dict[TableName, Answer] = field(default_factory=dict)
    whole: set[TableName] = field(default_factory=set)
    """Tables whose changelog fails too: of others, only what updates lack is in doubt."""


def missing_names(
    splits: Sequence[Split],
    results: Iterable[Written],
    answers: Mapping[TableName, Answer],
    keyed: Container[str],
) -> Missing:
    """What to do about rows without names, or without columns, in the splits of a source.

    ``results`` are theirs, in order; ``answers`` what was asked for, and given to the splits. The
    user gave the key of the tables ``keyed``: others without one have a changelog only, for which
    it does not matter what updates lack.
    """
    left_out: dict[TableName, list[Unnamed]] = {}
    lacking: dict[TableName, list[Unnamed]] = {}
    by_log: dict[TableName, Named] = {}
    begins: dict[tuple[bool, TableName], int] = {}
    for written in results:
        for table, first_named in written.by_log:
            by_log.setdefault(table, first_named)
        for table, rows in written.unnamed:
            left_out.setdefault(table, []).append(rows)
        has_states = set()
        for file in written.files:
            table = TableName(file.database, file.table)
            begin: int | None = file.first
            if file.key or file.name in keyed:
                has_states.add(table)
            if lacks := file.names != "server":
                asked = answers.get(table)
                in_doubt = asked is not None and asked.flavour is Flavour.MARIADB
                begin = file.updates_lack if in_doubt and table in has_states else None
            if begin is not None:
                begins[lacks, table] = min(begin, begins.get((lacks, table), begin))
        for table, rows in written.lacking:
            if table in has_states:
                lacking.setdefault(table, []).append(rows)
    found = Missing(whole={*left_out, *(table for lacks, table in begins if not lacks)})
    changes = table_changes(splits)
    for (lacks, table), first in sorted(begins.items(), reverse=True):  # names weigh more
        answer = answers.get(table)
        if answer is None or answer.end is None:
            continue  # it was learned before what is read now
        fate = _fate(changes, table, first, sequence_at(answer.end))
        if fate.gone:
            found.bare.add(table)
            found.forget.add(table)
        elif fate.changed is not None:
            found.failed[table] = _changed(splits, first, fate.changed, lacks=lacks)
        elif fate.renamed is not None and answer.called is None:
            found.offers[table] = _other(splits, fate.name, fate.renamed)
            found.failed[table] = _unread(splits, first, lacks=lacks, unnamed=True)
    for table in left_out | lacking:
        cause = left_out.get(table) or lacking[table]
        every = [*left_out.get(table, ()), *lacking.get(table, ())]
        every.sort(key=lambda each: each.first)
        first, last = cause[0].first, max(each.last for each in every)
        answer, named = answers.get(table), by_log.get(table)
        fate = _fate(changes, table, every[0].first)
        lacks = table not in left_out
        offer: Answer | None = None
        if fate.gone:
            found.bare.add(table)
            found.failed.pop(table, None)
            found.offers.pop(table, None)
            continue
        if answer is not None and not answer.by_log:
            if named is not None and table not in lacking and _fits(named, every, fate):
                learned = Learned(_state(named.table), _place(splits, max(last, named.first)))
                offer = Answer(learned, end=learned.end, by_log=True)
            elif fate.renamed is not None:
                offer = _other(splits, fate.name, fate.renamed)
        if offer is not None:
            found.offers[table] = offer
        if answer is None or offer is not None:
            found.failed[table] = _unread(splits, first, lacks=lacks, unnamed=True)
        elif answer.learned is None:
            why = _untold(answer.reason, lacks=table in lacking)
            found.failed[table] = _unread(splits, first, why, lacks=lacks)
        elif fate.changed is not None:
            found.failed[table] = _changed(splits, first, fate.changed, lacks=lacks)
        else:
            why = _misfit(every[0], answer.learned)
            found.failed[table] = _unread(splits, first, why, lacks=lacks)
    return found


def _fate(
    changes: Sequence[TableChange], table: TableName, first: int, end: int | None = None
) -> _Fate:
    """What statements did to a table after its rows at ``first``, up to ``end``."""
    fate = _Fate(table)
    for change in changes:
        if change.seq <= first or (end is not None and change.seq >= end):
            continue
        if not is_named(change.table, str(fate.name)):
            continue
        if change.kind in {"create", "drop"}:
            return replace(fate, gone=True)
        if change.renamed is not None:
            since = change.seq if fate.renamed is None else fate.renamed
            fate = replace(fate, name=TableName.parse(change.renamed), renamed=since)
        elif change.kind in {"alter", "unclear"} and change.columns and fate.changed is None:
            fate = replace(fate, changed=change.seq)
    return fate


def _other(splits: Sequence[Split], called: TableName, renamed: int) -> Answer:
    """That a table is to be asked for by the name that it was given."""
    return Answer(None, end=_place(splits, renamed), called=called, by_log=True)


def _fits(named: Named, rows: Sequence[Unnamed], fate: _Fate) -> bool:
    """Whether rows that the log names are of the same columns as those before that it does not."""
    seq = max(named.first, *(each.last for each in rows))
    others = [each for each in (fate.changed, fate.renamed) if each is not None]
    if named.first < rows[0].first or any(each < seq for each in others):
        return False
    columns = [(each.type, each.metadata, each.nullable) for each in named.table.columns]
    return all(
        [(each.type, each.metadata, each.nullable) for each in one.columns] == columns
        for one in rows
    )


def _state(table: TableSchema) -> TableState:
    """The definition that a table map with names gives."""
    columns = tuple(
        ColumnDefinition(
            each.name,
            unsigned=each.unsigned,
            collation=each.collation,
            members=each.members,
            logical=each.logical,
            nullable=each.nullable,
        )
        for each in table.columns
    )
    key = tuple(table.columns[index].name for index in table.primary_key)
    return TableState(TableDefinition(table.database, table.table, columns, key))


def _unread(
    splits: Sequence[Split], first: int, why: str = "", *, lacks: bool, unnamed: bool = False
) -> Failure:
    place = _place(splits, first)
    what = f"the log does not name its columns from {place} on (binlog_row_metadata=MINIMAL)"
    if lacks:
        what = f"updates from {place} on lack columns, which the server may generate"
    return Failure(f"{what}, and its CREATE TABLE was not read{why}", unnamed=unnamed)


def _untold(reason: str, *, lacks: bool) -> str:
    other = ", or set binlog_row_metadata=FULL on the source and wait for rows of it"
    return f"; the server does not tell them: {reason}. Give --schema FILE{'' if lacks else other}"


def _misfit(rows: Unnamed, learned: Learned) -> str:
    here, there = len(rows.columns), len(learned.state.definition.columns)
    what = "other columns" if here == there else f"{there} columns, and {here} in the log"
    return (
        f"; the server's definition does not fit: it has {what}. Give --schema FILE with the "
        "definition that these rows were written with"
    )


def _changed(splits: Sequence[Split], first: int, seq: int, *, lacks: bool) -> Failure:
    failure = _unread(splits, first, lacks=lacks)
    first_step = "" if lacks else "set binlog_row_metadata=FULL on the source, and "
    return Failure(
        f"{failure.reason}; the server's definition is not that of these rows, as a statement at "
        f"{_place(splits, seq)} changed the table: they cannot be read",
        needs=f"{first_step}create a new lake that begins after that statement",
    )


def _place(splits: Sequence[Split], seq: int) -> Position:
    number, offset, _ = parts_of(seq)
    names = (split.file for split in splits if file_number(split.file) == number)
    return Position(next(names, splits[0].file), offset)


def _called(state: TableState, table: TableName) -> TableState:
    return replace(state, definition=replace(state.definition, database=table[0], table=table[1]))


class AskedNames:
    """Asks servers for the definitions of tables that are set aside as their names are missing.

    ``servers`` are those that can be asked, by what they are called in the lake.
    """

    def __init__(
        self,
        servers: Mapping[str, Source],
        notice: Callable[[str], None],
    ) -> None:
        self._servers = servers
        self._notice = notice
        self._answers: dict[str, dict[TableName, Answer]] = {}
        self._given_up: set[str] = set()
        self._due: dict[str, float] = {}
        """When those are asked again that did not answer."""

    def answered(self, manifest: Manifest) -> dict[str, dict[str, Answer]]:
        """The tables that can be taken up now, by source and key; servers are asked for others."""
        found: dict[str, dict[str, Answer]] = {}
        for source, tables in self._waiting(manifest).items():
            known = self._answers.setdefault(source, {})
            self._ask(source, {each: known.get(each) for each in tables.values()})
            here = manifest.sources[source].position
            ready = {
                key: answer
                for key, table in tables.items()
                if (answer := known.get(table)) is not None
                and not answer.pending
                and (answer.end is None or not here < answer.end)
            }
            if ready:
                found[source] = ready
        return found

    def _ask(self, source: str, tables: Mapping[TableName, Answer | None]) -> None:
        """Ask for tables that nothing is known of, and for those that were renamed by that name."""
        names = {
            table: table if answer is None or answer.called is None else answer.called
            for table, answer in tables.items()
            if answer is None or answer.pending
        }
        if not names or self._due.get(source, 0.0) > time.monotonic():
            return
        try:
            said = definitions_of(self._servers[source], list(names.values()))
        except ConnectionLost as error:
            self._due[source] = time.monotonic() + _AGAIN_SECONDS
            self._notice(f"{source}: its tables' definitions could not be asked: {error}")
            return
        known = self._answers[source]
        for table, name in names.items():
            before = tables[table] or Answer(None)
            known[table] = replace(before, reason=said.reasons.get(name, ""), end=None)
            if said.end is not None and name in said.tables:
                state = _called(said.tables[name], table)
                learned = Learned(state, before.end or said.end)
                known[table] = replace(before, learned=learned, end=said.end, flavour=said.flavour)

    def used(
        self, source: str, tables: Iterable[TableName], offers: Mapping[TableName, Answer]
    ) -> None:
        """The answers for tables were used; ``offers`` are better ones.

        Tables without an offer are asked for again, if they ever come to be.
        """
        known = self._answers.setdefault(source, {})
        for table in tables:
            known.pop(table, None)
        known.update(offers)

    def give_up(self, key: str, why: Exception) -> None:
        """A table cannot be taken up in this run."""
        self._given_up.add(key)
        self._notice(str(why))

    def waits(self, manifest: Manifest) -> bool:
        """Whether a table waits for log that comes until its server was asked."""
        return bool(self._waiting(manifest))

    def _waiting(self, manifest: Manifest) -> dict[str, dict[str, TableName]]:
        """The tables that are to be asked for, by source and key."""
        found: dict[str, dict[str, TableName]] = {}
        for key, state, _ in _unnamed(manifest):
            is_known = state.source in self._servers and state.source in manifest.sources
            if is_known and key not in self._given_up:
                found.setdefault(state.source, {})[key] = state.full_name
        return found


def first_needed(manifest: Manifest, source: str) -> str | None:
    """The first file of a source's log that is read again once servers were asked, if any is."""
    state = manifest.sources.get(source)
    if state is None:
        return None
    places = [
        at
        for _, table, status in _unnamed(manifest)
        if table.source == source
        for at in status.parts.values()
    ]
    if not places:
        return None
    place = min(places, key=in_order)
    return Position.parse(place).file if place else next(iter(state.files), state.file)


def _unnamed(manifest: Manifest) -> Iterator[tuple[str, LakeTable, Status]]:
    """The tables that are set aside until their servers are asked, by key, and their status."""
    for key, status in set_aside(manifest).items():
        if status.unnamed:
            yield key, manifest.tables[key], status
