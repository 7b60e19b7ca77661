"""What tasks do for foreign keys: find the rows that may be concerned, and carry the keys out."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.arrays import METADATA_FIELDS, OPERATIONS, constant, presence
from tailrace.position import sequence
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.record.present import bits
from tailrace.spark.state.cascade.play import ABSENT, Known, Play, completed
from tailrace.spark.state.cascade.values import EXACT
from tailrace.spark.state.changelog import DEFAULT_LIMITS, ChangelogFiles
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import (
    DELETE,
    INSERT,
    SEQ,
    SNAPSHOT,
    UPDATE,
    has_unknown,
    joined,
    operation_numbers,
)
from tailrace.spark.state.current.fold import key_columns
from tailrace.spark.state.current.keys import dense
from tailrace.spark.state.failure import RejectedError
from tailrace.spark.state.spill import read_spill, write_spill
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.manifest.making import Making
    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.cascade.keys import Link
    from tailrace.spark.state.cascade.play import Derived, Row
    from tailrace.spark.state.cascade.values import Comparison
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.current.flat import Bytes, Flat, Target
    from tailrace.spark.state.current.rows import Base, Piece

MARK: Final = "cascade"
"""The key in ``_raw`` under which a change that a foreign key made has that key."""
_PLAIN: Final = tuple(field.name for field in METADATA_FIELDS[:-2])

Step = tuple[int, int, Callable[[], None]]
"""A call to make on `Play`: at which ``_seq``, there in which order, and the call."""


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
    """Find the rows of ``base`` that have any of the values asked for: a file in ``folder``."""

    base: Base
    target: Target
    asked: tuple[Asked, ...]
    folder: Path

    @property
    def reads(self) -> int:
        """The bytes that it reads."""
        return self.base.reads


@dataclass(frozen=True)
class Rows:
    """A table whose rows foreign keys may change.

    ``target`` has the columns that it takes to carry them out, of ``columns``, all that the table
    has. ``pieces`` are its logged changes, which ``files`` hold, ``found`` the paths of rows from
    before them that have the values ``asked`` for.
    """

    name: str
    target: Target
    columns: pa.Schema
    pieces: tuple[Piece, ...]
    partial: bool
    files: tuple[ChangeFile, ...]
    found: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True)
class PlayJob:
    """Carry ``links`` out: what changes of ``causes``, files of each table, did to ``tables``.

    ``quiet`` are files of the rows whose change does nothing to others (`read_split`). The files of
    changes go where ``to`` gives, others to ``folder``. With ``shard`` they have a column
    ``_source``. ``source`` is the log's.
    """

    source: str
    links: tuple[Link, ...]
    causes: tuple[tuple[str, tuple[ChangeFile, ...]], ...]
    tables: tuple[Rows, ...]
    quiet: tuple[str, ...]
    folder: Path
    to: Making
    shard: str | None

    @property
    def reads(self) -> int:
        """The bytes that it reads."""
        every = [*(files for _, files in self.causes), *(each.files for each in self.tables)]
        return sum(file.size for files in every for file in files)


@dataclass(frozen=True)
class Played:
    """What came of a job: files of changes by table, the logged and the new ones in order.

    Or, where rows are ``missing``, what else is to be asked for by table.
    """

    files: Mapping[str, tuple[ChangeFile, ...]]
    missing: Mapping[str, tuple[Asked, ...]] = field(default_factory=dict)


def find(job: FindJob) -> str | None:
    """Write the rows that are asked for to a file, and give its path; None: there are none."""
    asked = [(each, read_spill(each.path)) for each in job.asked]
    found = []
    for rows in job.base.rows(job.target, only_its_columns=True):
        _check_known(rows)
        mask = np.zeros(rows.num_rows, np.bool_)
        for each, values in asked:
            mask |= _matches(rows, each, values)
        if mask.any():
            found.append(rows.filter(pa.array(mask)))
    if not found:
        return None
    path = job.folder / f"{uuid4().hex}.arrow"
    write_spill(path, pa.concat_tables(found, promote_options="default"))
    return str(path)


def _matches(rows: pa.Table, asked: Asked, values: pa.Table) -> Bits:
    """Which rows have any of the values asked for. NULL is none. Raises `RejectedError`."""
    columns = list(asked.columns)
    found = {
        name: how.of_all(rows.column(name))
        for name, how in zip(columns, asked.comparisons, strict=True)
    }
    numbers, _ = dense(key_columns([values.select(columns), pa.table(found)], columns))
    result: Bits = np.isin(numbers[values.num_rows :], numbers[: values.num_rows])
    for each in found.values():
        if each.null_count:
            result &= each.is_valid().to_numpy()
    return result


def play(job: PlayJob) -> Played:
    """Carry the keys out. Raises `RejectedError` where what they did cannot be told."""
    tables = {each.name: _Table(each, job.links) for each in job.tables}
    run = Play(job.links, tables)
    causes = _Causes(job, run)
    steps: list[Step] = []
    for table in tables.values():
        steps += table.steps()
    steps += causes.steps
    for *_, step in sorted(steps, key=itemgetter(0, 1)):
        step()
    for table in tables.values():
        table.check_moved(run.derived)
    if any(table.missing for table in tables.values()):
        asked = {name: tuple(each.ask(job.folder)) for name, each in tables.items() if each.missing}
        return Played({}, asked)
    if strange := [name for name, each in tables.items() if each.strange]:
        raise RejectedError(
            f"images of changes of {strange[0]} are not full, and its rows are not all known: "
            "what foreign keys do to them cannot be told"
        )
    made = {name: [one for one in run.derived if one.table == name] for name in tables}
    return Played(
        {
            name: tuple(_Writing(tables[name].given, each, causes.metadata, job).files())
            for name, each in made.items()
            if each
        }
    )


# --- what the log says ----------------------------------------------------------------------------


class _Causes:
    """The logged changes that may have changed other rows, by number.

    ``steps`` are the calls to make on ``run``: after the calls for the row itself.
    """

    def __init__(self, job: PlayJob, run: Play) -> None:
        self._run = run
        self.steps: list[Step] = []
        self._quiet = sorted(
            (sequence(file, position, start), sequence(file, position, end))
            for path in job.quiet
            for file, position, start, end in np.load(path).tolist()
        )
        """The first and the end of rows whose change does nothing to others."""
        self._metadata: list[pa.Table] = []
        for name, files in job.causes:
            wanted = {each for link in job.links if link.parent == name for each in link.referenced}
            for file in files:
                self._read(file, sorted(wanted))

    @property
    def metadata(self) -> pa.Table:
        """The changes' fields but for images, by number."""
        return pa.concat_tables(self._metadata).unify_dictionaries()

    def _read(self, file: ChangeFile, wanted: Sequence[str]) -> None:
        by_fold = {name.casefold(): name for name in file.columns.names}
        names = [by_fold.get(name.casefold(), "") for name in wanted]
        if "" in names:
            raise RejectedError(
                f"the log's columns of {file.name} are not those that foreign keys refer to: "
                f"{', '.join(wanted)}"
            )
        read = [*_PLAIN, "_present", "_raw"]
        read += [f"{image}.{name}" for image in ("before", "after") for name in names]
        places = {name: file.columns.get_field_index(name) for name in names}
        for rows in row_groups(file.path, read):
            self._take(rows, file, places, wanted)

    def _take(
        self, rows: pa.Table, file: ChangeFile, places: Mapping[str, int], wanted: Sequence[str]
    ) -> None:
        """Keep the deletes, and the updates that change any of the columns."""
        operations, width = operation_numbers(rows), len(file.columns)
        had, has = (bits(rows.column("_present"), each, width) for each in ("before", "after"))
        changed = np.zeros(rows.num_rows, np.bool_)
        for name, place in places.items():
            changed |= has[:, place] & (raw.changed(rows, name) | ~had[:, place])
        chosen = np.flatnonzero((operations == DELETE) | ((operations == UPDATE) & changed))
        seqs = rows.column("_seq").take(pa.array(chosen)).to_pylist()
        chosen = chosen[np.array([not self._is_quiet(int(each)) for each in seqs], np.bool_)]
        if not len(chosen):
            return
        rows = rows.take(pa.array(chosen))
        for key, texts in raw.texts(rows.column("_raw")).items():
            if key.partition(".")[2] in places and texts.null_count < len(texts):
                raise RejectedError(f"a key that others refer to has a value of no type in {key}")
        befores, afters = (
            [
                _values(pc.struct_field(rows.column(image), [name]), there[chosen, place])
                for name, place in places.items()
            ]
            for image, there in (("before", had), ("after", has))
        )
        for seq, kind, old, new in zip(
            rows.column("_seq").to_pylist(),
            operations[chosen].tolist(),
            zip(*befores, strict=True),
            zip(*afters, strict=True),
            strict=True,
        ):
            after = None if kind == DELETE else completed(new, old)
            step = partial(self._run.cause, len(self.steps), file.name, wanted, old, after)
            self.steps.append((int(seq), 1, step))
        self._metadata.append(rows.select(_PLAIN))

    def _is_quiet(self, seq: int) -> bool:
        at = bisect_right(self._quiet, seq, key=itemgetter(0))
        return at > 0 and seq < self._quiet[at - 1][1]


