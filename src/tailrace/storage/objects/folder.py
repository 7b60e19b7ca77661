"""A folder of logs in an object store, for writing.

An object exists completely or not at all, and cannot be changed. So a file grows by segments
(`tailrace.storage.objects.output`), and becomes one object when it is complete: what is synced is
in the store at every moment, and nothing is on this machine's disk.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tailrace.constants import FILE_FLAGS_AT, HEADER_SIZE, MAGIC
from tailrace.errors import StorageError
from tailrace.events.format_description import file_flags, with_in_use
from tailrace.log_name import LogName, file_number, plain_name
from tailrace.storage.index import INDEX_SUFFIX
from tailrace.storage.objects import claims
from tailrace.storage.objects.bucket import PART, NoSuchObject, ObjectExists, bucket_of
from tailrace.storage.objects.output import OPEN, SegmentOutput, Worker
from tailrace.storage.objects.segments import (
    SUFFIX,
    Chain,
    Segment,
    begin,
    claim,
    contents,
    file_size,
    growing,
    is_sealed,
    listed,
    read_file,
    remove_file,
    remove_segments,
    seal,
    segment_key,
)
from tailrace.storage.objects.url import ObjectUrl
from tailrace.storage.whole import WholeOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage.streams.base import RandomOutput, SpillOutput


_CONDITIONAL: Final[set[str]] = set()
"""The buckets that were seen to support conditional writes."""


class Contested(StorageError):
    """Another writer has created, completed or extended a file since it was looked at. Who looks
    again finds what is there now, and may take it over.
    """


class GrowingFiles:
    """The files of a folder that still grow: the spool of an `ObjectFolder`."""

    def __init__(self, url: ObjectUrl, worker: Worker | None = None) -> None:
        self.url = url
        self._bucket = bucket_of(url)
        self._worker = worker or Worker("tailrace segments")
        self._last: SegmentOutput | None = None

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
        output = OPEN.get(self.path(name))
        if output is not None:
            return output.size
        size = file_size(self._bucket, self._key(name))
        if size is None:
            raise StorageError(f"{self.path(name)}: no such object")
        return size

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of a file, also of what this process has written and not synced."""
        output = OPEN.get(self.path(name))
        if output is not None:
            return output.read(offset, count)
        return bytes(read_file(self._bucket, self._key(name), offset, count)[0])

    def create(self, name: str, head: bytes) -> RandomOutput:
        """A new file: its first segment. Raises StorageError if there is one of that name."""
        key, token = self._key(name), uuid4().bytes
        if file_size(self._bucket, key) is not None:
            raise Contested(f"{self.path(name)}: File exists")
        generation = claim(self._bucket, key, token, new=True)
        self._check_conditional(key, generation, token)
        if file_size(self._bucket, key) is not None:
            raise Contested(f"{self.path(name)}: File exists")
        if head:
            with suppress(ObjectExists):  # the answer to this request was lost
                self._bucket.put(segment_key(key, 0, generation), head, new=True)
        begin(self._bucket, key, 0, generation, 0)
        if not claims.owns(self._bucket, key + SUFFIX, generation, token):
            raise Contested(f"{self.path(name)}: another writer has created it")
        first = (Segment(0, len(head), generation),) if head else ()
        return self._opened(name, Chain(first, generation), token)

    def _check_conditional(self, key: str, generation: int, token: bytes) -> None:
        """Raise StorageError if the store creates an object that exists: then two writers could
        take a file at a time. One request in each process.
        """
        if self.url.root in _CONDITIONAL:
            return
        try:
            self._bucket.put(claims.owner_key(key + SUFFIX, generation), token, new=True)
        except ObjectExists:
            _CONDITIONAL.add(self.url.root)
            return
        claims.release(self._bucket, key + SUFFIX, [generation])
        raise StorageError(
            f"{self.url.root}: this store replaces an object that was to be created: it does not"
            " support conditional writes (If-None-Match), without which no log can be written into"
            " it"
        )

    def reopen(self, name: str) -> RandomOutput:
        """Take a file over, to append to it: whoever has written it until now gets an error at its
        next commit. Raises StorageError for a complete one.
        """
        self._check_closed(name)
        key, token = self._key(name), uuid4().bytes
        chain = growing(self._bucket, key)
        if chain is not None:
            generation = claim(self._bucket, key, token)
            chain = growing(self._bucket, key)  # what was stored before it was taken over
        if chain is None:
            raise Contested(
                f"{self.path(name)}: it is complete or not there, and nothing can be appended to an"
                " object; copy the log to a local folder and append to it there"
            )
        begin(self._bucket, key, chain.end, generation, chain.generation)
        return self._opened(name, replace(chain, generation=generation), token)

    def is_owned(self, name: str) -> bool:
        """Whether no other writer has taken over the file, if it was opened here last. One
        request.
        """
        last = self._last
        return last is None or last.path != self.path(name) or last.is_owned()

    def _check_closed(self, name: str) -> None:
        if self.path(name) in OPEN:
            raise StorageError(f"{self.path(name)}: another writer has it open")

    def _opened(self, name: str, chain: Chain, token: bytes) -> SegmentOutput:
        self._check_closed(name)
        path, key = self.path(name), self._key(name)
        output = SegmentOutput(self._bucket, key, path, chain, self._worker, token)
        OPEN[path] = self._last = output
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


