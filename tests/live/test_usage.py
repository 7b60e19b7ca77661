"""WL#3283, "Typical usage pattern", step by step, on a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace.handlers import Handler
from tailrace.log import Log
from tailrace.log.sources import transport_of
from tests.waiting import DEADLINE

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.events import QueryEvent
    from tailrace.handlers import Outcome
    from tools.servers import Server


class Statements(Handler):
    """Keeps the statements."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_query(self, event: QueryEvent) -> Outcome:
        self.seen.append(event.sql)
        return event


@pytest.mark.quick
def test_typical_usage_and_r1_creation_timestamp(server: Server, log: Path):
    url = f"mysql://root@127.0.0.1:{server.port}/?ssl_mode=DISABLED"
    binlog = Log(transport_of(url), start=log.name)
    handler = Statements()
    binlog.handlers.append(handler)
    binlog.connect()
    names = []
    while (event := binlog.wait_for_next_event(DEADLINE)) is not None:
        names.append(event.name)
    assert binlog.at_end
    assert binlog.created == int.from_bytes(log.read_bytes()[4:8], "little") > 0
    assert names[0] == "FORMAT_DESCRIPTION"
    assert {"TABLE_MAP", "XID", "ROTATE"} <= set(names)
    assert any(sql.startswith("CREATE TABLE streamed.t") for sql in handler.seen)
    binlog.close()
