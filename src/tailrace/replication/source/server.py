"""A replication source: it serves logs to replicas of MySQL and MariaDB, and to their tools."""

from __future__ import annotations

import logging
import os
import re
import resource
import ssl
import uuid
from functools import partial
from threading import Event, Lock, Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING, Final

from tailrace.arguments import checked
from tailrace.closing import Closing
from tailrace.constants import Flavour
from tailrace.errors import UsageError
from tailrace.gtid import GtidList
from tailrace.gtid.ids import parse_uuid
from tailrace.live.listening import address_of, check_host
from tailrace.live.tls import load_certificate
from tailrace.live.url import is_loopback
from tailrace.observers.plugins import add
from tailrace.observers.transmit import TransmitDelegate
from tailrace.replication.source.listener import Limits, Listener
from tailrace.replication.source.refusals import refused
from tailrace.replication.source.series import ServedLogs
from tailrace.replication.source.session import Session
from tailrace.replication.source.transmit import Transmit
from tailrace.replication.source.users import Users
from tailrace.wire.authentication import CachingSha2Password, NativePassword
from tailrace.wire.packets import ErrorPacket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tailrace.observers.delegate import Observer
    from tailrace.position import Position
    from tailrace.replication.source.connection import ReplicaConnection
    from tailrace.replication.source.queries import Value
    from tailrace.replication.source.request import DumpRequest
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.wire.commands import RegisterReplica

PASSWORD: Final = "TAILRACE_SERVE_PASSWORD"  # noqa: S105 - the name of a variable
"""The environment variable with the password of ``user``."""
_NAMESPACE: Final = uuid.UUID("6f5d6b0c-6a8c-4f4e-9a53-7d1f0d7a0d5b")
_STOP_SECONDS: Final = 10.0
_PREFIXED: Final = 11
"""MariaDB before this version says ``5.5.5-`` before its version, for replicas of old MySQL."""
_VERSION: Final = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}(?:[-.+~][-.+~\w]{0,48})?", re.ASCII)
_LOG: Final = logging.getLogger(__name__)