def _values(column: pa.ChunkedArray, there: Bits) -> list[object]:
    """A column's values, and `ABSENT` where an image does not have it."""
    pairs = zip(column.to_pylist(), there.tolist(), strict=True)
    return [value if has else ABSENT for value, has in pairs]


class _Table(Known):
    """A table whose rows foreign keys may change: its rows before the changes, and these."""

    def __init__(self, given: Rows, links: Iterable[Link]) -> None:
        self.given = given
        self._how = {given.target.key: (EXACT,) * len(given.target.key)}
        self._how |= {each.columns: each.comparisons for each in links if each.child == given.name}
        self._found = [read_spill(path) for path in given.found]
        self._wanted = [(each, read_spill(each.path)) for each in given.asked]
        self._chosen: Bits = np.zeros(0, np.bool_)
        """Which of the logged changes `steps` gave."""
        super().__init__(tuple(given.target.columns.names), given.target.key)
        for each, values in self._wanted:
            self.asked.setdefault(each.columns, set()).update(_tuples(values, each.columns))

    def ask(self, folder: Path) -> Iterator[Asked]:
        """Ask for the rows that are missing, by files in a folder."""
        for columns, values in self.missing.items():
            path = folder / f"{uuid4().hex}.arrow"
            write_spill(path, self._as_table(columns, values))
            yield Asked(columns, self._how[columns], str(path))

    def steps(self) -> Iterator[Step]:
        """Put the rows that there were; what is to be told of logged changes then."""
        for table in self._found:
            self._check_texts(table)
            for row in _tuples(table, self.columns):
                self.put(row)
        flat = self._changes()
        if flat is None:
            return
        _check_known(flat.rows)
        self._chosen = self._concerned(flat)
        rows, olds = (each.filter(pa.array(self._chosen)) for each in (flat.rows, flat.old))
        self._check_texts(rows)
        columns = [rows.column(name).to_pylist() for name in self.columns]
        if flat.present is not None:
            there = zip(self.columns, flat.present[self._chosen].T, strict=True)
            columns = [_values(rows.column(name), has) for name, has in there]
        for seq, kind, old, image in zip(
            rows.column(SEQ).to_pylist(),
            flat.operations[self._chosen].tolist(),
            _tuples(olds, self.key),
            zip(*columns, strict=True),
            strict=True,
        ):
            was = None if kind in {INSERT, SNAPSHOT} else old
            now = None if kind == DELETE else image
            yield int(seq), 0, partial(self.change, was, now)

    def check_moved(self, derived: Iterable[Derived]) -> None:
        """Ask for rows under keys that foreign keys made, where `steps` left out their changes.

        The log has these keys for each later change of such a row.
        """
        moves = [
            (self.key_of(each.before), self.key_of(each.after))
            for each in derived
            if each.table == self.given.name and each.after is not None
        ]
        moved = {new for old, new in moves if new != old} - self.asked.get(self.key, set())
        flat = self._changes() if moved else None
        if flat is None:
            return
        if (self._concerned(flat, self._as_table(self.key, moved)) & ~self._chosen).any():
            self.missing.setdefault(self.key, set()).update(moved)

    def _changes(self) -> Flat | None:
        """The logged changes, where any of the rows are asked for."""
        given, whole = self.given, not self.given.partial
        pieces = given.pieces if self._wanted else ()
        flats = [each for piece in pieces for each in piece.flats(given.target, whole=whole)]
        return joined(flats) if flats else None

    def _concerned(self, flat: Flat, *keys: pa.Table) -> Bits:
        """Which changes are of rows that have values asked for, or ``keys``, at any time."""
        key, count = self.key, len(flat.operations)
        there = [*self._found, *keys]
        there += [values for each, values in self._wanted if each.columns == key]
        numbers, size = dense(
            key_columns([each.select(list(key)) for each in (flat.rows, flat.old, *there)], key)
        )
        new, old = numbers[:count], numbers[count : 2 * count]
        chosen = np.zeros(count, np.bool_)
        met = np.zeros(size, np.bool_)
        met[numbers[2 * count :]] = True
        came = np.isin(flat.operations, (INSERT, SNAPSHOT))
        gone = flat.operations == DELETE
        if flat.present is not None:  # a key that an image leaves out is as it was
            left = ~flat.present[:, self.places(key)].all(axis=1)
            new = np.where(left, old, new)
        for each, values in self._wanted:
            chosen |= _matches(flat.rows, each, values)
            if flat.present is not None:  # some of the values are new, the others not in the image
                has = flat.present[:, self.places(each.columns)]
                others = has[:, [name not in key for name in each.columns]].any(axis=1)
                chosen |= ~has.all(axis=1) & ~gone & (came | (new != old) | others)
        while True:
            met[new[chosen & ~gone]] = True
            met[old[chosen & ~came]] = True
            more = chosen | (met[new] & ~gone) | (met[old] & ~came)
            if (more == chosen).all():
                return chosen
            chosen = more

    def _as_table(self, columns: Sequence[str], values: Iterable[Row]) -> pa.Table:
        arrays = [
            pa.array(each, self.given.target.columns.field(name).type)
            for name, each in zip(columns, zip(*values, strict=True), strict=True)
        ]
        return pa.table(arrays, list(columns))

    def _check_texts(self, table: pa.Table) -> None:
        for name in self.columns:
            beside = raw.beside(name)
            if beside in table.schema.names and table.column(beside).null_count < table.num_rows:
                raise RejectedError(
                    f"{self.given.name}: a column that foreign keys concern has values of no type: "
                    f"{name}"
                )


