"""``tailrace search``: an index that is searched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tailrace.cli.options import OUTPUT, SELECT, FileName  # cyclopts reads them
from tailrace.cli.output import output_to, standard_output
from tailrace.extras import importing

if TYPE_CHECKING:
    from tailrace.cli.output import Output
    from tailrace.search import Hit, Hits

_AROUND = 60
"""Characters around what was found."""


def search(
    index: Annotated[
        FileName, Parameter(name="index", help="The index: a folder, or a URL in an object store.")
    ],
    query: Annotated[
        str,
        Parameter(
            name="query",
            help="The query: words, ``+must``, ``-mustnot``, ``begin*``, phrases in quotation "
            "marks, groups in brackets.",
        ),
    ],
    /,
    *,
    table: Annotated[
        str | None,
        Parameter(
            name="--table",
            metavar="DATABASE.NAME",
            group=SELECT,
            help="Only rows of this table.",
        ),
    ] = None,
    limit: Annotated[
        int,
        Parameter(
            name="--limit",
            metavar="N",
            group=OUTPUT,
            help="How many rows, the best first (default 10, 10,000 at most).",
        ),
    ] = 10,
    as_json: Annotated[
        bool,
        Parameter(
            name="--json",
            group=OUTPUT,
            negative=(),
            help="One JSON object per row: ``table``, ``key``, ``score``, ``row``.",
        ),
    ] = False,
) -> int:
    """Search an index."""
    with importing("search", "an index"):
        from tailrace.search import Index  # noqa: PLC0415 - takes a while

    found = Index(index).search(query, table=table, limit=limit)
    output = output_to(standard_output())
    for hit in found.hits:
        if as_json:
            shown = {"table": hit.table, "key": hit.key, "score": hit.score, "row": hit.row}
            output.line((json.dumps(shown), ""))
        else:
            _print(output, hit)
    if not as_json:
        output.line((_counts(found), "quiet"))
    output.close()
    return 0 if found.total else 1


def _counts(found: Hits) -> str:
    tables = ", ".join(f"{name} {count:,}" for name, count in found.tables.items())
    rows = "1 row" if found.total == 1 else f"{found.total:,} rows"
    return f"{rows} found{f' ({tables})' if tables else ''}"


def _print(output: Output, hit: Hit) -> None:
    key = ", ".join(map(str, hit.key))
    output.line((f"{hit.table} {key}", "place"), (f"  {hit.score:.2f}", "quiet"))
    for column, pieces in hit.texts.items():
        if any(found for _, found in pieces):
            output.line((f"  {column}: ", "quiet"), *_excerpt(pieces))


def _excerpt(pieces: list[tuple[str, bool]]) -> list[tuple[str, str]]:
    """The pieces from the first that was found on, with some text around."""
    first = next(at for at, (_, found) in enumerate(pieces) if found)
    shown: list[tuple[str, str]] = []
    room = 3 * _AROUND
    if first:
        before = pieces[first - 1][0]
        shown.append((f"…{before[-_AROUND:]}" if len(before) > _AROUND else before, ""))
    for text, found in pieces[first:]:
        cut = text if len(text) <= room else f"{text[:room]}…"
        shown.append((cut.replace("\n", " "), "insert" if found else ""))
        room -= len(text)
        if room <= 0:
            break
    return shown
