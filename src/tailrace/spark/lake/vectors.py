"""Delta's deletion vectors: rows of a file that do not count, as its log and ``.bin`` files say it.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format: a magic number,
then a 64-bit Roaring bitmap in the portable format (https://github.com/RoaringBitmap/
RoaringFormatSpec): for each 2^32 rows one of 32 bits, of containers for each 2^16 rows that are
arrays, bits, or runs. The log has a *descriptor* of each, as JSON.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np

from tailrace.errors import PipelineError
from tailrace.spark.manifest.on_disk import to_disk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.spark.parquet.hidden import Rows

Descriptor = dict[str, Any]

INLINE_BYTES: Final = 4096
"""Vectors of a commit that take more than this together go into a file outside the log."""
ANY_FILE: Final = "deletion_vector_*.bin"
_MAGIC: Final = 1681511377
_VERSION: Final = b"\1"
_PLAIN: Final = 12346
_WITH_RUNS: Final = 12347
_FEW: Final = 4096
"""Up to so many values a container is an array of them, and bits beyond."""
_OFFSETS_FROM: Final = 4
"""With runs, offsets are written from so many containers on."""
_UUID_CHARACTERS: Final = 20
_Z85: Final = (
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_B85: Final = (
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
)
_TO_Z85: Final = bytes.maketrans(_B85, _Z85)
_FROM_Z85: Final = bytes.maketrans(_Z85, _B85)


def dump(rows: Rows) -> bytes:
    """Row numbers, ascending and each once, as a vector's bytes."""
    tops = np.unique(rows >> 32)
    parts = [struct.pack("<IQ", _MAGIC, len(tops))]
    for top in tops.tolist():
        parts += [struct.pack("<I", top), _dump_32(rows[rows >> 32 == top] & 0xFFFFFFFF)]
    return b"".join(parts)


def _dump_32(rows: Rows) -> bytes:
    keys, starts = np.unique(rows >> 16, return_index=True)
    values = np.split((rows & 0xFFFF).astype("<u2"), starts[1:])
    sizes = [len(each) for each in values]
    head = struct.pack("<II", _PLAIN, len(keys))
    about = np.stack([keys, np.array(sizes) - 1], axis=1).astype("<u2").tobytes()
    bodies = [each.tobytes() if len(each) <= _FEW else _bits(each) for each in values]
    first = len(head) + len(about) + 4 * len(keys)
    lengths = np.array([len(each) for each in bodies])
    offsets = (first + np.cumsum(lengths) - lengths).astype("<u4").tobytes()
    return b"".join([head, about, offsets, *bodies])


def _bits(values: np.ndarray[Any, Any]) -> bytes:
    there = np.zeros(1 << 16, np.uint8)
    there[values] = 1
    return np.packbits(there, bitorder="little").tobytes()


def load(data: bytes) -> Rows:
    """The row numbers of a vector's bytes; raises `PipelineError` for anything else."""
    try:
        magic, tops = struct.unpack_from("<IQ", data)
        if magic != _MAGIC:
            raise PipelineError(f"a deletion vector begins with {magic}, and not with {_MAGIC}")
        at = 12
        found: list[Rows] = [np.zeros(0, np.int64)]
        for _ in range(tops):
            (top,) = struct.unpack_from("<I", data, at)
            at = _load_32(data, at + 4, top << 32, found)
    except (struct.error, ValueError, IndexError) as error:
        raise PipelineError(f"a deletion vector is damaged: {error}") from error
    return np.concatenate(found)


