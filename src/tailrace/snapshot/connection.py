"""A connection that reads tables: values as the server sends them, and times in UTC."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tailrace.live.tables import connected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.live.connect import ServerConnection
    from tailrace.live.url import Source

_SETTINGS: Final = (
    "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",  # else MySQL rejects such a date as a bound
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION net_write_timeout = 3600",
)


@contextmanager
def reading(source: Source) -> Iterator[ServerConnection]:
    """A connection that returns bytes. Raises what `connect` raises."""
    with connected(source) as connection:
        with connection.cursor() as cursor:
            for statement in _SETTINGS:
                cursor.execute(statement)
        plain: Any = connection
        plain.decoders, plain.use_unicode = {}, False
        plain._read_timeout = None  # noqa: SLF001 - a large range may be long in coming
        yield connection
