"""What a lake's committed version holds, and how far each source was read: its manifest.

It is kept in the lake's journal (`manifest.journal`), which is read by us alone; the data files are
plain Parquet.

A table is *set aside* where something went wrong with it alone: what is kept of it stands still,
and the other tables continue. It is *incomplete* where it may have rows from before the log that
was read. docs/design/lake.md says how a table becomes either, and how it is taken up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from tailrace.errors import PipelineError
from tailrace.position import Position
from tailrace.spark.manifest.lake_options import LakeOptions
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    import pyarrow as pa

SET_ASIDE: Final = "set_aside"
INCOMPLETE: Final = "incomplete"
KINDS: Final = (SET_ASIDE, INCOMPLETE)

Kind = Literal["set_aside", "incomplete"]


@dataclass(frozen=True)
class SourceState:
    """How far a source's log is in the lake: up to ``offset`` of ``file``.

    ``files`` has the sizes of the files before that one, as they were read. ``head`` and ``tail``
    are digests of its first bytes and of those before ``offset``, by which it is known again.
    ``tables`` is the schema history up to where ``file`` begins (`tailrace.schema.catalogue_json`).
    ``followed`` are tables that are not selected, and that the lake has since their CREATE TABLE
    (`tailrace.spark.mirror.helper_tables`). ``seen`` is up to where the log was known when the
    batch was planned: what is rolled back up to there was left out (None: in a lake of an earlier
    build).
    """

    file: str
    offset: int
    files: dict[str, int]
    head: str
    tail: str
    tables: dict[str, Any]
    followed: tuple[TableName, ...] = ()
    seen: Position | None = None

    @property
    def position(self) -> Position:
        """Where what follows begins."""
        return Position(self.file, self.offset)


@dataclass(frozen=True)
class DataFile:
    """A data file of a table, by its name in the table's folder; ``memory``: bytes as Arrow.

    ``rows`` is how many it has, of which ``deleted`` are deleted: only files of a current state in
    Delta and Iceberg have any, and the table itself says which. ``spent`` is the bytes that its
    deletion vectors have taken so far, batch by batch (`tailrace.spark.state.current.patching`).
    """

    name: str
    rows: int
    size: int
    memory: int
    deleted: int = 0
    spent: int = 0

    @property
    def live(self) -> int:
        """The rows that are not deleted."""
        return self.rows - self.deleted


@dataclass(frozen=True)
class TableRows:
    """A table's current state, or its history: files of rows, and what to know about the rows.

    The n-th of ``files`` holds the keys of bucket n; of a history, their open versions. ``tails``
    are files with rows of any keys, newer than those in the buckets' files; a live row is in one
    file only. ``closed`` are a history's files of ended versions: lakes of tables do not list them,
    but for one entry without a name that has their sums.

    ``columns`` are those of the table and ``key`` its key's, by which the rows are bucketed. Of a
    table that never had a state ``refused`` says why there is none, and there is no file.
    ``unseen`` counts rows whose insert is not in the log; ``unlogged`` are columns that are left
    out, since the log does not tell what updates made of them. ``added`` are columns that no row
    has shown the type of yet: name, default's text, and why that is unknown. ``gaps`` are sentences
    that say where a history's versions are missing: the table was unsupported, and recreated since.
    """

    columns: pa.Schema
    key: tuple[str, ...]
    files: tuple[DataFile | None, ...] = ()
    refused: str | None = None
    unseen: int = 0
    notes: tuple[str, ...] = ()
    unlogged: tuple[str, ...] = ()
    added: tuple[tuple[str, str | None, str | None], ...] = ()
    tails: tuple[DataFile, ...] = ()
    closed: tuple[DataFile, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[DataFile | None, ...]:
        """The files by bucket, then the tails: in the order of their paths."""
        return (*self.files, *self.tails)

    @property
    def placed(self) -> tuple[DataFile, ...]:
        """The files that are in a place: all but those of ended versions."""
        return tuple(file for file in self.places if file is not None)

    @property
    def data(self) -> tuple[DataFile, ...]:
        """All files that there are."""
        return (*self.placed, *self.closed)

    @property
    def rows(self) -> int:
        """The rows of the table, or its versions, open and closed."""
        return sum(file.live for file in self.data)


@dataclass(frozen=True)
class Status:
    """Why a table is not right, since where in its source's log, and what it needs to be so.

    ``since`` is a position (``binlog.000003:1234``): up to there a table that is set aside has all
    of the log; empty where that is nothing. ``needs`` says what to do. Of a table that is set aside
    ``parts`` are those of what is kept that stand still, each with its own ``since``; ``origins``
    are the tables, set aside before, whose rows it took over by RENAME TABLE; ``batch`` is the one
    that its parts in the lake have not all taken yet, 0 where there is none. ``unnamed`` says that
    its server is to be asked for its columns (`tailrace.spark.mirror.unnamed`), and ``ended`` that
    a statement ended its state, and another one brings it back.
    """

    kind: str
    reason: str
    since: str
    needs: str = ""
    parts: dict[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    batch: int = 0
    unnamed: bool = False
    ended: bool = False

    def reads(self, keep: Collection[str]) -> bool:
        """Whether the rows of a table that is set aside are read still, of which a lake has
        ``keep``: for its changelog, where that continues.
        """
        return "changelog" in keep and "changelog" not in self.parts


@dataclass(frozen=True)
class TableState:
    """A table in the lake; ``dropped`` where the source has it no more (its changelog stays).

    ``folder`` is the name of its folder, by which its parts are called too (`manifest.names`).

    ``columns`` are all that its changelog has, with the newest types. In a lake of tables ``parts``
    names the table that holds each of what is kept, and ``shapes`` the columns that those have;
    ``changelog`` has one entry without a name then, of the sums, and ``small`` names the last small
    files of a changelog, and of a history's ended versions, which may be compacted (`rewriting`).
    ``marks`` are those of these tables (`lake.tables.Content`) since Tailrace last wrote to them:
    others have written to one that has another.
    """

    database: str
    table: str
    source: str
    names: str
    columns: pa.Schema
    changelog: tuple[DataFile, ...] = ()
    current: TableRows | None = None
    dropped: bool = False
    history: TableRows | None = None
    parts: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, pa.Schema] = field(default_factory=dict)
    small: dict[str, tuple[DataFile, ...]] = field(default_factory=dict)
    folder: str = ""
    marks: dict[str, str] = field(default_factory=dict)
    states: tuple[Status, ...] = ()
    """Why it is not its source's table: one of each kind at most."""
    rest: tuple[dict[str, Any], ...] = ()
    """What is left to do of its status's ``batch`` (`lake.tables.whole_json`)."""

    @property
    def full_name(self) -> TableName:
        """Database and table."""
        return TableName(self.database, self.table)

    def status(self, kind: Kind) -> Status | None:
        """The one of a kind."""
        return next((each for each in self.states if each.kind == kind), None)

    @property
    def set_aside(self) -> Status | None:
        """Why it stands still, if it does."""
        return self.status(SET_ASIDE)

    def with_status(self, kind: Kind, status: Status | None) -> TableState:
        """The same with another status of a kind, or with none."""
        if self.status(kind) == status:
            return self
        states = tuple(each for each in self.states if each.kind != kind)
        states = states if status is None else (*states, status)
        waits = any(each.batch for each in states)
        return replace(self, states=states, rest=self.rest if waits else ())


