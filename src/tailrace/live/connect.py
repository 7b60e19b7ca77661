"""A connection to a server by PyMySQL: how it is made, and its limits of time and memory.

PyMySQL trusts what a server sends. So `ServerConnection` guards it: it counts the bytes, limits the
time that it waits for them, and turns whatever the parsing raises into a typed error.
"""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import Flavour
from tailrace.errors import (
    AccessDenied,
    ConnectionLost,
    MalformedPacket,
    TailraceError,
    TlsError,
    UsageError,
)
from tailrace.events.description import flavour_of
from tailrace.extras import hint
from tailrace.live.driver import (
    CLIENT,
    CR,
    Connection,
    FieldDescriptorPacket,
    MysqlPacket,
    err,
    numbered_error,
)
from tailrace.live.login import read_public_key, ways
from tailrace.live.sockets import (
    CompressedSocket,
    Incoming,
    Patience,
    dial,
    read_exactly,
    secure,
    send,
)
from tailrace.live.tls import TlsMode
from tailrace.printable import one_line
from tailrace.wire.compressed import Algorithm
from tailrace.wire.packets import HEADER_SIZE

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from typing import Self

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    from tailrace.live.driver import Cursor, SSCursor
    from tailrace.live.url import Host, Source

    class _Base(Connection[Cursor]):
        """The private parts of PyMySQL that are used here; a test fails when they change."""

        client_flag: int
        ctx: Any
        protocol_version: int
        salt: bytes
        server_capabilities: int
        server_version: str
        _connect_attrs: dict[str, str]
        _next_seq_id: int
        _read_timeout: float | None
        _result: Any
        _rfile: Any
        _sock: Any
        _write_timeout: float | None

        def __init__(self, **settings: Any) -> None: ...
        def _execute_command(self, command: int, sql: Any) -> None: ...
        def _force_close(self) -> None: ...
        def _get_server_information(self) -> None: ...
        def _read_ok_packet(self) -> Any: ...
        def _read_packet(self, packet_type: Any = ...) -> Any: ...
        def _request_authentication(self) -> None: ...
        def write_packet(self, payload: bytes) -> None: ...
else:
    _Base = Connection

_ATTRIBUTES: Final = {"_client_role": "binary_log_listener", "program_name": "tailrace"}
"""The connection attributes that the server's performance schema shows, as for any replica."""
_COM_QUERY: Final = 3
_COM_SET_OPTION: Final = 27
_OK: Final = 0
"""The first byte of the packet that says so."""
_BLOCK: Final = 1 << 20
"""Bytes of a file in one packet."""
_PROTOCOL: Final = 10
_LOGIN: Final = 256 << 10
"""Bytes that a server may send before the login has succeeded; it needs some hundreds."""
_ANSWER: Final = 4 << 20
"""Bytes of an answer that is held in memory: names and sizes of 100,000 logs. A set of GTIDs takes
thirty times its text.
"""
_ROW: Final = (1 << 30) + (64 << 10)
"""Bytes of a row of an answer that is read row by row: the largest packet of a server
(max_allowed_packet is 1 GiB at most), and the headers of its parts.
"""
_COLUMNS: Final = 4096
"""Columns of an answer: as many as a table may have."""
_VALUES: Final = 1_000_000
"""Values of an answer that is held in memory."""
_OFFERS: Final = {Algorithm.ZLIB: CLIENT.COMPRESS, Algorithm.ZSTD: 1 << 26}
"""The capability of each compression: CLIENT_COMPRESS, CLIENT_ZSTD_COMPRESSION_ALGORITHM."""
_TLS_REQUEST_SIZE: Final = 32
"""Bytes of the packet that asks for TLS, the login's first part."""
_SAID: Final = 200
"""Characters of an error's cause that are put into a message."""


def connect(
    source: Source, host: Host, *, wake: socket.socket | None = None, applies: bool = False
) -> ServerConnection:
    """A connection to one of a source's hosts, authenticated, to be closed by the caller.

    It has utf8mb4, autocommit, and TLS as the source says. It is made within
    ``source.connect_timeout``; then the server has ``source.answer_timeout`` seconds for each
    answer. ``wake`` becomes readable when waiting has to end. ``applies`` prepares the connection
    for `ServerConnection.send_several`; its answers may take any time. Raises ConnectionLost if the
    host is unknown, unreachable or does not answer in time, and if the wait was woken;
    AccessDenied; TlsError; ProtocolError if it is no such server; UsageError for files of
    certificates and keys.
    """
    connection = ServerConnection(source, host, source.tls.mode_for(local=host.is_local), wake)
    if applies:
        connection.client_flag |= CLIENT.LOCAL_FILES | CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
    connection.connect()
    if applies:
        connection.run_ahead()
    return connection