def _check_known(rows: pa.Table) -> None:
    """Raise `RejectedError` where the log does not tell what became of values that keys concern."""
    if has_unknown(rows):
        raise RejectedError(
            "an ALTER TABLE changed values of columns that foreign keys concern, and the log does"
            " not tell what they became"
        )


def _tuples(table: pa.Table, names: Iterable[str]) -> Iterator[Row]:
    """The rows of a table, each with the values of some columns."""
    return zip(*(table.column(name).to_pylist() for name in names), strict=True)


# --- what becomes of it ---------------------------------------------------------------------------


class _Writing:
    """Writes the changes that foreign keys made to a table, where they stand among the logged."""

    def __init__(self, rows: Rows, made: Sequence[Derived], causes: pa.Table, job: PlayJob) -> None:
        self._rows, self._made, self._job = rows, made, job
        self._metadata = causes.take(pa.array([each.cause for each in made]))
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
        tables = []
        for rows in row_groups(file.path):
            numbers = _operations(operation_numbers(rows))
            numbered = rows.drop_columns("_op").append_column("_op", numbers)
            tables.append(numbered.select(own.schema.names).cast(own.schema))
        table = pa.concat_tables([*tables, own]).unify_dictionaries()
        ranked = pa.table({"seq": table.column("_seq"), "rank": np.arange(table.num_rows)})
        order = pc.sort_indices(ranked, [("seq", "ascending"), ("rank", "ascending")])
        made = self._written(table.take(order))
        return replace(
            made, unlogged=file.unlogged, seconds=made.seconds + file.seconds, derived=False
        )

    def _written(self, rows: pa.Table) -> ChangeFile:
        files = ChangelogFiles(self._job.to, source=self._job.shard)
        most = DEFAULT_LIMITS.group_rows
        for batch in rows.unify_dictionaries().to_batches(max_chunksize=most):
            files.add(batch)
        (file,) = files.finish()
        return replace(file, unlogged=(), derived=True)

    def _part(self, start: int, end: int, columns: pa.Schema, key: tuple[str, ...]) -> pa.Table:
        """Some of the changes, in a file's columns. Raises `RejectedError`."""
        made, target = self._made[start:end], self._rows.target
        count, width = len(made), len(columns)
        deletes = np.array([each.after is None for each in made])
        had, has = np.zeros((2, count, width), np.bool_)
        before, after = ([pa.nulls(count, each.type) for each in columns] for _ in range(2))
        by_fold = {name.casefold(): at for at, name in enumerate(columns.names)}
        for place, name in enumerate(target.columns.names):
            at = by_fold.get(name.casefold())
            if at is None:
                raise RejectedError(f"its column {name}, which foreign keys concern, is not logged")
            old = [each.before[place] for each in made]
            new = [None if each.after is None else each.after[place] for each in made]
            had[:, at] = deletes | (name in target.key)
            has[:, at] = ~deletes & [one != other for one, other in zip(old, new, strict=True)]
            before[at] = pa.array(old, columns[at].type, mask=~had[:, at])
            after[at] = pa.array(new, columns[at].type, mask=~has[:, at])
        old_bits, new_bits = (np.packbits(each, 1, "little") for each in (had, has))
        database, table = TableName.parse(self._rows.name)
        marks = [[(MARK, each.link.sql)] for each in made]
        values = {
            "_op": _operations(np.where(deletes, DELETE, UPDATE).astype(np.int8)),
            "_db": constant(database, count),
            "_table": constant(table, count),
            "_present": presence(old_bits, new_bits, None, count),
            "_raw": pa.array(marks, pa.map_(pa.string(), pa.string())),
            "before": pa.StructArray.from_arrays(before, fields=list(columns)),
            "after": pa.StructArray.from_arrays(
                after, fields=list(columns), mask=pa.array(deletes)
            ),
        }
        metadata = self._metadata.slice(start, count)
        image = pa.struct(list(columns))
        schema = pa.schema(
            [*METADATA_FIELDS, pa.field("before", image), pa.field("after", image)],
            metadata={
                "tailrace.table": self._rows.name,
                "tailrace.source": self._job.source,
                "tailrace.key": json.dumps(list(key)),
                "tailrace.names": self._rows.files[-1].names if self._rows.files else "log",
            },
        )
        values = {name: metadata.column(name) for name in _PLAIN} | values
        return pa.table(values).select(schema.names).cast(schema)


def _operations(numbers: Bytes) -> pa.DictionaryArray:
    """The column ``_op`` of the change record."""
    return pa.DictionaryArray.from_arrays(pa.array(numbers), OPERATIONS)
