"""One batch: what is new in logs is decoded by tasks, put into tables' states, and committed."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.position import Position, sequence_at
from tailrace.printable import printable
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.spark.lake.asides import STATES, Asides, set_aside, since
from tailrace.spark.lake.plan import Made
from tailrace.spark.manifest.damage import reading
from tailrace.spark.mirror.complete import statuses
from tailrace.spark.mirror.decode import check_sources, decode
from tailrace.spark.mirror.helper_tables import Followed, follow, is_helper, left_over
from tailrace.spark.mirror.report import report_of
from tailrace.spark.mirror.statements import Cut, between, first_statement, placed, restarts
from tailrace.spark.state.cascade.build import carry_out
from tailrace.spark.state.cascade.keys import links_of
from tailrace.spark.state.current import patching
from tailrace.spark.state.current.build import build
from tailrace.spark.state.current.timeline import is_named
from tailrace.spark.state.failure import Failure, check_writable, failure
from tailrace.spark.state.history import build_history
from tailrace.spark.state.source_changes import SourceChanges, SourceTable, table_changes
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pyarrow as pa

    from tailrace.columns import Split, TableChange
    from tailrace.schema.catalogue import Catalogue
    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.manifest.manifest import SourceState, Status
    from tailrace.spark.mirror.batches import Batches
    from tailrace.spark.mirror.decode import Decoded
    from tailrace.spark.mirror.report import MirrorReport
    from tailrace.spark.mirror.unnamed import Answer
    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.parquet.file import DataFolder
    from tailrace.spark.runtime.tasks import Given, Result
    from tailrace.spark.state.built import Built, State
    from tailrace.spark.state.changelog import ChangeFile


@dataclass(frozen=True)
class Again:
    """Tables that were set aside and are taken up again; without ``keys`` a batch is of all tables.

    ``names`` are the tables whose rows that takes. Tables in ``anew`` are made again from nothing.
    What needs rows that ``strangers``, by table's name, had before, fails. The tables
    are taken to the position ``reached``, from which on they are still set aside; where it is
    empty, to the end.
    ``answers`` are what the server said about them; ``offers`` receives what the log tells of those
    that are still without names. ``every`` are the splits to the end, of which
    the batch may take some: a later statement shows that an answer is not of these rows.
    ``known`` is the schema history with these answers, at the start of the file up to which the
    lake has the source.
    ``also`` are tables whose rows it takes to carry out the tables' foreign keys.
    """

    keys: frozenset[str] | None = None
    names: frozenset[TableName] | None = None
    anew: frozenset[str] = frozenset()
    strangers: frozenset[str] = frozenset()
    reached: str = ""
    answers: Mapping[TableName, Answer] = field(default_factory=dict)
    offers: dict[TableName, Answer] = field(default_factory=dict)
    every: Sequence[Split] = ()
    known: Catalogue | None = None
    also: frozenset[TableName] = frozenset()

    @property
    def read(self) -> frozenset[TableName] | None:
        """The tables whose rows it takes; None: all."""
        return None if self.names is None else self.names | self.also

    def has(self, key: str) -> bool:
        """Whether the batch works on a table."""
        return self.keys is None or key in self.keys

    def begins_with(self, key: str) -> bool:
        """Whether the batch begins with what the lake has of a table."""
        return self.has(key) and key not in self.anew


@dataclass
class Batch:
    """What was ``taken`` of each source, to be made and committed once.

    ``again`` says which tables are taken up, if that is what it is for. It ``looks`` at all tables
    for what others did to them, or at its own alone. With ``cuts`` it is to be cut where a
    statement ends a table's state. ``checked``: whether a new lake may begin so.
    """

    batches: Batches
    taken: Mapping[str, Taken]
    again: Again
    looks: bool
    cuts: bool
    checked: bool
    looked: bool = field(default=False, init=False)
    """Whether it has looked at all tables."""

    def __post_init__(self) -> None:
        self._store, self._options = self.batches.store, self.batches.options
        self._key = self._options.key
        self._followed: dict[str, Followed] = {}
        """The tables of each source that the batch reads although they are not selected."""
        self._restarts: dict[str, TableChange] = {}
        """The tables that come back with the statement that the batch begins with."""
        self._tables: dict[str, SourceTable] = {}
        """The tables that were built, by key."""

    def run(self, spent: dict[str, float]) -> MirrorReport:
        """Make and commit it; ``spent`` are seconds from before, by phase. Raises also `Cut`."""
        store, again, taken, tell = self._store, self.again, self.taken, self.batches.tell
        clock, seconds = time.perf_counter(), dict(spent)

        def lap(phase: str) -> None:
            nonlocal clock
            begun, clock = clock, time.perf_counter()
            seconds[phase] = clock - begun

        for source, each in taken.items():
            self._followed[source] = self._follow(source, each)
            for key, (at, change) in restarts(store.manifest, source, each.splits).items():
                if again.keys is None and at == each.begin:
                    self._restarts[key] = change
        retried = again.keys or frozenset(self._restarts)
        self._asides = Asides(store.manifest, self._options.keep, retried, again.reached)
        places = store.begin()
        decoded = decode(self.batches, taken, again, self._asides, self._followed)
        self._touched = self._concerned(decoded)
        aside = (again.keys or frozenset()) - again.anew
        keys = None if self.looks else self._of_all_sources(self._touched)
        unusable = store.refresh(self._in_tasks, aside, keys)
        if store.places is not places:  # tables of others' files have become ours again
            decoded = decode(self.batches, taken, again, self._asides, self._followed)
        self.looked = self.looks
        self._asides = replace(self._asides, before=store.manifest)
        for key, cause in unusable.items():
            if key not in again.anew:
                self._asides.fail_state(key, store.manifest.tables[key], cause)
        lap("read")
        with reading(f"what the lake {store.label} has"):
            sources = self._changes(decoded)
            followers: frozenset[str] = frozenset()
            if self.batches.applies:
                sources, followers = self._carried_out(decoded, sources)
                lap("cascades")
            merges = self._options.update_mode == "merge-on-read"
            patches = patching.DEFAULT_PATCHES if merges else None
            makes: dict[str, Callable[..., dict[SourceTable, Built]]]
            makes = {"current": partial(build, patches=patches), "history": build_history}
            built: dict[str, dict[str, Built]] = {part: {} for part in makes}
            for part, make in makes.items():
                if part in self._options.keep:
                    folder = store.staging / part
                    folder.mkdir()
                    found = make([*sources.values()], self._in_tasks, folder)
                    built[part] = self._by_key(found)
                    lap(part)
            made = self._made(decoded, built["current"], built["history"], followers)
            if again.keys is None:
                made = replace(made, incomplete=self._incomplete(made))
            if self.cuts:
                self._cut_where_tables_end(made)
            tell("commit", 0, 1)
            manifest = store.commit(made, self._in_tasks)
        tell("commit", len(manifest.tables), len(manifest.tables))
        lap("commit")
        size = sum(split.end - split.start for each in taken.values() for split in each.splits)
        report = report_of(manifest, made, size, seconds, self._restarts.keys())
        return report if again.keys is not None else replace(report, skipped=decoded.skipped)

    def _concerned(self, decoded: Decoded) -> frozenset[str]:
        """The keys of the tables that the batch is about: those with changes, and those that
        statements name. Where foreign keys are carried out, it may be about any table of a source.
        """
        tables = self._store.manifest.tables
        if self.again.keys is not None:
            return self.again.keys
        found = {*decoded.files, *self._restarts}
        if self.batches.applies:
            found |= {key for key in tables if tables[key].source in self.taken}
        for source, each in self.taken.items():
            names = {name for change in table_changes(each.splits) for name in change.names}
            several = {name for name in names if name.endswith(".*")}
            found |= {self._key(source, name) for name in names - several}
            for key in tables if several else ():
                if any(is_named(name, self._options.name(key, source)) for name in several):
                    found.add(key)
        return frozenset(
            key for key in found if key not in tables or tables[key].source in self.taken
        )

    def _of_all_sources(self, keys: Collection[str]) -> Collection[str]:
        """The keys of tables, and of shards those of the same tables of other sources."""
        if not self._options.shards:
            return keys
        sources = {*self._store.manifest.sources, *self._followed}  # with those new to the lake
        names = {key.removeprefix(f"{one}/") for key in keys for one in sources}
        return {*keys, *(self._key(source, name) for source in sources for name in names)}

    def _cut_where_tables_end(self, made: Made) -> None:
        """Raise `Cut` where a statement inside the batch may end the state of a table, so that
        the table has all from before it. A history has a new gap if it ended one, and continued.
        """
        ended = set(self._asides.rejected)
        for key, built in made.histories.items():
            known = self._store.manifest.tables.get(key)
            before = known.history.gaps if known is not None and known.history is not None else ()
            if len(built.rows.gaps) > len(before) and key not in self._asides.retried:
                ended.add(key)
        gone: dict[str, set[str]] = {}
        for source, name in map(self._tables.__getitem__, ended):
            gone.setdefault(source, set()).add(name)
        for source, tables in gone.items():
            if (place := between(self.taken[source].splits, tables)) is not None:
                raise Cut(source, place)

    def _made(
        self,
        decoded: Decoded,
        built: Mapping[str, Built],
        histories: Mapping[str, Built],
        followers: Collection[str],
    ) -> Made:
        """What the batch is to commit; tables of which something could not be made are set aside.

        ``followers`` are the keys of the tables that foreign keys change.
        """
        again, asides = self.again, self._asides
        histories = {**histories, **self._with_gaps(histories)}
        not_kept = self._not_kept()
        causes = [(key, each.failed) for key, each in built.items()]
        causes += [(key, each.failed) for key, each in histories.items()]
        for key, cause in causes:
            if cause is not None and key not in not_kept:
                self._fail(self._tables[key], cause, all=key in followers)
        if asides.tables.keys() - set_aside(self._store.manifest).keys():
            check_writable(self._store.staging)
        gone = self._left_over(built.keys() | histories.keys() | decoded.files.keys())
        gone = {key for key in gone - asides.tables.keys() if again.has(key)}
        left_out = gone | not_kept
        built = {key: each for key, each in built.items() if key not in left_out}
        histories = {key: each for key, each in histories.items() if key not in left_out}
        states: dict[str, SourceState] = {}
        points: dict[str, dict[str, SourceState]] = {}
        for name, each in self.taken.items() if again.keys is None or again.reached else ():
            before = self._store.manifest.sources.get(name) if again.keys is None else None
            state = each.state(before or each.begun)
            if state is None:
                continue
            if each.splits:
                state = replace(state, followed=tuple(sorted(self._followed[name].still)))
            if again.keys is None:
                states[name] = state
            elif since(state) == again.reached:
                points[name] = {again.reached: state}
        if again.known is not None:
            (name,) = self.taken
            states[name] = self._knowing(name, again.known)
        landing = {
            key: found
            for key, each in decoded.files.items()
            if key not in left_out and (found := self._landing(key, each))
        }
        return Made(
            landing,
            {key: each for key, each in built.items() if key not in asides.tables or each.moved},
            states,
            self._options,
            asides,
            self._touched | landing.keys() | built.keys() | histories.keys(),
            histories={k: each for k, each in histories.items() if k not in asides.tables},
            origins=self._renamed(),
            anew=(again.anew | gone) - asides.tables.keys(),
            points=points,
            written=frozenset(decoded.written if "changelog" in self._options.keep else ()),
        )

    def _carried_out(
        self, decoded: Decoded, sources: Mapping[str, SourceChanges]
    ) -> tuple[dict[str, SourceChanges], frozenset[str]]:
        """What there is with what foreign keys did, and the keys of the tables that follow others.

        Their changes are put into the batch's files.
        """
        again, files = self.again, decoded.files
        found: dict[str, SourceChanges] = {}
        followers: set[str] = set()
        top = self._store.staging / "cascades"
        for number, (source, changes) in enumerate(sources.items()):
            splits = self.taken[source].splits
            states = splits[-1].keys if splits else ()
            links = links_of(states, changes.wanted, changes.keys).carried
            children = {self._key(source, each.child): each.child for each in links}
            followers |= children.keys()
            for key in children.keys() & self._asides.tables.keys():
                self._stand_whole(key)
            unread = self._unread(source, children)
            mine = [each for each in links if self._works_on(source, each.child)]
            done = carry_out(
                changes,
                mine,
                decoded.quiet.get(source, ()),
                unread,
                self._in_tasks,
                top / str(number),
                decoded.to,
            )
            for name, cause in done.failed.items():
                key = self._key(source, name)
                there = key in files or key in self._store.manifest.tables  # else it has no rows
                if there and again.has(key):
                    self._fail(SourceTable(source, name), cause, all=True)
            for name, each in done.files.items():
                files[self._key(source, name)] = list(each)
                decoded.written |= {Path(file.path) for file in each}
            for key in [self._key(source, str(TableName(*each))) for each in again.also]:
                if not again.has(key):
                    files.pop(key, None)
            found[source] = replace(
                changes,
                files=decoded.of_source(source),
                aside=changes.aside | done.failed.keys(),
            )
        return found, frozenset(followers)

    def _stand_whole(self, key: str) -> None:
        """Let the changelog of a table that is set aside stand still, too.

        What foreign keys do to its rows is not known before it is taken up again.
        """
        asides = self._asides
        found = asides.tables[key]
        if "changelog" in self._options.keep and not asides.stands(key, "changelog"):
            status = found.status
            cause = Failure(status.reason, status.origins, status.unnamed, status.needs)
            asides.fail(key, found.source, found.name, cause, all=True)

    def _works_on(self, source: str, name: str) -> bool:
        """Whether a table that follows others is made in the batch, or others follow it there."""
        key = self._key(source, name)
        if self.again.has(key):
            return key not in self._asides.tables
        return bool(self.again.anew) and TableName.parse(name) in self.again.also

    def _unread(self, source: str, children: Mapping[str, str]) -> dict[str, str]:
        """The tables of which not all changes are there, and why."""
        kept = "changelog" in self._options.keep
        asides, again = self._asides, self.again
        found = {}
        for key, each in asides.tables.items():
            if each.source == source and (not kept or asides.stands(key, "changelog")):
                found[str(each.name)] = "it is set aside"
        for database, table in again.also if not again.anew else ():
            key = self._key(source, str(TableName(database, table)))
            if key in children and not again.has(key):
                found[children[key]] = "what its rows were then is not known any more"
        return found

    def _knowing(self, source: str, known: Catalogue) -> SourceState:
        """How far the lake has a source, with what was learned of tables that were taken up."""
        state = self._store.manifest.sources[source]
        catalogue = from_json(state.tables)
        still = {one.name for one in self._asides.tables.values()}
        catalogue.take_over(known, but=still)
        return replace(state, tables=to_json(catalogue))

    def _incomplete(self, made: Made) -> dict[str, Status | None]:
        """The tables that become incomplete by what was taken, or are so no more."""
        if STATES.isdisjoint(self._options.keep):
            return {}
        aside = self._asides.tables
        tables = {key: SourceTable(each.source, str(each.name)) for key, each in aside.items()}
        tables |= {
            key: table
            for key, table in made.origins.items()
            if key not in self._store.manifest.tables
        }
        tables |= {
            key: SourceTable(files[0].source, files[0].name) for key, files in made.files.items()
        }
        kept = made.built if "current" in self._options.keep else made.histories
        alive = kept.keys() | aside.keys()  # others were dropped
        tables = {key: each for key, each in tables.items() if key in alive}
        found = statuses(self._store.manifest, self.taken, tables)
        if self.batches.new is not None and not self.checked:
            every, whole = self.batches.every, self.batches.whole
            self.batches.new.check(self._store.manifest, found, tables, every, whole=whole)
        return found

    def _landing(self, key: str, files: Sequence[ChangeFile]) -> Sequence[ChangeFile]:
        """The files that go to a table's changelog: of one that is taken up those that it lacks."""
        again = self.again
        if self._asides.stands(key, "changelog") or not again.has(key):
            return ()
        if again.keys is None or key in again.anew or "changelog" not in self._options.keep:
            return files
        status = self._store.manifest.tables[key].set_aside
        at = None if status is None else status.parts.get("changelog")
        if at is None:
            return ()
        least = sequence_at(Position.parse(at)) if at else 0
        return [file for file in files if file.first >= least]

    def _fail(self, table: SourceTable, cause: Failure, *, all: bool = False) -> None:  # noqa: A002 - as `Asides.fail` calls it
        """Set a table aside that may be new to the lake; its cause has names of its source."""
        source, name = table
        key, asides, there = self._key(*table), self._asides, self._store.manifest.tables
        named = (self._key(source, each) for each in cause.origins)
        origins = tuple(each for each in named if each in there or each in asides.tables)
        cause, known = replace(cause, origins=origins), there.get(key)
        if cause.rejected:
            asides.rejected.add(key)
            before = known.set_aside if known is not None else None
            if before is not None and cause.reason in before.reason:  # it names the statement
                cause = replace(cause, reason=before.reason)
            elif (text := first_statement(self.taken[source].splits, name)) not in cause.reason:
                cause = replace(cause, reason=f"{cause.reason} ({printable(text)})")
        if known is not None:
            asides.fail_state(key, known, cause, all=all)
        else:
            asides.fail(key, source, TableName.parse(name), cause, all=all)

    def _with_gaps(self, histories: Mapping[str, Built]) -> dict[str, Built]:
        """The histories of tables that come back lack the versions since they stood still."""
        found = {}
        for key, change in self._restarts.items():
            built, state = histories.get(key), self._store.manifest.tables[key]
            status = state.set_aside
            if built is None or built.failed is not None or status is None:
                continue
            since_1970 = dt.timedelta(microseconds=change.micros)
            until = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + since_1970
            reason = status.reason.removeprefix(f"{state.full_name}: ")
            gap = (
                f"not all versions since {status.parts.get('history') or 'the log begins'} until "
                f"{until:%Y-%m-%d %H:%M:%S.%f} UTC: {reason}"
            )
            rows = replace(built.rows, gaps=(*built.rows.gaps, gap))
            found[key] = replace(built, rows=rows)
        return found

    def _changes(self, decoded: Decoded) -> dict[str, SourceChanges]:
        """What is new of each source, and the states that its tables have in the lake."""
        again, asides = self.again, self._asides
        found = {}
        for source, each in self.taken.items():
            current: dict[str, State] = {}
            history: dict[str, State] = {}
            for key in sorted(self._touched & self._store.manifest.tables.keys()):
                table = self._store.manifest.tables[key]
                if table.source != source or not again.begins_with(key):
                    continue
                name = str(table.full_name)
                try:
                    if table.current is not None:
                        current[name] = table.current, self._store.paths(key, "current")
                    if table.history is not None:
                        history[name] = table.history, self._store.paths(key, "history")
                except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                    asides.fail_state(key, table, failure(error))
            found[source] = SourceChanges(
                each.splits,
                decoded.of_source(source),
                current,
                out=self._out,
                histories=history,
                keys=dict(self._options.keys),
                source=source,
                shard=source if self._options.shards else None,
                aside=frozenset(
                    str(one.name) for one in asides.tables.values() if one.source == source
                ),
                strangers=again.strangers,
                restarted=frozenset(
                    str(state.full_name)
                    for key in self._restarts
                    if (state := self._store.manifest.tables[key]).source == source
                ),
                wanted=partial(self._wanted, source),
                deleted=partial(self._deleted, source),
            )
        return found

    def _out(self, part: str, name: str, columns: pa.Schema) -> DataFolder:
        return self._store.places.folder(TableName.parse(name), part, columns)

    def _deleted(self, source: str, name: str) -> Mapping[str, DeletedRows]:
        return self._store.deleted(self._key(source, name))

    def _by_key(self, built: Mapping[SourceTable, Built]) -> dict[str, Built]:
        """What was made of the tables that the batch is about, by key."""
        check_sources(self.batches, built)
        self._tables |= {self._key(*table): table for table in built}
        found = {self._key(*table): each for table, each in built.items()}
        return {key: each for key, each in found.items() if self.again.has(key)}

    def _renamed(self) -> dict[str, SourceTable]:
        """The tables that got their names from others, by key."""
        return {
            self._key(source, change.renamed): SourceTable(source, change.renamed)
            for source, each in self.taken.items()
            for change in table_changes(each.splits)
            if change.renamed is not None and self._wanted(source, change.renamed)
        }

    def _follow(self, source: str, taken: Taken) -> Followed:
        """The tables that are read although they are not selected.

        A part of a batch that was cut keeps those that are renamed in a later part.
        """
        if self._options.tables.takes_all:
            return Followed()
        sources = self._store.manifest.sources
        is_again = self.again.keys is not None
        before = taken.begun if is_again else sources.get(source)
        known = before.followed if before is not None else ()
        if is_again:
            return follow(table_changes(taken.splits), known, self._options.tables)
        every = self.batches.every[source]
        changes = [change for at, change in placed(every.splits) if at >= taken.begin]
        found = follow(changes, known, self._options.tables)
        return found if taken.end == every.end else replace(found, still=found.read)

    def _left_over(self, made: Collection[str]) -> set[str]:
        """The keys of the tables of online schema changes that are gone: nothing of them stays."""
        tables = self._store.manifest.tables
        found: set[str] = set()
        for source, each in self.taken.items():

            def is_there(database: str, table: str, source: str = source) -> bool:
                key = self._key(source, str(TableName(database, table)))
                return key in tables or key in made

            for name in left_over(table_changes(each.splits), is_there):
                found.add(self._key(source, str(name)))
        return found

    def _wanted(self, source: str, table: str) -> bool:
        """Whether a source's rows of a table are read."""
        name = TableName.parse(table)
        return name in self._followed[source].read or self._options.tables(*name)

    def _not_kept(self) -> set[str]:
        """The keys of the tables that are read for this batch alone."""
        return {
            self._key(source, str(name))
            for source, followed in self._followed.items()
            for name in followed.read - followed.still
            if not is_helper(name, self._options.tables)
        }

    def _in_tasks(self, job: Callable[[Given], Result], arguments: Sequence[Given]) -> list[Result]:
        total = len(arguments)
        self._store.places.note()
        jobs = [one for each in arguments for one in (each if isinstance(each, tuple) else (each,))]
        return self.batches.workers.run(
            job,
            arguments,
            sum(one.reads for one in jobs),
            lambda finished: self.batches.tell("current", finished, total),
        )