class SourceServer(Closing):
    """Serves the logs of a folder or a URL. See `serve`, which makes and starts one.

    `close` ends it; it is a context manager. ``port`` is the one that it listens on.
    """

    def __init__(
        self,
        logs: ServedLogs,
        users: Users,
        *,
        server_id: int,
        listen: str,
        context: ssl.SSLContext | None = None,
        must_encrypt: bool = True,
        version: str | None = None,
        server_uuid: str | None = None,
        gtid_mode: bool | None = None,
        observers: Sequence[Observer] = (),
        limits: Limits | None = None,
    ) -> None:
        if not 1 <= server_id <= 0xFFFFFFFF:
            raise UsageError(f"server_id is a number from 1 to 4294967295, not {server_id!r}")
        host, port = address_of(listen)
        if must_encrypt and context is None and not is_loopback(host):
            check_host(host, port)
            raise UsageError(
                f"{listen} is reached from other machines: give a certificate and its key for TLS"
                " (--tls-cert, --tls-key), or allow logins without TLS (--allow-plain)"
            )
        if limits is not None and not isinstance(limits, Limits):
            raise UsageError(f"limits is a Limits, not {limits!r}")
        if version is not None:
            _check_version(version, logs.flavour)
        self.server_id = server_id
        self.server_uuid = parse_uuid(server_uuid or str(uuid.uuid5(_NAMESPACE, str(server_id))))
        self.delegate = TransmitDelegate()
        """Who is told of dumps; observers may be added and removed at any time."""
        add(observers, self.delegate, to="serve")
        self._logs = logs
        self._given_version = version
        self._gtid_mode = gtid_mode
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        known = limits or Limits()
        self._limits = known if most == resource.RLIM_INFINITY else known.within_files(most)
        self._sessions: dict[int, Session] = {}
        self._threads: dict[int, Thread] = {}
        self._lock = Lock()
        self._stopped = Event()
        self._started = monotonic()
        self._host = host
        self._listener = Listener(
            host,
            port,
            users,
            self._greeted,
            self._logged_in,
            self._no_room,
            context=context,
            must_encrypt=must_encrypt,
            limits=self._limits,
        )
        self._listener.start()

    # --- life ------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._listener.port

    @property
    def sessions(self) -> list[Session]:
        """The clients that have logged in."""
        with self._lock:
            return list(self._sessions.values())

    @property
    def pending_logins(self) -> int:
        """How many clients are logging in."""
        return self._listener.pending

    def close(self) -> None:
        """End all connections, close the port and the logs. Any thread may call; again: nothing.

        A dump ends after the event that it sends; its replica is told, and will try to reconnect.
        """
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._listener.stop()
        for session in self.sessions:
            session.end(refused(1053, "08S01", "Server shutdown in progress"))
        deadline = monotonic() + _STOP_SECONDS
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            if thread is current_thread():  # an observer stops the server
                continue
            thread.join(max(deadline - monotonic(), 0))
        for session in self.sessions:
            session.connection.close("the source was stopped")
        self._logs.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it was closed, for ``timeout`` seconds at most; whether it was."""
        return self._stopped.wait(timeout)

    # --- clients ---------------------------------------------------------------------------------

    def _greeted(self) -> str:
        """The version in the handshake."""
        version = self.version
        major = version.partition(".")[0]
        if self.flavour is Flavour.MARIADB and major.isdigit() and int(major) < _PREFIXED:
            return f"5.5.5-{version}"
        return version

    def _no_room(self, user: str | None) -> ErrorPacket | None:
        limits = self._limits
        users = [each.connection.user for each in self.sessions]
        if len(users) >= limits.connections:
            return ErrorPacket(1040, "08004", "Too many connections")
        most = limits.user_connections
        if user is None or most is None or users.count(user) < most:
            return None
        text = f"User '{user}' has exceeded the 'max_user_connections' resource"
        return ErrorPacket(1226, "42000", f"{text} (current value: {most})")

    def _logged_in(self, connection: ReplicaConnection) -> bool:
        session = Session(self, connection)
        with self._lock:
            if self._stopped.is_set():
                return False
            self._sessions[connection.thread_id] = session
            thread = Thread(
                target=self._run,
                args=[session],
                name=f"tailrace replica {connection.thread_id}",
                daemon=True,
            )
            self._threads[connection.thread_id] = thread
        thread.start()
        return True

    def _run(self, session: Session) -> None:
        number = session.connection.thread_id
        try:
            session.run()
        except Exception:  # noqa: BLE001 - one session must not end the others
            _LOG.exception("%s: the session failed", session.connection.name)
        finally:
            session.connection.release()
            with self._lock:
                del self._sessions[number], self._threads[number]

    def transmit(self, request: DumpRequest, session: Session) -> Transmit:
        """A dump for a session."""
        return Transmit(
            self._logs,
            request,
            session.connection,
            delegate=self.delegate,
            server_id=self.server_id,
            server_uuid=self.server_uuid,
        )

    def replace_older(self, session: Session) -> None:
        """End the dumps of the same replica: those of its UUID, or of its server id without one."""
        mine = session.uuid
        for other in self.sessions:
            if other is session or other.transmit is None:
                continue
            same = (
                other.uuid == mine
                if mine
                else (not other.uuid and other.server_id == session.server_id != 0)
            )
            if same:
                other.end(
                    refused(
                        1236,
                        "HY000",
                        "A replica with the same server_uuid/server_id as this replica has"
                        " connected to the source",
                    )
                )

    # --- what can be asked: `tailrace.replication.source.queries.Source` -------------------------

    @property
    def flavour(self) -> Flavour:
        """Whose logs are served."""
        return self._logs.flavour

    @property
    def version(self) -> str:
        """The version of the server that wrote the newest log, unless another was given."""
        return self._given_version or self._logs.server_version

    def variables(self) -> Mapping[str, Callable[[], Value]]:
        """The system variables, by name, with those of the observers."""
        logs = self._logs
        known: dict[str, Callable[[], Value]] = {
            "autocommit": lambda: True,
            "binlog_checksum": lambda: logs.checksum.name,
            "binlog_format": lambda: "ROW",
            "character_set_client": lambda: "utf8mb4",
            "character_set_connection": lambda: "utf8mb4",
            "character_set_results": lambda: "utf8mb4",
            "character_set_server": lambda: "utf8mb4",
            "hostname": lambda: self._host or "*",
            "log_bin": lambda: True,
            "lower_case_table_names": lambda: 0,
            "max_allowed_packet": lambda: 1 << 30,
            "port": lambda: self.port,
            "read_only": lambda: True,
            "server_id": lambda: self.server_id,
            "sql_mode": lambda: "",
            "system_time_zone": lambda: "UTC",
            "time_zone": lambda: "+00:00",
            "version": lambda: self.version,
            "version_comment": lambda: "Tailrace, a source of binary logs",
        }
        if self.flavour is Flavour.MYSQL:
            known |= {
                "enforce_gtid_consistency": lambda: "ON" if self._has_gtids() else "OFF",
                "gtid_executed": self._gtids,
                "gtid_owned": lambda: "",
                "gtid_mode": lambda: "ON" if self._has_gtids() else "OFF",
                "gtid_purged": self._purged,
                "server_uuid": lambda: self.server_uuid,
            }
        else:
            known |= {
                "gtid_binlog_pos": self._gtid_pos,
                "gtid_binlog_state": self._gtids,
                "gtid_current_pos": self._gtid_pos,
                "gtid_domain_id": self._domain,
            }
        for observer in self.delegate:
            given = observer.system_variables()
            known |= {name: partial(given.__getitem__, name) for name in given}
        return known

    def _has_gtids(self) -> bool:
        return bool(self._logs.gtids) if self._gtid_mode is None else self._gtid_mode

    def _gtids(self) -> str:
        return self._logs.gtids.text()

    def _gtid_pos(self) -> str:
        """MariaDB's: the last GTID of each domain."""
        return self._logs.gtids.latest.text()

    def _purged(self) -> str:
        return self._logs.purged.text()

    def _domain(self) -> int:
        """The lowest domain in the logs; 0 if they have none."""
        gtids = self._logs.gtids
        return min(gtids.position, default=0) if isinstance(gtids, GtidList) else 0

    def status(self) -> Mapping[str, Value]:
        """The status variables, with those of the observers."""
        with self._lock:
            connected = len(self._sessions)
        dumps = [each for each in self.sessions if each.transmit is not None]
        found: dict[str, Value] = {
            "Threads_connected": connected,
            "Uptime": int(monotonic() - self._started),
            "Aborted_connects": self._listener.failed_logins,
            "Binlog_dump_threads": len(dumps),
        }
        for observer in self.delegate:
            found |= observer.status_variables()
        return found

    def statistics(self) -> str:
        """The answer to COM_STATISTICS."""
        status = self.status()
        return f"Uptime: {status['Uptime']}  Threads: {status['Threads_connected']}"

    def binary_logs(self) -> Sequence[tuple[str, int]]:
        """The files that are served, with the sizes up to which they are."""
        return [(each.name, self._logs.look(each)) for each in self._logs.files()]

    def position(self) -> Position:
        """Where the last whole transaction ends."""
        return self._logs.position

    def gtids_at(self, file: str, offset: int) -> str | None:
        """The GTIDs before a position."""
        found = self._logs.gtids_at(file, offset)
        return None if found is None else found.text()

    def replicas(self) -> Sequence[tuple[RegisterReplica, str]]:
        """The replicas that have registered."""
        found = [(each.replica, each.uuid) for each in self.sessions]
        return [(replica, text) for replica, text in found if replica is not None]

    def kill(self, thread_id: int, user: str, *, only_statement: bool = False) -> bool:
        """End a connection of this user; ``only_statement``: only if it has a dump."""
        with self._lock:
            session = self._sessions.get(thread_id)
        if session is None or session.connection.user != user:
            return False
        if only_statement and session.transmit is None:
            return True  # other statements have ended before another could kill them
        session.end(refused(1317, "70100", "Query execution was interrupted"))
        return True


