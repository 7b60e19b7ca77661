"""Filters transactions by the server that first committed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.handlers.groups import GroupFilter

if TYPE_CHECKING:
    from collections.abc import Container

    from tailrace.events import Event


class ByServerId(GroupFilter):
    """Passes ``only`` the transactions of these servers, or all ``without`` those of these.

    The server is the one in the first event's header, where the transaction originated.
    """

    def __init__(self, only: Container[int] | None = None, *, without: Container[int] = ()) -> None:
        super().__init__()
        self._only = only
        self._without = without

    def keeps(self, first: Event) -> bool:
        """Decide by the header's server id."""
        server = first.header.server_id
        return (self._only is None or server in self._only) and server not in self._without
