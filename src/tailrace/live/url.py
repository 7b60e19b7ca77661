"""The URL of a server, and its settings: `Source`."""

from __future__ import annotations

import getpass
import ipaddress
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, unquote

from tailrace.errors import UsageError
from tailrace.live.options import (
    check_names,
    check_starts,
    check_tls,
    filed_options,
    option_name,
    settings,
    without_rivals,
)
from tailrace.live.password import Secret, ask_password, find_password
from tailrace.live.tls import Tls

if TYPE_CHECKING:
    from tailrace.selection import Start
    from tailrace.wire.compressed import ConnectionCompression

SCHEMES: Final = ("mysql", "mariadb")
PORT: Final = 3306
_URL: Final = re.compile(r"(mysql|mariadb):(?://)?([^/?#]*)(.*)", re.DOTALL | re.IGNORECASE)
_NAME: Final = re.compile(r"[^\s/?#@:,\[\]\\'\"]+")
_HOST: Final = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Host:
    """One address of a server: name or IP address and port, or the path of a socket."""

    name: str
    port: int = PORT
    socket: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the name is of this machine: the loopback, or a socket."""
        if self.socket is not None or self.name.lower().rstrip(".") == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.name.partition("%")[0]).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.socket is not None:
            return self.socket
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{name}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A server to read from, and how.

    ``start`` None: no start was given. ``heartbeat``, ``connect_timeout`` and ``retry`` are in
    seconds. ``retry`` is how long a broken connection is tried again, None for ever; with
    ``retry_first`` (``retry`` was given) the first connection is tried again, too. ``server_id``
    None means a free one. ``compress`` is the compression of the connection's packets, None for
    none; if the server does not offer it, a UsageError is raised. ``skip_torn_tail``: if a file of
    the server ends inside an event, reading continues in its next file. ``defaults_file`` is the
    option file, None for ``~/.my.cnf``, "" for none. ``server_public_key_path`` is the file of the
    server's RSA public key, which encrypts a password without TLS; a key that the server sends is
    not trusted.

    No repr, name or message holds the password. An unpickled source looks up its password in its
    own process; one that was given with the URL is not pickled (UsageError).
    """

    hosts: tuple[Host, ...]
    user: str
    scheme: str = "mysql"
    start: Start | None = None
    server_id: int | None = None
    heartbeat: float = 10.0
    connect_timeout: float = 10.0
    retry: float | None = None
    retry_first: bool = False
    compress: ConnectionCompression | None = None
    skip_torn_tail: bool = False
    tls: Tls = field(default_factory=Tls)
    server_public_key_path: str | None = None
    defaults_file: str | None = None
    given_password: Secret | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str, **overrides: Any) -> Self:
        """Read ``mysql://[user[:password]@]host[:port][,host2…]/?option=…&option=…``.

        Options: ``start`` (as `tailrace.selection.start_of` takes it; ``position`` and ``gtid`` are
        the same for one kind each, an empty ``gtid`` is the empty set), ``server_id``,
        ``heartbeat``, ``connect_timeout``, ``retry`` (seconds), ``compress`` (``zlib``, ``zstd``,
        ``zstd:LEVEL``, ``none``), ``skip_torn_tail`` (``1``), ``socket``, ``defaults_file``;
        ``ssl_mode``, ``ssl_ca``, ``ssl_capath``, ``ssl_cert``, ``ssl_key``, ``tls_version``,
        ``server_public_key_path``; with underscores or dashes. ``overrides`` are the same options
        by name, and ``user``, ``password``. They take precedence, and are text or parsed values.
        Options that neither gives are looked up in the option file.

        Raises UsageError. No message quotes what may be part of a password.
        """
        scheme, authority, options = _split(url)
        user, password, hosts = _authority(authority)
        given = {option_name(name): value for name, value in overrides.items() if value is not None}
        user = given.pop("user", user)
        password = given.pop("password", password)
        check_names(given)
        said = {**without_rivals(options, given), **given}
        check_starts(said)
        check_tls(options)
        check_tls(given)
        defaults_file = said.pop("defaults_file", None)
        defaults_file = None if defaults_file is None else str(defaults_file)
        filed = filed_options(_option_file(defaults_file))
        place: dict[str, str] = {
            name: filed.pop(name) for name in ("host", "port", "socket") if name in filed
        }
        user = user or filed.pop("user", None) or _login_name()
        filed.pop("user", None)
        if "\0" in user:
            raise UsageError("a user's name cannot hold a NUL character")
        return cls(
            hosts=_hosts(hosts, said.pop("socket", None), place),
            user=user,
            scheme=scheme,
            defaults_file=defaults_file,
            given_password=_secret(password),
            retry_first="retry" in {**filed, **said},
            **settings({**filed, **said}),
        )

    @property
    def name(self) -> str:
        """Its name in errors: the URL without password and options."""
        return self.name_at(*self.hosts)

    def name_at(self, *hosts: Host) -> str:
        """Its name in errors with these hosts only."""
        return f"{self.scheme}://{quote(self.user)}@{','.join(map(str, hosts))}"

    @property
    def answer_timeout(self) -> float:
        """How long the server may take to answer a query, in seconds."""
        return max(self.connect_timeout, 2 * self.heartbeat)

    @property
    def option_file(self) -> Path | None:
        """The option file in effect, None if there is none."""
        return _option_file(self.defaults_file)

    def password(self) -> str:
        """The password, looked up now: the given one, else `find_password`'s, else empty."""
        if self.given_password is not None:
            return self.given_password.reveal()
        return find_password(self.option_file) or ""

    @property
    def has_password(self) -> bool:
        """Whether a password was given or is found, even an empty one."""
        return self.given_password is not None or find_password(self.option_file) is not None

    def with_password(self, password: str) -> Self:
        """The same source with this password, for this process."""
        return replace(self, given_password=Secret(password))

    def asking(self) -> Self:
        """The same source; if no password is found, it asks for one at the terminal, if any.

        Only for commands: a library does not ask.
        """
        if self.has_password:
            return self
        answer = ask_password(self.name)
        return self if answer is None else self.with_password(answer)


