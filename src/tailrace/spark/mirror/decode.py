"""A batch's splits are decoded, the first half of a batch: what tasks do with each split, which is
to write its tables' changelog files, and what the results come to.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tailrace.columns import read_split
from tailrace.errors import PipelineError, table_of
from tailrace.schema.catalogue import CASE_REMEDY
from tailrace.schema.letter_case import lowered
from tailrace.spark.lake.asides import STATES
from tailrace.spark.mirror.report import SkippedStatements
from tailrace.spark.mirror.unnamed import missing_names
from tailrace.spark.state.changelog import ChangelogFiles
from tailrace.spark.state.failure import Failure, failure
from tailrace.spark.state.source_changes import SourceTable
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tailrace.columns import Split
    from tailrace.columns.read.walk import Array
    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.lake.asides import Asides
    from tailrace.spark.manifest.making import Making
    from tailrace.spark.mirror.batch import Again
    from tailrace.spark.mirror.batches import Batches
    from tailrace.spark.mirror.helper_tables import Followed
    from tailrace.spark.mirror.unnamed import Missing
    from tailrace.spark.state.changelog import ChangeFile, Named, Unnamed
    from tailrace.table_filter import TableFilter


@dataclass(frozen=True)
class SplitJob:
    """A split to decode; changelog files go where ``to`` gives, others to ``folder``.

    With ``shards`` the files have a column ``_source``; with ``named`` they hold no rows of tables
    whose columns nobody names, and ``defined`` is as in `ChangelogFiles`. ``skip`` are tables whose
    rows are left out; with ``only``, so are those of all others than these.
    """

    split: Split
    tables: TableFilter
    statements: Literal["error", "skip"]
    folder: Path
    to: Making
    shards: bool = False
    skip: frozenset[TableName] = frozenset()
    only: frozenset[TableName] | None = None
    named: bool = False
    defined: bool = False
    cascades: bool = False
    """Whether to note which changes do nothing to other rows (`Written.quiet`)."""

    @property
    def reads(self) -> int:
        """Bytes of the log."""
        return self.split.end - self.split.start

    def wants(self, database: str, table: str) -> bool:
        """Whether a table that is mirrored is read here."""
        name = database, table
        return name not in self.skip and (self.only is None or name in self.only)


class Written(NamedTuple):
    """The changelog files of a source's split, and the tables that it has rows of, where these are
    kept.

    ``failed`` has the tables of which there is no file, and why; ``unnamed`` those of which rows
    were left out, ``lacking`` those of which updates lack columns, and ``by_log`` those whose
    columns the log names, where few are read.
    """

    source: str
    files: list[ChangeFile]
    met: frozenset[TableName] = frozenset()
    failed: tuple[tuple[TableName, Failure], ...] = ()
    unnamed: tuple[tuple[TableName, Unnamed], ...] = ()
    lacking: tuple[tuple[TableName, Unnamed], ...] = ()
    by_log: tuple[tuple[TableName, Named], ...] = ()
    skipped: SkippedStatements | None = None
    quiet: str | None = None
    """A file of the updates and deletes that do nothing to other rows (`read_split`), if any."""


def write_split(job: SplitJob) -> Written:
    """Decode a split and write a file for each of its tables; without those whose rows cannot be
    had, if that is so of any: it is read again without them.

    A task that is run twice writes twice: what counts are the files of the result that Spark brings
    back. Raises what `read_split` raises that is not one table's failure.
    """
    failed: dict[TableName, Failure] = {}
    while True:
        source = job.split.source if job.shards else None
        files = ChangelogFiles(job.to, source=source, named=job.named, defined=job.defined)
        try:
            return _written(job, files)._replace(failed=tuple(failed.items()))
        except Exception as error:
            files.remove()
            table = table_of(error)
            if table is None or table in failed:
                raise
            failed[TableName(*table)] = failure(error)
            job = replace(job, skip=job.skip | failed.keys())


def _written(job: SplitJob, files: ChangelogFiles) -> Written:
    split = job.split
    quiet: list[Array] = []
    skipped: list[SkippedStatements] = []
    start = time.perf_counter()
    batches = read_split(
        split,
        tables=job.tables,
        statements=job.statements,
        notice=files.meet,
        also=job.wants,
        unnamed=files.leave_out if job.named else None,
        no_cascades=quiet.append if job.cascades else None,
        skipped=lambda event: skipped.append(SkippedStatements.of(event)),
    )
    for batch in batches:
        files.add(batch, time.perf_counter() - start)
        start = time.perf_counter()
    written = files.finish()
    path = job.folder / f"{uuid.uuid4().hex}.npy" if quiet else None
    if path is not None:
        job.folder.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate(quiet))
    return Written(
        split.source,
        written,
        frozenset(job.tables.met or ()),
        unnamed=tuple(files.unnamed.items()),
        lacking=tuple(files.lacking.items()),
        by_log=() if job.only is None else tuple(files.by_log.items()),
        skipped=replace(skipped[0], count=len(skipped)) if skipped else None,
        quiet=None if path is None else str(path),
    )


@dataclass
class Decoded:
    """The changelog files of a batch, by table's key, in log order; tasks wrote them ``to`` there.

    ``quiet`` are files of the changes that do nothing to other rows, by source. ``written`` are all
    changelog files that tasks wrote.
    """

    to: Making
    files: dict[str, list[ChangeFile]] = field(default_factory=dict)
    quiet: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, SkippedStatements] = field(default_factory=dict)
    written: set[Path] = field(default_factory=set)

    def of_source(self, source: str) -> dict[str, list[ChangeFile]]:
        """A source's files, by the table's name there."""
        return {each[0].name: each for each in self.files.values() if each[0].source == source}


def decode(
    batches: Batches,
    taken: Mapping[str, Taken],
    again: Again,
    asides: Asides,
    followed: Mapping[str, Followed],
) -> Decoded:
    """Decode all splits of what was ``taken``, and write their changelog files.

    Sets tables aside whose rows cannot be had. The tables of a new lake are those of ``every`` part
    of what is taken. Raises `PipelineError` for what no lake can take.
    """
    store, options, servers = batches.store, batches.options, batches.sources.received
    has_states = not STATES.isdisjoint(options.keep)
    folder = store.staging / "changelog"
    new = None if store.manifest.version else batches.new
    tables = options.tables if new is None else new.tables
    found = Decoded(store.places.changelogs(None if "changelog" in options.keep else folder))
    jobs = [
        SplitJob(
            replace(split, changes=()),  # what statements did is worked out here
            tables.with_also(followed[source].read),
            batches.statements,
            folder,
            found.to,
            options.shards,
            skip=asides.unread(source),
            only=again.read,
            named=source in servers,
            defined=has_states and source in servers,
            cascades=batches.applies,
        )
        for source, each in taken.items()
        for split in each.splits
    ]
    sizes = [job.reads for job in jobs]
    batches.tell("read", 0, sum(sizes))
    results = batches.workers.run(
        write_split,
        jobs,
        sum(sizes),
        lambda finished: batches.tell("read", sum(sizes[:finished]), sum(sizes)),
    )
    if new is not None:
        every = [*taken.values(), *batches.every.values()]
        new.read(_tables_of(every).union(*(each.met for each in results)))
    for each in results:
        if each.skipped is not None:
            known = found.skipped.get(each.source)
            found.skipped[each.source] = each.skipped if known is None else known + each.skipped
    missing = {
        source: missing_names(
            again.every or taken[source].splits,
            [each for each in results if each.source == source],
            again.answers,
            dict(options.keys),
        )
        for source in taken.keys() & servers.keys()
    }
    for one in missing.values():
        again.offers.update(one.offers)
    bare = {source: each.bare for source, each in missing.items() if each.bare}
    more = [_as_it_is(job, missing[job.split.source]) for job in jobs if job.split.source in bare]
    nameless = batches.workers.run(write_split, more, sum(job.reads for job in more))
    found.written |= {Path(file.path) for each in results + nameless for file in each.files}
    parts = [_without(each, bare.get(each.source, ())) for each in results] + nameless
    for each in parts:
        for file in sorted(each.files, key=lambda one: one.first):
            found.files.setdefault(options.key(each.source, file.name), []).append(file)
        if each.quiet is not None:
            found.quiet.setdefault(each.source, []).append(each.quiet)
    failed = [(each.source, *one, True) for each in parts for one in each.failed]
    for source, names in missing.items():
        failed += [(source, *one, False) for one in names.failed.items()]
    check_sources(
        batches,
        [SourceTable(file.source, file.name) for each in found.files.values() for file in each]
        + [SourceTable(source, str(name)) for source, name, *_ in failed],
    )
    for source, name, cause, always in failed:
        key = options.key(source, str(name))
        whole = always or name in missing[source].whole
        if whole:
            found.files.pop(key, None)
        stops = whole and "changelog" in options.keep and not asides.stands(key, "changelog")
        if again.has(key) and (always or stops or key not in asides.tables):
            asides.fail(key, source, name, cause, all=whole)
    _check_case(batches, taken, found, asides)
    return found


def check_sources(batches: Batches, tables: Iterable[SourceTable]) -> None:
    """Raise `PipelineError` if a table of a lake without shards comes from two sources."""
    found: dict[str, set[str]] = {}
    for table in tables:
        found.setdefault(batches.options.key(*table), set()).add(table.source)
    for key, sources in found.items():
        if (known := batches.store.manifest.tables.get(key)) is not None:
            sources.add(known.source)
        if len(sources) > 1:
            raise PipelineError(
                f"table {key} is in the logs of {' and '.join(sorted(sources))}: mirror them "
                "into a lake each, leave it out of one with --tables, or begin a lake with "
                "--shards, which has a column _source"
            )


def _as_it_is(job: SplitJob, missing: Missing) -> SplitJob:
    """The job that reads the rows of tables whose columns stay without names."""
    known = job.split.catalogue.without_learned(missing.forget)
    split = replace(job.split, catalogue=known)
    only = frozenset(missing.bare)
    return replace(job, split=split, only=only, named=False)


def _without(written: Written, tables: Collection[TableName]) -> Written:
    """A split's files but for those of tables."""
    files = [each for each in written.files if (each.database, each.table) not in tables]
    failed = tuple(each for each in written.failed if each[0] not in tables)
    return written._replace(files=files, failed=failed)


