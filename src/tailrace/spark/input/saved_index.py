"""Indices of whole log files, kept in a folder, so that a restarted query need not rebuild them.

    index/binlog.000003.npz

One that is missing, damaged, of another log or of another layout is made again.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from tailrace.errors import StorageError
from tailrace.gtid import Gtid
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.spark.input.header_index import Array, FileIndex
from tailrace.spark.input.offset import mark_of

if TYPE_CHECKING:
    from tailrace.storage import LogFile

_LAYOUT: Final = 3
_ARRAYS: Final = {
    "begins": ("<i8", None),
    "kinds": ("|u1", None),
    "gtids": ("|u1", 24),
    "inner": ("<i8", None),
}
"""The arrays of an index: their types, and how many members each of an array's entries has."""


class SavedIndices:
    """The folder of one log's indices."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def save(self, index: FileIndex) -> None:
        """Keep the index of a file that was gone through to its end; where it cannot, it is not."""
        said = {
            "layout": _LAYOUT,
            "mark": mark_of(index.log, index.end),
            "end": index.end,
            "undone": index.left_out,
            "tagged": {str(at): str(gtid) for at, gtid in index.tagged.items()},
            "tables": [(at, to_json(known)) for at, known in index.tables],
        }
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                arrays = {name: getattr(index, name) for name in _ARRAYS}
                np.savez(file, said=np.array(json.dumps(said)), **arrays)
            Path(file.name).replace(self._path(index.log))

    def load(self, log: LogFile) -> FileIndex | None:
        """The index of a file, None where there is none of just this file."""
        path = self._path(log)
        try:
            with ZipFile(path) as packed:  # as it is written: what is in it is no larger than it
                if any(each.compress_type != ZIP_STORED for each in packed.infolist()):
                    return None
            with np.load(path, allow_pickle=False) as kept:
                said = json.loads(str(kept["said"]))
                if said["layout"] != _LAYOUT or said["end"] != log.size:
                    return None
                if said["mark"] != mark_of(log, log.size):
                    return None
                arrays = {
                    name: _array(kept[name], kind, width, log.size)
                    for name, (kind, width) in _ARRAYS.items()
                }
                if len({len(arrays[name]) for name in ("begins", "kinds", "gtids")}) > 1:
                    return None
                return FileIndex(
                    log,
                    **arrays,
                    tagged={int(at): Gtid.parse(gtid) for at, gtid in said["tagged"].items()},
                    tables=[(int(at), from_json(known)) for at, known in said["tables"]],
                    left_out=[(int(start), int(end)) for start, end in said["undone"]],
                    end=said["end"],
                )
        except StorageError:  # the log cannot be read
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is made again
            return None

    def _path(self, log: LogFile) -> Path:
        return self._folder / f"{log.name}.npz"


def _array(found: Array, kind: str, width: int | None, most: int) -> Array:
    """An array of a file's index as it must be; raises ValueError for any other.

    Offsets (64 bits each) are of the file, and ascend.
    """
    if found.dtype.str != kind or found.shape[1:] != (() if width is None else (width,)):
        raise ValueError("an array of another kind")
    if kind == "<i8" and len(found) and not (found[0] >= 0 and found[-1] <= most):
        raise ValueError("an offset that is not in the file")
    if kind == "<i8" and np.any(np.diff(found) < 0):
        raise ValueError("offsets that do not ascend")
    return found
