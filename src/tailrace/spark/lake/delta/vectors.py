"""Delta's deletion vectors: the deleted rows of a file, as its log and ``.bin`` files say it.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format: a magic number,
then a 64-bit Roaring bitmap in the portable format
(https://github.com/RoaringBitmap/RoaringFormatSpec). The log has a *descriptor* of each, as JSON.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tailrace.errors import PipelineError
from tailrace.spark.manifest.on_disk import to_disk
from tailrace.spark.parquet.deleted import dump, load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.spark.parquet.deleted import Rows

Descriptor = dict[str, Any]

INLINE_BYTES: Final = 4096
"""Vectors of a commit that take more than this together go into a file outside the log."""
ANY_FILE: Final = "deletion_vector_*.bin"
_VERSION: Final = b"\1"
_UUID_CHARACTERS: Final = 20
_Z85: Final = (
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_B85: Final = (
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
)
_TO_Z85: Final = bytes.maketrans(_B85, _Z85)
_FROM_Z85: Final = bytes.maketrans(_Z85, _B85)


@dataclass(frozen=True)
class Vector:
    """The deleted rows of a file (`parquet.deleted.DeletedRows`), by their descriptor in the log of
    the table in a folder.

    ``name`` tells vectors of a table from others: the format's ``uniqueId``.
    """

    name: str
    count: int = field(compare=False)
    folder: Path = field(compare=False)
    descriptor: Descriptor = field(compare=False)

    @classmethod
    def of(cls, found: Descriptor, folder: Path) -> Vector:
        """That of a descriptor."""
        offset = found.get("offset")
        name = f"{found['storageType']}{found['pathOrInlineDv']}"
        name = name if offset is None else f"{name}@{offset}"
        return cls(name, found["cardinality"], folder, found)

    def read(self) -> Rows:
        """Their numbers. Raises `PipelineError`."""
        text, size = self.descriptor["pathOrInlineDv"], self.descriptor["sizeInBytes"]
        if (path := self.place()) is None:
            return load(_decoded(text)[:size])
        try:
            if not path.is_file():
                raise PipelineError(f"{path}, a deletion vector, is no file")
            with path.open("rb") as file:
                file.seek(self.descriptor.get("offset") or 0)
                content = file.read(min(size + 8, path.stat().st_size))
        except OSError as error:
            raise PipelineError(
                f"cannot read {path}, a deletion vector: {error.strerror}"
            ) from error
        data = content[4:-4]
        if content[:4] != struct.pack(">I", size) or content[-4:] != struct.pack(
            ">I", zlib.crc32(data)
        ):
            raise PipelineError(f"{path} is damaged: a deletion vector in it has a wrong checksum")
        return load(data)

    def place(self) -> Path | None:
        """The file that it is in; None if it is in the log. Raises `PipelineError`."""
        kind, text = self.descriptor["storageType"], self.descriptor["pathOrInlineDv"]
        if kind == "i":
            return None
        if kind == "u":
            prefix, number = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
            return Path(self.folder, prefix, _file_name(uuid.UUID(bytes=_decoded(number))))
        if kind == "p":
            parsed = urlsplit(text)
            if parsed.scheme in {"", "file"}:
                return Path(unquote(parsed.path))
        raise PipelineError(
            f"{self.folder} has a deletion vector in a place that is no file: {text}"
        )


def write(vectors: Mapping[str, Rows], folder: Path, name: str) -> dict[str, Vector]:
    """Vectors by file; where they are large, in a file in the table's folder.

    That file is on disk then; it is called after ``name``, and takes the place of one that was. It
    is for a commit that is not made yet. Raises OSError.
    """
    data = {each: dump(rows) for each, rows in vectors.items()}
    inline = sum(map(len, data.values())) <= INLINE_BYTES
    number = uuid.uuid5(uuid.NAMESPACE_URL, name)
    found: dict[str, Vector] = {}
    parts = [_VERSION]
    at = len(_VERSION)
    for each, content in data.items():
        kept = {"storageType": "u", "pathOrInlineDv": _encoded(number.bytes), "offset": at}
        if inline:
            kept = {"storageType": "i", "pathOrInlineDv": _encoded(content)}
        sizes = {"sizeInBytes": len(content), "cardinality": len(vectors[each])}
        found[each] = Vector.of(kept | sizes, folder)
        parts.append(struct.pack(">I", len(content)) + content)
        parts.append(struct.pack(">I", zlib.crc32(content)))
        at += len(content) + 8
    if inline:
        return found
    path = folder / _file_name(number)
    draft = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    draft.write_bytes(b"".join(parts))
    to_disk([draft])
    draft.replace(path)  # by the same, if another process has committed it
    to_disk([folder])
    return found


def _file_name(number: uuid.UUID) -> str:
    return f"deletion_vector_{number}.bin"


def _encoded(data: bytes) -> str:
    return base64.b85encode(data + bytes(-len(data) % 4)).translate(_TO_Z85).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b85decode(text.encode("ascii").translate(_FROM_Z85))
    except ValueError as error:
        raise PipelineError(f"{text!r} is no deletion vector: {error}") from error
