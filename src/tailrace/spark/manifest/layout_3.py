"""Lakes of layout 3, which 764da2c8 and later builds wrote: one ``manifest.json`` for all of it.

It is read as what the journal would have. The first batch that is written begins the journal. The
manifest had the deleted rows of each file as text: the gaps between row numbers, each in as many
bytes as it needs (seven bits in each, the last one without the high bit), as base64. Its tables
have no marks: the next batch compares the counts of deleted rows with the tables' own.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import PipelineError
from tailrace.printable import short_repr
from tailrace.spark.manifest import consistent
from tailrace.spark.manifest.damage import reading_file
from tailrace.spark.manifest.json_file import read_layout
from tailrace.spark.manifest.manifest_json import by_table, lake_of, status_of, table_of, text
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.spark.manifest.manifest import Manifest, TableState

NAME: Final = "manifest.json"
LAYOUT: Final = 3
_MORE: Final = 0x80
_BITS: Final = 7


def read(folder: Path) -> Manifest:
    """The manifest of a version's or batch's folder; raises `PipelineError`, also for another
    layout and where it is of another version than the folder's.
    """
    path = folder / NAME
    with reading_file(path, "a lake's manifest"):
        content = read_layout(path, LAYOUT)
        shards = bool(content["shards"])
        lake = {
            **content,
            "sources": {name: _source(each) for name, each in content["sources"].items()},
            "points": {
                source: {at: _source(each) for at, each in known.items()}
                for source, known in content["points"].items()
            },
            "keys": [
                [str(TableName.parse(text(name, "a key"))), key] for name, key in content["keys"]
            ],
        }
        tables = _tables(content["tables"], shards=shards)
        found = lake_of(lake, content["version"], tables)
        consistent.check_lake(found)
        for key, state in tables.items():
            consistent.check_table(found, key, state)
        consistent.check_names(tables)
    if found.version != int(folder.name):
        raise PipelineError(f"{folder} has the manifest of version {found.version}")
    return found


def deleted(folder: Path) -> dict[str, dict[str, list[int]]]:
    """The deleted rows of each of a lake's tables, by file, at a version or batch. Raises `DAMAGE`,
    OSError.
    """
    content = read_layout(folder / NAME, LAYOUT)
    found: dict[str, dict[str, list[int]]] = {}
    for table in content["tables"].values():
        if (current := table["current"]) is not None and "current" in table["parts"]:
            files = (each for each in (*current["files"], *current["tails"]) if each is not None)
            found[table["parts"]["current"]] = {
                each["name"]: list(_rows(each["hidden"])) for each in files if each.get("hidden")
            }
    return found


def _rows(deleted: str) -> Iterator[int]:
    row = -1
    gap = shift = 0
    for byte in base64.b64decode(deleted):
        gap |= (byte & ~_MORE) << shift
        shift += _BITS
        if byte < _MORE:
            row += gap + 1
            yield row
            gap = shift = 0


def _source(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "tables": by_table(value["tables"])}


def _tables(values: dict[str, Any], *, shards: bool) -> dict[str, TableState]:
    """The tables by key. Keys of earlier releases were joined by a dot, whatever the names.

    Raises `PipelineError` for one that can be two tables', which were one table in the lake then.
    """
    states = {key: _table(value) for key, value in values.items()}
    keys: dict[str, str] = {}
    for key, state in states.items():
        inner = f"{state.source}/" if shards else ""
        joined = ".".join(state.full_name)
        if key == f"{inner}{joined}" and joined != str(state.full_name):
            if joined.count(".") > 1:
                raise PipelineError(
                    f"an earlier Tailrace made this lake, and {short_repr(joined)} may be two"
                    " tables in it: create a new lake"
                )
            keys[key] = f"{inner}{state.full_name}"
    return {
        keys.get(key, key): replace(
            state,
            states=tuple(
                replace(each, origins=tuple(keys.get(one, one) for one in each.origins))
                for each in state.states
            ),
        )
        for key, state in states.items()
    }


def _table(value: dict[str, Any]) -> TableState:
    current, history = value["current"], value["history"]
    made = {
        **value,
        "changelog": _files(value["changelog"]),
        "small": {part: _files(files) for part, files in value["small"].items()},
        "current": current
        and {**current, **_buckets("files", current["files"]), "tails": _files(current["tails"])},
        "history": history
        and {**history, **_buckets("open", history["open"]), "closed": _files(history["closed"])},
    }
    return table_of(made, tuple(status_of(each) for each in value["states"]))


def _buckets(name: str, files: list[Any]) -> dict[str, Any]:
    there = {str(number): _file(each) for number, each in enumerate(files) if each is not None}
    return {"buckets": len(files), name: there}


def _files(values: list[Any]) -> dict[str, Any]:
    found = {each["name"]: _file(each) for each in values}
    if len(found) < len(values):
        raise ValueError("a file is there twice")
    return found


def _file(value: dict[str, Any]) -> dict[str, Any]:
    """A file's entry: how many of its rows are deleted, and not which."""
    rest = {name: each for name, each in value.items() if name != "hidden"}
    count = sum(1 for _ in _rows(value.get("hidden", "")))
    return rest | ({"deleted": count} if count else {})
