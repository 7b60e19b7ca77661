"""Multi-row INSERTs: consecutive INSERTs of one rows event as one statement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.sql.large import LARGE
from tailrace.sql.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.sql.statement import RowStatements

MOST_BYTES: Final = 1 << 20
"""Maximum bytes of a multi-row statement: fits every server's ``max_allowed_packet``."""
LONGEST: Final = LARGE
"""A row whose INSERT has more bytes than this is not joined."""
END: Final = 2
"""Bytes of a statement's terminator and its line end."""


def joined(
    found: Iterable[Statement | RowStatements], rows: int
) -> Iterator[Statement | RowStatements]:
    """The statements, with up to ``rows`` INSERTs of a rows event joined, up to `MOST_BYTES`.

    So a statement never holds rows of several events. Kernels, which write a log piece by piece,
    give the same result (`tailrace.sql.stretches`).
    """
    first: Statement | None = None
    texts: list[str] = []
    size = 0
    for each in found:
        text = each.sql if isinstance(each, Statement) and each.joins is not None else None
        bytes_ = LONGEST + 1
        if isinstance(text, str):
            bytes_ = len(text.encode("utf-8", "surrogateescape")) + END
        if not isinstance(each, Statement) or not isinstance(text, str) or bytes_ > LONGEST:
            if first is not None:
                yield replace(first, sql=",\n".join(texts))
                first = None
            yield each
            continue
        row = each.joins[2] if each.joins is not None else 0
        more = bytes_ - len(text[:row].encode())
        if (
            first is not None
            and (first.joins, first.settings, first.group)
            == (each.joins, each.settings, each.group)
            and len(texts) < rows
            and size + more <= MOST_BYTES
        ):
            texts.append(text[row:])
            size += more
            continue
        if first is not None:
            yield replace(first, sql=",\n".join(texts))
        first, texts, size = each, [text], bytes_
    if first is not None:
        yield replace(first, sql=",\n".join(texts))
