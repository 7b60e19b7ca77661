"""Files in an object store that still grow: rows of small objects, their segments.

The format, version 1 (docs/design/segments.md). The file ``NAME`` of a folder consists of objects
in ``NAME.segments-v1``; START is 20 decimal digits, GENERATION and PARENT are 10:

- ``START-GENERATION``, a segment: bytes of the file, from the offset START on;
- ``START-GENERATION-PARENT``, empty: where a generation begins, and which one it continues;
- ``owner-GENERATION``: the token of the writer that took this generation;
- ``complete-GENERATION``, empty: the file is being made one object, and does not grow any more.

The highest generation that has the second kind is the file, from its START on; before that its
parent is, and so on. Nothing else counts. Two segments of a generation may hold the same bytes (one
that several were merged into, and those); none is missing in between. Without an owner there is no
file. When the file is complete it is the object ``NAME`` instead.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.errors import StorageError
from tailrace.storage.objects import claims
from tailrace.storage.objects.bucket import NoSuchObject, ObjectExists

if TYPE_CHECKING:
    from tailrace.storage.objects.bucket import Bucket

VERSION: Final = 1
SUFFIX: Final = f".segments-v{VERSION}"
"""Suffix of the name of a growing file: the folder of its segments."""
_FOLDER: Final = re.compile(r"(.+)\.segments-v([0-9]+)", re.DOTALL)
_NAME: Final = re.compile(
    r"(?P<start>[0-9]{20})-(?P<generation>[0-9]{10})(?:-(?P<parent>[0-9]{10}))?"
    r"|(?P<kind>owner|complete)-(?P<number>[0-9]{10})",
    re.ASCII,
)
_TRIES: Final = 20
"""Looks at a file that changes: each time, segments were merged or the file completed meanwhile."""
_PAUSE: Final = 0.05
"""Seconds."""
_AT_ONCE: Final = 8
"""Requests to read segments."""


def segment_key(key: str, start: int, generation: int) -> str:
    """The key of the segment of a file (its own ``key``) that begins at an offset."""
    return f"{key}{SUFFIX}/{start:020}-{generation:010}"


class Segment(NamedTuple):
    """A segment, or the part of it that counts."""

    start: int
    size: int
    generation: int


@dataclass(frozen=True, slots=True)
class Chain:
    """A file's segments, ascending: each begins at or before the end of the one before it, and ends
    after it. ``generation`` is the last one; ``sealed`` says that the file does not grow any more.
    """

    segments: tuple[Segment, ...] = ()
    generation: int = 0
    sealed: bool = False

    @property
    def end(self) -> int:
        """The file's bytes."""
        return self.segments[-1].start + self.segments[-1].size if self.segments else 0

    def at(self, offset: int) -> Segment:
        """The segment with the byte at an offset, which is in the file."""
        starts = bisect_right(self.segments, offset, key=lambda each: each.start)
        return self.segments[starts - 1]


