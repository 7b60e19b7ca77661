"""JSON in a lake's folder, to which others may be able to write: of a bounded size when parsed."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from tailrace.spark.manifest.paths import read_plain

if TYPE_CHECKING:
    from pathlib import Path

LARGEST: Final = 256 << 20
"""Bytes of a file: nearly all of a large manifest is text, which takes no more when parsed."""
_MOST: Final = 6_000_000
"""Lists, objects, members: `[],` is 3 bytes and takes 72. 5,000 tables of 100 columns have half."""
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_MARKS: Final = (b"[", b"{", b",")


def read_json(path: Path) -> Any:
    """What a file has; raises OSError, ValueError, RecursionError, and `PipelineError` if large."""
    return parse(read_plain(path, LARGEST))


def parse(content: bytes) -> Any:
    """As `json.loads`; raises ValueError, RecursionError, also for numbers that are not finite.

    ValueError, too, for more than 6 million lists, objects and members: each takes some 100 bytes.
    """
    check_size(content)
    return json.loads(content, parse_constant=_finite, parse_float=_finite)


def check_size(content: bytes) -> None:
    """Raises ValueError where the content would have more values than any file of ours."""
    if len(content) > LARGEST:
        raise ValueError(f"it has {len(content) >> 20} MiB")
    if sum(content.count(mark) for mark in _MARKS) <= _MOST:
        return
    bare = _TEXT.sub(b"", content)
    if sum(bare.count(mark) for mark in _MARKS) > _MOST:
        raise ValueError("it has more values than any file of Tailrace's")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a number of JSON")
    return number
