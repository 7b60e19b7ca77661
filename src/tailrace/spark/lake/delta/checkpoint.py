"""Checkpoints of a Delta table's log: of one file, of several parts, or V2 with sidecars.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#checkpoints
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from tailrace.spark.manifest.json_file import LARGEST, check_size, parse
from tailrace.spark.manifest.on_disk import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    Action = dict[str, Any]

_NAME: Final = re.compile(
    r"(\d{20})\.checkpoint\.(?:parquet|\d{10}\.(\d{10})\.parquet|[0-9A-Fa-f-]{36}\.(?:parquet|json))"
)
_SIDECARS: Final = "_sidecars"


def last_checkpoint(log: Path, version: int) -> tuple[int, list[Path]]:
    """The last whole checkpoint up to a version: its version and files; -1 if there is none."""
    found: dict[tuple[int, str], list[Path]] = {}
    for path in sorted(log.glob("*.checkpoint.*")):
        match = _NAME.fullmatch(path.name)
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


def read_actions(path: Path) -> Iterator[Action]:
    """The actions in a file of JSON. Raises FileNotFoundError, and what damage raises."""
    content = read_plain(path, LARGEST)
    check_size(content)
    for line in io.BytesIO(content):
        if line.strip():
            yield parse(line)


def _rows(path: Path, columns: Iterable[str]) -> Iterator[Action]:
    rows = pq.ParquetFile(path).read(columns=[*columns, "sidecar.path"])
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        for found in column.drop_null().to_pylist(maps_as_pydicts="strict"):
            yield {name: _without_nulls(found)}


def _without_nulls(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    return {name: _without_nulls(each) for name, each in found.items() if each is not None}