class LazyTables(Mapping[str, TableState]):
    """Tables by key, in the keys' order, each parsed when it is asked for.

    ``parse`` raises `PipelineError` for a damaged one.
    """

    def __init__(
        self,
        keys: Collection[str],
        with_status: Collection[str],
        parse: Callable[[str], TableState],
    ) -> None:
        self._keys = sorted(keys)
        self._known = set(keys)
        self._parse = parse
        self._parsed: dict[str, TableState] = {}
        self._fresh: dict[str, TableState] = {}
        self.with_status = sorted(with_status)
        """The keys of the tables that have a status."""

    def __getitem__(self, key: str) -> TableState:
        found = self._fresh.get(key) or self._parsed.get(key)
        if found is None:
            if key not in self._known:
                raise KeyError(key)
            found = self._parsed[key] = self._parse(key)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __reduce__(self) -> tuple[type, tuple[dict[str, TableState]]]:
        """It pickles as all of its tables."""
        return dict, (dict(self),)

    def updated(self, tables: Mapping[str, TableState]) -> LazyTables:
        """The same with other states of some tables, which may be new."""
        keys = self._known if tables.keys() <= self._known else self._known | tables.keys()
        rest = [key for key in self.with_status if key not in tables]
        with_status = [*rest, *(key for key, state in tables.items() if state.states)]
        found = LazyTables((), with_status, self._parse)
        found._known, found._keys = keys, self._keys if keys is self._known else sorted(keys)
        found._parsed, found._fresh = self._parsed, {**self._fresh, **tables}
        return found

    def altered(self, before: Mapping[str, TableState]) -> Collection[str]:
        """The keys of the tables that may not be as they were ``before``."""
        if not isinstance(before, LazyTables):
            return {*before, *self}
        parsed, known = before._parsed, before._fresh  # noqa: SLF001 - of its own class
        if parsed is not self._parsed:
            return {*before, *self}
        return [key for key, state in self._fresh.items() if known.get(key) is not state]


