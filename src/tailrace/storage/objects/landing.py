"""A folder of an object store in which files grow by segments: what is synced is in the store.

`tailrace.storage.objects.segments` has the format. Nothing is kept on this machine's disk: bytes
are held in memory until the next `sync`, which makes one segment of them, by a conditional request:
it fails if there is a segment at that offset. So of two writers of a file, on any machines, one
ends with an error as soon as both have written at the same offset.

Segments are merged as their number grows, sixteen into one and those again, in another thread: a
file of many small groups is read, and resumed, by few requests. The first segment stays as it is:
it has the file's flags, which are changed in place.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError
from tailrace.log_name import plain_name
from tailrace.storage.objects.bucket import PART, NoSuchObject, ObjectExists, bucket_of
from tailrace.storage.objects.segments import (
    Chain,
    contents,
    file_size,
    growing,
    read_file,
    remove_file,
    segment_key,
    segments_of,
)
from tailrace.storage.streams.base import check_cut, check_within, end_output
from tailrace.storage.whole import WholeOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.storage.objects.bucket import Bucket
    from tailrace.storage.objects.url import ObjectUrl
    from tailrace.storage.streams.base import Data, RandomOutput, SpillOutput

_log: Final = logging.getLogger("tailrace.storage")
FAN: Final = 16
"""Segments that are merged into one."""
_LARGE: Final = PART // FAN
"""Bytes of a segment that is not merged any more."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """``writes`` counts those that it holds, as far as this process knows."""

    start: int
    size: int
    writes: int = 1

    @property
    def level(self) -> int:
        """Those of one level are merged; 0: it is not merged any more."""
        return 0 if self.size > _LARGE else self.writes


class _Worker:
    """One thread for what nobody waits for: merging segments, completing files."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)

    def later(self, job: Callable[[], None]) -> None:
        """Do it after the jobs before it. A store's error is logged: the job is tried again when
        there is more of its kind, or by the next writer.
        """
        self._pool.submit(self._run, job)

    @staticmethod
    def _run(job: Callable[[], None]) -> None:
        try:
            job()
        except StorageError as error:
            _log.warning("%s; it is tried again later", error)

    def drain(self) -> None:
        """Wait until all jobs are done."""
        self._pool.submit(lambda: None).result()


