"""Keys that a user gave for tables, in place of those that the log tells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tailrace.spark.state.failure import RejectedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.current.keys import Numbers


def keyed(
    files: Mapping[str, Sequence[ChangeFile]], keys: Mapping[str, tuple[str, ...]]
) -> dict[str, Sequence[ChangeFile]]:
    """The files, those of the tables in ``keys`` with these columns for their key.

    Column names are the same whatever their case. A name that is no column of a file stays as it
    is: the table's plan rejects it.
    """
    return {
        name: [_keyed(file, keys[name]) for file in found] if name in keys else found
        for name, found in files.items()
    }


def _keyed(file: ChangeFile, key: Sequence[str]) -> ChangeFile:
    names = {name.casefold(): name for name in file.columns.names}
    found = tuple(names.get(name.casefold(), name) for name in key)
    # Whether a change moves its row was found out by the key that the log tells.
    return replace(file, key=found, moved=file.moved or file.partial)


def check_columns(key: Sequence[str], file: ChangeFile) -> None:
    """Raises `RejectedError` where a file lacks a column of the given key."""
    if strange := [name for name in key if name not in file.columns.names]:
        raise RejectedError(
            f"the key given for it has {', '.join(strange)}, and its columns are "
            f"{', '.join(file.columns.names)}"
        )


def check_unique(
    keys: Numbers, began: Bits, ended: Bits, order: Numbers, rows: pa.Table, key: Sequence[str]
) -> None:
    """Raises `RejectedError` where a row came under a key that another row had.

    For moments in order by key: ``keys`` are their numbers, ``began`` says whether a row came under
    the key then, ``ended`` whether none was left after it. ``order`` has the places in ``rows`` of
    those that began.
    """
    twice = np.flatnonzero((keys[1:] == keys[:-1]) & began[1:] & ~ended[:-1])
    if not len(twice):
        return
    values = rows.select(list(key)).slice(int(order[twice[0] + 1]), 1).to_pylist()[0]
    shown = ", ".join(f"{name} = {value!r}" for name, value in values.items())
    raise RejectedError(f"the key given for it is not unique: two rows had {shown}")
