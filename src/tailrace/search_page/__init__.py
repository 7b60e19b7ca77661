"""A page in the browser that searches an index: `tailrace search INDEX --serve HOST:PORT`.

`PageServer` serves it. It stands on the public names of `tailrace.search`, and needs its extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace.search_page.server import PageServer

__all__ = ["PageServer"]

if not TYPE_CHECKING:  # else any name would do
    __getattr__ = lazy(__name__, {"PageServer": "server"})
