"""Whether the parts of a manifest fit together: what a lake's writer takes for granted of them.

A member of the right type may still name a column that there is not, a file that cannot be ours, or
a table twice. What is read of a manifest is checked there, so that nobody else has to; and what is
written, so that a mistake of ours ends a batch, and not the lake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.printable import short_repr
from tailrace.spark.manifest.lake_options import KEEP
from tailrace.spark.manifest.manifest import KINDS
from tailrace.spark.manifest.names import made_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pyarrow as pa

    from tailrace.spark.manifest.manifest import DataFile, Manifest, TableRows, TableState


def check_lake(manifest: Manifest) -> None:
    """Raises ValueError that says which parts of a manifest do not fit together; not of tables."""
    if "" in manifest.sources:
        raise ValueError("a source has no name")
    points = [point for each in manifest.points.values() for point in each.values()]
    for source in (*manifest.sources.values(), *points):
        for log in (source.file, *source.files):
            _check_log(log)


def check_names(tables: Mapping[str, TableState]) -> None:
    """Raises ValueError where two of all tables are in one folder, or one table of the lake's."""
    known: dict[tuple[str, bool], tuple[str, ...]] = {}
    for key, state in tables.items():
        own = state.database, state.table
        parts = [((name, True), (*own, part)) for part, name in state.parts.items()]
        for place, what in (((state.folder, False), own), *parts):
            if known.setdefault(place, what) != what:
                raise ValueError(f"table {key[:200]!r}: {place[0]} is another table's, too")


def check_table(manifest: Manifest, key: str, state: TableState, *, altered: bool = True) -> None:
    """Raises ValueError that says which parts of a table do not fit together, or to the lake's.

    Of a table that is not ``altered`` only its statuses may not fit any more.
    """
    try:
        if altered:
            _check_table(manifest, key, state)
        _check_statuses(manifest, state)
    except ValueError as error:
        raise ValueError(f"table {key[:200]!r}: {error}") from error


def _check_log(name: str) -> None:
    """A file that was read may have any name; what servers may call one is `LogName`'s."""
    if name in {"", ".", ".."} or "/" in name or not name.isprintable():
        raise ValueError(f"a log's name is {short_repr(name)}")


def _check_table(manifest: Manifest, key: str, state: TableState) -> None:
    name = str(state.full_name)
    if key != manifest.options.key(state.source, name):
        raise ValueError(f"it is called {name[:200]!r} there")
    _unique(state.columns)
    for parts in (state.parts, state.shapes, state.small):
        _among(parts, KEEP, "a part")
    for shape in state.shapes.values():
        _unique(shape)
    if missing := set(state.parts) - set(state.shapes):
        raise ValueError(f"the columns of its {min(missing)} are missing")
    named = manifest.options.lists_files
    _check_files(manifest, state.changelog, named=named)
    for files in state.small.values():
        _check_files(manifest, files, named=True)
    current = state.current
    if current is not None and current.refused is None and not current.key:
        raise ValueError("it has no key")
    for part, rows in (("current", current), ("history", state.history)):
        if rows is not None:
            _check_rows(manifest, state, part, rows)
            _check_files(manifest, rows.placed, named=True)
            _check_files(manifest, rows.closed, named=named)


def _check_statuses(manifest: Manifest, state: TableState) -> None:
    _among((each.kind for each in state.states), KINDS, "a status")
    if len({each.kind for each in state.states}) != len(state.states):
        raise ValueError("a status is there twice")
    for each in state.states:
        _among(each.parts, manifest.options.keep, "what stands still")
        _among(each.origins, manifest.tables, "a table")
        known = manifest.points.get(state.source, {})
        for since in each.parts.values():
            if since and since not in known:
                raise ValueError(f"what is known at {since[:80]!r} is missing")


def _check_rows(manifest: Manifest, state: TableState, part: str, rows: TableRows) -> None:
    _unique(rows.columns)
    _among(rows.key, rows.columns.names, "a column of the key")
    there = bool(rows.key) and rows.refused is None
    if not there and rows.placed:
        raise ValueError("it has rows, and no key or a reason to have none")
    if part not in manifest.options.keep:
        raise ValueError(f"it has a {part}, which the lake does not keep")
    if there and part not in state.parts:
        raise ValueError(f"which table has its {part} is missing")


def _check_files(manifest: Manifest, files: Iterable[DataFile], *, named: bool) -> None:
    """Files are called as we call them; the one entry of sums has no name."""
    seen = set()
    for file in files:
        if file.name in seen:
            raise ValueError(f"file {file.name!r} is there twice")
        seen.add(file.name)
        if bool(file.name) != named:
            raise ValueError(f"a file is called {file.name!r}")
        made = made_by(file.name)
        if named and made is None:
            raise ValueError(f"{file.name[:40]!r} is no data file of a lake")
        if made is not None and made[0] > manifest.version:
            raise ValueError(f"{file.name} is of a version to come")
        if file.deleted > file.rows:
            raise ValueError(f"{file.name} has more deleted rows than rows")


def _among(values: Iterable[str], known: Collection[str], what: str) -> None:
    for value in values:
        if value not in known:
            raise ValueError(f"{what} is {value[:40]!r}")


def _unique(columns: pa.Schema) -> None:
    if len(set(columns.names)) != len(columns.names):
        raise ValueError("a column is there twice")