def _load_32(data: bytes, at: int, base: int, found: list[Rows]) -> int:
    """Add the numbers of a 32-bit bitmap; where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    runs = np.zeros(0, np.uint8)
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        marks = np.frombuffer(data, np.uint8, (count + 7) // 8, at + 4)
        runs = np.unpackbits(marks, bitorder="little", count=count)
        at += 4 + len(marks)
        offsets = count >= _OFFSETS_FROM
    elif cookie == _PLAIN:
        (count,) = struct.unpack_from("<I", data, at + 4)
        at += 8
        offsets = True
    else:
        raise PipelineError(f"a deletion vector has a bitmap of an unknown kind, {cookie}")
    about = np.frombuffer(data, "<u2", 2 * count, at).reshape(-1, 2).astype(np.int64)
    at += 4 * count + (4 * count if offsets else 0)
    for number, (key, size) in enumerate(about.tolist()):
        if len(runs) and runs[number]:
            (length,) = struct.unpack_from("<H", data, at)
            pairs = np.frombuffer(data, "<u2", 2 * length, at + 2).reshape(-1, 2).astype(np.int64)
            low = [np.arange(start, start + more + 1) for start, more in pairs.tolist()]
            values = np.concatenate([np.zeros(0, np.int64), *low])
            at += 2 + 4 * length
        elif size + 1 <= _FEW:
            values = np.frombuffer(data, "<u2", size + 1, at).astype(np.int64)
            at += 2 * (size + 1)
        else:
            bits = np.frombuffer(data, np.uint8, 1 << 13, at)
            values = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            at += 1 << 13
        found.append(base + (key << 16) + values)
    return at


def unique(found: Descriptor | None) -> str:
    """What tells a vector of a file from another: the format's ``uniqueId``; "" for none."""
    if found is None:
        return ""
    offset = found.get("offset")
    name = f"{found['storageType']}{found['pathOrInlineDv']}"
    return name if offset is None else f"{name}@{offset}"


def write(vectors: Mapping[str, Rows], folder: Path, name: str) -> dict[str, Descriptor]:
    """Descriptors of vectors, by file; where they are large, of a file in the table's folder.

    That file is on disk then; it is called after ``name``, and takes the place of one that was. It
    is for a commit that is not made yet. Raises OSError.
    """
    data = {each: dump(rows) for each, rows in vectors.items()}
    if sum(map(len, data.values())) <= INLINE_BYTES:
        return {
            each: {
                "storageType": "i",
                "pathOrInlineDv": _encoded(content),
                "sizeInBytes": len(content),
                "cardinality": len(vectors[each]),
            }
            for each, content in data.items()
        }
    number = uuid.uuid5(uuid.NAMESPACE_URL, name)
    found: dict[str, Descriptor] = {}
    parts = [_VERSION]
    at = len(_VERSION)
    for each, content in data.items():
        found[each] = {
            "storageType": "u",
            "pathOrInlineDv": _encoded(number.bytes),
            "offset": at,
            "sizeInBytes": len(content),
            "cardinality": len(vectors[each]),
        }
        parts.append(struct.pack(">I", len(content)) + content)
        parts.append(struct.pack(">I", zlib.crc32(content)))
        at += len(content) + 8
    path = folder / file_name(number)
    path.write_bytes(b"".join(parts))
    to_disk([path, folder])
    return found


def file_name(number: uuid.UUID) -> str:
    """The name of the file of a vector that is told by a number."""
    return f"deletion_vector_{number}.bin"


def read(found: Descriptor, folder: Path) -> Rows:
    """The row numbers that a descriptor of a table in a folder tells. Raises `PipelineError`."""
    text, size = found["pathOrInlineDv"], found["sizeInBytes"]
    if found["storageType"] == "i":
        return load(_decoded(text)[:size])
    path = place(found, folder)
    try:
        if not path.is_file():
            raise PipelineError(f"{path}, a deletion vector, is no file")
        with path.open("rb") as file:
            file.seek(found.get("offset") or 0)
            content = file.read(min(size + 8, path.stat().st_size))
    except OSError as error:
        raise PipelineError(f"cannot read {path}, a deletion vector: {error.strerror}") from error
    data = content[4:-4]
    if content[:4] != struct.pack(">I", size) or content[-4:] != struct.pack(
        ">I", zlib.crc32(data)
    ):
        raise PipelineError(f"{path} is damaged: a deletion vector in it has a wrong checksum")
    return load(data)


def place(found: Descriptor, folder: Path) -> Path:
    """The file that a vector is in, which is not inline. Raises `PipelineError`."""
    text = found["pathOrInlineDv"]
    if found["storageType"] == "u":
        prefix, number = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
        return Path(folder, prefix, file_name(uuid.UUID(bytes=_decoded(number))))
    if found["storageType"] == "p":
        parsed = urlsplit(text)
        if parsed.scheme in {"", "file"}:
            return Path(unquote(parsed.path))
    raise PipelineError(f"{folder} has a deletion vector in a place that is no file: {text}")


def _encoded(data: bytes) -> str:
    return base64.b85encode(data + bytes(-len(data) % 4)).translate(_TO_Z85).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b85decode(text.encode("ascii").translate(_FROM_Z85))
    except ValueError as error:
        raise PipelineError(f"{text!r} is no deletion vector: {error}") from error
