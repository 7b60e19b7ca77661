"""A server made ready to take a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from tools.dumps import quoted

if TYPE_CHECKING:
    from tools.servers import Server

GtidMode = Literal["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"]
_GTID_MODES: Final[tuple[GtidMode, ...]] = ("OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")


def gtid_mode(server: Server, mode: GtidMode) -> None:
    """Bring a MySQL server to that mode, a step at a time as it demands; MariaDB has no modes.

    ``ON_PERMISSIVE`` takes anonymous transactions and those with GTIDs. A relay log with GTIDs
    stops an applier under ``OFF`` (error 1781), an anonymous one under ``ON`` (1782).
    """
    if server.flavour != "mysql":
        return
    if mode in _GTID_MODES[2:]:
        server.execute("SET GLOBAL enforce_gtid_consistency = ON")
    current = str(server.query("SELECT @@GLOBAL.gtid_mode")[0][0])
    at, wanted = (list(_GTID_MODES).index(name) for name in (current, mode))  # type: ignore[arg-type]
    step = 1 if wanted > at else -1
    for place in range(at + step, wanted + step, step) if at != wanted else ():
        server.execute(f"SET GLOBAL gtid_mode = {_GTID_MODES[place]}")


def forget(server: Server, *databases: str) -> None:
    """Drop these databases and what the server knows of transactions, its binary logs included.

    Without this, a MySQL server passes over GTIDs that it knows, without a word, whichever way
    they come; a MariaDB one in GTID mode does, too (`gtid_slave_pos`).
    """
    for database in databases:
        server.execute(f"DROP DATABASE IF EXISTS {quoted(database)}")
    if server.flavour == "mysql":
        server.execute("RESET BINARY LOGS AND GTIDS")
    else:
        server.execute("RESET MASTER")
        server.execute("SET GLOBAL gtid_slave_pos = ''")
