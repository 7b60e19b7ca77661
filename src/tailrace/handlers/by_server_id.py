"""Transactions by the server that committed them first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.handlers.groups import GroupFilter

if TYPE_CHECKING:
    from collections.abc import Container

    from tailrace.events import Event


class ByServerId(GroupFilter):
    """Lets pass the transactions ``only`` of these servers, or those of all ``without`` these.

    The server is the one that the first event's header names: where the transaction came from.
    """

    def __init__(self, only: Container[int] | None = None, *, without: Container[int] = ()) -> None:
        super().__init__()
        self._only = only
        self._without = without

    def keeps(self, first: Event) -> bool:
        """By the header's server id."""
        server = first.header.server_id
        return (self._only is None or server in self._only) and server not in self._without
