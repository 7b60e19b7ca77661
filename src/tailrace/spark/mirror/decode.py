"""What a batch's splits hold, decoded by tasks: the first half of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.errors import PipelineError
from tailrace.schema.catalogue import CASE_REMEDY
from tailrace.schema.letter_case import lowered
from tailrace.spark.mirror.splits import SplitJob, write_split
from tailrace.spark.mirror.unnamed import missing_names
from tailrace.spark.state.source_changes import SourceTable
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.lake.asides import Asides
    from tailrace.spark.manifest.making import Making
    from tailrace.spark.mirror.batch import Again, Setting
    from tailrace.spark.mirror.helper_tables import Followed
    from tailrace.spark.mirror.report import SkippedStatements
    from tailrace.spark.mirror.splits import Written
    from tailrace.spark.mirror.unnamed import Answer, Missing
    from tailrace.spark.state.changelog import ChangeFile


@dataclass
class Decoded:
    """The changelog files of a batch, by table's key, in log order; tasks wrote them ``to`` there.

    ``quiet`` are files of the changes that do nothing to other rows, by source. ``written`` are all
    changelog files that tasks wrote, ``offers`` what the log tells of tables without names.
    """

    to: Making
    files: dict[str, list[ChangeFile]] = field(default_factory=dict)
    quiet: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, SkippedStatements] = field(default_factory=dict)
    written: set[Path] = field(default_factory=set)
    offers: dict[TableName, Answer] = field(default_factory=dict)

    def of_source(self, source: str) -> dict[str, list[ChangeFile]]:
        """A source's files, by the table's name there."""
        return {each[0].name: each for each in self.files.values() if each[0].source == source}


def decode(
    setting: Setting,
    taken: Mapping[str, Taken],
    again: Again,
    asides: Asides,
    followed: Mapping[str, Followed],
    every: Iterable[Taken],
) -> Decoded:
    """Decode all splits of what was ``taken``, and write their changelog files.

    Sets tables aside whose rows cannot be had. A new lake's ``wanted`` tables are those of
    ``every`` part of what is taken. Raises `PipelineError` for what no lake can take.
    """
    store, options = setting.store, setting.options
    has_states = not {"current", "history"}.isdisjoint(options.keep)
    folder = store.staging / "changelog"
    asked = None if store.manifest.version else setting.wanted
    tables = options.tables if asked is None else asked.tables
    found = Decoded(store.places.changelogs(None if "changelog" in options.keep else folder))
    jobs = [
        SplitJob(
            replace(split, changes=()),  # what statements did is worked out here
            *(tables.with_also(followed[source].read), setting.statements),
            folder,
            found.to,
            options.shards,
            skip=asides.unread(source),
            only=again.read,
            named=source in setting.servers,
            defined=has_states and source in setting.servers,
            cascades=setting.applies,
        )
        for source, each in taken.items()
        for split in each.splits
    ]
    sizes = [job.size for job in jobs]
    setting.tell("read", 0, sum(sizes))
    results = setting.workers.run(
        write_split,
        jobs,
        sum(sizes),
        lambda finished: setting.tell("read", sum(sizes[:finished]), sum(sizes)),
    )
    if asked is not None:
        asked.read(_tables_of(every).union(*(each.met for each in results)))
    parts = [(job.split.source, each) for job, each in zip(jobs, results, strict=True)]
    for source, each in parts:
        if each.skipped is not None:
            known = found.skipped.get(source)
            found.skipped[source] = each.skipped if known is None else known + each.skipped
    missing = _missing(setting, taken, again, parts)
    for one in missing.values():
        found.offers |= one.offers
    bare = {source: each.bare for source, each in missing.items() if each.bare}
    more = [_as_it_is(job, missing[job.split.source]) for job in jobs if job.split.source in bare]
    read = setting.workers.run(write_split, more, sum(job.size for job in more))
    nameless = [(job.split.source, each) for job, each in zip(more, read, strict=True)]
    found.written |= {Path(file.path) for _, each in parts + nameless for file in each.files}
    parts = [(source, _without(each, bare.get(source, ()))) for source, each in parts] + nameless
    for source, each in parts:
        for file in sorted(each.files, key=lambda one: one.first):
            found.files.setdefault(options.key(source, file.name), []).append(file)
        if each.quiet is not None:
            found.quiet.setdefault(source, []).append(each.quiet)
    failed = [(source, *one, True) for source, each in parts for one in each.failed]
    for source, names in missing.items():
        failed += [(source, *one, False) for one in names.failed.items()]
    check_sources(
        setting,
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
    _check_case(setting, taken, found, asides)
    return found


def check_sources(setting: Setting, tables: Iterable[SourceTable]) -> None:
    """Raise `PipelineError` if a table of a lake without shards comes from two sources."""
    found: dict[str, set[str]] = {}
    for table in tables:
        found.setdefault(setting.options.key(*table), set()).add(table.source)
    for key, sources in found.items():
        if (known := setting.store.manifest.tables.get(key)) is not None:
            sources.add(known.source)
        if len(sources) > 1:
            raise PipelineError(
                f"table {key} is in the logs of {' and '.join(sorted(sources))}: mirror them "
                "into a lake each, leave it out of one with --tables, or begin a lake with "
                "--shards, which has a column _source"
            )


def _missing(
    setting: Setting,
    taken: Mapping[str, Taken],
    again: Again,
    parts: Sequence[tuple[str, Written]],
) -> dict[str, Missing]:
    """What is missing of the names of columns, by source."""
    return {
        source: missing_names(
            again.every or taken[source].splits,
            [each for name, each in parts if name == source],
            again.answers,
            dict(setting.options.keys),
        )
        for source in taken.keys() & set(setting.servers)
    }


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
    setting: Setting, taken: Mapping[str, Taken], found: Decoded, asides: Asides
) -> None:
    """Raises `PipelineError` for a statement about a table that has rows in lower case only.

    Its server may put names into lower case, which the log has not shown so far.
    """
    tables = setting.store.manifest.tables
    met = {SourceTable(each[0].source, each[0].name) for each in found.files.values()}
    met |= {SourceTable(each.source, str(each.name)) for each in asides.tables.values()}

    def there(source: str, name: TableName) -> bool:
        key = setting.options.key(source, str(name))
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
