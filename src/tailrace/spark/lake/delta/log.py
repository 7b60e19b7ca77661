"""The files of a Delta table's log: commits as JSON, and checkpoints.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md. Checkpoints are of one file, of several
parts, or V2 with sidecars. delta-rs reads the log too, and makes checkpoints; commits are written
here, since delta-rs has none that changes columns and adds files at once (docs/design/formats.md).
"""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark.lake.delta.vectors import Vector
from tailrace.spark.manifest.json_file import LARGEST, check_size, parse
from tailrace.spark.manifest.on_disk import read_plain, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    Action = dict[str, Any]

LOG: Final = "_delta_log"
LAST: Final = "_last_checkpoint"
READER_FEATURES: Final = ("timestampNtz",)
WRITER_FEATURES: Final = ("appendOnly", "invariants", "timestampNtz")
VECTORS: Final = "deletionVectors"
_CHECKPOINT: Final = re.compile(
    r"(\d{20})\.checkpoint\.(?:parquet|\d{10}\.(\d{10})\.parquet|[0-9A-Fa-f-]{36}\.(?:parquet|json))"
)
_SIDECARS: Final = "_sidecars"


def entry(log: Path, version: int) -> Path:
    """The commit of a version in a log's folder."""
    return log / f"{version:020}.json"


def write_version(table: Path, version: int, actions: Iterable[Action]) -> bool:
    """Make actions a version of the table; False where someone else made that version.

    The file is on disk then, its name is when its folder is. Raises OSError.
    """
    log = table / LOG
    log.mkdir(parents=True, exist_ok=True)
    try:
        write_file(entry(log, version), (f"{json.dumps(each)}\n" for each in actions), new=True)
    except FileExistsError:
        return False
    return True


def read_actions(path: Path) -> Iterator[Action]:
    """The actions in a file of JSON. Raises FileNotFoundError, and what damage raises."""
    content = read_plain(path, LARGEST)
    check_size(content)
    return (parse(line) for line in io.BytesIO(content) if line.strip())


def last_checkpoint(log: Path, version: int) -> tuple[int, list[Path]]:
    """The last whole checkpoint up to a version: its version and files; -1 if there is none."""
    found: dict[tuple[int, str], list[Path]] = {}
    for path in sorted(log.glob("*.checkpoint.*")):
        match = _CHECKPOINT.fullmatch(path.name)
        if match is not None and int(match[1]) <= version:
            found.setdefault((int(match[1]), match[2] or path.name), []).append(path)
    whole = (
        (number, files)
        for (number, parts), files in found.items()
        if not parts.isdigit() or len(files) == int(parts)
    )
    return max(whole, default=(-1, []))


def read_checkpoint(files: Iterable[Path], *columns: str) -> Iterator[Action]:
    """The actions in files of a checkpoint and in their sidecars.

    Of files of Parquet only ``columns`` are read, such as ``add.path``. Members that an action
    lacks are left out. Raises FileNotFoundError, and what damage raises.
    """
    for path in files:
        for action in read_actions(path) if path.suffix == ".json" else _rows(path, columns):
            if (sidecar := action.get("sidecar")) is None:
                yield action
                continue
            name = unquote(sidecar["path"]).rpartition("/")[2]
            yield from read_checkpoint([path.parent / _SIDECARS / name], *columns)


def _rows(path: Path, columns: Iterable[str]) -> Iterator[Action]:
    rows = pq.ParquetFile(path).read(columns=[*columns, "sidecar.path"])
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        for found in column.drop_null().to_pylist(maps_as_pydicts="strict"):
            yield {name: _without_nulls(found)}


def _without_nulls(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    return {name: _without_nulls(each) for name, each in found.items() if each is not None}


class Files:
    """The files of a table, by its log, as of the version that was asked for last.

    delta-rs lists the files, but not where their deletion vectors are.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._version = -1
        self._vectors: dict[str, Vector | None] = {}

    def at(self, version: int) -> Mapping[str, Vector | None]:
        """The vector of each file, by its path. Raises `PipelineError` where the log of that is not
        all there.
        """
        known, self._version = self._version, -1
        if not (0 <= known <= version and self._has_commits(known, version)):
            known, files = last_checkpoint(self._log, version)
            if not self._has_commits(known, version):
                folder = self._log.parent
                raise PipelineError(f"{folder} has no log of its version {version} any more")
            self._vectors = {}
            self._take(read_checkpoint(files, "add.path", "add.deletionVector"))
        for number in range(known + 1, version + 1):
            self._take(read_actions(entry(self._log, number)))
        self._version = version
        return self._vectors

    def took(self, version: int, actions: Iterable[Action]) -> None:
        """Take up a commit, if what was before it is known."""
        if self._version == version - 1 >= 0:
            self._take(actions)
            self._version = version

    def _has_commits(self, version: int, end: int) -> bool:
        """Whether the commits after a version, up to another one, are there."""
        return all(entry(self._log, number).exists() for number in range(version + 1, end + 1))

    def _take(self, actions: Iterable[Action]) -> None:
        """A commit may take a file out and add it with another vector."""
        for action in actions:
            if (add := action.get("add")) is not None:
                self._vectors[unquote(add["path"])] = self._vector(add)
            elif (gone := action.get("remove")) is not None:
                path = unquote(gone["path"])
                if self._vectors.get(path) == self._vector(gone):
                    self._vectors.pop(path, None)

    def _vector(self, action: Action) -> Vector | None:
        found = action.get("deletionVector")
        return None if found is None else Vector.of(found, self._log.parent)
