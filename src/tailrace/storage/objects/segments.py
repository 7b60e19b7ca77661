"""Files in an object store that still grow: rows of small objects, their segments.

The format, version 1 (docs/design/segments.md). The file ``NAME`` of a folder consists of the
objects ``NAME.segments-v1/START``. START is the offset in the file at which the object's bytes
begin, in 20 decimal digits: the segments in the order of their names, each from its offset on, are
the file. Two segments may hold the same bytes of the file (one that several were merged into, and
those); none is missing in between. An empty one keeps other writers from its offset. When the file
is complete it is the object ``NAME`` instead, and segments of that name, which are deleted then, no
longer count.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError
from tailrace.storage.objects.bucket import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.storage.objects.bucket import Bucket

VERSION: Final = 1
SUFFIX: Final = f".segments-v{VERSION}"
"""Suffix of the name of a growing file: the folder of its segments."""
_FOLDER: Final = re.compile(r"(.+)\.segments-v([0-9]+)", re.DOTALL)
_START: Final = re.compile(r"[0-9]{20}", re.ASCII)
_TRIES: Final = 20
"""Looks at a file that changes: each time, segments were merged or the file completed meanwhile."""
_PAUSE: Final = 0.05
"""Seconds."""


def segment_key(key: str, start: int) -> str:
    """The key of the segment of a file (its own ``key``) that begins at an offset."""
    return f"{key}{SUFFIX}/{start:020}"


@dataclass(frozen=True, slots=True)
class Chain:
    """A file's segments as (start, size), ascending: each begins at or before the end of the one
    before it, and ends after it.
    """

    segments: tuple[tuple[int, int], ...] = ()

    @property
    def end(self) -> int:
        """The file's bytes."""
        return sum(self.segments[-1]) if self.segments else 0

    @classmethod
    def of(cls, sizes: Mapping[int, int]) -> Chain | None:
        """Those of a listing, by offset; None if bytes are missing between two of them.

        A segment whose bytes are all in those before it is left out, and so is an empty one.
        """
        found, end = [], 0
        for start, size in sorted(sizes.items()):
            if not size:
                continue
            if start > end:
                return None
            if start + size > end:
                found.append((start, size))
                end = start + size
        return cls(tuple(found))

    def at(self, offset: int) -> tuple[int, int]:
        """The segment with the byte at an offset, which is in the file."""
        return self.segments[bisect_right(self.segments, (offset, 1 << 63)) - 1]


def segments_of(bucket: Bucket, key: str) -> dict[int, int]:
    """The sizes of all segments of a file by offset, also those that no longer count.

    Raises StorageError for other objects among them.
    """
    found = {}
    for name, size in bucket.list(key + SUFFIX).objects.items():
        if not _START.fullmatch(name):
            raise StorageError(
                f"{bucket.path(key)}{SUFFIX}/{name}: it is no segment of a file; move it away"
            )
        found[int(name)] = size
    return found


def growing(bucket: Bucket, key: str) -> Chain | None:
    """The segments of a file that is not complete; None if there is none of that name.

    The segments are listed first: if there is no object then, none of them was deleted before.
    Raises StorageError if one is missing.
    """
    for _ in range(_TRIES):
        sizes = segments_of(bucket, key)
        if not sizes or bucket.size(key) is not None:
            return None
        chain = Chain.of(sizes)
        if chain is not None:
            return chain
        time.sleep(_PAUSE)  # listed while some were merged
    raise StorageError(
        f"{bucket.path(key)}{SUFFIX}: a segment is missing; those that are there begin at"
        f" {', '.join(map(str, sorted(sizes)[:20]))}: restore it, or delete those after the gap,"
        " and its source is asked for the rest"
    )


@dataclass(frozen=True, slots=True)
class Contents:
    """A folder: the sizes of its files by name, which of them still grow, its other folders, and
    the complete files that still have segments.
    """

    sizes: dict[str, int]
    growing: frozenset[str]
    folders: list[str]
    leftover: list[str]


def contents(bucket: Bucket, folder: str) -> Contents:
    """What a folder (its key) holds: requests as for a listing, and two for each growing file.

    Raises StorageError for files of a later version.
    """
    listing = bucket.list(folder)
    sizes, folders = dict(listing.objects), []
    grow, leftover = set(), []
    for name in listing.folders:
        match = _FOLDER.fullmatch(name)
        if match is None:
            folders.append(name)
            continue
        if int(match[2]) != VERSION:
            raise StorageError(
                f"{bucket.path(folder)}/{name}: its format has version {match[2]}, and this"
                f" Tailrace knows {VERSION}: read the folder with the Tailrace that writes it"
            )
        file = match[1]
        if file in sizes:
            leftover.append(file)
            continue
        key = f"{folder}/{file}" if folder else file
        chain = growing(bucket, key)
        if chain is not None:
            sizes[file] = chain.end
            grow.add(file)
        elif (size := bucket.size(key)) is not None:  # it was completed since the listing
            sizes[file] = size
    return Contents(sizes, frozenset(grow), folders, leftover)


def file_size(bucket: Bucket, key: str) -> int | None:
    """The bytes of a file, complete or not; None where there is none."""
    size = bucket.size(key)
    if size is None:
        chain = growing(bucket, key)
        size = bucket.size(key) if chain is None else chain.end
    return size


def remove_file(bucket: Bucket, key: str) -> None:
    """Remove a file, if it exists: its segments from the last one on, so that its beginning is left
    if this process is killed; then its object.
    """
    for start in sorted(segments_of(bucket, key), reverse=True):
        bucket.remove(segment_key(key, start))
    bucket.remove(key)


def read_file(
    bucket: Bucket, key: str, offset: int, count: int, chain: Chain | None = None
) -> tuple[bytes | memoryview, int, Chain | None]:
    """Bytes of a file, fewer only at its end; its size; and its segments if it still grows.

    Those are a later call's ``chain``: then it takes a request for each segment, and two more at
    the file's end. Segments that were merged or deleted meanwhile are looked for again.
    Raises NoSuchObject.
    """
    fresh = False
    for _ in range(_TRIES):
        if chain is None:
            try:
                data, size = bucket.read(key, offset, count)
            except NoSuchObject as error:
                gone = error
            else:
                return data, size, None
        if chain is None or (not fresh and offset + count > chain.end):
            before, chain, fresh = chain, growing(bucket, key), True
            if chain is None:  # complete by now, or not there
                if before is None and bucket.size(key) is None:
                    raise gone
                continue
        try:
            return _of_segments(bucket, key, offset, count, chain), chain.end, chain
        except NoSuchObject:
            chain, fresh = None, False
    raise StorageError(f"{bucket.path(key)}: it changed with each of {_TRIES} attempts to read it")


def _of_segments(
    bucket: Bucket, key: str, offset: int, count: int, chain: Chain
) -> bytes | memoryview:
    pieces: list[bytes | memoryview] = []
    end = min(offset + count, chain.end)
    while offset < end:
        start, size = chain.at(offset)
        wanted = min(end, start + size) - offset
        data, _ = bucket.read(segment_key(key, start), offset - start, wanted)
        if len(data) != wanted:
            raise NoSuchObject(f"{segment_key(key, start)}: it was cut")
        pieces.append(data)
        offset += wanted
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
