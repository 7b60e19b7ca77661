"""The four ways to read a running server's log, each in a thread that notes what it is given."""

from __future__ import annotations

import struct
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

import tailrace
from tailrace.constants import MAGIC
from tailrace.gtid import GtidList, GtidSet
from tailrace.live.chunks import Chunk, FileBegin
from tailrace.live.feed import Feed
from tailrace.live.url import Source
from tools.campaign import live_files
from tools.campaign.live_files import Seen, seen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.position import Position

LAST = "last"
"""The table whose row ends the load: who reads changes ends behind it."""
_WAIT = 0.2


def raw_of(event: Event) -> bytes:
    """An event's bytes as they stand in the log."""
    checksum = b"" if event.checksum is None else struct.pack("<I", event.checksum)
    return event.header.encode() + event.body + checksum


class Consumer(threading.Thread):
    """Reads ``url`` until `until` has been said and is reached; ``failure`` is what went wrong."""

    kind: ClassVar[str]

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(name=self.kind, daemon=True)
        self.url = url
        self.folder = folder
        self.failure: BaseException | None = None
        self._end: Position | None = None

    def until(self, end: Position) -> None:
        """Have it end when all before this position is there."""
        self._end = end

    def run(self) -> None:
        try:
            self.consume()
        except BaseException as error:  # noqa: BLE001 - it is the finding
            self.failure = error

    def consume(self) -> None:
        """Read."""
        raise NotImplementedError

    def difference(self, wanted: list[Seen], index: Path) -> str | None:
        """How what was read differs from what the files hold, in words."""
        raise NotImplementedError

    def _is_last(self, file: str, end: int | None) -> bool:
        return self._end is not None and (file, end or 0) >= (self._end.file, self._end.offset)


class Events(Consumer):
    """`tailrace.open` by position."""

    kind = "events by position"
    begin: Any = "oldest"

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        self.found: list[Seen] = []

    def consume(self) -> None:
        start = None if self.begin == "oldest" else self.begin
        with tailrace.open(self.url, start=start, follow=True, expand_payloads=False) as log:
            while True:
                event = log.wait_for_next_event(_WAIT)
                if event is not None and event.file is not None and event.offset is not None:
                    self.found.append(seen(event.file, event.offset, raw_of(event)))
                    last = event.file, event.end_offset
                elif log.at_end:
                    raise AssertionError(f"{self.kind}: a log that is followed has ended")
                if self.found and self._is_last(*last):
                    return

    def difference(self, wanted: list[Seen], index: Path) -> str | None:  # noqa: ARG002
        return live_files.difference(self.kind, self.found, wanted)


class Gtids(Events):
    """`tailrace.open` by GTID, from none on."""

    kind = "events by GTID"

    def __init__(self, url: str, folder: Path, flavour: str) -> None:
        super().__init__(url, folder)
        self.begin = GtidSet() if flavour == "mysql" else GtidList()

    def difference(self, wanted: list[Seen], index: Path) -> str | None:  # noqa: ARG002
        found = live_files.transactions(self.found)
        files = live_files.transactions(wanted)
        for number, (one, other) in enumerate(zip(found, files, strict=False)):
            if one != other:
                return f"{self.kind}: transaction {number} differs from the files'"
        if len(found) != len(files):
            return f"{self.kind}: {len(found)} transactions, the files have {len(files)}"
        return None


class Rows(Consumer):
    """`tailrace.changes`, by position."""

    kind = "changes"

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        self.found: list[pa.RecordBatch] = []

    def consume(self) -> None:
        for batch in _followed(self.url):
            self.note(batch)
            if LAST in batch.column("_table").to_pylist():
                return

    def note(self, batch: pa.RecordBatch) -> None:
        """Keep a batch."""
        self.found.append(_compact(batch))

    @property
    def rows(self) -> int:
        """How many there were."""
        return sum(batch.num_rows for batch in self.found)

    def difference(self, wanted: list[Seen], index: Path) -> str | None:  # noqa: ARG002
        found = _tables(iter(self.found))
        files = _tables(map(_compact, tailrace.changes(index, statements="skip").record_batches()))
        for schema in files.keys() | found.keys():
            one, other = found.get(schema), files.get(schema)
            name = schema.partition("tailrace.table: ")[2].splitlines()[0]
            if one is None or other is None:
                return f"{self.kind}: a table is {'here' if one else 'in the files'} only: {name}"
            if not one.equals(other):
                rows = f"{one.num_rows} rows, the files have {other.num_rows}"
                return f"{self.kind}: a table's rows are not the same ({rows}): {name}"
        return None


def _followed(url: str) -> Iterator[pa.RecordBatch]:
    found = tailrace.changes(f"{url}&start=oldest", follow=True, statements="skip")
    return found.record_batches()


def _tables(batches: Iterator[pa.RecordBatch]) -> dict[str, pa.Table]:
    """The batches of each table and schema, as one, by their place in the log.

    Live, what an XA transaction changed comes at its end; in files, where it was prepared.
    """
    found: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for batch in batches:
        said = {**(batch.schema.metadata or {})}
        said.pop(b"tailrace.source", None)  # a server here, the files there
        alike = batch.replace_schema_metadata(said)
        found[alike.schema.to_string(truncate_metadata=False)].append(alike)
    return {schema: pa.Table.from_batches(each).sort_by("_seq") for schema, each in found.items()}


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy that holds no more memory than it needs, without dictionaries: they are a batch's own.

    A batch of few rows has room for many.
    """
    for place, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type):
            values = batch.column(place).cast(field.type.value_type)
            batch = batch.set_column(place, field.name, values)
    return batch.take(pa.array(range(batch.num_rows)))


class Raw(Consumer):
    """A `Feed` whose bytes are written to files of the same names."""

    kind = "bytes"

    def consume(self) -> None:
        feed = Feed(Source.parse(self.url), start="oldest", follow=True)
        self.folder.mkdir()
        file, end = "", 0
        output = None
        try:
            while not self._is_last(file, end):
                match feed.take(_WAIT):
                    case FileBegin() as begin:
                        if begin.file == file:
                            assert begin.offset == end, (begin.file, begin.offset, end)
                            continue
                        assert not begin.artificial, begin
                        file, end = begin.file, begin.offset
                        if output is not None:
                            output.close()
                        output = (self.folder / file).open("xb")
                        output.write(MAGIC + begin.description)
                    case Chunk() as chunk:
                        assert output is not None, "a chunk before its file's begin"
                        assert (chunk.file, chunk.offset) == (file, end), (file, end, chunk.offset)
                        output.write(chunk.data)
                        end = chunk.end
                    case None:
                        pass
                    case other:
                        raise AssertionError(f"{self.kind}: {other!r}")
        finally:
            feed.close()
            if output is not None:
                output.close()

    def difference(self, wanted: list[Seen], index: Path) -> str | None:
        found = [e for path in sorted(self.folder.iterdir()) for e in live_files.events(path)]
        sizes = {path.name: path.stat().st_size for path in self.folder.iterdir()}
        logs = index.parent.glob(f"{index.stem}.{'[0-9]' * 6}")
        files = {path.name: live_files.size(path) for path in logs}
        if text := live_files.difference(self.kind, found, wanted):
            return text
        return None if sizes == files else f"{self.kind}: sizes {sizes}, the files have {files}"