class SegmentOutput:
    """A file that grows by segments, being written.

    ``size`` includes what is held in memory: at most a part of an upload, more is stored at once.
    """

    def __init__(self, bucket: Bucket, key: str, path: str, chain: Chain, worker: _Worker) -> None:
        self.path = path
        self._bucket = bucket
        self._key = key
        self._worker = worker
        self._segments = [_Segment(*each) for each in chain.segments]
        self._stored = chain.end
        self._held = bytearray()
        self._lock = Lock()
        self._merging = False

    @property
    def size(self) -> int:
        """The file's bytes."""
        return self._stored + len(self._held)

    def write(self, data: Data, /) -> None:
        """Append to what is held."""
        self._held += data
        if len(self._held) >= PART:
            self._put()

    def sync(self) -> None:
        """Return when everything written is in the store: one request, if there is any."""
        self._put()

    flush = sync

    def _put(self) -> None:
        """Make a segment of what is held."""
        while self._held:
            data = bytes(self._held)
            key = segment_key(self._key, self._stored)
            try:
                self._bucket.put(key, data, new=True)
            except ObjectExists:
                count = self._ours(key, data)
            else:
                count = len(data)
            with self._lock:
                self._segments.append(_Segment(self._stored, count))
                self._stored += count
                del self._held[:count]
            self._merge_if_due()

    def _ours(self, key: str, data: bytes) -> int:
        """How much of the data an existing segment holds: a request that seemed to fail may have
        stored it. Raises StorageError if it holds anything else.
        """
        found = bytes(self._bucket.read(key, 0, len(data) + 1)[0])
        if data.startswith(found):
            if not found:  # left by `truncate`
                self._bucket.put(key, data)
            return len(found) or len(data)
        raise StorageError(
            f"{self.path}: another receiver or writer has stored what follows offset"
            f" {self._stored}; give each a folder of its own. If no other is running, start again:"
            " it resumes after what is stored"
        )

    def read(self, offset: int, count: int) -> bytes:
        """A piece of the file, also of what is held."""
        with self._lock:
            chain, stored = self._chain(), self._stored
            held = bytes(self._held[max(offset - stored, 0) : max(offset + count - stored, 0)])
        count = min(count, stored - offset)
        if count <= 0:
            return held
        return bytes(read_file(self._bucket, self._key, offset, count, chain)[0]) + held

    def _chain(self) -> Chain:
        return Chain(tuple((each.start, each.size) for each in self._segments))

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes: their segments are replaced, after all was stored."""
        check_within(offset, len(data), self.size)
        self._put()
        self._worker.drain()
        end = offset + len(data)
        for each in self._segments:
            begin, stop = max(offset, each.start), min(end, each.start + each.size)
            if begin < stop:
                key = segment_key(self._key, each.start)
                content = bytearray(self._bucket.read(key, 0, each.size)[0])
                before = bytes(content)
                content[begin - each.start : stop - each.start] = data[
                    begin - offset : stop - offset
                ]
                if content != before:
                    self._bucket.put(key, bytes(content))

    def truncate(self, size: int, /) -> None:
        """Cut the file back: its last segments are deleted, and the one that is cut replaced."""
        check_cut(size, self.size)
        if size >= self._stored:
            del self._held[size - self._stored :]
            return
        self._held.clear()
        self._worker.drain()
        last = self._segments[-1]
        while last.start >= size and last.start:
            self._bucket.remove(segment_key(self._key, last.start))
            self._cut_to(last.start, self._segments[:-1])
            last = self._segments[-1]
        if last.start + last.size > size:
            key, kept = segment_key(self._key, last.start), size - last.start
            self._bucket.put(key, bytes(self._bucket.read(key, 0, kept)[0]) if kept else b"")
            whole = [*self._segments[:-1], _Segment(last.start, kept, last.writes)]
            self._cut_to(size, whole if kept else self._segments[:-1])

    def _cut_to(self, size: int, segments: list[_Segment]) -> None:
        with self._lock:
            self._segments, self._stored = segments, size

    def close(self) -> None:
        """Store what is held, and end; another writer may open the file then."""
        if _OPEN.get(self.path) is not self:
            return
        try:
            self._put()
        finally:
            self._worker.drain()
            del _OPEN[self.path]
            end_output(self)

    # --- merging ---------------------------------------------------------------------------------

    def _merge_if_due(self) -> None:
        if not self._merging and self._due() is not None:
            self._merging = True
            self._worker.later(self._merge)

    def _due(self) -> slice | None:
        """The segments to merge next: of one level, neither the first nor the last."""
        with self._lock:
            levels = [each.level for each in self._segments]
        end = len(levels) - 1
        while end > FAN:
            begin = end
            while begin > 1 and levels[begin - 1] == levels[end - 1]:
                begin -= 1
            if end - begin >= FAN and levels[begin]:
                return slice(begin, begin + FAN)
            end = min(begin, end - 1)
        return None

    def _merge(self) -> None:
        """Put the bytes of several into the first of them, then delete the others."""
        try:
            while (due := self._due()) is not None:
                merged = self._segments[due]
                start, size = merged[0].start, sum(each.size for each in merged)
                data = read_file(self._bucket, self._key, start, size, self._chain())[0]
                self._bucket.put(segment_key(self._key, start), bytes(data))
                with self._lock:
                    writes = sum(each.writes for each in merged)
                    self._segments[due] = [_Segment(start, size, writes)]
                self._bucket.remove(*(segment_key(self._key, each.start) for each in merged[1:]))
        finally:
            self._merging = False


_OPEN: Final[dict[str, SegmentOutput]] = {}
"""The files that this process writes, by path: nobody else in it may open them to write."""


class GrowingFiles:
    """The files of a folder that still grow: the spool of a `LandingFolder`."""

    def __init__(self, url: ObjectUrl, worker: _Worker | None = None) -> None:
        self.url = url
        self._bucket = bucket_of(url)
        self._worker = worker or _Worker("tailrace segments")

    def path(self, name: str) -> str:
        """The file's URL; of an empty name the folder's, with a slash."""
        return str(self.url / (plain_name(name) if name else name))

    def _key(self, name: str) -> str:
        return (self.url / plain_name(name)).key

    def names(self) -> list[str]:
        """The names of the files that still grow. Requests as for `contents`."""
        return sorted(contents(self._bucket, self.url.key).growing)

    def size(self, name: str) -> int:
        """A file's bytes. No request, if this process writes it."""
        output = _OPEN.get(self.path(name))
        if output is not None:
            return output.size
        size = file_size(self._bucket, self._key(name))
        if size is None:
            raise StorageError(f"{self.path(name)}: no such object")
        return size

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of a file, also of what this process has written and not synced."""
        output = _OPEN.get(self.path(name))
        if output is not None:
            return output.read(offset, count)
        return bytes(read_file(self._bucket, self._key(name), offset, count)[0])

    def create(self, name: str, head: bytes) -> RandomOutput:
        """A new file: its first segment. Raises StorageError if there is one of that name."""
        if file_size(self._bucket, self._key(name)) is not None:
            raise StorageError(f"{self.path(name)}: File exists")
        self._bucket.put(segment_key(self._key(name), 0), head, new=True)
        return self._opened(name, Chain(((0, len(head)),)))

    def reopen(self, name: str) -> RandomOutput:
        """Open a file to append to. Raises StorageError for a complete one."""
        self._check_closed(name)
        key = self._key(name)
        chain = growing(self._bucket, key)
        if chain is None:
            raise StorageError(
                f"{self.path(name)}: it is complete or not there: nothing can be appended to an"
                " object"
            )
        kept = {start for start, _ in chain.segments} or {0}
        merged = segments_of(self._bucket, key).keys() - kept
        if merged:  # by a writer that was killed before it deleted them
            self._bucket.remove(*(segment_key(key, start) for start in sorted(merged)))
        return self._opened(name, chain)

    def _check_closed(self, name: str) -> None:
        if self.path(name) in _OPEN:
            raise StorageError(f"{self.path(name)}: another writer has it open")

    def _opened(self, name: str, chain: Chain) -> SegmentOutput:
        self._check_closed(name)
        path = self.path(name)
        output = SegmentOutput(self._bucket, self._key(name), path, chain, self._worker)
        _OPEN[path] = output
        return output

    def remove(self, name: str) -> None:
        """Remove a file, complete or not."""
        self._worker.drain()
        key = self._key(name)
        if file_size(self._bucket, key) is None:
            raise StorageError(f"{self.path(name)}: no such object")
        remove_file(self._bucket, key)

    def replace(self, name: str, content: bytes) -> None:
        """Give an object this content."""
        self._bucket.put(self._key(name), content)

    def spill(self, file: SpillOutput) -> SpillOutput:
        """The file unchanged."""
        return file


class LandingFolder(GrowingFiles):
    """A `CompletingStore`: files grow by segments, and are one object when they are complete.

    With ``later``, `complete` returns at once, and another thread does it: `drain` waits for it.
    """

    def __init__(self, url: ObjectUrl, *, later: bool = False) -> None:
        super().__init__(url)
        self.spool = GrowingFiles(url, self._worker)
        """The files that still grow."""
        self._completing = _Worker("tailrace complete") if later else None
        self._failed: set[str] = set()

    def names(self) -> list[str]:
        """The names of the files, complete or not. Requests as for `contents`."""
        return sorted(contents(self._bucket, self.url.key).sizes)

    def create(self, name: str, head: bytes) -> RandomOutput:
        """A new file; closing it completes it."""
        return WholeOutput(self, name, super().create(name, head))

    def reopen(self, name: str) -> RandomOutput:
        """A file that still grows."""
        return WholeOutput(self, name, super().reopen(name))

    def complete(self, name: str, *, again: bool = False) -> None:  # noqa: ARG002 - it always may
        """Put the file's bytes into an object, then delete the segments.

        Those of a file for which there is an object already are only deleted.
        """
        self._worker.drain()  # nothing is merged any more
        if self._completing is None:
            self._complete(name)
        else:
            self._completing.later(partial(self._complete, name))

    def clean(self) -> None:
        """Delete segments of complete files, which writers left that were killed."""
        for name in contents(self._bucket, self.url.key).leftover:
            self.complete(name)

    def remove(self, name: str) -> None:
        """Remove a file, complete or not."""
        self.drain()
        super().remove(name)

    def drain(self) -> None:
        """Wait until the files are complete for which `complete` was called."""
        if self._completing is not None:
            self._completing.drain()

    def _complete(self, name: str) -> None:
        """Complete a file, and those for which the store was away before."""
        self._failed.add(name)
        for each in sorted(self._failed):
            self._make_object(each)
            self._failed.discard(each)

    def _make_object(self, name: str) -> None:
        key = self._key(name)
        chain = growing(self._bucket, key)
        if chain is not None:
            self._bucket.upload(key, chain.end, self._pieces(key, chain))
        segments = segments_of(self._bucket, key)
        if not segments:
            return
        size, end = self._bucket.size(key), max(map(sum, segments.items()))
        if size is None or size < end:
            raise StorageError(
                f"{self.path(name)}: the object has {size} bytes, and its segments have {end}: they"
                " are kept"
            )
        self._bucket.remove(*(segment_key(key, start) for start in segments))

    def _pieces(self, key: str, chain: Chain | None) -> Iterator[bytes | memoryview]:
        end, offset = chain.end if chain is not None else 0, 0
        while offset < end:
            count = min(PART, end - offset)
            data, _, chain = read_file(self._bucket, key, offset, count, chain)
            if len(data) != count:
                raise NoSuchObject(f"{key}: it was cut while it was completed")
            yield data
            offset += count
