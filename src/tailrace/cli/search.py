"""``tailrace search``: an index that is searched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Group, Parameter

from tailrace.cli.options import OUTPUT, SELECT, FileName  # cyclopts reads them
from tailrace.cli.output import output_to, say, standard_output
from tailrace.cli.signals import on_signals
from tailrace.errors import UsageError
from tailrace.extras import importing
from tailrace.printable import counted

if TYPE_CHECKING:
    from tailrace.cli.output import Output
    from tailrace.search import Hit, Hits

_PAGE: Final = Group("Page", sort_key=0)


def search(
    index: Annotated[
        FileName, Parameter(name="index", help="The index: a folder, or a URL in an object store.")
    ],
    query: Annotated[
        str | None,
        Parameter(
            name="query",
            help="The query: words, ``+must``, ``-mustnot``, ``begin*``, phrases in quotation "
            "marks, groups in brackets.",
        ),
    ] = None,
    /,
    *,
    listen: Annotated[
        str | None,
        Parameter(
            name="--serve",
            metavar="HOST:PORT",
            group=_PAGE,
            help="Serve a page that searches as one types, and shows new rows by itself, until "
            "Ctrl-C or SIGTERM; port 0 is a free one. It has no login, so HOST must be this "
            "machine's own (``127.0.0.1``), unless ``--host`` is given.",
        ),
    ] = None,
    host: Annotated[
        tuple[str, ...],
        Parameter(
            name="--host",
            metavar="NAME",
            group=_PAGE,
            negative=(),
            help="Let other machines read the index through the page, which browsers there know by "
            "this name or address. May be repeated.",
        ),
    ] = (),
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
        int | None,
        Parameter(
            name="--limit",
            metavar="N",
            group=OUTPUT,
            help="How many rows, the best first (default 10, 10,000 at most).",
        ),
    ] = None,
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

    if (query is None) == (listen is None):
        raise UsageError("give a query, or --serve for a page: one of them")
    if query is None:
        if table is not None or limit is not None or as_json:
            raise UsageError("--table, --limit and --json go with a query, not with --serve")
        return _serve(index, str(listen), host)
    if host:
        raise UsageError("--host goes with --serve")
    opened = Index(index)
    if table is not None and table not in opened.tables:
        tables = ", ".join(opened.tables) or "none"
        raise UsageError(f"the index has no rows of a table {table!r}; its tables: {tables}")
    found = opened.search(query, table=table, limit=10 if limit is None else limit)
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


def _serve(index: str, listen: str, hosts: tuple[str, ...]) -> int:
    """Serve the page until a signal ends it; its status."""
    with importing("search", "a page"):
        from tailrace.search_page import PageServer  # noqa: PLC0415 - takes a while

    server = PageServer(index, listen, hosts=hosts)
    with on_signals(server.stop, second="stop") as ending:
        say(f"the page is at {server.url}")
        if hosts:
            say("whoever reaches it reads the index: there is no login")
        server.run()
    return ending.status


def _counts(found: Hits) -> str:
    tables = ", ".join(f"{name} {count:,}" for name, count in found.tables.items())
    return f"{counted(found.total, 'row')} found{f' ({tables})' if tables else ''}"


def _print(output: Output, hit: Hit) -> None:
    key = ", ".join(map(str, hit.key))
    output.line((f"{hit.table} {key}", "place"), (f"  {hit.score:.2f}", "quiet"))
    for column, pieces in hit.texts.items():
        if any(found for _, found in pieces):
            output.line((f"  {column}: ", "quiet"), *_styled(pieces))


def _styled(pieces: list[tuple[str, bool]]) -> list[tuple[str, str]]:
    from tailrace.search_page.excerpt import excerpt  # noqa: PLC0415 - of the extra

    return [(text.replace("\n", " "), "insert" if found else "") for text, found in excerpt(pieces)]
