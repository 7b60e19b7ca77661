"""Servers as sources of a mirror: their logs are received into the lake's own folder, then read.

    lake/_tailrace/sources/db1.example.org_3306/binlog.000017 ...    a byte copy (`Receiver`)

The copy is gone on with by each run, after a crash too. Files that the lake has whole are deleted
once it was committed; where the copy was lost, it begins anew with the file where the lake ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC
from tailrace.live.url import Source, names_server
from tailrace.position import Position
from tailrace.storage import find
from tailrace.storage.index import INDEX_SUFFIX
from tailrace.storage.purge import purge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tailrace.replication.progress import Progress as Far
    from tailrace.spark.lake.manifest import SourceState
    from tailrace.storage import LogSeries

    Progress = Callable[[str, int, int], None]

_ODD: Final = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True)
class ServerLogs:
    """A server, and the folder that its logs are received into. Its name is the folder's."""

    source: Source
    folder: Path

    @classmethod
    def below(cls, folder: Path, source: Source) -> ServerLogs:
        """The one of a server below a folder for all."""
        return cls(source, folder / _ODD.sub("_", str(source.hosts[0])).strip("_"))

    def receive(self, state: SourceState | None, progress: Progress | None) -> LogSeries:
        """Copy what is new up to the server's present end; the copy, as a series of files.

        ``state`` is how far the lake has read it. ``progress`` is told ``receive``, bytes received,
        and how many there will be. Raises what `Receiver.run` raises.
        """
        from tailrace.replication.receiver import (  # noqa: PLC0415 - needs PyMySQL: servers only
            Receiver,
        )

        source = self.source
        if state is not None:
            source = replace(source, start=Position(state.file, len(MAGIC)))

        def tell(far: Far) -> None:
            if progress is not None:
                progress("receive", far.received, far.received + (far.lag_bytes or 0))

        self.folder.mkdir(parents=True, exist_ok=True)
        Receiver(source, self.folder, follow=False, on_progress=tell).run()
        (series,) = find(self.folder)
        return series

    def keep_from(self, state: SourceState | None) -> None:
        """Delete the files before the one up to which the lake has read."""
        if state is not None:
            purge(self._index, to=state.file)

    @property
    def _index(self) -> Path:
        (index,) = self.folder.glob(f"*{INDEX_SUFFIX}")
        return index


def apart(sources: Sequence[str | Path | Source]) -> tuple[list[str | Path], list[Source]]:
    """Those that are files, and those that are servers."""
    files: list[str | Path] = []
    servers: list[Source] = []
    for each in sources:
        if isinstance(each, Source):
            servers.append(each)
        elif isinstance(each, str) and names_server(each):
            servers.append(Source.parse(each))
        else:
            files.append(each)
    return files, servers
