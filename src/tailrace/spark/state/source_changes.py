"""What a run found of a source: its changes, and the states that its tables had before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tailrace.spark.state.failure import Failure, rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from tailrace.columns import Split, TableChange
    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.parquet.file import DataFolder
    from tailrace.spark.state.built import State
    from tailrace.spark.state.changelog import ChangeFile


class SourceTable(NamedTuple):
    """A table of a source; its name is a `TableName` as text."""

    source: str
    name: str


def table_changes(splits: Sequence[Split]) -> list[TableChange]:
    """What statements in the splits did to tables, in order; those before a split are left out."""
    found = [
        change
        for split in splits
        for change in split.changes
        if split.start <= change.offset < split.end
    ]
    return sorted(found, key=lambda change: change.seq)


@dataclass(frozen=True)
class SourceChanges:
    """What a run found of one source, called ``source``.

    ``files`` are the changelog files of its ``splits`` by table, in log order; ``wanted`` tells the
    tables whose rows are read, by name; ``committed`` are the current states of its tables before,
    with the paths of their files, ``out`` gives the folder for new ones of a part, of a table and
    its columns, ``deleted`` gives the deleted rows of one by path, and
    ``histories`` has their histories, with the paths of the files of open versions. ``keys`` are
    those that a user gave, by table. With ``shard``
    rows have a column ``_source`` of that value. Tables that are
    ``aside`` are not worked on, nor ``strangers``, whose rows from before the splits are not read.
    Tables that are ``restarted`` were aside so far: the splits begin with the statement that
    empties, drops, recreates or renames each of them.
    """

    splits: Sequence[Split]
    files: Mapping[str, Sequence[ChangeFile]]
    committed: Mapping[str, State]
    out: Callable[[str, str, pa.Schema], DataFolder] = field(kw_only=True)
    histories: Mapping[str, State] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: str = ""
    shard: str | None = None
    aside: frozenset[str] = frozenset()
    strangers: frozenset[str] = frozenset()
    restarted: frozenset[str] = frozenset()
    wanted: Callable[[str], bool] = lambda _: True
    deleted: Callable[[str], Mapping[str, DeletedRows]] = lambda _: {}

    @cached_property
    def keyed(self) -> Mapping[str, Sequence[ChangeFile]]:
        """The files, those of the tables in ``keys`` with these columns for their key.

        Column names are the same whatever their case. A name that is no column of a file stays as
        it is: the table's plan rejects it.
        """
        keys = self.keys
        return {
            name: [_keyed(file, keys[name]) for file in found] if name in keys else found
            for name, found in self.files.items()
        }

    @property
    def changes(self) -> list[TableChange]:
        """What statements did to tables, in order."""
        return table_changes(self.splits)

    def lacking(self, names: Iterable[str | None], before: str | None) -> Failure | None:
        """The failure of a table that has rows of the tables ``names``, where these are missing; or
        that had the name ``before``, of a restarted one: RENAME TABLE alone does not bring its rows
        back.
        """
        given = list(dict.fromkeys(name for name in names if name is not None))
        if found := tuple(name for name in given if name in self.aside):
            return Failure(f"it has rows of {', '.join(found)}, which is set aside", found)
        if found := tuple(name for name in given if name in self.strangers):
            return Failure(
                f"it has rows of {', '.join(found)} from before it was set aside (RENAME TABLE), "
                "and to read these again takes the log from the lake's begin on"
            )
        if before is not None and before in self.restarted:
            return rejection(f"it has rows of {before}, which is set aside", (before,))
        return None


def _keyed(file: ChangeFile, key: Sequence[str]) -> ChangeFile:
    names = {name.casefold(): name for name in file.columns.names}
    found = tuple(names.get(name.casefold(), name) for name in key)
    # Whether a change moves its row was found out by the key that the log tells.
    return replace(file, key=found, moved=file.moved or file.partial)
