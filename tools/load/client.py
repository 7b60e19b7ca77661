"""One client of a load: its connection, its tables, and how it comes back after a break."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pymysql

from tools.campaign.tables import RandomTable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

    from tools.campaign.columns import Types
    from tools.servers import Server

_LOST: Final = frozenset((0, 1053, 1077, 1079, 1152, 1927, 3169, 4031))
"""Codes after which the connection is gone: shutdown, killed; those of clients are from 2000 on."""
_RECONNECT_SECONDS: Final = 0.05
_OLD_SECONDS: Final = 0.15
_PATIENCE: Final = 300.0
"""Seconds; a server that does not let go of a transaction by then never will."""
_ENGINES: Final = {"mysql": ("InnoDB", "MyISAM"), "mariadb": ("InnoDB", "MyISAM", "Aria")}


@dataclass(frozen=True)
class Plan:
    """What a load does; see `Load`."""

    database: str
    tables: int
    large: float
    huge: int
    statements: bool
    flush: bool
    own: bool
    compressed: bool = True


class Client:
    """Runs actions on a connection of its own, which it makes anew where it breaks."""

    def __init__(
        self,
        server: Server,
        number: int,
        seed: int,
        plan: Plan,
        types: Types,
        ending: threading.Event,
    ) -> None:
        self.server = server
        self.number = number
        self.plan = plan
        self.mysql = server.flavour == "mysql"
        self.counts: Counter[str] = Counter()
        self.acknowledged: list[int] = []
        self.own: dict[str, RandomTable] = {}
        """Its tables of random columns, by name; nobody else uses them."""
        self.action = 0
        """The number of the action that runs."""
        self._seed = seed
        self._types = types
        self._ending = ending
        self._made = 0
        self._connection: Connection[Cursor] | None = None
        self._thread = 0
        """What a MariaDB calls its connection, or the last that it had; 0 before the first."""

    # --- for actions -----------------------------------------------------------------------------

    def sql(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement; raises pymysql's errors."""
        if self._connection is None:
            raise pymysql.err.InterfaceError(0, "not connected")
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def shared(self, rng: random.Random, *, transactional: bool = True) -> str:
        """The name of a table that all clients change."""
        engines = _ENGINES[self.server.flavour]
        which = 0 if transactional else rng.randrange(1, len(engines))
        return f"{engines[which].lower()}_{rng.randrange(self.plan.tables)}"

    def create(self, rng: random.Random) -> RandomTable:
        """Make a table of its own, of random columns."""
        while True:
            self._made += 1
            name = f"own_{self.number}_{self._made}"
            table = RandomTable(rng, self._types, name, plain=True)
            try:
                self.sql(table.create())
            except pymysql.err.Error as error:
                if self._is_lost(error):
                    raise
                continue  # a row too large, a key too long: make another
            self.own[name] = table
            return table

    def reconnect(self) -> None:
        """Leave the connection as a client does that is gone, and make another."""
        self._drop()
        self._connect()

    # --- life ------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the tables that all clients share."""
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {self.plan.database}")
            cursor.execute(f"USE {self.plan.database}")
            for engine in _ENGINES[self.server.flavour]:
                for number in range(self.plan.tables):
                    cursor.execute(
                        f"CREATE TABLE IF NOT EXISTS {engine.lower()}_{number} ("
                        "id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, client INT NOT NULL, "
                        "n INT NOT NULL, name VARCHAR(200), amount DECIMAL(12,2), at DATETIME(6), "
                        f"data LONGBLOB, KEY (client, n)) ENGINE={engine}"
                    )
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS marks "
                "(client INT NOT NULL, n INT NOT NULL, PRIMARY KEY (client, n)) ENGINE=InnoDB"
            )

    def run(
        self, action: Callable[[Client, random.Random], None], rng: random.Random, number: int
    ) -> None:
        """Do one action; whatever the server answers is counted, and put right."""
        self.action = number
        try:
            if self._connection is None:
                self._connect()
            if self._connection is None:  # it ends
                return
            action(self, rng)
            self.counts[action.__name__] += 1
        except (pymysql.err.Error, OSError) as error:
            self._failed(error)

    def close(self) -> None:
        """End what is open and what is left prepared, and the connection.

        Also where the load ended while there was none. A server that is not there is left as it is.
        """
        try:
            if self._connection is None:
                with suppress(pymysql.err.OperationalError, OSError):
                    self._open()
            if self._connection is not None:
                with suppress(pymysql.err.Error, OSError):
                    self._end_prepared()
        finally:
            self._drop()

    def _failed(self, error: Exception) -> None:
        self.counts["errors"] += 1
        if self._is_lost(error) or self._connection is None or not self._connection.open:
            self._drop()
            return
        try:
            self.sql("ROLLBACK")
        except (pymysql.err.Error, OSError):  # inside an XA transaction, for one
            self._drop()

    @staticmethod
    def _is_lost(error: Exception) -> bool:
        if not isinstance(error, pymysql.err.Error):
            return True
        code = error.args[0] if error.args else 0
        return not isinstance(code, int) or code in _LOST or 2000 <= code < 3000

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - no COM_QUIT
            self._connection = None

    def _connect(self) -> None:
        """Connect, as soon as there is a server; nothing where the load ends meanwhile."""
        while not self._ending.is_set():
            try:
                self._open()
                self._set_up()
            except (pymysql.err.Error, OSError):
                self._drop()
                self._ending.wait(_RECONNECT_SECONDS)
            else:
                self.counts["connections"] += 1
                return

    def _open(self) -> None:
        self._connection = self.server.connect(
            database=self.plan.database, connect_timeout=10, read_timeout=60
        )
        self.sql("SET sql_mode = '', innodb_lock_wait_timeout = 1, lock_wait_timeout = 2")
        if not self.mysql:
            self._wait_for_last()

    def _set_up(self) -> None:
        connections = self.counts["connections"]
        rng = random.Random(f"{self._seed}/{self.number}/connection {connections}")
        if self.mysql:
            compressed = rng.random() < 0.3 and self.plan.compressed
            self.sql(
                f"SET binlog_transaction_compression = {int(compressed)}, "
                f"binlog_rows_query_log_events = {int(rng.random() < 0.5)}"
            )
        else:
            self.sql(f"SET binlog_annotate_row_events = {int(rng.random() < 0.7)}")
        self._end_prepared()
        if connections:  # of its own tables, nobody knows what became
            for (name,) in self.sql(f"SHOW TABLES LIKE 'own\\_{self.number}\\_%'"):
                self.sql(f"DROP TABLE {name}")
            self.own.clear()

    def _wait_for_last(self) -> None:
        """Wait until the server has let go of what the connection before this one had prepared.

        MariaDB 10.11 logs an XA COMMIT that comes before and leaves the transaction prepared: its
        tables are not what its own log says then. It does so even when the connection is listed no
        more; InnoDB's own list is of up to 0.1 s ago.
        """
        last = self._thread
        ((self._thread,),) = self.sql("SELECT CONNECTION_ID()")
        if not last:
            return
        held = f"SELECT 1 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {last}"
        time.sleep(_OLD_SECONDS)
        self._wait(lambda: not self.sql(held), f"connection {last} still holds a transaction")

    def _end_prepared(self) -> None:
        """End the XA transactions that were left prepared; the server may hold them for a while."""
        self._wait(self._ends_prepared, "a transaction stays prepared")

    def _ends_prepared(self) -> bool:
        """End what is prepared; whether nothing is left."""
        for name in self._prepared():
            number = int(name.rpartition("-")[2])
            try:
                self.sql(f"XA {('COMMIT', 'ROLLBACK')[number % 2]} '{name}'")
            except pymysql.err.Error as error:
                if self._is_lost(error):
                    raise
        return not self._prepared()

    def _prepared(self) -> list[str]:
        names = [
            name.decode() if isinstance(name, bytes) else str(name)
            for *_, name in self.sql("XA RECOVER")
        ]
        return [name for name in names if name.startswith(f"load-{self.number}-")]

    @staticmethod
    def _wait(done: Callable[[], bool], what: str) -> None:
        """Look until it is done. Raises RuntimeError where that is never."""
        deadline = time.monotonic() + _PATIENCE
        while not done():
            if time.monotonic() > deadline:
                raise RuntimeError(what)
            time.sleep(_OLD_SECONDS)
