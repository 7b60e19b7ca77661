"""Changes as SQL statements: statements that repeat them, and statements that undo them.

    changes = Changes(Reader(find("binlog.000001")[0]))
    for command in commands(statements(changes)):
        cursor.execute(command)

`statements` and `undo` give `Statement` objects. `commands` converts them to commands that a driver
executes one by one (bytes), `script` to a file for the servers' own clients.
"""

from tailrace.sql.forward import statements
from tailrace.sql.script import commands, script
from tailrace.sql.statement import Statement
from tailrace.sql.undo import undo

__all__ = ["Statement", "commands", "script", "statements", "undo"]
