"""SQL of a log run on a server, and what its tables hold then: CHECKSUM TABLE and their rows."""

from __future__ import annotations

from pymysql.constants import CLIENT

from tools.campaign.second import NOT_LOGGED, changes, client, definitions, feed
from tools.dumps import dump_databases, quoted

__all__ = ["changes", "client", "definitions", "feed"]


def execute(server, found):
    """Run commands one by one through PyMySQL."""
    settings = {"init_command": NOT_LOGGED, "client_flag": CLIENT.FOUND_ROWS}
    with server.connect(**settings) as connection, connection.cursor() as cursor:
        for sql in found:
            count = cursor.execute(sql)
            if sql.startswith((b"UPDATE `", b"DELETE FROM `")) and count != 1:
                raise AssertionError(f"{count} rows found: {sql[:2000]!r}")


def checksums(server, database):
    """CHECKSUM TABLE of a database's tables, and their rows."""
    dumps = dump_databases(server, database)
    found = {}
    for table, dump in dumps.items():
        name = ".".join(map(quoted, table.split(".", 1)))
        total = server.query(f"CHECKSUM TABLE {name} EXTENDED")[0][1]
        shown = str(server.query(f"SHOW CREATE TABLE {name}")[0][1])
        if server.flavour == "mariadb" and ") VIRTUAL" in shown:
            total = (
                None  # it counts what a virtual column happens to hold: a server's own copy differs
            )
        found[table] = total, sorted(dump["rows"], key=repr)
    return found
