"""Indices of whole log files, kept in a folder, so that a restarted query need not make them anew.

    index/binlog.000003.npz

They are a cache: one that is missing, damaged or of another log is made again.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import BadZipFile

import numpy as np

from tailrace.errors import PipelineError
from tailrace.gtid import Gtid
from tailrace.spark.lake.resume import dump_catalogue, load_catalogue
from tailrace.spark.stream_index import FileIndex
from tailrace.spark.stream_offset import mark_of

if TYPE_CHECKING:
    from tailrace.storage import LogFile

_LAYOUT: Final = 2


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
            "undone": index.undone,
            "tagged": {str(at): str(gtid) for at, gtid in index.tagged.items()},
            "tables": [(at, dump_catalogue(known)) for at, known in index.tables],
        }
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                np.savez(
                    file,
                    said=np.array(json.dumps(said)),
                    begins=index.begins,
                    kinds=index.kinds,
                    gtids=index.gtids,
                    inner=index.inner,
                )
            Path(file.name).replace(self._path(index.log))

    def load(self, log: LogFile) -> FileIndex | None:
        """The index of a file, None where there is none of just this file."""
        try:
            with np.load(self._path(log), allow_pickle=False) as kept:
                said = json.loads(str(kept["said"]))
                if (said["layout"], said["end"]) != (_LAYOUT, log.size):
                    return None
                if said["mark"] != mark_of(log, log.size):
                    return None
                return FileIndex(
                    log,
                    kept["begins"],
                    kept["kinds"],
                    kept["gtids"],
                    {int(at): Gtid.parse(gtid) for at, gtid in said["tagged"].items()},
                    [(at, load_catalogue(text)) for at, text in said["tables"]],
                    [(start, end) for start, end in said["undone"]],
                    said["end"],
                    kept["inner"],
                )
        except (OSError, ValueError, KeyError, BadZipFile, EOFError, PipelineError):
            return None

    def _path(self, log: LogFile) -> Path:
        return self._folder / f"{log.name}.npz"