class _Tls:
    """Stands in for PyMySQL's SSL context: TLS within the time limit of the connection."""

    def __init__(self, context: ssl.SSLContext, patience: Patience) -> None:
        self._context = context
        self._patience = patience

    def wrap_socket(self, sock: socket.socket, *, server_hostname: str) -> ssl.SSLSocket:
        return secure(sock, self._context, server_hostname, self._patience)


class ServerConnection(_Base):
    """PyMySQL's connection, with limits of time and memory.

    Until the login has succeeded, one limit of time and bytes holds for everything that the server
    sends; after that, one holds for each answer. For answers that are read row by row (`SSCursor`),
    such a limit holds for the part before the rows; then each row is limited separately, in bytes
    (1 GiB) and by silence. Whatever the parsing of an answer raises is a MalformedPacket.

    ``name`` is what errors call the server.
    """

    def __init__(
        self, source: Source, host: Host, mode: TlsMode, wake: socket.socket | None
    ) -> None:
        self.name = source.name_at(host)
        self._source = source
        self.public_key: RSAPublicKey | None = None
        """The server's public key, with which a password may be sent to it without TLS."""
        if source.server_public_key_path is not None:
            self.public_key = read_public_key(source.server_public_key_path)
        self._host = host
        self._mode = mode
        self._patience = Patience(wake)
        self._most = self._left = _LOGIN
        self._columns = self._values = 0
        self._entering = False
        self._streams = False
        self._compression = source.compress
        self._names_level = False
        self._in_header = True
        self._runs_ahead = False
        self._context = context = source.tls.context(mode)
        super().__init__(
            host=host.name,
            port=host.port,
            unix_socket=host.socket,
            user=source.user,
            password=source.password().encode("utf-8", "surrogateescape"),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=source.connect_timeout,
            read_timeout=source.answer_timeout,
            write_timeout=source.answer_timeout,
            ssl=context,
            ssl_disabled=context is None,
            auth_plugin_map=ways(verified=mode.verifies),
            defer_connect=True,
        )
        self._connect_attrs.update(_ATTRIBUTES)
        self._guard_tls()

    def _guard_tls(self) -> None:
        if self._context is not None:
            self.ctx = _Tls(self._context, self._patience)

    def __copy__(self) -> Self:
        """A connection with the same settings, not connected; nothing wakes it."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._sock = other._rfile = None
        other._patience = Patience()
        other._guard_tls()
        return other

    @property
    def is_tls(self) -> bool:
        """Whether it goes through TLS."""
        return isinstance(getattr(self._sock, "below", self._sock), ssl.SSLSocket)

    @property
    def is_socket(self) -> bool:
        """Whether it goes through a socket of this machine, by its path."""
        return self._host.socket is not None

    # --- entering --------------------------------------------------------------------------------

    def connect(self, sock: Any = None) -> None:
        """As `connect` of this module; connects again if the connection was closed."""
        try:
            self._enter(sock)
        except (TailraceError, err.MySQLError) as error:
            if (found := self._login_error(error)) is error:
                raise
            raise found from error
        except (OSError, EOFError) as error:
            raise _unreached(error, self.name) from error
        except UnicodeError as error:
            raise UsageError(f"{self.name}: the host name is invalid") from error
        except RuntimeError as error:  # PyMySQL lacks a package for an authentication method
            raise AccessDenied(
                f"{self.name}: the account's authentication method needs a package that is not"
                f" installed: {error}: {hint('live')}"
            ) from error

    def _login_error(self, error: TailraceError | err.MySQLError) -> TailraceError:
        """What an error of the login means."""
        if isinstance(error, TailraceError):
            cause = error.__cause__
        else:
            cause = getattr(error, "original_exception", None) or error.__context__
        if isinstance(cause, ssl.SSLError):
            return _no_tls(cause, self.name, self._mode, self._source)
        if isinstance(error, TailraceError):
            return error
        if isinstance(cause, OSError):
            return _unreached(cause, self.name)
        text = one_line(" ".join(map(str, error.args)), _SAID)
        return numbered_error(error, self.name) or MalformedPacket(
            f"{self.name}: the server's part of the login is invalid: {text}"
        )

    def _enter(self, sock: Any) -> None:
        self._patience.allow(self.connect_timeout)
        self._entering, self._streams = True, False
        self._bound(_LOGIN)
        try:
            sock = sock or dial(self._host, self._patience)
            with self._parsed():
                super().connect(sock)
        finally:
            self._entering = False
        self._rest()

    def exchange(self, answer: bytes | None) -> Any:
        """Send ``answer`` during the login, if there is one, and return the next packet."""
        if answer is not None:
            self.write_packet(answer)
        packet = self._read_packet()
        packet.check_error()
        return packet

    def _get_server_information(self) -> None:
        try:
            super()._get_server_information()
            check_version(self.server_version, self.name)
            self._check_protocol()
        except (ConnectionLost, err.MySQLError):
            raise
        except Exception as error:
            self._force_close()
            raise MalformedPacket(
                f"{self.name}: this is no MySQL or MariaDB server: {one_line(str(error), _SAID)}"
            ) from error
        self._agree_on_compression()
        if self._mode is TlsMode.DISABLED or self._offers_tls:
            return
        if self._mode is not TlsMode.PREFERRED:
            raise TlsError(
                f"{self.name}: the server offers no TLS, and ssl-mode is {self._mode}: turn TLS on"
                " there, or say ssl-mode=DISABLED where the network is to be trusted"
            )
        self.ssl = False
        self.client_flag &= ~CLIENT.SSL

    def _check_protocol(self) -> None:
        if self.protocol_version != _PROTOCOL:
            raise MalformedPacket(
                f"{self.name}: its greeting has protocol version {self.protocol_version}, and"
                f" {_PROTOCOL} is supported"
            )

    def _agree_on_compression(self) -> None:
        wanted = self._compression
        if wanted is None:
            return
        offered = [way for way, bit in _OFFERS.items() if self.server_capabilities & bit]
        if wanted.algorithm not in offered:
            self._force_close()
            mariadb = flavour_of(self.server_version) is Flavour.MARIADB
            raise UsageError(
                f"{self.name}: compress={wanted.algorithm}: the server ({self.server_version})"
                f" offers {' and '.join(offered) or 'no compression'}"
                + ("" if mariadb else " (its protocol_compression_algorithms)")
            )
        self.client_flag |= _OFFERS[wanted.algorithm]

    def _request_authentication(self) -> None:
        self._names_level = (
            self._compression is not None and self._compression.algorithm is Algorithm.ZSTD
        )
        super()._request_authentication()
        if self._compression is not None:
            self._sock = CompressedSocket(self._sock, self._compression, self.name)
            self._rfile = Incoming(self._sock, self._patience)

    def write_packet(self, payload: bytes) -> None:
        """As PyMySQL's, and adds the last byte that its login packet lacks: the level of zstd."""
        if self._names_level and len(payload) > _TLS_REQUEST_SIZE and self._compression:
            self._names_level = False
            payload += bytes((self._compression.level,))
        super().write_packet(payload)

    @property
    def _offers_tls(self) -> bool:
        return bool(self.server_capabilities & CLIENT.SSL)

    # --- asking ----------------------------------------------------------------------------------

    def query(self, sql: Any, unbuffered: bool = False) -> Any:
        with self._parsed():
            done = super().query(sql, unbuffered)
        self._rest()
        self._streams = unbuffered
        return done

    def next_result(self, unbuffered: bool = False) -> Any:
        del unbuffered
        raise self._malformed("one statement was sent, and the answer has several results")

    @property
    def number(self) -> int:
        """The server's number of the connection, which KILL takes."""
        return int(self.thread_id())  # type: ignore[no-untyped-call]

    def run_ahead(self) -> None:
        """From now on answers may take any time, and statements may be sent before the answers to
        those before them are read.
        """
        self._read_timeout = None
        self._runs_ahead = True

    def send_several(self, statements: bytes) -> None:
        """Send one statement, or several with a semicolon after each but the last.

        The server executes them up to the first that fails. `read_answer` is to be called for each,
        or `read_done` for many. More may be sent before that: the server executes them afterwards.
        """
        self._execute_command(_COM_QUERY, statements)

    def take_several(self, *, several: bool) -> None:
        """Whether the server takes several statements together from now on; else it rejects what
        follows the first. No answer may be on its way.
        """
        option = 0 if several else 1  # MYSQL_OPTION_MULTI_STATEMENTS_ON, _OFF
        self._execute_command(_COM_SET_OPTION, option.to_bytes(2, "little"))
        with self._parsed():
            self._read_packet()
        self._bound(_ANSWER)

    def read_done(self, most: int) -> int:
        """Read the next answers that have arrived and only say that a statement succeeded; gives
        their number, ``most`` at most. It waits for the first bytes only.
        """
        incoming = self._rfile
        if not isinstance(incoming, Incoming):
            return 0
        try:
            held, at, done = incoming.ahead(), 0, 0
        except OSError as error:
            self._force_close()
            raise ConnectionLost(f"{self.name}: the connection was lost: {error}") from error
        while done < most and len(held) > at + HEADER_SIZE and held[at + HEADER_SIZE] == _OK:
            end = at + HEADER_SIZE + int.from_bytes(held[at : at + 3], "little")
            if end > len(held):
                break
            at, done = end, done + 1
        del held[:at]
        self._next_seq_id = (self._next_seq_id + done) & 0xFF
        return done

    def read_answer(self, blocks: bytes | None = None) -> int:
        """Read the answer to the next of the statements; gives the number of rows it concerned.

        ``blocks`` is what a LOAD DATA LOCAL is given as its file. Rows of a result are dropped.
        Raises PyMySQL's error for a statement that failed: there are no answers after it.
        """
        with self._parsed():
            packet = self._read_packet()
            if packet.is_load_local_packet():
                data = b"" if blocks is None else blocks
                for at in range(0, len(data), _BLOCK):
                    self.write_packet(data[at : at + _BLOCK])
                self.write_packet(b"")
                packet = self._read_packet()
            if packet.is_ok_packet():
                packet.advance(1)
                count = packet.read_length_encoded_integer()
            else:
                count = packet.read_length_encoded_integer()
                for _ in range(2):  # the columns, the rows
                    while not self._read_packet().is_eof_packet():
                        self._bound(_ANSWER)
        self._bound(_ANSWER)
        return int(count or 0)

    def _read_ok_packet(self) -> Any:
        with self._parsed():
            try:
                return super()._read_ok_packet()
            except err.OperationalError as error:
                if error.args[0] == CR.CR_COMMANDS_OUT_OF_SYNC:  # PyMySQL's own words
                    raise self._malformed("an OK packet was expected") from error
                raise

    def _execute_command(self, command: int, sql: Any) -> None:
        super()._execute_command(command, sql)
        if not self._entering:
            self._rest()
            self._patience.allow(self._read_timeout)

    def _rest(self) -> None:
        """No answer is expected: a new limit holds for what comes next."""
        self._patience.allow(None)
        self._bound(_ANSWER)
        self._columns = self._values = 0
        self._streams = False

    def _bound(self, most: int) -> None:
        self._most = self._left = most

    # --- the fence -------------------------------------------------------------------------------

    @contextmanager
    def _parsed(self) -> Iterator[None]:
        """Raise MalformedPacket for every error that invalid bytes cause inside."""
        try:
            yield
        except (TailraceError, err.MySQLError, OSError, EOFError):
            raise
        except Exception as error:
            if self._entering and isinstance(error, RuntimeError):  # a package is missing
                raise
            raise self._malformed(_cause(error)) from error

    def parsed_rows(self, cursor: SSCursor, count: int, size: int) -> list[tuple[Any, ...]]:
        """The next rows of a cursor that reads row by row; an empty list at its end.

        It reads at most ``count`` rows, and stops when they have ``size`` bytes: this and the
        largest row limit the memory.
        """
        rows: list[tuple[Any, ...]] = []
        with self._parsed():
            while len(rows) < count and size > 0:
                if (row := cursor.fetchone()) is None:
                    if self._sock is None:
                        raise ConnectionLost(f"{self.name}: the connection is closed")
                    break
                if len(row) != len(cursor.description):
                    raise ValueError("a row has fewer values than there are columns")
                rows.append(row)
                size -= self._most - self._left
        return rows

    def _force_close(self) -> None:
        """Close the connection, without waiting for rows that have yet to come."""
        super()._force_close()
        if self._result is not None:
            self._result.unbuffered_active = False

    def _malformed(self, what: str) -> MalformedPacket:
        """Close the connection, which is of no further use, and return the error for it."""
        self._force_close()
        return MalformedPacket(f"{self.name}: unexpected answer: {one_line(what, _SAID)}")

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        if self._streams:
            self._bound(_ROW)
        else:
            self._count(columns=packet_type is FieldDescriptorPacket)
        self._in_header = True
        try:
            return super()._read_packet(packet_type)
        except (TailraceError, OSError):
            raise
        except err.MySQLError as error:
            if isinstance(error.args[0], int):
                raise
            raise self._malformed(str(error)) from error
        except Exception as error:
            raise self._malformed(_cause(error)) from error

    def _count(self, *, columns: bool) -> None:
        if columns:
            self._columns += 1
        else:
            self._values += max(self._columns, 1)
        if self._columns > _COLUMNS:
            raise self._malformed(f"it has more than {_COLUMNS} columns")
        if self._values > _VALUES:
            raise self._malformed(f"it has more than {_VALUES} values")

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._left -= num_bytes
        if self._left < 0:
            what = "a row of it" if self._streams else "it"
            raise self._malformed(f"{what} has more than {self._most} bytes")
        if self._sock is None:
            raise ConnectionLost(f"{self.name}: the connection is closed")
        if not isinstance(self._rfile, Incoming):
            self._rfile.close()
            self._rfile = Incoming(self._sock, self._patience)
        try:
            data = read_exactly(self._rfile, num_bytes, self.name)
        except BaseException:
            self._force_close()
            raise
        numbered_freely = self._runs_ahead or isinstance(self._sock, CompressedSocket)
        return self._numbered(data) if numbered_freely else data

    def _numbered(self, data: bytes) -> bytes:
        """A packet's header with the number that PyMySQL expects; other bytes unchanged.

        Inside compressed packets servers number freely, and no client checks the numbers. They
        begin again with each packet that is sent, also if it is sent before the answers are read.
        """
        if not self._in_header:
            self._in_header = True
            return data
        self._in_header = False
        return data[: HEADER_SIZE - 1] + bytes((self._next_seq_id,))

    def _write_bytes(self, data: bytes) -> None:
        if not self._entering:
            self._patience.allow(self._write_timeout)
        try:
            send(self._sock, data, self._patience)
        except (OSError, ConnectionLost) as error:
            self._force_close()
            raise ConnectionLost(f"{self.name}: cannot be written to: {error}") from error
        finally:
            if not self._entering:
                self._patience.allow(None)


