"""Servers among the sources of a command: their URLs, and password prompts at a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.errors import AccessDenied, ConnectionLost
from tailrace.transports.base import check_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.live.transport import ServerTransport
    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.table_filter import TableName

_RETRY: Final = 60.0
"""Seconds for which a command that ends retries a broken connection."""
_SERVER: Final = re.compile(r"(?:mysql|mariadb):", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"(?:mysql|mariadb):(?://)?[^:/?#]*:(.*)@", re.IGNORECASE | re.DOTALL)


def names_server(source: str) -> bool:
    """Whether a source is a server's URL."""
    return _SERVER.match(source) is not None


def parsed(url: str, *, follow: bool = False, skip_torn_tail: bool = False) -> Source:
    """The source of a server's URL, with its password: prompted for if it is not found elsewhere.

    A command that ends retries for a limited time, unless the URL sets a time; one that follows
    waits for its server from the start. ``skip_torn_tail`` is as in the URL. Raises UsageError.
    """
    from tailrace.live.url import Source  # noqa: PLC0415 - only where a server is read

    source = Source.parse(url, skip_torn_tail=skip_torn_tail or None)
    if source.retry is None and not follow:
        source = replace(source, retry=_RETRY)
    elif follow:
        source = replace(source, retry_first=True)
    return source.asking()


def server(url: str, *, follow: bool = False, skip_torn_tail: bool = False) -> ServerTransport:
    """The transport of a server's URL. Raises UsageError."""
    from tailrace.live.transport import ServerTransport  # noqa: PLC0415 - as above

    return ServerTransport(parsed(url, follow=follow, skip_torn_tail=skip_torn_tail))


def tables_on(source: Source) -> set[TableName]:
    """The tables that a server has now, as far as its user may see them."""
    from tailrace.live.tables import connected, tables_of  # noqa: PLC0415 - as above

    with connected(source) as connection:
        return tables_of(connection)


def check_file(source: Source, place: Position) -> None:
    """Raise UsageError if a server has no log with the name in a position.

    If the user lacks the privilege, or the server cannot be reached, reading finds out.
    """
    from tailrace.live.session import Identity, Session  # noqa: PLC0415 - as above

    try:
        with Session.open(source, source.hosts[0], Identity()) as session:
            names = [name for name, _ in session.logs()]
    except (AccessDenied, ConnectionLost):
        return
    if names:
        check_among(place, names, source.name)


def without_passwords(text: str, arguments: Sequence[str]) -> str:
    """A text that may quote arguments, with the passwords in their URLs removed."""
    for argument in arguments:
        found = _PASSWORD.search(argument)
        if found is not None and found[1]:
            text = text.replace(f":{found[1]}@", ":***@")
    return text
