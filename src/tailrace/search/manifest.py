"""What an index is made of: ``index.json`` in its folder.

Version 1 has these fields: ``version``; ``tables`` and ``exclude``, the patterns of the tables
(``tables`` is null for all); ``analyser``, its options; ``shards``, the folder of each shard,
relative to the index's. A document is in the shard whose number is `shard_of` its key. What a
shard holds and up to where is in the shard itself (`tailrace.search.shard`), so that a shard is
replaced together with its position.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from zlib import crc32

from tailrace.errors import StorageError, UsageError
from tailrace.search.analysis import Analyser
from tailrace.storage.versions import Versions
from tailrace.table_filter import TableFilter

FILE: Final = "index.json"
VERSION: Final = 1


def shard_of(key: str, shards: int) -> int:
    """The number of the shard that has the document with this key, whatever its table's number."""
    return crc32(key.partition(" ")[2].encode("utf-8", "surrogatepass")) % shards


@dataclass(frozen=True)
class Manifest:
    """The tables that an index has, how their text becomes tokens, and where its shards are."""

    tables: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    analyser: Analyser = field(default_factory=Analyser)
    shards: tuple[str, ...] = ("shards/0",)

    @property
    def wants(self) -> TableFilter:
        """The filter of the tables."""
        return TableFilter(self.tables, self.exclude)

    @classmethod
    def loads(cls, text: str | bytes, name: str) -> Self:
        """From the text of ``index.json``; ``name`` is the index in errors. Raises StorageError."""
        try:
            saved: dict[str, Any] = json.loads(text)
            if saved["version"] != VERSION:
                raise StorageError(
                    f"{name}: the index has format {saved['version']}, and this Tailrace reads"
                    f" format {VERSION}: build it again, or use a newer Tailrace"
                )
            tables = saved["tables"]
            return cls(
                None if tables is None else tuple(tables),
                tuple(saved["exclude"]),
                Analyser.load(saved["analyser"]),
                tuple(saved["shards"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{name}: {FILE} is damaged: {error!r}") from error

    def dumps(self) -> str:
        """As the text of ``index.json``."""
        saved = {"version": VERSION, **asdict(self), "analyser": self.analyser.dump()}
        return json.dumps(saved, indent=1) + "\n"

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """That of an index in a folder. Raises StorageError if there is none."""
        found = Versions(Path(folder), FILE).head()
        if found is None:
            raise StorageError(
                f"{folder}: there is no index ({FILE}): tailrace index SOURCE --into {folder}"
            )
        return cls.loads(found, str(folder))

    def save(self, folder: str | Path) -> None:
        """Write it into a folder, atomically."""
        Versions(Path(folder), FILE).publish(self.dumps())

    @classmethod
    def agreed(cls, folder: str | Path, wanted: Self) -> Self:
        """That of the index in a folder, which is made if there is none.

        Raises UsageError if the index has other tables or another analyser.
        """
        if not (Path(folder) / FILE).exists():
            wanted.save(folder)
            return wanted
        found = cls.load(folder)
        found.check(wanted, folder)
        return found

    def check(self, wanted: Manifest, folder: str | Path) -> None:
        """Raise UsageError if the index has other tables or another analyser than ``wanted``."""
        for name in ("tables", "exclude", "analyser"):
            if getattr(self, name) != getattr(wanted, name):
                raise UsageError(
                    f"{folder}: the index was made with other {name}: give the same, or another"
                    " folder"
                )
