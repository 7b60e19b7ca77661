"""Reading a native stream's blocks: each is whole and matches its checksum, or an error says where.

A stream is read from bytes, from a file or a stream of the storage layer (``read``), or from a
socket (``recv``). Streams may follow each other: each has its own head.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import BadMagic, ChecksumMismatch, EventDecodeError, TruncatedEvent, UsageError
from tailrace.generators.formats import reading
from tailrace.generators.materialise import layout as t

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its head, its frames, and the offset of the first of them.

    ``begins`` is set for the first block of a stream, ``depth`` is the stream's.
    """

    head: bytes
    frames: bytes
    offset: int
    begins: bool
    depth: int


class BlockReader:
    """The blocks of one stream, or of several that follow each other.

    Raises LogError, with the offset: BadMagic for what is no stream or of a later version,
    TruncatedEvent for one that ends without its end mark, ChecksumMismatch, EventDecodeError.
    """

    def __init__(self, source: Any) -> None:
        self._read = reading(source)
        name = getattr(source, "path", None) or getattr(source, "name", None)
        self.file = str(name) if isinstance(name, str) or hasattr(name, "__fspath__") else None
        self.offset = 0

    def _exactly(self, count: int) -> bytes:
        """So many bytes; fewer only at the end."""
        data = self._read(min(count, _PIECE))
        if len(data) < count and data:
            pieces = [data]
            missing = count - len(data)
            while missing and (data := self._read(min(missing, _PIECE))):
                pieces.append(data)
                missing -= len(data)
            data = b"".join(pieces)
        return data

    def _begin(self) -> int | None:
        """Read a stream's head; its depth, or None at the end of all."""
        start = self.offset
        head = self._exactly(t.STREAM.size)
        if not head and start:
            return None
        self.offset += len(head)
        magic = head[: len(t.MAGIC)]
        if magic != t.MAGIC[: len(magic)]:
            raise BadMagic("not a stream of materialised events", file=self.file, offset=start)
        if len(head) < t.STREAM.size:
            raise TruncatedEvent("the stream ends in its head", file=self.file, offset=start)
        _, version, depth = t.STREAM.unpack(head)
        if not 1 <= version <= t.VERSION:
            raise BadMagic(
                f"a stream of materialised events of version {version}, of which this release reads"
                f" those up to {t.VERSION}",
                file=self.file,
                offset=start,
            )
        if depth > t.MOST_DEPTH:
            raise EventDecodeError(f"a stream of depth {depth}", file=self.file, offset=start)
        return int(depth)

    def __iter__(self) -> Iterator[Block]:
        if self.offset:
            raise UsageError("a stream is read once")
        while (depth := self._begin()) is not None:
            begins = True
            while (block := self._block(depth, begins=begins)) is not None:
                begins = False
                yield block

    def _block(self, depth: int, *, begins: bool) -> Block | None:
        """The next block; None at the stream's end mark."""
        start = self.offset
        head = self._exactly(t.BLOCK_HEAD)
        if len(head) < t.BLOCK_HEAD:
            raise TruncatedEvent(
                "the stream ends without its end mark: it was cut off, or is still being written",
                file=self.file,
                offset=start,
            )
        size, _count, check = t.BLOCK.unpack_from(head)
        if zlib.crc32(head[: t.BLOCK.size]) != t.CHECK.unpack_from(head, t.BLOCK.size)[0]:
            raise ChecksumMismatch("the head of a block is damaged", file=self.file, offset=start)
        self.offset += len(head)
        if not size:
            return None
        frames = self._exactly(size)
        if len(frames) < size:
            raise TruncatedEvent(
                f"the stream ends in a block of {size} bytes, of which {len(frames)} are there",
                file=self.file,
                offset=start,
            )
        if zlib.crc32(frames) != check:
            raise ChecksumMismatch("a block is damaged", file=self.file, offset=start)
        at = self.offset
        self.offset += size
        return Block(head, frames, at, begins, depth)
