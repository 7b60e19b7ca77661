"""Changes as SQL statements: those that make them again, and those that take them back.

    changes = Changes(Reader(find("binlog.000001")[0]))
    for command in commands(statements(changes)):
        cursor.execute(command)

`statements` and `undo` give `Statement` objects; `commands` makes of them what a driver runs one
by one (bytes), `script` a file for the servers' own clients.
"""

from tailrace.sql.forward import Wants, statements
from tailrace.sql.script import commands, script
from tailrace.sql.statement import Statement
from tailrace.sql.undo import undo

__all__ = ["Statement", "Wants", "commands", "script", "statements", "undo"]
