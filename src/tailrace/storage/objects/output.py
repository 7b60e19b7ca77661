"""A file in an object store that grows by segments, being written: what is synced is in the store.

`tailrace.storage.objects.segments` has the format. Nothing is kept on this machine's disk: bytes
are held in memory until `SegmentOutput.sync`, which makes one segment of them, and returns when the
file is still this writer's: if another one has taken it over, on any machine, `sync` fails.

Segments are merged as their number grows, sixteen into one and those again, in another thread: a
file of many small groups is read, and resumed, by few requests. The first segment stays as it is:
it has the file's flags, which are changed in place.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock, RLock, Timer
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError
from tailrace.storage.objects import claims
from tailrace.storage.objects.bucket import PART, ObjectExists
from tailrace.storage.objects.segments import (
    SUFFIX,
    Chain,
    Segment,
    begin,
    read_file,
    segment_key,
    take,
)
from tailrace.storage.streams.base import check_cut, check_within, end_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.objects.bucket import Bucket
    from tailrace.storage.streams.base import Data

_log: Final = logging.getLogger("tailrace.storage")
FAN: Final = 16
"""Segments that are merged into one."""
_LARGE: Final = PART // FAN
"""Bytes of a segment that is not merged any more."""
_ALL: Final = 1 << 40
"""More bytes than an object has."""
_SEALED: Final = (
    "{path}: it is being made one object, and does not grow any more; open the log again"
)
FLUSHED: Final = 1.0
"""Seconds after which flushed bytes are stored."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """``writes`` counts those that it holds, as far as this process knows."""

    start: int
    size: int
    generation: int
    writes: int = 1

    def level(self, generation: int) -> int:
        """Those of one level are merged; 0: it is not merged, as another generation's are not."""
        return 0 if self.size > _LARGE or self.generation != generation else self.writes