def _check_version(version: str, flavour: Flavour) -> None:
    """Whether replicas of the flavour understand it. Raises UsageError."""
    mariadb = flavour is Flavour.MARIADB
    if not _VERSION.fullmatch(version) or ("mariadb" in version.lower()) != mariadb:
        known = "MariaDB is as 11.8.2-MariaDB-log" if mariadb else "MySQL is as 9.7.0"
        raise UsageError(f"--server-version: a version of {known}, not {version[:60]!r}")


@checked
def serve(
    source: str | os.PathLike[str] | ServedLogs,
    *,
    server_id: int,
    listen: str = "127.0.0.1:0",
    user: str | None = None,
    password: str | None = None,
    users: str | os.PathLike[str] | Users | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    allow_plain: bool = False,
    server_version: str | None = None,
    server_uuid: str | None = None,
    gtid_mode: bool | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    observers: Sequence[Observer] = (),
    limits: Limits | None = None,
) -> SourceServer:
    """Serve logs to replicas, as a replication source of MySQL or MariaDB, in threads of its own.

    ``source`` is a folder of one server's logs, their index, or a URL, or the `ServedLogs` of one,
    which are closed with the server; it may grow meanwhile, as with `receive` or `create`. Replicas
    attach with ``CHANGE REPLICATION SOURCE TO`` or ``CHANGE MASTER TO``, by file and position or by
    GTID. Of which flavour and version the source is, the logs say; ``server_version`` replaces the
    version. ``server_id`` must differ from those of the replicas, and ``server_uuid`` is made of it
    unless it is given: a replica by MySQL GTIDs is rejected if it has transactions of that UUID
    which the logs lack. ``gtid_mode`` is what a MySQL source says of itself; by default whether the
    logs have GTIDs, so that it has to be True for logs that hold no transaction yet and will have
    GTIDs.

    It listens at ``listen``, ``HOST:PORT``: port 0 is a free one, ``*`` all addresses. Clients log
    in as ``user`` with ``password`` (or that in the environment variable
    TAILRACE_SERVE_PASSWORD), or as one of ``users``: a file, see `Users.of_file`. ``tls_cert`` and
    ``tls_key`` are a certificate and its key in PEM form. Clients of other machines must use TLS,
    unless ``allow_plain``. ``limits`` bounds what clients may use.

    ``keyring`` and ``layers`` are those of the logs, as in `tailrace.open`. ``observers`` are told
    of each dump (`tailrace.observers.TransmitObserver`).

    Returns when it listens: an object with ``port``, ``close()`` and ``wait()``, which is a context
    manager. Raises UsageError for wrong arguments, StorageError or LogError if the logs cannot be
    read.

    >>> import tailrace
    >>> logs = "examples/shop/mysql"
    >>> with tailrace.serve(logs, server_id=99, user="repl", password="secret") as server:
    ...     url = f"mysql://repl:secret@127.0.0.1:{server.port}/"
    ...     len(list(tailrace.open(url))) == len(list(tailrace.open(logs)))
    True
    """
    if isinstance(source, ServedLogs):
        logs = source
    else:
        if not isinstance(source, str | os.PathLike):
            raise UsageError(f"serve: the logs are a path or a URL, not {source!r:.80}")
        logs = ServedLogs(os.fspath(source), keyring=keyring, layers=layers)
    try:
        return SourceServer(
            logs,
            _users(logs.flavour, user, password, users),
            server_id=server_id,
            listen=listen,
            context=_context(tls_cert, tls_key),
            must_encrypt=not allow_plain,
            version=server_version,
            server_uuid=server_uuid,
            gtid_mode=gtid_mode,
            observers=observers,
            limits=limits,
        )
    except BaseException:
        logs.close()
        raise


def _users(
    flavour: Flavour,
    user: str | None,
    password: str | None,
    users: str | os.PathLike[str] | Users | None,
) -> Users:
    if user is not None and users is not None:
        raise UsageError("give a user (--user) or a file of users (--users), not both")
    if users is not None:
        return users if isinstance(users, Users) else Users.of_file(users)
    if user is None:
        raise UsageError("say who may log in: give a user (--user) or a file of users (--users)")
    if password is None:
        password = os.environ.get(PASSWORD)
    if password is None:
        raise UsageError(f"the user {user!r} needs a password, in the variable {PASSWORD}")
    method = CachingSha2Password if flavour is Flavour.MYSQL else NativePassword
    return Users({user: method.of_password(password)})


def _context(
    cert: str | os.PathLike[str] | None, key: str | os.PathLike[str] | None
) -> ssl.SSLContext | None:
    """The TLS context of a certificate and its key. Raises UsageError."""
    if cert is None:
        if key is not None:
            raise UsageError("--tls-key goes with --tls-cert: give the certificate, too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificate(context, cert, key, prefix="--tls-")
    return context