class ObjectFolder(GrowingFiles):
    """A `CompletingStore`: files grow by segments, and are one object when they are complete.

    Another thread completes them, so that what is written to the next file need not wait. Closing
    a file waits for it, unless this process still writes another one in the folder.
    """

    def __init__(self, url: ObjectUrl | str) -> None:
        super().__init__(url if isinstance(url, ObjectUrl) else ObjectUrl.parse(url))
        self.spool = GrowingFiles(self.url, self._worker)
        """The files that still grow."""
        self._completing = Worker("tailrace complete")
        self._failed: set[str] = set()

    def names(self) -> list[str]:
        """The names of the files, complete or not. Requests as for `contents`."""
        return sorted(contents(self._bucket, self.url.key).sizes)

    def create(self, name: str, head: bytes) -> RandomOutput:
        """A new file; closing it completes it. Logs before it that a killed writer left are
        completed, too.
        """
        return self._begun(name, super().create(name, head))

    def reopen(self, name: str) -> RandomOutput:
        """A file that still grows. Logs before it are completed as by `create`."""
        return self._begun(name, super().reopen(name))

    def _begun(self, name: str, output: RandomOutput) -> RandomOutput:
        log = LogName.parse(name)
        if log is not None:
            try:
                self._finish_before(log)
            except BaseException:
                output.close()
                raise
        return _ObjectOutput(self, name, output)

    def complete(self, name: str, *, again: bool = False) -> None:  # noqa: ARG002 - it always may
        """Have the file's bytes put into an object, and then the segments deleted.

        Those of a file for which there is an object already are only deleted. A store's error is
        logged: `drain` tries again, and so does the next call.
        """
        self._worker.drain()  # nothing is merged any more
        self._completing.later(partial(self._complete, name))

    def drain(self) -> None:
        """Wait until the files are complete for which `complete` was called, if the store was not
        away: then they stay readable by their segments, and the next writer completes them.
        """
        self._completing.drain()

    def close_up(self) -> None:
        """Wait until all are complete, unless this process still writes a file in the folder.

        Raises StorageError if one could not be completed.
        """
        if not any(path.rpartition("/")[0] == str(self.url) for path in OPEN):
            self.drain()
            self._complete()

    def clean(self) -> None:
        """End what writers began that were killed: files that they were completing are complete
        afterwards, and the segments of complete files are deleted.
        """
        found = contents(self._bucket, self.url.key)
        for name in found.leftover:
            self.complete(name)
        begun = [name for name in found.growing if is_sealed(self._bucket, self._key(name))]
        for name in begun:
            self.complete(name)
        if begun:
            self.drain()

    def _finish_before(self, log: LogName) -> None:
        """Have the logs completed that this one follows: their writer was killed while it ended
        them. Those that this process writes are left alone.
        """
        found = contents(self._bucket, self.url.key)
        for each in filter(None, map(LogName.parse, sorted(found.growing))):
            before = each.base == log.base and each.number < log.number
            if before and self.path(each) not in OPEN:
                self._end(each)
                self.complete(each)
        for name in found.leftover:
            self.complete(name)

    def _end(self, name: str) -> None:
        """Clear the IN_USE flag, unless that needs a key."""
        head = self.read(name, 0, len(MAGIC) + HEADER_SIZE)
        if flags := file_flags(head):
            with closing(self.spool.reopen(name)) as output:
                output.update(FILE_FLAGS_AT, bytes([with_in_use(flags, in_use=False)]))

    def remove(self, name: str) -> None:
        """Remove a file, complete or not."""
        self._completing.drain()
        super().remove(name)
        self._failed.discard(name)

    def _complete(self, name: str | None = None) -> None:
        """Complete a file, and those for which the store was away before."""
        if name is not None:
            self._failed.add(name)
        for each in sorted(self._failed):
            self._make_object(each)
            self._failed.discard(each)

    def _make_object(self, name: str) -> None:
        key = self._key(name)
        chain = seal(self._bucket, key, uuid4().bytes)
        if chain is not None:
            self._bucket.upload(key, chain.end, self._pieces(key, chain))
        found = listed(self._bucket, key)
        size = self._bucket.size(key)
        if not found.names or (size is None and not found.is_file):
            return  # it is complete and clean, or another writer is about to create it
        end = max((each.start + each.size for each in found.counted()[0]), default=0)
        if size is None or size < end:
            raise StorageError(
                f"{self.path(name)}: the object has {size} bytes, and its segments have {end}: they"
                " are kept"
            )
        remove_segments(self._bucket, key, found)

    def _pieces(self, key: str, chain: Chain | None) -> Iterator[bytes | memoryview]:
        end, offset = chain.end if chain is not None else 0, 0
        while offset < end:
            count = min(PART, end - offset)
            data, _, chain = read_file(self._bucket, key, offset, count, chain)
            if len(data) != count:
                raise NoSuchObject(f"{self._bucket.path(key)}: it was cut while it was completed")
            yield data
            offset += count


class _ObjectOutput(WholeOutput):
    """A file that is an object when it is closed."""

    _folder: ObjectFolder

    def close(self) -> None:
        """Return when the file is an object, or the folder's next file is being written.

        Raises StorageError; then it is in the store by segments.
        """
        super().close()
        self._folder.close_up()


def object_place(target: str) -> tuple[ObjectFolder, str]:
    """The folder of a URL to write to, and the name in it, empty for the folder itself.

    A name ends in a number or ``.index``: ``s3://bucket/logs/binlog.000001`` is a file,
    ``s3://bucket/logs`` is a folder, and so is any URL that ends with a slash.
    Raises StorageError, UsageError.
    """
    url = ObjectUrl.parse(target)
    named = file_number(url.name) is not None or url.name.endswith(INDEX_SUFFIX)
    name = url.name if named and url.key and not target.endswith("/") else ""
    return ObjectFolder(url.parent if name else url), name