class Worker:
    """One thread for what nobody waits for: merging segments, completing files."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)

    def later(self, job: Callable[[], None]) -> None:
        """Do it after the jobs before it. A store's error is logged: the job is tried again when
        there is more of its kind, or by the next writer.
        """
        self._pool.submit(_logged, job)

    def drain(self) -> None:
        """Wait until all jobs are done."""
        self._pool.submit(lambda: None).result()


def _logged(job: Callable[[], None]) -> None:
    try:
        job()
    except StorageError as error:
        _log.warning("%s; it is tried again later", error)


class SegmentOutput:
    """A file that grows by segments, being written.

    ``size`` includes what is held in memory: at most a part of an upload, more is stored at once.
    A thread may `sync` while another one writes: a request takes all that is held, and those that
    wait for it meanwhile share the next one.
    """

    def __init__(
        self,
        bucket: Bucket,
        key: str,
        path: str,
        chain: Chain,
        worker: Worker,
        token: bytes,
    ) -> None:
        self.path = path
        self._bucket = bucket
        self._key = key
        self._worker = worker
        self._token = token
        self._generation = self._taken = chain.generation
        """That of new segments, and the last one that was taken: more, if it could not begin."""
        self._segments = [_Segment(*each) for each in chain.segments]
        self._stored = chain.end
        self._held = bytearray()
        self._lock = Lock()
        """Protects what is stored and held; no request is made under it."""
        self._storing = RLock()
        """One request at a time; it is taken first."""
        self._lost = _SEALED.format(path=path) if chain.sealed else ""
        self._merging = False
        self._timer: Timer | None = None

    @property
    def size(self) -> int:
        """The file's bytes."""
        with self._lock:
            return self._stored + len(self._held)

    def write(self, data: Data, /) -> None:
        """Append to what is held."""
        with self._lock:
            self._held += data
            full = len(self._held) >= PART
        if full:
            self._put()

    def sync(self) -> None:
        """Return when everything written is in the store: one request, if there is any."""
        self._put()

    def flush(self) -> None:
        """Have everything written stored within a second, without waiting for it."""
        with self._lock:
            if not self._held or self._timer is not None:
                return
            self._timer = Timer(FLUSHED, _logged, [self._put_flushed])
            self._timer.daemon = True
            self._timer.start()

    def _put_flushed(self) -> None:
        with self._lock:
            self._timer = None
        if OPEN.get(self.path) is self and not self._lost:
            self._put()

    def _put(self) -> None:
        """Make segments of what was written before this call."""
        wanted = self.size
        with self._storing:
            while self._held and self._stored < wanted:
                self._check()
                with self._lock:
                    data, start = bytes(self._held), self._stored
                count = self._put_segment(start, data)
                with self._lock:
                    self._segments.append(_Segment(start, count, self._generation))
                    self._stored += count
                    del self._held[:count]
                self._merge_if_due()

    def _put_segment(self, start: int, data: bytes) -> int:
        """Store a segment; how many of the bytes it has.

        A request that seemed to fail may have stored it, with less, or with what was rolled back.
        Raises StorageError if another writer has taken over, and from then on.
        """
        if self._taken != self._generation:
            self._begin(start)
        key = segment_key(self._key, start, self._generation)
        try:
            self._bucket.put(key, data, new=True)
        except ObjectExists:
            found = bytes(self._bucket.read(key, 0, len(data) + 1)[0])
        else:
            found = data
        self._check_owner()
        if data.startswith(found):
            return len(found)
        self._begin(start)
        return self._put_segment(start, data)

    def _begin(self, start: int) -> None:
        """Continue at an offset in the next generation: nothing that is stored there counts."""
        self._taken += 1
        if take(self._bucket, self._key, self._taken, self._token) is None:
            self._lose()
        self._check_owner()  # the next generation is free again after a file was completed
        begin(self._bucket, self._key, start, self._taken, self._generation)
        with self._lock:
            before, self._generation = self._generation, self._taken
        claims.release(self._bucket, self._key + SUFFIX, range(before, self._taken))

    def is_owned(self) -> bool:
        """Whether no other writer has taken it over."""
        return not self._lost and claims.owns(
            self._bucket, self._key + SUFFIX, self._generation, self._token
        )

    def _check_owner(self) -> None:
        if not claims.owns(self._bucket, self._key + SUFFIX, self._generation, self._token):
            self._lose()

    def _lose(self) -> None:
        """Another writer has taken over: change nothing of this file any more."""
        self._lost = (
            f"{self.path}: another receiver or writer has taken it over; what follows offset"
            f" {self._stored} is not stored. Give each a folder of its own. If no other is running,"
            " start again: it resumes after what is stored"
        )
        self._check()

    def _check(self) -> None:
        if self._lost:
            raise StorageError(self._lost)

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
        return Chain(
            tuple(Segment(each.start, each.size, each.generation) for each in self._segments),
            self._generation,
        )

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes: their segments are replaced, after all was stored."""
        check_within(offset, len(data), self.size)
        with self._storing:
            self._put()
            self._check()
            self._worker.drain()
            self._check_owner()
            end = offset + len(data)
            for each in self._segments:
                begin, stop = max(offset, each.start), min(end, each.start + each.size)
                if begin < stop:
                    key = segment_key(self._key, each.start, each.generation)
                    content = bytearray(self._bucket.read(key, 0, _ALL)[0])
                    before = bytes(content)
                    content[begin - each.start : stop - each.start] = data[
                        begin - offset : stop - offset
                    ]
                    if content != before:
                        self._bucket.put(key, bytes(content))

    def truncate(self, size: int, /) -> None:
        """Cut the file back: the next generation begins there, and no segment is changed."""
        with self._storing:
            check_cut(size, self.size)
            self._check()
            with self._lock:
                cut = size < self._stored
                del self._held[max(size - self._stored, 0) :]
            if cut:
                self._worker.drain()
                self._begin(size)
                with self._lock:
                    self._segments = [
                        replace(each, size=min(each.size, size - each.start))
                        for each in self._segments
                        if each.start < size
                    ]
                    self._stored = size

    def close(self) -> None:
        """Store what is held, and end; another writer may open the file then."""
        if OPEN.get(self.path) is not self:
            return
        try:
            if not self._lost:
                self._put()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._worker.drain()
            del OPEN[self.path]
            end_output(self)

    # --- merging ---------------------------------------------------------------------------------

    def _merge_if_due(self) -> None:
        if not self._merging and self._due() is not None:
            self._merging = True
            self._worker.later(self._merge)

    def _due(self) -> slice | None:
        """The segments to merge next: of one level, neither the first nor the last."""
        with self._lock:
            levels = [each.level(self._generation) for each in self._segments]
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
            while not self._lost and (due := self._due()) is not None:
                self._check_owner()
                merged = self._segments[due]
                start, size = merged[0].start, sum(each.size for each in merged)
                data = read_file(self._bucket, self._key, start, size, self._chain())[0]
                number = self._generation
                self._bucket.put(segment_key(self._key, start, number), bytes(data))
                with self._lock:
                    writes = sum(each.writes for each in merged)
                    self._segments[due] = [_Segment(start, size, number, writes)]
                self._bucket.remove(
                    *(segment_key(self._key, each.start, number) for each in merged[1:])
                )
        finally:
            self._merging = False


OPEN: Final[dict[str, SegmentOutput]] = {}
"""The files that this process writes, by path: nobody else in it may open them to write."""
