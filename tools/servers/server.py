"""A running server with a data folder and a port of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pymysql

from tools.servers import datadir
from tools.servers.fetch import prefix

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

    from tools.servers.prefix import Flavour

Options = Mapping[str, str | int | bool] | Sequence[str]

_START_SECONDS = 300.0
_STOP_SECONDS = 300.0
_BASE_OPTIONS = (
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--performance-schema=OFF",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--secure-file-priv=",
    "--default-time-zone=+00:00",
    "--max-allowed-packet=1G",
    "--max-connections=40",
    "--table-open-cache=200",
    "--table-definition-cache=400",
    "--key-buffer-size=1M",
    "--sync-binlog=0",
)
_FLAVOUR_OPTIONS: dict[Flavour, tuple[str, ...]] = {
    "mysql": (
        "--innodb-flush-log-at-trx-commit=2",
        "--mysqlx=OFF",
        "--event-scheduler=OFF",  # beside one, a shutdown waits eight seconds before it ends dumps
        "--host-cache-size=0",
        "--local-infile=ON",
        "--temptable-max-ram=16M",
    ),
    "mariadb": (
        "--innodb-flush-log-at-trx-commit=1",  # as `checkpoint` demands; nothing is synced
        "--aria-pagecache-buffer-size=8M",
        "--local-infile=1",
    ),
}


class ServerStartError(RuntimeError):
    """The server did not come up; the message quotes the end of its log."""


def option_list(options: Options | None) -> list[str]:
    """Server options as argv: a mapping's names may be written with underscores."""
    if options is None:
        return []
    if not isinstance(options, Mapping):
        return list(options)
    return [
        f"--{name.replace('_', '-')}={('OFF', 'ON')[value] if isinstance(value, bool) else value}"
        for name, value in options.items()
    ]


