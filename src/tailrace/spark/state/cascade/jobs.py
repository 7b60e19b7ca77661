"""What tasks do for foreign keys: find the rows that may be concerned, and carry the keys out."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.arrays import METADATA_FIELDS, OPERATIONS
from tailrace.position import parts_of
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.record.present import bits
from tailrace.spark.state.cascade.play import ABSENT, Known, Play
from tailrace.spark.state.cascade.values import EXACT
from tailrace.spark.state.changelog import ROW_GROUP_ROWS, ChangelogFiles
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import DELETE, INSERT, SEQ, SNAPSHOT
from tailrace.spark.state.current.fold import key_columns
from tailrace.spark.state.current.keys import dense
from tailrace.spark.state.current.pieces import base_rows, changes
from tailrace.spark.state.failure import RejectedError
from tailrace.spark.state.history.versions import joined
from tailrace.spark.state.spill import read_spill, write_spill
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.manifest.making import ChangelogFolders
    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.cascade.keys import Link
    from tailrace.spark.state.cascade.play import Derived, Row, Value
    from tailrace.spark.state.cascade.values import Comparison
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.current.flat import Flat, Target
    from tailrace.spark.state.current.pieces import Base, Piece

MARK: Final = "cascade"
"""The key in ``_raw`` under which a change that a foreign key made has that key."""
_UPDATE: Final = "update"
_DELETE: Final = "delete"
_PLAIN: Final = tuple(field.name for field in METADATA_FIELDS[:-2])


@dataclass(frozen=True)
class Asked:
    """Values of some columns of which all rows are wanted: a table of those columns at ``path``.

    The values are those by which equal ones are found (`Comparison.of`).
    """

    columns: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    path: str


@dataclass(frozen=True)
class FindJob:
    """Find the rows of ``base`` that have any of the values that are asked for."""

    base: Base
    target: Target
    asked: tuple[Asked, ...]
    out: Path


@dataclass(frozen=True)
class Rows:
    """A table whose rows foreign keys may change.

    ``target`` has the columns that it takes to carry them out, of ``columns``, all that the table
    has. ``pieces`` are its logged changes, which ``files`` hold, ``found`` the paths of rows from
    before them that have the values ``asked`` for. ``names`` is where columns' names come from.
    """

    name: str
    target: Target
    columns: pa.Schema
    pieces: tuple[Piece, ...]
    partial: bool
    files: tuple[ChangeFile, ...]
    names: str
    found: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True)
class PlayJob:
    """Carry ``links`` out: what changes of ``causes``, files of each table, did to ``tables``.

    ``quiet`` are files of the rows whose change does nothing to others (`read_split`). The files of
    changes go where ``to`` gives, others to ``folder``. With ``shard`` they have a column
    ``_source``. ``source`` is the log's; ``reads`` counts the bytes that the job reads.
    """

    source: str
    links: tuple[Link, ...]
    causes: tuple[tuple[str, tuple[ChangeFile, ...]], ...]
    tables: tuple[Rows, ...]
    quiet: tuple[str, ...]
    folder: Path
    to: ChangelogFolders
    shard: str | None
    reads: int


@dataclass(frozen=True)
class Played:
    """What came of a job: files of changes by table, the logged and the new ones in order.

    Or, where rows are ``missing``, what else is to be asked for by table.
    """

    files: Mapping[str, tuple[ChangeFile, ...]]
    missing: tuple[tuple[str, Asked], ...] = ()


def find(job: FindJob) -> str | None:
    """Write the rows that are asked for to a file, and give its path; None: there are none."""
    asked = [(each, read_spill(each.path)) for each in job.asked]
    found = []
    for rows in base_rows(job.base, job.target, only_its_columns=True):
        mask = np.zeros(rows.num_rows, np.bool_)
        for each, values in asked:
            mask |= matches(rows, each.columns, each.comparisons, values)
        if mask.any():
            found.append(rows.filter(pa.array(mask)))
    if not found:
        return None
    write_spill(job.out, pa.concat_tables(found, promote_options="default"))
    return str(job.out)


def matches(
    rows: pa.Table, columns: Sequence[str], comparisons: Iterable[Comparison], values: pa.Table
) -> Bits:
    """Which rows have any of the values in columns. NULL is none. Raises `RejectedError`."""
    found = {
        name: how.of_all(rows.column(name)) for name, how in zip(columns, comparisons, strict=True)
    }
    numbers, _ = dense(key_columns([values.select(list(columns)), pa.table(found)], columns))
    asked, own = numbers[: values.num_rows], numbers[values.num_rows :]
    result: Bits = np.isin(own, asked)
    for each in found.values():
        if each.null_count:
            result &= each.is_valid().to_numpy()
    return result


def play(job: PlayJob) -> Played:
    """Carry the keys out. Raises `RejectedError` where what they did cannot be told."""
    causes = _Causes(job)
    tables = {each.name: _Table(each, job.links) for each in job.tables}
    known = {name: each.known for name, each in tables.items()}
    run = Play(job.links, known)
    steps: list[tuple[int, int, int, Callable[[], None]]] = []
    for each in tables.values():
        run.begin(each.name, each.begin())
        steps += each.steps(run, len(steps))
    steps += causes.steps(run, len(steps))
    for *_, step in sorted(steps, key=lambda each: each[:3]):
        step()
    missing: list[tuple[str, Asked]] = []
    for name, each in tables.items():
        for columns, values in each.known.missing.items():
            path = job.folder / f"asked-{len(missing)}.arrow"
            missing.append((name, each.ask(columns, values, path)))
    if missing:
        return Played({}, tuple(missing))
    for each in tables.values():
        if each.known.strange:
            raise RejectedError(
                f"images of changes of {each.name} are not full, and its rows are not all known: "
                "what foreign keys do to them cannot be told"
            )
    files: dict[str, tuple[ChangeFile, ...]] = {}
    for name, each in tables.items():
        if made := [one for one in run.derived if one.table == name]:
            work = _Writing(each.rows, made, causes, job)
            files[name] = tuple(work.files())
    return Played(files)


# --- what the log says ----------------------------------------------------------------------------


class _Quiet:
    """Which logged changes do nothing to other rows."""

    def __init__(self, paths: Sequence[str]) -> None:
        found = [np.load(path) for path in paths]
        places = np.concatenate(found) if found else np.zeros((0, 4), np.int64)
        places = places[np.lexsort((places[:, 2], places[:, 1], places[:, 0]))]
        self._files: dict[int, list[np.ndarray[Any, Any]]] = {}
        for number in np.unique(places[:, 0]).tolist():
            here = places[places[:, 0] == number]
            self._files[number] = [here[:, 1], here[:, 2], here[:, 3]]

    def has(self, seq: int) -> bool:
        number, position, row = parts_of(seq)
        if number not in self._files:
            return False
        places, starts, ends = self._files[number]
        low, high = bisect_left(places, position), bisect_right(places, position)
        return bool(((starts[low:high] <= row) & (row < ends[low:high])).any())


class _Causes:
    """The logged changes that may have changed other rows, by number."""

    def __init__(self, job: PlayJob) -> None:
        self._quiet = _Quiet(job.quiet)
        self._steps: list[tuple[int, str, tuple[str, ...], Row, Row | None]] = []
        self._metadata: list[pa.Table] = []
        for name, files in job.causes:
            wanted = {
                column for link in job.links if link.parent == name for column in link.referenced
            }
            for file in files:
                for rows in self._of_file(file, sorted(wanted)):
                    self._take(name, tuple(sorted(wanted)), rows)

    @property
    def metadata(self) -> pa.Table:
        """The changes' fields but for images, by number; plain texts."""
        return pa.concat_tables(self._metadata)

    def steps(self, run: Play, first: int) -> Iterator[tuple[int, int, int, Callable[[], None]]]:
        """The calls to make on `Play`, with their order: after the calls for the row itself."""
        for number, (seq, table, columns, before, after) in enumerate(self._steps):
            step = partial(run.cause, number, table, columns, before, after)
            yield seq, 1, first + number, step

    def _of_file(self, file: ChangeFile, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
        by_fold = {name.casefold(): name for name in file.columns.names}
        names = [by_fold.get(name.casefold(), "") for name in wanted]
        if "" in names:
            raise RejectedError(
                f"the log's columns of {file.name} are not those that foreign keys refer to: "
                f"{', '.join(wanted)}"
            )
        read = [*_PLAIN, "_present", "_raw"]
        read += [f"{image}.{name}" for image in ("before", "after") for name in names]
        places = [file.columns.get_field_index(name) for name in names]
        for rows in row_groups(file.path, read):
            yield from self._changing(rows, names, places, len(file.columns))

    def _changing(
        self, rows: pa.Table, names: Sequence[str], places: Sequence[int], width: int
    ) -> Iterator[dict[str, Any]]:
        """The deletes, and the updates that change any of the columns."""
        operations = rows.column("_op").cast(pa.string())
        deletes = pc.equal(operations, _DELETE).to_numpy()
        updates = pc.equal(operations, _UPDATE).to_numpy()
        full = rows.column("_present").null_count == rows.num_rows
        has = {
            image: np.full((rows.num_rows, width), True)
            if full
            else bits(rows.column("_present"), image, width)
            for image in ("before", "after")
        }
        changed = np.zeros(rows.num_rows, np.bool_)
        for name, place in zip(names, places, strict=True):
            old, new = (pc.struct_field(rows.column(each), [name]) for each in ("before", "after"))
            same = pc.fill_null(pc.equal(old, new), False).to_numpy()
            same |= pc.and_(pc.is_null(old), pc.is_null(new)).to_numpy()
            changed |= has["after"][:, place] & ~(same & has["before"][:, place])
        chosen = np.flatnonzero(deletes | (updates & changed))
        seqs = [int(each) for each in rows.column("_seq").take(pa.array(chosen)).to_pylist()]
        loud = [not self._quiet.has(seq) for seq in seqs]
        chosen = chosen[np.array(loud, np.bool_)]
        if not len(chosen):
            return
        rows = rows.take(pa.array(chosen))
        for key, texts in raw.texts(rows.column("_raw")).items():
            if key.partition(".")[2] in names and texts.null_count < len(texts):
                raise RejectedError(f"a key that others refer to has a value of no type in {key}")
        images = {
            image: [
                [
                    value if there else ABSENT
                    for value, there in zip(
                        pc.struct_field(rows.column(image), [name]).to_pylist(),
                        has[image][chosen, place].tolist(),
                        strict=True,
                    )
                ]
                for name, place in zip(names, places, strict=True)
            ]
            for image in ("before", "after")
        }
        yield {
            "rows": rows.select(_PLAIN),
            "seq": [seq for seq, each in zip(seqs, loud, strict=True) if each],
            "delete": deletes[chosen].tolist(),
            **images,
        }

    def _take(self, table: str, columns: tuple[str, ...], found: dict[str, Any]) -> None:
        rows = found["rows"]
        self._metadata.append(
            pa.table(
                {
                    name: rows.column(name).cast(pa.string())
                    if pa.types.is_dictionary(rows.schema.field(name).type)
                    else rows.column(name)
                    for name in _PLAIN
                }
            )
        )
        befores, afters = zip(*found["before"], strict=True), zip(*found["after"], strict=True)
        for seq, delete, before, after in zip(
            found["seq"], found["delete"], befores, afters, strict=True
        ):
            new = None
            if not delete:
                pairs = zip(before, after, strict=True)
                new = tuple(was if now is ABSENT else now for was, now in pairs)
            self._steps.append((seq, table, columns, before, new))


class _Table:
    """A table whose rows foreign keys may change: its rows before the changes, and these."""

    def __init__(self, rows: Rows, links: Sequence[Link]) -> None:
        self.rows = rows
        self.name = rows.name
        self._names = tuple(rows.target.columns.names)
        self._asked: dict[tuple[str, ...], list[pa.Table]] = {}
        self._how = {rows.target.key: (EXACT,) * len(rows.target.key)}
        self._how |= {each.columns: each.comparisons for each in links if each.child == rows.name}
        for each in rows.asked:
            self._asked.setdefault(each.columns, []).append(read_spill(each.path))
        self._found = [read_spill(path) for path in rows.found]
        values = {
            columns: {
                value
                for table in tables
                for value in zip(*(table.column(name).to_pylist() for name in columns), strict=True)
            }
            for columns, tables in self._asked.items()
        }
        self.known = Known(self._names, rows.target.key, values)

    def ask(self, columns: tuple[str, ...], values: set[Value], path: Path) -> Asked:
        """Ask for rows that have values in columns, from a file at ``path``."""
        fields = [self.rows.target.columns.field(name) for name in columns]
        arrays = [
            pa.array(each, field.type)
            for field, each in zip(fields, zip(*values, strict=True), strict=True)
        ]
        write_spill(path, pa.table(dict(zip(columns, arrays, strict=True))))
        return Asked(columns, self._how[columns], str(path))

    def begin(self) -> Iterator[Row]:
        """The rows that there were."""
        for table in self._found:
            self._check_texts(table)
            yield from zip(*(table.column(name).to_pylist() for name in self._names), strict=True)

    def steps(self, run: Play, first: int) -> Iterator[tuple[int, int, int, Callable[[], None]]]:
        """What `Play` is to be told of logged changes, with its order."""
        flat = self._concerned()
        if flat is None:
            return
        self._check_texts(flat.rows)
        key = self.rows.target.key
        olds = list(zip(*(flat.old.column(name).to_pylist() for name in key), strict=True))
        columns = []
        for place, name in enumerate(self._names):
            values = flat.rows.column(name).to_pylist()
            if flat.present is not None:
                there = flat.present[:, place].tolist()
                values = [v if has else ABSENT for v, has in zip(values, there, strict=True)]
            columns.append(values)
        images = zip(*columns, strict=True)
        seqs = flat.rows.column(SEQ).to_pylist()
        operations = flat.operations.tolist()
        for number, (seq, kind, old, image) in enumerate(
            zip(seqs, operations, olds, images, strict=True), first
        ):
            came = kind in {INSERT, SNAPSHOT}
            what = None if kind == DELETE else image
            yield int(seq), 0, number, partial(run.change, self.name, None if came else old, what)

    def _concerned(self) -> Flat | None:
        """The logged changes of rows that have, at any time, any of the values asked for."""
        if not self._asked:
            return None
        rows, target = self.rows, self.rows.target
        flats = [
            flat for piece in rows.pieces for flat in changes(piece, target, whole=not rows.partial)
        ]
        if not flats:
            return None
        flat = joined(flats)
        count = len(flat.operations)
        found = [table.select(list(target.key)) for table in self._found]
        numbers, size = dense(
            key_columns([flat.rows.select(list(target.key)), flat.old, *found], target.key)
        )
        new, old, there = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
        chosen = np.zeros(count, np.bool_)
        for columns, tables in self._asked.items():
            for table in tables:
                chosen |= matches(flat.rows, columns, self._how[columns], table)
        met = np.zeros(size, np.bool_)
        met[there] = True
        came = np.isin(flat.operations, (INSERT, SNAPSHOT))
        gone = flat.operations == DELETE
        if flat.present is not None:  # a key that an image leaves out is as it was
            left = ~flat.present[:, [self._names.index(name) for name in target.key]].all(axis=1)
            new = np.where(left, old, new)
        while True:
            met[new[chosen & ~gone]] = True
            met[old[chosen & ~came]] = True
            more = chosen | (met[new] & ~gone) | (met[old] & ~came)
            if (more == chosen).all():
                break
            chosen = more
        mask = pa.array(chosen)
        present = None if flat.present is None else flat.present[chosen]
        return replace(
            flat,
            rows=flat.rows.filter(mask),
            old=flat.old.filter(mask),
            operations=flat.operations[chosen],
            present=present,
        )

    def _check_texts(self, table: pa.Table) -> None:
        for name in self._names:
            beside = raw.beside(name)
            if beside in table.schema.names and table.column(beside).null_count < table.num_rows:
                raise RejectedError(
                    f"{self.name}: a column that foreign keys concern has values of no type: {name}"
                )


# --- what becomes of it ---------------------------------------------------------------------------


class _Writing:
    """Writes the changes that foreign keys made to a table, where they stand among the logged."""

    def __init__(self, rows: Rows, made: Sequence[Derived], causes: _Causes, job: PlayJob) -> None:
        self._rows = rows
        self._made = made
        self._job = job
        numbers = pa.array([each.cause for each in made])
        self._metadata = causes.metadata.take(numbers)
        self._seqs = [int(each) for each in self._metadata.column("_seq").to_pylist()]

    def files(self) -> Iterator[ChangeFile]:
        """All files of the table in the log's order."""
        done = 0
        logged = self._rows.files
        columns = logged[-1].columns if logged else self._rows.columns
        key = logged[-1].key if logged else self._rows.target.key
        for file in logged:
            start, end = bisect_left(self._seqs, file.first), bisect_right(self._seqs, file.last)
            if done < start:
                yield self._written(self._part(done, start, file.columns, file.key))
            yield file if start == end else self._with(file, start, end)
            done = end
        if done < len(self._made):
            yield self._written(self._part(done, len(self._made), columns, key))

    def _with(self, file: ChangeFile, start: int, end: int) -> ChangeFile:
        """A logged file's changes with those that came between them."""
        own = self._part(start, end, file.columns, file.key)
        tables = [self._as(own.schema, rows) for rows in row_groups(file.path)]
        table = pa.concat_tables([*tables, own]).unify_dictionaries()
        ranks = pa.array(np.arange(table.num_rows))
        order = pc.sort_indices(
            pa.table({"seq": table.column("_seq"), "rank": ranks}),
            [("seq", "ascending"), ("rank", "ascending")],
        )
        made = self._written(table.take(order))
        return replace(
            made, unlogged=file.unlogged, seconds=made.seconds + file.seconds, derived=False
        )

    def _as(self, schema: pa.Schema, rows: pa.Table) -> pa.Table:
        columns = []
        for field in schema:
            column = rows.column(field.name)
            if pa.types.is_dictionary(field.type):
                column = _encoded(field.name, column.cast(pa.string()))
            columns.append(column.cast(field.type))
        return pa.table(columns, schema=schema)

    def _written(self, rows: pa.Table) -> ChangeFile:
        to = self._job.to
        files = ChangelogFiles(to, note=to.making.note, source=self._job.shard)
        for batch in rows.unify_dictionaries().to_batches(max_chunksize=ROW_GROUP_ROWS):
            files.add(batch)
        (file,) = files.finish()
        return replace(file, unlogged=(), derived=True)

    def _part(self, start: int, end: int, columns: pa.Schema, key: tuple[str, ...]) -> pa.Table:
        """Some of the changes, in a file's columns."""
        made = self._made[start:end]
        count = len(made)
        database, table = TableName.parse(self._rows.name)
        deletes = [each.after is None for each in made]
        names = _Names(columns, self._rows.target)
        befores, afters = [], []
        for each in made:
            old = names.all if each.after is None else names.key
            befores.append({name: each.before[place] for name, place in old.items()})
            afters.append(
                None
                if each.after is None
                else {
                    name: each.after[place]
                    for name, place in names.all.items()
                    if each.after[place] != each.before[place]
                }
            )
        present = pa.StructArray.from_arrays(
            [
                pa.array([names.bits(image) for image in images], pa.binary())
                for images in (befores, afters)
            ],
            names=["before", "after"],
        )
        marks = [[(MARK, each.link.sql)] for each in made]
        values: dict[str, Any] = {
            "_op": _encoded("_op", pa.array([_DELETE if d else _UPDATE for d in deletes])),
            "_db": pa.array([database] * count),
            "_table": pa.array([table] * count),
            "_present": present,
            "_raw": pa.array(marks, pa.map_(pa.string(), pa.string())),
            "before": _struct(columns, befores),
            "after": _struct(columns, afters),
        }
        metadata = self._metadata.slice(start, count)
        image = pa.struct(list(columns))
        schema = pa.schema(
            [*METADATA_FIELDS, pa.field("before", image), pa.field("after", image)],
            metadata={
                "tailrace.table": self._rows.name,
                "tailrace.source": self._job.source,
                "tailrace.key": json.dumps(list(key)),
                "tailrace.names": self._rows.names,
            },
        )
        arrays = []
        for field in schema:
            column = values.get(field.name)
            if column is None:
                column = metadata.column(field.name)
            if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
                column = _encoded(field.name, column)
            arrays.append(column.cast(field.type) if column.type != field.type else column)
        return pa.table(arrays, schema=schema)


class _Names:
    """Where a table's rows, as `Play` has them, have the columns of a file."""

    def __init__(self, columns: pa.Schema, target: Target) -> None:
        by_fold = {name.casefold(): name for name in columns.names}
        self._columns = columns
        self.all: dict[str, int] = {}
        self.key: dict[str, int] = {}
        for place, name in enumerate(target.columns.names):
            found = by_fold.get(name.casefold())
            if found is None:
                raise RejectedError(f"its column {name}, which foreign keys concern, is not logged")
            self.all[found] = place
            if name in target.key:
                self.key[found] = place

    def bits(self, image: Mapping[str, Any] | None) -> bytes:
        """The entry of ``_present`` of an image."""
        number: int = sum(1 << self._columns.get_field_index(name) for name in image or ())
        return number.to_bytes((len(self._columns) + 7) // 8, "little")


def _encoded(name: str, column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as the change record has them: numbers, and a dictionary."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if name != "_op":
        return pa.chunked_array([each.dictionary_encode() for each in chunks], _DICTIONARY)
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(
                pc.index_in(each, OPERATIONS).cast(pa.int8()), OPERATIONS
            )
            for each in chunks
        ],
        pa.dictionary(pa.int8(), pa.string()),
    )


_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


def _struct(columns: pa.Schema, images: Sequence[Mapping[str, Any] | None]) -> pa.StructArray:
    """Images of some columns, in all of a file's; None is no image."""
    used = {name for image in images if image is not None for name in image}
    arrays = [
        pa.array([None if image is None else image.get(field.name) for image in images], field.type)
        if field.name in used
        else pa.nulls(len(images), field.type)
        for field in columns
    ]
    mask = pa.array([image is None for image in images])
    return pa.StructArray.from_arrays(arrays, fields=list(columns), mask=mask)