def names_server(text: object) -> bool:
    """Whether a text is the URL of a server."""
    scheme, colon, _ = str(text).partition(":")
    return bool(colon) and scheme.lower() in SCHEMES


# --- the URL's parts -----------------------------------------------------------------------------


def _split(url: str) -> tuple[str, str, dict[str, Any]]:
    """Scheme, authority, options by plain name."""
    match = _URL.fullmatch(url)
    if match is None:
        raise UsageError("a server's URL is mysql://user@host:3306/?option=value")
    scheme, authority, tail = match[1].lower(), match[2], match[3]
    if "@" in tail or "#" in tail or authority.count("@") > 1:
        raise UsageError(
            "a server's URL: a special character is in a wrong place. In a user's name or a"
            " password write @ : / ? # , % as %40 %3A %2F %3F %23 %2C %25; also @ and # in an"
            " option's value"
        )
    path, _, query = tail.partition("?")
    if path not in {"", "/"}:
        raise UsageError("a server's URL has no path: mysql://user@host:3306/?option=value")
    options: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        name, equals, value = part.partition("=")
        plain = option_name(_decode(name))
        check_names([plain])
        if not equals:
            raise UsageError(f"a server's URL: the option {plain} has no value ({plain}=…)")
        if plain in options:
            raise UsageError(f"a server's URL: the option {plain} is given twice")
        options[plain] = _decode(value)
    return scheme, authority, options


def _decode(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UsageError("a server's URL: its percent-encoded bytes are no UTF-8") from None


def _authority(text: str) -> tuple[str | None, str | None, list[Host]]:
    """User, password, hosts; there may be no hosts."""
    login, at, places = text.rpartition("@")
    user, colon, password = login.partition(":")
    hosts = [_host(place) for place in places.split(",")] if places else []
    if len(set(hosts)) != len(hosts):
        raise UsageError("a server's URL: a host is named twice")
    return (
        _decode(user) or None if at else None,
        _decode(password) if colon else None,
        hosts,
    )


def _host(text: str) -> Host:
    match = _HOST.fullmatch(text)
    if match is None:
        raise UsageError(
            "a server's URL: a host is name:port or [IPv6 address]:port, several with commas"
        )
    name = _decode(match[1] if match[1] is not None else match[2])
    port = int(match[3] or PORT)
    if match[1] is not None:
        try:
            ipaddress.IPv6Address(name)
        except ValueError:
            raise UsageError("a server's URL: the text in brackets is no IPv6 address") from None
    elif not _NAME.fullmatch(name):
        raise UsageError("a server's URL: a host's name is missing or invalid")
    if not 0 < port < 1 << 16:
        raise UsageError(f"a server's URL: {port} is no port (1 to 65535)")
    return Host(name, port)


def _hosts(named: list[Host], socket: str | None, filed: dict[str, str]) -> tuple[Host, ...]:
    """The hosts, from the URL or the option file."""
    if named and socket is not None:
        raise UsageError(f"a host or a socket, not both: {named[0]} and {socket}")
    if named:
        return tuple(named)
    if socket is None and "host" not in filed:
        socket = filed.get("socket")
    if socket is not None:
        if not socket:
            raise UsageError("the socket's path is empty")
        return (Host("localhost", PORT, str(socket)),)
    port = filed.get("port", str(PORT))
    name = filed.get("host", "localhost")
    return (_host(f"[{name}]:{port}" if ":" in name else f"{name}:{port}"),)


def _secret(password: str | Secret | None) -> Secret | None:
    return Secret(password) if isinstance(password, str) else password


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        raise UsageError("no user is named: mysql://user@host") from None


def _option_file(defaults_file: str | None) -> Path | None:
    if defaults_file is not None:
        return Path(defaults_file).expanduser() if defaults_file else None
    home = Path("~/.my.cnf").expanduser()
    return home if home.is_file() else None
