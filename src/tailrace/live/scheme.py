"""Which URLs are those of servers: by their scheme. Importing this is cheap."""

from __future__ import annotations

from typing import Final

SCHEMES: Final = ("mysql", "mariadb")


def names_server(text: object) -> bool:
    """Whether a text is the URL of a server."""
    scheme, colon, _ = str(text).partition(":")
    return bool(colon) and scheme.lower() in SCHEMES
