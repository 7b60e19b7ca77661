"""The page's server: three files, and searches as JSON.

Rows are hostile. They leave here as JSON only, of which the page makes text. One thread reads the
index, so that searches take one core at most; an answer that is late is given up.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.resources import files
from ipaddress import ip_address
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tailrace.errors import TailraceError, UsageError
from tailrace.live.listening import address_of, listening
from tailrace.live.url import is_loopback
from tailrace.search import Index
from tailrace.search_page.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from starlette.requests import Request

    from tailrace.search import Hit

HITS: Final = 100
"""The most hits of an answer."""
TABLES: Final = 100
"""The most tables of an answer: those with the most hits."""
LONGEST: Final = 1000
"""The most characters of a query, and of a table's name."""
BEGINNINGS: Final = 10
"""The most ``*`` of a query: all words of the index that begin so are searched for."""
SECONDS: Final = 5.0
"""How long an answer takes at most, waiting included."""
_COLUMNS: Final = 8
"""The most columns of a hit that are shown."""
_SHOWN: Final = 200
"""The most characters of a key's value that are shown."""
_KEPT: Final = 64
"""Answers that are kept: an open page asks the same each second."""
CONNECTIONS: Final = 64
"""The most connections; when there are more, the oldest one is closed."""
_OWN: Final = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - it is asked about
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer:
    """Serves the page of an index at ``listen``, ``HOST:PORT`` (port 0 is a free one).

    There is no login: whoever reaches the page reads what the index has. So the address must be of
    this machine only (the loopback), unless ``hosts`` has the names by which browsers on other
    machines know it. A request for any other name is rejected, so that no site can lead its
    visitors here by a name of its own. Raises UsageError for the address or a name, StorageError if
    there is no index.
    """

    def __init__(self, folder: str | Path, listen: str, *, hosts: Sequence[str] = ()) -> None:
        host, port = address_of(listen)
        if not hosts and not is_loopback(host):
            raise UsageError(
                f"at {listen} other machines reach the page, and read the index without a login:"
                " give 127.0.0.1, or with --host the name by which browsers there know it"
            )
        known = [*map(_in_url, hosts)]
        self._searches = _Searches(folder)
        own = [_in_url(host)] if host else []
        config = uvicorn.Config(
            _application([*_OWN, *own, *known], self._searches.answer),
            http=_Connection,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[*_HEADERS.items()],
            h11_max_incomplete_event_size=16 << 10,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._socket = listening(host, port, CONNECTIONS)
        shown = known[0] if host in _EVERYWHERE else own[0]
        self.url: str = f"http://{shown}:{self._socket.getsockname()[1]}/"
        """Where the page is."""

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or `stop`."""
        self._server.run(sockets=[self._socket])
        self._searches.close()

    def stop(self) -> None:
        """End `run`; from any thread."""
        self._server.should_exit = True


def _in_url(host: str) -> str:
    """A name or an address as URLs have it. Raises UsageError for anything else."""
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        if not re.fullmatch(r"[\w.-]+", host, re.ASCII):
            text = f"a host is a name or an address without a port, not {host[:80]!r}"
            raise UsageError(text) from None
        return host
    return f"[{address}]" if address.version == 6 else str(address)


class _Connection(H11Protocol):
    """A connection. Slow ones, and those that send nothing, keep no new one out."""

    _numbers = count()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.number = next(self._numbers)
        mine = [each for each in self.connections if isinstance(each, _Connection)]
        if len(mine) > CONNECTIONS:
            oldest = min(mine, key=lambda each: each.number)
            self.connections.discard(oldest)
            oldest.transport.abort()


def _application(
    hosts: Sequence[str], answer: Callable[[Request], Awaitable[Response]]
) -> Starlette:
    def file(name: str, media: str) -> Callable[[Request], Awaitable[Response]]:
        content = files("tailrace.search_page").joinpath(name).read_bytes()

        async def give(_: Request) -> Response:
            return Response(content, media_type=media)

        return give

    routes = [
        Route("/", file("page.html", "text/html")),
        Route("/page.css", file("page.css", "text/css")),
        Route("/page.js", file("page.js", "text/javascript")),
        Route("/search", answer),
    ]
    check = Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    return Starlette(routes=routes, middleware=[check])


class _Searches:
    """Answers queries."""

    def __init__(self, folder: str | Path) -> None:
        self._index = Index(folder)
        self._thread = ThreadPoolExecutor(1, "tailrace search")
        self._found = lru_cache(_KEPT)(self._find)

    def close(self) -> None:
        """Wait for the search that runs, and begin no other."""
        self._thread.shutdown(cancel_futures=True)

    async def answer(self, request: Request) -> Response:
        """The answer to ``/search?q=QUERY&table=DATABASE.NAME&limit=N``."""
        if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            return _json({"error": "another site asks"}, 403)
        asked = request.query_params
        query, table, limit = asked.get("q", ""), asked.get("table", ""), asked.get("limit", "20")
        if max(len(query), len(table)) > LONGEST:
            return _json({"error": f"the query has more than {LONGEST:,} characters"}, 400)
        if query.count("*") > BEGINNINGS:
            return _json({"error": f"the query has more than {BEGINNINGS} words with *"}, 400)
        if limit not in map(str, range(1, HITS + 1)):
            return _json({"error": f"limit is a number from 1 to {HITS}"}, 400)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(SECONDS):
                return _json(
                    await loop.run_in_executor(
                        self._thread, self._search, query, table or None, int(limit)
                    )
                )
        except UsageError as error:
            return _json({"error": str(error)}, 400)
        except TimeoutError:
            return _json({"error": "the search takes too long, or too many are waiting"}, 503)
        except TailraceError as error:
            return _json({"error": f"the index cannot be read: {error}"}, 503)

    def _search(self, query: str, table: str | None, limit: int) -> dict[str, Any]:
        index = self._index.refresh()
        states = index.states
        committed = (index.manifest, *(state.dumps() for state in states))
        found = self._found(committed, query, table, limit)
        times = [state.time for state in states if state.time is not None]
        lag = max(time.time() - min(times) / 1e6, 0.0) if times else None
        return {**found, "lag": lag}

    def _find(
        self, _: tuple[object, ...], query: str, table: str | None, limit: int
    ) -> dict[str, Any]:
        """The answer without what changes by itself; the first argument is what was committed."""
        if not query.strip():
            named = dict.fromkeys(self._index.tables)
            return {"total": 0, "hits": [], "all": None, **_tables(named, [*named], table)}
        found = self._index.search(query, table=table, limit=limit)
        everywhere = found if table is None else self._index.search(query, limit=1)
        counts = everywhere.tables
        return {
            "total": found.total,
            "hits": [*map(_shown, found.hits)],
            "all": everywhere.total,
            **_tables(counts, sorted(counts, key=lambda name: -counts[name]), table),
        }


def _tables(
    counts: Mapping[str, int | None], names: Sequence[str], chosen: str | None
) -> dict[str, Any]:
    """The rows of the first of some tables and of the chosen one, and how many are left out."""
    shown = {*names[:TABLES], *([chosen] if chosen in counts else ())}
    return {
        "tables": {name: counts[name] for name in sorted(shown)},
        "left_out": len(counts) - len(shown),
    }


def _shown(hit: Hit) -> dict[str, Any]:
    """A hit as the page shows it: texts only, and no more of them than fit."""
    pieces = {column: excerpt(texts) for column, texts in hit.texts.items()}
    found = [(column, each) for column, each in pieces.items() if each]
    key = [each if isinstance(each, str) else json.dumps(each) for each in hit.key[:_COLUMNS]]
    return {
        "table": hit.table,
        "key": [each if len(each) <= _SHOWN else f"{each[:_SHOWN]}…" for each in key],
        "score": round(hit.score, 2),
        "copies": hit.copies,
        "texts": found[:_COLUMNS],
    }


def _json(given: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(given), status, media_type="application/json")