@dataclass(slots=True)
class Listed:
    """What a listing shows of a growing file."""

    sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    """Of the segments, by generation and start."""
    begins: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Where each generation begins, and its parent."""
    owners: set[int] = field(default_factory=set)
    sealed: set[int] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    """All that are there, those of segments first."""

    @property
    def is_file(self) -> bool:
        """Whether there is a file: else it is what a writer left that was killed, or replaced."""
        return bool(self.owners and self.begins)

    @property
    def latest(self) -> int:
        """The highest generation of all that is listed."""
        seen = {generation for generation, _ in self.sizes}
        return max({0, *seen, *self.begins, *self.owners, *self.sealed})

    def counted(self) -> tuple[list[Segment], set[int]]:
        """The segments that count, ascending, also if there are gaps; and the generations."""
        found: list[Segment] = []
        generation, limit = max(self.begins, default=0), 1 << 64
        generations = set()
        while generation in self.begins:
            begin, parent = self.begins[generation]
            generations.add(generation)
            found += (
                Segment(start, min(size, limit - start), generation)
                for (number, start), size in self.sizes.items()
                if number == generation and start < limit and size
            )
            limit = min(limit, begin)
            generation = min(parent, generation - 1)
        return sorted(found), generations

    def chain(self) -> Chain | None:
        """The file; None if bytes are missing.

        A segment whose bytes are all in those before it is left out.
        """
        segments, generations = self.counted()
        found, end = [], 0
        for each in segments:
            if each.start > end:
                return None
            if each.start + each.size > end:
                found.append(each)
                end = each.start + each.size
        last = max(generations)
        lowest = min(generations)
        if end < self.begins[last][0] or self.begins[lowest][1]:
            return None
        return Chain(tuple(found), last, bool(self.sealed & generations))


def listed(bucket: Bucket, key: str) -> Listed:
    """All objects of a growing file, also those that do not count.

    Raises StorageError for other objects among them.
    """
    found = Listed()
    others = []
    for name, size in bucket.list(key + SUFFIX).objects.items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise StorageError(
                f"{bucket.path(key)}{SUFFIX}/{name}: it is no segment of a file; move it away"
            )
        if match["kind"]:
            kind = found.owners if match["kind"] == "owner" else found.sealed
            kind.add(int(match["number"]))
        elif match["parent"]:
            found.begins[int(match["generation"])] = int(match["start"]), int(match["parent"])
        else:
            found.sizes[int(match["generation"]), int(match["start"])] = size
            found.names.append(name)
            continue
        others.append(name)
    found.names += others
    return found


# --- who writes the file -------------------------------------------------------------------------


def take(bucket: Bucket, key: str, generation: int, token: bytes) -> Listed | None:
    """Take a generation: the listing afterwards, None if the generation, or a later one, is another
    writer's.
    """
    if not claims.take(bucket, key + SUFFIX, generation, token):
        return None
    found = listed(bucket, key)
    return found if max(found.owners, default=0) == generation else None


def claim(bucket: Bucket, key: str, token: bytes, *, new: bool = False) -> int:
    """Take the next generation, and their own from all others: its number. From then on nobody
    else's commits succeed. Of several writers that do this at a time, each sees the others or is
    seen: one is left.

    Its writer lists the segments afterwards, and then lets it `begin`. Raises ObjectExists for a
    ``new`` file if there is one, and takes it from nobody.
    """
    for _ in range(_TRIES):
        found = listed(bucket, key)
        if new and found.is_file:
            raise _exists(bucket, key)
        generation = claims.next_generation(found.latest)
        taken = take(bucket, key, generation, token)
        if taken is None:
            continue
        others = taken.owners - {generation}
        if new and others and taken.begins:  # created meanwhile
            claims.release(bucket, key + SUFFIX, [generation])
            raise _exists(bucket, key)
        claims.release(bucket, key + SUFFIX, others)
        return generation
    raise StorageError(f"{bucket.path(key)}: other writers take it over again and again")


def _exists(bucket: Bucket, key: str) -> ObjectExists:
    return ObjectExists(f"{bucket.path(key)}: File exists")


def begin(bucket: Bucket, key: str, start: int, generation: int, parent: int) -> None:
    """Let a generation begin: what its parent has from ``start`` on does not count any more."""
    with suppress(ObjectExists):  # the answer to this request was lost
        bucket.put(f"{segment_key(key, start, generation)}-{parent:010}", b"", new=True)


def seal(bucket: Bucket, key: str, token: bytes) -> Chain | None:
    """Take a file over to complete it: afterwards it does not grow any more, whoever opens it.

    None if there is none. Raises StorageError if another writer has taken it over meanwhile.
    """
    if growing(bucket, key) is None:
        return None
    generation = claim(bucket, key, token)
    chain = growing(bucket, key)
    if chain is None:
        return None
    begin(bucket, key, chain.end, generation, chain.generation)
    with suppress(ObjectExists):
        bucket.put(f"{key}{SUFFIX}/complete-{generation:010}", b"", new=True)
    if not claims.owns(bucket, key + SUFFIX, generation, token):
        raise StorageError(
            f"{bucket.path(key)}: another writer has taken it over, and completes it"
        )
    return chain


# --- reading -------------------------------------------------------------------------------------


def growing(bucket: Bucket, key: str) -> Chain | None:
    """The segments of a file that is not complete; None if there is none of that name.

    The segments are listed first: if there is no object then, none of them was deleted before.
    Raises StorageError if one is missing.
    """
    for _ in range(_TRIES):
        found = listed(bucket, key)
        if not found.is_file or bucket.size(key) is not None:
            return None
        chain = found.chain()
        if chain is not None:
            return chain
        time.sleep(_PAUSE)  # listed while some were merged
    starts = (str(each.start) for each in found.counted()[0][:20])
    raise StorageError(
        f"{bucket.path(key)}{SUFFIX}: a segment is missing; those that are there begin at"
        f" {', '.join(starts)}: restore it, or delete those after the gap,"
        " and its source is asked for the rest"
    )


def is_sealed(bucket: Bucket, key: str) -> bool:
    """Whether a file does not grow any more, and is not one object yet."""
    chain = growing(bucket, key)
    return chain is not None and chain.sealed


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
    """Remove a file, if it exists: first its owner, without which there is none."""
    found = listed(bucket, key)
    claims.release(bucket, key + SUFFIX, found.owners)
    remove_segments(bucket, key, found)
    bucket.remove(key)


def remove_segments(bucket: Bucket, key: str, found: Listed) -> None:
    """Delete all that a listing has: the segments, and then what says which of them count."""
    keys = [f"{key}{SUFFIX}/{name}" for name in found.names]
    for some in (keys[: len(found.sizes)], keys[len(found.sizes) :]):
        if some:
            bucket.remove(*some)


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
        except StorageError:  # a store may fail to send an object that is being replaced
            if growing(bucket, key) == chain:
                raise
            chain, fresh = None, False
    raise StorageError(f"{bucket.path(key)}: it changed with each of {_TRIES} attempts to read it")


def _of_segments(
    bucket: Bucket, key: str, offset: int, count: int, chain: Chain
) -> bytes | memoryview:
    wanted = []
    end = min(offset + count, chain.end)
    while offset < end:
        start, size, generation = chain.at(offset)
        part = min(end, start + size) - offset
        wanted.append((segment_key(key, start, generation), offset - start, part))
        offset += part

    def read(part: tuple[str, int, int]) -> memoryview:
        data, _ = bucket.read(*part)
        if len(data) != part[2]:
            raise NoSuchObject(f"{part[0]}: it was cut")
        return data

    if len(wanted) < 2:
        pieces = [*map(read, wanted)]
    else:
        with ThreadPoolExecutor(_AT_ONCE, "tailrace segments") as pool:
            pieces = [*pool.map(read, wanted)]
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