def _cause(error: Exception) -> str:
    """The text for an error of the parsing."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    return str(error) or type(error).__name__


def check_version(version: str, name: str) -> None:
    """Raise MalformedPacket if the text is no server's version."""
    if not (version.isascii() and version.isprintable() and version[:1].isdigit()):
        raise MalformedPacket(f"{name}: the server's version is {version[:40]!r}")


def _no_tls(cause: ssl.SSLError, name: str, mode: TlsMode, source: Source) -> TailraceError:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TlsError(
            f"{name}: the server's certificate does not verify: {cause.verify_message}:"
            f" {_certificate_advice(cause, mode, source)}"
        )
    if isinstance(cause, ssl.SSLEOFError):
        doubt = "; it may not accept the certificate of ssl-cert" if source.tls.cert else ""
        return ConnectionLost(f"{name}: the server ended the connection during TLS{doubt}")
    reason = (cause.reason or str(cause)).replace("_", " ").lower()
    return TlsError(
        f"{name}: no TLS with this server: {reason}: check tls-version, ssl-cert and ssl-key"
    )


def _unreached(error: OSError | EOFError, name: str) -> ConnectionLost:
    if isinstance(error, TimeoutError):
        return ConnectionLost(f"{name}: the server did not answer in time: {error}")
    return ConnectionLost(f"{name}: cannot be reached: {getattr(error, 'strerror', None) or error}")


def _certificate_advice(cause: ssl.SSLCertVerificationError, mode: TlsMode, source: Source) -> str:
    if cause.verify_code in {62, 64}:  # X509_V_ERR_HOSTNAME_MISMATCH, ..._IP_ADDRESS_MISMATCH
        return (
            "it was not issued for this host; use the host name of the certificate, or"
            " ssl-mode=VERIFY_CA, which does not check the name"
        )
    told = (
        f"no authority in {source.tls.ca or source.tls.capath} signed it"
        if (source.tls.ca or source.tls.capath)
        else "no authority that this system trusts signed it"
    )
    return (
        f"{told}; name its authority by ssl-ca=FILE (MySQL's own is ca.pem in its data"
        f" folder, with ssl-mode=VERIFY_CA), or use ssl-mode=REQUIRED, not {mode}: encryption"
        " without verification"
    )
