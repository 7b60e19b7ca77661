"""SHOW REPLICA STATUS of both flavours, under one set of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pymysql.cursors import DictCursor

if TYPE_CHECKING:
    from tools.servers import Server

_NAMES: Final = {
    "sql_running": ("Replica_SQL_Running", "Slave_SQL_Running"),
    "sql_state": ("Replica_SQL_Running_State", "Slave_SQL_Running_State"),
    "sql_error": ("Last_SQL_Error", "Last_SQL_Error"),
    "sql_errno": ("Last_SQL_Errno", "Last_SQL_Errno"),
    "io_errno": ("Last_IO_Errno", "Last_IO_Errno"),
    "io_error": ("Last_IO_Error", "Last_IO_Error"),
    "relay_log_file": ("Relay_Log_File", "Relay_Log_File"),
    "relay_log_pos": ("Relay_Log_Pos", "Relay_Log_Pos"),
    "source_log_file": ("Relay_Source_Log_File", "Relay_Master_Log_File"),
    "source_log_pos": ("Exec_Source_Log_Pos", "Exec_Master_Log_Pos"),
}


class ApplyFailed(AssertionError):
    """A server, its tool or its client refused a log; the message is theirs."""


def replica_status(server: Server, channel: str = "") -> dict[str, Any]:
    """What the server says of that channel (MariaDB: connection), by the names above.

    ``source_log_file`` and ``source_log_pos`` are what has been applied, in the source's terms.
    """
    mysql = server.flavour == "mysql"
    sql = (
        f"SHOW REPLICA STATUS FOR CHANNEL '{channel}'"
        if mysql
        else f"SHOW SLAVE '{channel}' STATUS"
    )
    with server.connect(cursorclass=DictCursor) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        row: Any = cursor.fetchone()
    if row is None:
        raise LookupError(f"{server.name} has no channel {channel!r}")
    return {name: row[keys[0 if mysql else 1]] for name, keys in _NAMES.items()}


def error_text(server: Server, status: dict[str, Any]) -> str:
    """Why a thread of it stopped.

    MySQL's status refers to a worker's error: the last of the kind in the server's log is added.
    """
    text = str(status["io_error"] or status["sql_error"])
    if "See error log" not in text:
        return text
    lines = [line for line in server.log().splitlines() if "Worker" in line and "[ERROR]" in line]
    return f"{text}\n{lines[-1]}" if lines else text
