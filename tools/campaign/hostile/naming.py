"""A server that sends a log of ours under any names that it is told to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.constants import EventType
from tools.campaign.hostile.fake import END, FakeServer, event, rotate, split
from tools.campaign.live_files import description

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.campaign.hostile.fake import Talk


@dataclass
class Names:
    """What the server calls its log, each in its place: bytes, as they go over the wire.

    ``rotate`` is what a ROTATE at the log's end names (None: there is none), ``heartbeat`` what a
    heartbeat of type 27 names after the description (None: none comes), ``listed`` what SHOW
    BINARY LOGS and SHOW BINARY LOG STATUS say.
    """

    first: bytes = b"binlog.000001"
    rotate: bytes | None = None
    heartbeat: bytes | None = None
    listed: bytes = b"binlog.000001"


class NamingServer(FakeServer):
    """MySQL without passwords, whose log has these events (the description first) and names."""

    def __init__(self, events: Sequence[bytes], names: Names | None = None) -> None:
        names = names or Names()
        size = 4 + sum(map(len, events))

        def listed(talk: Talk) -> bool:
            talk.result("abc", [(names.listed, size, "No")])
            return True

        def dump(talk: Talk) -> bool:
            self.event(talk, rotate(names.first, 4))
            self.event(talk, events[0])
            if names.heartbeat is not None:
                end = 4 + len(events[0])
                self.event(talk, event(EventType.HEARTBEAT, names.heartbeat, end=end))
            for each in events[1:]:
                self.event(talk, each)
            if names.rotate is not None:
                end = size + 19 + 8 + len(names.rotate) + 4
                self.event(talk, rotate(names.rotate, 4, artificial=False, end=end))
                self.event(talk, rotate(names.rotate, 4))
                self.event(talk, events[0])
            talk.send(END)
            return True

        turns = {"dump": dump, "SHOW BINARY LOGS": listed, "SHOW BINARY LOG STATUS": listed}
        super().__init__(turns, way="mysql_native_password")

    @property
    def address(self) -> str:
        """Its URL, with the waits that everybody has."""
        return f"mysql://root@127.0.0.1:{self.port}/?ssl-mode=DISABLED"


def events_of(log: bytes) -> list[bytes]:
    """The events of a log file as its server sends them: IN_USE cleared."""
    first, *events = split(log)
    return [description(first), *events]