def _lazy(tables: Mapping[str, TableState]) -> LazyTables:
    """Tables that may all be parsed already."""
    if isinstance(tables, LazyTables):
        return tables
    asides = [key for key, state in tables.items() if state.states]
    return LazyTables(tables, asides, tables.__getitem__)


@dataclass(frozen=True)
class Manifest:
    """All of a committed version, and the ``options`` that the lake was created with.

    ``points`` are the positions, by source and text, since which tables are set aside: what it
    takes to read the source's log again from there. ``withdrawn`` is the last batch that was
    prepared and is not in the lake: no other batch gets its number.
    """

    version: int = 0
    options: LakeOptions = field(default_factory=LakeOptions)
    sources: dict[str, SourceState] = field(default_factory=dict)
    tables: Mapping[str, TableState] = field(default_factory=dict)
    points: dict[str, dict[str, SourceState]] = field(default_factory=dict)
    withdrawn: int = 0

    def keys_of_tables(self, keys: Iterable[str] | None = None) -> list[str]:
        """The keys of tables that the lake has, by default of all; of shards, those of all sources
        that have them.
        """
        if keys is None:
            return list(self.tables)
        found = {key for key in keys if key in self.tables}
        if self.options.shards:
            names = {self.tables[key].full_name for key in found}
            every = {f"{source}/{name}" for source in self.sources for name in names}
            found |= {key for key in every if key in self.tables}
        return sorted(found)

    def updated(self, tables: Mapping[str, TableState]) -> Manifest:
        """The same with other states of some tables, which may be new."""
        return replace(self, tables=_lazy(self.tables).updated(tables))

    def altered(self, before: Manifest) -> Collection[str]:
        """The keys of the tables that may not be as they were ``before``."""
        return _lazy(self.tables).altered(before.tables)

    @property
    def next(self) -> int:
        """The number of the next batch."""
        return max(self.version, self.withdrawn) + 1


def check_format(label: str, manifest: Manifest, name: str) -> None:
    """Raises `PipelineError` for a lake that is of another format than ``name``."""
    known = manifest.options.format
    if manifest.version and known != name:
        raise PipelineError(f"{label} is a lake of {known}: give --format {known}, or a new folder")