def _tables_of(taken: Iterable[Taken]) -> set[TableName]:
    """The tables that the statements of logs tell of."""
    found: set[TableName] = set()
    for split in (split for each in taken for split in each.splits):
        found |= {TableName(*each) for each in split.catalogue.names()}
        names = [each.renamed or each.table for each in split.changes if each.kind != "drop"]
        found |= {TableName.parse(one) for one in names if not one.endswith(".*")}
    return found


def _check_case(
    batches: Batches, taken: Mapping[str, Taken], found: Decoded, asides: Asides
) -> None:
    """Raises `PipelineError` for a statement about a table that has rows in lower case only.

    Its server may put names into lower case, which the log has not shown so far.
    """
    tables = batches.store.manifest.tables
    met = {SourceTable(each[0].source, each[0].name) for each in found.files.values()}
    met |= {SourceTable(each.source, str(each.name)) for each in asides.tables.values()}

    def there(source: str, name: TableName) -> bool:
        key = batches.options.key(source, str(name))
        known = key in tables and tables[key].source == source
        return known or (source, str(name)) in met

    for source, each in taken.items():
        for split in each.splits:
            if split.catalogue.lowers_names is not None:
                continue
            for change in split.changes:
                if change.table.endswith(".*"):
                    continue
                name = TableName.parse(change.table)
                other = TableName(*map(lowered, name))
                if there(source, other) and not there(source, name):
                    raise PipelineError(
                        f"{split.file}:{change.offset}: a statement names {name}, and rows {other},"
                        f" which may be one table: {CASE_REMEDY}"
                    )
