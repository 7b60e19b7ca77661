"""MySQL's and MariaDB's replication stream in Python, and a Spark pipeline that lands it in a lake.

`open` iterates over a log's events, `rows` and `transactions` over what was committed, as objects,
`changes` over its rows as Arrow record batches; `table` is one table's rows as one Arrow table.
`stat` counts what a log holds, `undo` and `redo` make SQL of it. `create` makes a log, `append`
continues one, and a `Table` describes the rows to be written to it. `local` makes a program's own
transactions a stream of events for consumers. `receive` keeps a byte-identical copy of a server's
logs, `serve` serves logs to replicas of MySQL and MariaDB, and `apply` carries out their changes in
another database.

Families have modules of their own, such as `tailrace.events`, `tailrace.errors` and
`tailrace.storage`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tailrace.lazy import lazy

if TYPE_CHECKING:
    from tailrace import errors as errors
    from tailrace import events as events
    from tailrace import generators as generators
    from tailrace import handlers as handlers
    from tailrace import spark as spark
    from tailrace import storage as storage
    from tailrace.applier.applier import apply
    from tailrace.columns import changes, table
    from tailrace.columns.text.statistics import stat
    from tailrace.gtid import GtidList, GtidSet
    from tailrace.log.events import Log, open  # noqa: A004 - it is tailrace.open
    from tailrace.log.rows import rows, transactions
    from tailrace.position import Position
    from tailrace.replication.receiver import receive
    from tailrace.replication.source.server import serve
    from tailrace.schema.table import Table
    from tailrace.sql.scripts import redo, undo
    from tailrace.writing import append, create
    from tailrace.writing.local import local

    __version__: str

__all__ = [
    "GtidList",
    "GtidSet",
    "Log",
    "Position",
    "Table",
    "__version__",
    "append",
    "apply",
    "changes",
    "create",
    "local",
    "open",
    "receive",
    "redo",
    "rows",
    "serve",
    "stat",
    "table",
    "transactions",
    "undo",
]

_MODULES: Final = {
    "GtidList": "gtid",
    "GtidSet": "gtid",
    "Log": "log.events",
    "Position": "position",
    "Table": "schema.table",
    "append": "writing",
    "apply": "applier.applier",
    "changes": "columns",
    "create": "writing",
    "local": "writing.local",
    "open": "log.events",
    "receive": "replication.receiver",
    "redo": "sql.scripts",
    "rows": "log.rows",
    "serve": "replication.source.server",
    "stat": "columns.text.statistics",
    "table": "columns",
    "transactions": "log.rows",
    "undo": "sql.scripts",
}


_get: Final = lazy(__name__, _MODULES)


def __dir__() -> list[str]:
    """The public names alone: modules that were imported are attributes, too."""
    return sorted(__all__)


if not TYPE_CHECKING:  # else any name would do

    def __getattr__(name: str) -> Any:
        """Import a name, or a module of the package, when it is first used.

        So `import tailrace` is cheap, and almost none of the command's modules are imported before
        it can be interrupted (`tailrace.__main__`).
        """
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415 - slow, and seldom needed

            return version(__name__)
        if name not in _MODULES and not name.startswith("_"):
            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
        return _get(name)
