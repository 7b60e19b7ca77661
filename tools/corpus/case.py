"""What a case of the corpus is, and what its script is given to work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tools.servers import NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

    from tools.servers import Server

MYSQL = ("mysql-9.7",)
MARIADB = ("mariadb-11.8", "mariadb-10.11")
NEWEST = (*MYSQL, MARIADB[0])
"""A release of each flavour, for what all its releases write alike: values, row images."""
DATABASE = "corpus"


class Recorder:
    """A case's hands: a server, and a connection that was made under the case's settings."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = self.connect()

    @property
    def mysql(self) -> bool:
        """Whether the server is MySQL."""
        return self.server.flavour == "mysql"

    def connect(self, **settings: Any) -> Connection[Cursor]:
        """One more connection, with the corpus' database as its current one."""
        connection = self.server.connect(**settings)
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {DATABASE}")
            cursor.execute("SET sql_mode = ''")
        return connection

    def run(self, *statements: str) -> None:
        """Run statements, each a transaction unless they say BEGIN themselves."""
        with self.connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """A query's rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def table(
        self, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[str]], suffix: str = ""
    ) -> None:
        """Make a table with the key `id` and insert rows of SQL literals, one of NULLs the last.

        All of the rows are one statement and so one transaction.
        """
        definitions = ", ".join(f"`{column}` {kind} NULL" for column, kind in columns.items())
        self.run(f"CREATE TABLE `{name}` (id INT NOT NULL PRIMARY KEY, {definitions}) {suffix}")
        every = [*rows, ["NULL"] * len(columns)]
        tuples = [f"({number}, {', '.join(row)})" for number, row in enumerate(every, 1)]
        self.run(f"INSERT INTO `{name}` VALUES {', '.join(tuples)}")


Script = Callable[[Recorder], None]
# A case that needs servers of its own gives the logs and what is to be said of them.
OwnScript = Callable[[str], "Recording"]


@dataclass
class Recording:
    """What a case with a server of its own brings home."""

    server: str
    logs: list[tuple[str, bytes]]
    tables: dict[str, Any]
    remarks: dict[str, Any] = field(default_factory=dict)
    text: bytes | None = None  # mysqlbinlog's


@dataclass(frozen=True)
class Case:
    """A case: a script, the global variables it runs under, the servers it is recorded on.

    `rows_complete` says that the tables' contents follow from the row events alone (false where
    statements were logged as such); `insert_only` that nothing was updated or deleted.
    """

    name: str
    what: str
    script: Script | None
    servers: tuple[str, ...] = NAMES
    settings: Mapping[str, str | int] = field(default_factory=dict)
    rows_complete: bool = True
    insert_only: bool = False
    own: OwnScript | None = None
    with_text: bool = True


CASES: list[Case] = []


def add(name: str, what: str, script: Script, servers: Sequence[str] = NAMES, **more: Any) -> None:
    """Register a case."""
    CASES.append(Case(name, what, script, tuple(servers), **more))


def add_own(name: str, what: str, own: OwnScript, servers: Sequence[str], **more: Any) -> None:
    """Register a case that runs servers of its own."""
    CASES.append(Case(name, what, None, tuple(servers), own=own, **more))


def add_with_metadata(
    name: str, what: str, script: Script, servers: Sequence[str] = NEWEST, **more: Any
) -> None:
    """Register a case twice: with all names in the log, and with the server's default.

    The oldest server is recorded with its default only, where its values are not the newer one's.
    """
    settings = more.pop("settings", {})
    full = {**settings, "binlog_row_metadata": "FULL"}
    recent = [server for server in servers if server != "mariadb-10.11"]
    add(f"{name}-full", f"{what}; metadata FULL", script, recent, settings=full, **more)
    note = "metadata as by default (MySQL MINIMAL, MariaDB NO_LOG)"
    add(f"{name}-min", f"{what}; {note}", script, servers, settings=settings, **more)


def log_files(folder: Path) -> list[tuple[str, bytes]]:
    """Name and content of a data folder's binary logs."""
    files = sorted(folder.glob("binlog.[0-9][0-9][0-9][0-9][0-9][0-9]"))
    return [(file.name, file.read_bytes()) for file in files]