class Server:
    """A server, to be used as a context manager or with start() and stop().

    `options` go to the server after our own, so that they win. `init_options` hold when the data
    folder is made, too. With `folder` the data is kept there and found again; else it lies in a
    temporary folder that stop() removes.
    """

    host = "127.0.0.1"
    user = "root"

    def __init__(
        self,
        name: str,
        options: Options | None = None,
        *,
        server_id: int = 1,
        init_options: Options | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.prefix = prefix(name)
        self.flavour: Flavour = self.prefix.release.flavour
        self.options = option_list(options)
        self.init_options = option_list(init_options)
        self.server_id = server_id
        self.port = 0
        self._given_folder = folder
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Cursor] | None = None

    # --- life ------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @property
    def folder(self) -> Path:
        """The folder that holds the data, the temporary files and the server's log."""
        if self._folder is None:
            raise RuntimeError(f"{self.name} has not been started")
        return self._folder

    @property
    def data(self) -> Path:
        """The data folder; the binary logs are in it."""
        return self.folder / "data"

    @property
    def pid(self) -> int | None:
        """The running server's process id."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server, on its data of before if there is any; wait until it answers."""
        if self._process:
            return
        if self._folder is None:
            self._folder = self._given_folder or Path(tempfile.mkdtemp(prefix="tailrace-server-"))
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        if not self.data.is_dir():
            datadir.make(self.prefix, self.data, self.init_options)
        for attempt in range(3):
            self.port = free_port()
            self._spawn()
            if self._wait():
                break
            if attempt == 2 or "in use" not in self.log():  # else somebody took the port
                text = f"{self.name} did not start; its log ends:\n{self.log()[-3000:]}"
                self.kill()
                self.stop()
                raise ServerStartError(text)
            self.kill()
        _running.add(self)

    def stop(self, *, keep: bool = False) -> None:
        """Shut down cleanly and remove the data folder, unless it is to be kept or was given."""
        self.disconnect()
        if process := self._process:
            self._end_idle()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._process = None
        _running.discard(self)
        if not keep and self._given_folder is None and self._folder:
            _remove(self._folder)
            self._folder = None

    def _end_idle(self) -> None:
        """End clients that ask nothing: MySQL, shut down, gives them eight seconds to go."""
        if self.flavour != "mysql":
            return
        with (
            suppress(pymysql.err.Error),  # it is there no longer, or they are not
            self.connect(charset="latin1") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SHOW PROCESSLIST")
            for thread in [row[0] for row in cursor.fetchall() if row[4] == "Sleep"]:
                with suppress(pymysql.err.Error):
                    cursor.execute(f"KILL {thread}")

    def discard(self) -> None:
        """`stop`, at once where the data goes with it: nobody needs it written."""
        if self._given_folder is None:
            self.kill()
        self.stop()

    def kill(self) -> None:
        """End the process as a power cut would; the data folder stays."""
        self.disconnect()
        if process := self._process:
            process.kill()
            process.wait()
            self._process = None

    def restart(self, options: Options | None = None) -> None:
        """Stop, and start on the same data; with `options` in place of those of before."""
        self.stop(keep=True)
        if options is not None:
            self.options = option_list(options)
        self.start()

    def log(self) -> str:
        """What the server has written to its error log."""
        path = self.folder / "server.err"
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def _spawn(self) -> None:
        main = threading.main_thread()
        argv = [
            *(dies_with_parent() if threading.current_thread() is main else []),
            *self.prefix.server(),
            *datadir.user_option(),
            *_BASE_OPTIONS,
            *_FLAVOUR_OPTIONS[self.flavour],
            *datadir.ENGINE_OPTIONS[self.flavour],
            f"--datadir={self.data}",
            f"--tmpdir={self.folder / 'tmp'}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--port={self.port}",
            f"--server-id={self.server_id}",
            *self.init_options,
            *self.options,
        ]
        with (self.folder / "server.err").open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                cwd=self.folder,
                env={"TZ": "UTC", "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C at the terminal is ours to answer
            )

    def _wait(self) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        while self._process and self._process.poll() is None and time.monotonic() < deadline:
            try:
                with self.connect() as connection, connection.cursor() as cursor:
                    cursor.execute("SELECT @@pid_file")
                    row = cursor.fetchone()
                    if row and str(row[0]) == str(self.folder / "pid"):  # ours, nobody else's
                        return True
            except pymysql.err.Error:
                pass
            time.sleep(0.05)
        return False

    # --- SQL -------------------------------------------------------------------------------------

    def connect(self, **settings: Any) -> Connection[Cursor]:
        """A PyMySQL connection as root: utf8mb4, autocommit, session time zone UTC.

        Without TLS unless it is asked for: PyMySQL would read the machine's authorities each time,
        25 ms of a processor for a connection that takes less than one.
        """
        defaults: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "charset": "utf8mb4",
            "autocommit": True,
            "init_command": "SET time_zone='+00:00'",
            "local_infile": True,
            "max_allowed_packet": 1 << 30,
            "ssl_disabled": not any(name.startswith("ssl") for name in settings),
        }
        return pymysql.connect(**(defaults | settings))

    @property
    def connection(self) -> Connection[Cursor]:
        """A connection that execute() and query() share, made at first use."""
        if self._connection is None or not self._connection.open:
            self._connection = self.connect()
        return self._connection

    def execute(self, sql: str, arguments: Sequence[Any] | Mapping[str, Any] | None = None) -> int:
        """Run one statement on the shared connection; gives the number of rows it concerned."""
        with self.connection.cursor() as cursor:
            return int(cursor.execute(sql, arguments))

    def query(
        self, sql: str, arguments: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement on the shared connection and give its rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return list(cursor.fetchall())

    def disconnect(self) -> None:
        """Close the shared connection: the next statement has a new session."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    @property
    def version(self) -> str:
        """The running server's version, as it says itself."""
        return str(self.query("SELECT VERSION()")[0][0])

    def client(self, *options: str) -> list[str]:
        """The argv of the server's own client."""
        program = "mariadb" if self.flavour == "mariadb" else "mysql"
        return [
            *(*self.prefix.command(program), "--no-defaults", "--binary-mode"),
            *(f"--user={self.user}", f"--socket={self.folder / 'socket'}"),
            f"--character-sets-dir={self.prefix.share / 'charsets'}",
            *("--max-allowed-packet=1G", *options),
        ]

    # --- binary logs -----------------------------------------------------------------------------

    def binlogs(self) -> list[Path]:
        """The binary log files, oldest first; a replica's relay logs are not among them."""
        found = self.data.glob("*.[0-9][0-9][0-9][0-9][0-9][0-9]")
        return sorted(path for path in found if "relay" not in path.name)

    def end(self) -> tuple[str, int]:
        """The last binary log and where it ends, as the server says."""
        status = "SHOW BINARY LOG STATUS" if self.flavour == "mysql" else "SHOW MASTER STATUS"
        file, position, *_ = self.query(status)[0]
        return str(file), int(position)

    def rotate(self) -> Path:
        """Close the current binary log, open the next, and give the one that was closed."""
        self.execute("FLUSH BINARY LOGS")
        return self.binlogs()[-2]

    def checkpoint(self) -> None:
        """Have MariaDB's engine flush what older files are kept for; by itself it does so once a
        second. MySQL has no such need."""
        if self.flavour == "mariadb":
            with self.connect() as connection, connection.cursor() as cursor:
                cursor.execute("FLUSH LOCAL ENGINE LOGS")  # would commit what is open on ours

    def settle(self) -> None:
        """Wait for what MariaDB writes by itself into a file that it has begun.

        That is a checkpoint: no older file is needed to recover by. Raises RuntimeError where it
        does not come.
        """
        deadline = time.monotonic() + _START_SECONDS
        self.checkpoint()
        while self.flavour == "mariadb":
            file = str(self.query("SHOW BINARY LOGS")[-1][0])
            events = self.query(f"SHOW BINLOG EVENTS IN '{file}'")
            if any(event[2] == "Binlog_checkpoint" and event[5] == file for event in events):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} notes no checkpoint in {file}")
            time.sleep(0.02)

    def dumps(self) -> dict[int, int]:
        """The threads that send its log, by their clients' ports.

        Read as latin1: a statement may be cut inside a character, which is no UTF-8 and which
        MySQL's information_schema.processlist rejects.
        """
        with self.connect(charset="latin1") as connection, connection.cursor() as cursor:
            cursor.execute("SHOW PROCESSLIST")
            rows = cursor.fetchall()
        return {int(row[2].rpartition(":")[2]): row[0] for row in rows if "Binlog Dump" in row[4]}

    def mysqlbinlog(self, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
        """Run this server's own mysqlbinlog; its output is in bytes."""
        argv = [*self.prefix.binlog_tool(), *map(str, arguments)]
        return subprocess.run(argv, capture_output=True, check=True)


_running: weakref.WeakSet[Server] = weakref.WeakSet()


_removals: list[subprocess.Popen[bytes]] = []


def _remove(folder: Path) -> None:
    """Remove a data folder behind our back: some disks take seconds to."""
    _removals[:] = [each for each in _removals if each.poll() is None]
    _removals.append(subprocess.Popen(["rm", "-rf", "--", folder]))


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.discard()
    for each in _removals:
        each.wait()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def dies_with_parent() -> list[str]:
    """What to put before a command so that it ends with the thread that starts it."""
    return ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
