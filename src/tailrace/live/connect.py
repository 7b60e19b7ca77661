"""A connection to a server, by PyMySQL: how it is made, and typed errors where it is not."""

from __future__ import annotations

import ssl
import struct
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import (
    AccessDenied,
    ConnectionLost,
    ProtocolError,
    TailraceError,
    TlsError,
    UsageError,
)
from tailrace.live.refusals import refusal
from tailrace.live.tls import TlsMode

try:
    from pymysql import err
    from pymysql.connections import Connection
    from pymysql.constants import CLIENT
except ModuleNotFoundError as error:
    raise UsageError(
        "servers are read by the package PyMySQL: pip install 'tailrace[live]'"
    ) from error

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    from tailrace.live.url import Host, Source

    _Base = Connection[Cursor]
else:
    _Base = Connection

_ATTRIBUTES: Final = {"_client_role": "binary_log_listener", "program_name": "tailrace"}
"""What the server's performance schema says of us, as of any replica."""
_IN_CLEAR: Final = frozenset({b"mysql_clear_password", b"dialog", b"mysql_old_password"})
"""Ways of authentication that give the password to whoever listens."""


def connect(source: Source, host: Host) -> Connection[Cursor]:
    """A connection to one of a source's hosts, authenticated, to be closed by the caller.

    utf8mb4, autocommit, TLS as the source says; the server has ``source.answer_timeout`` seconds
    for each answer. Raises ConnectionLost where the host is not known, not there or says nothing in
    time; AccessDenied; TlsError; ProtocolError where it is no such server; UsageError for files of
    certificates.
    """
    name = source.name_at(host)
    mode = source.tls.mode_for(local=host.is_local)
    context = source.tls.context(mode)
    connection = _Connection(
        name=name,
        mode=mode,
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
        defer_connect=True,
    )
    try:
        connection.connect()
    except TailraceError:
        raise
    except err.MySQLError as error:
        raise _refused(error, name, mode, source) from error
    except UnicodeError as error:
        raise UsageError(f"{name}: the host's name is none") from error
    except (OSError, EOFError) as error:
        raise ConnectionLost(f"{name}: cannot be reached: {error}") from error
    except RuntimeError as error:  # a package that PyMySQL wants for a way of authentication
        raise AccessDenied(
            f"{name}: the account's way of authentication needs a package that is not there:"
            f" {error}"
        ) from error
    except (ValueError, IndexError, AssertionError, TypeError, struct.error) as error:
        raise ProtocolError(f"{name}: no MySQL or MariaDB server answers there") from error
    return connection


class _Connection(_Base):
    """PyMySQL's, strict about what goes over the line before TLS is there."""

    def __init__(self, *, name: str, mode: TlsMode, **settings: Any) -> None:
        self._name = name
        self._mode = mode
        super().__init__(**settings)
        self._connect_attrs.update(_ATTRIBUTES)  # type: ignore[attr-defined]  # no setting for it

    def _get_server_information(self) -> None:
        super()._get_server_information()  # type: ignore[misc]  # not in the stubs
        if self._mode is TlsMode.DISABLED or self._offers_tls:
            return
        if self._mode is not TlsMode.PREFERRED:
            raise TlsError(
                f"{self._name}: the server offers no TLS, and ssl-mode is {self._mode}: turn TLS on"
                " there, or say ssl-mode=DISABLED where the network is to be trusted"
            )
        self.ssl = False
        self.client_flag &= ~CLIENT.SSL

    @property
    def _offers_tls(self) -> bool:
        return bool(self.server_capabilities & CLIENT.SSL)  # type: ignore[attr-defined]

    def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
        if plugin_name in _IN_CLEAR and not self._secure:  # type: ignore[attr-defined]
            raise AccessDenied(
                f"{self._name}: the server asks for the password in clear"
                f" ({plugin_name.decode()}), which is not sent without TLS: ssl-mode=REQUIRED"
            )
        return super()._process_auth(plugin_name, *rest)  # type: ignore[misc]  # not in the stubs


def _refused(error: err.MySQLError, name: str, mode: TlsMode, source: Source) -> TailraceError:
    """What PyMySQL raised while it connected."""
    cause = getattr(error, "original_exception", None) or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TlsError(
            f"{name}: the server's certificate does not verify: {cause.verify_message}:"
            f" {_certificate_advice(cause, mode, source)}"
        )
    if isinstance(cause, ssl.SSLEOFError):
        doubt = "; it may not believe the certificate of ssl-cert" if source.tls.cert else ""
        return ConnectionLost(f"{name}: the server ended the connection in the midst of TLS{doubt}")
    if isinstance(cause, ssl.SSLError):
        reason = (cause.reason or str(cause)).replace("_", " ").lower()
        return TlsError(
            f"{name}: no TLS with this server: {reason}: look at tls-version, ssl-cert and ssl-key"
        )
    if isinstance(cause, TimeoutError):
        return ConnectionLost(f"{name}: the server did not answer in time: {cause}")
    if isinstance(cause, UnicodeError):
        return UsageError(f"{name}: the host's name is none")
    if isinstance(cause, OSError):
        return ConnectionLost(f"{name}: cannot be reached: {cause.strerror or cause}")
    code, text = (*error.args, "", "")[:2]
    if isinstance(code, int) and code:
        return refusal(code, None, str(text), name)
    if isinstance(error, err.InternalError):  # packets that are none
        return ProtocolError(f"{name}: no MySQL or MariaDB server answers there: {error}")
    return AccessDenied(f"{name}: the login failed: {error}")


def _certificate_advice(cause: ssl.SSLCertVerificationError, mode: TlsMode, source: Source) -> str:
    if cause.verify_code in {62, 64}:  # X509_V_ERR_HOSTNAME_MISMATCH, ..._IP_ADDRESS_MISMATCH
        return (
            "it is not made out to this host; name the host as the certificate does, or"
            " ssl-mode=VERIFY_CA does without its name"
        )
    told = (
        f"{source.tls.ca or source.tls.capath} does not vouch for it"
        if (source.tls.ca or source.tls.capath)
        else "no authority that this system knows vouches for it"
    )
    return (
        f"{told}; ssl-ca=FILE names the authority that does (MySQL's own is ca.pem in its data"
        f" folder, with ssl-mode=VERIFY_CA), or ssl-mode=REQUIRED turns {mode} down to encryption"
        " alone"
    )
