"""The URL of a server, and its settings: `Source`."""

from __future__ import annotations

import getpass
import ipaddress
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, unquote

from tailrace.constants import MAGIC
from tailrace.durations import seconds_of
from tailrace.errors import BadLogName, UsageError
from tailrace.gtid import GtidState
from tailrace.live.options_file import read_options
from tailrace.live.password import Secret, find_password
from tailrace.live.tls import Tls, mode_named, mode_of_switch, versions_named
from tailrace.log_name import LogName
from tailrace.position import Position
from tailrace.selection import start_of
from tailrace.wire.compressed import ConnectionCompression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.selection import Start

PORT: Final = 3306
_URL: Final = re.compile(r"(mysql|mariadb):(?://)?([^/?#]*)(.*)", re.DOTALL | re.IGNORECASE)
_NAME: Final = re.compile(r"[^\s/?#@:,\[\]\\'\"]+")
_SERVER_IDS: Final = range(1, 1 << 32)
_SWITCHES: Final = frozenset({"ssl", "skip-ssl", "ssl-verify-server-cert"})
_HOST: Final = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::([0-9]{1,5}))?")


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own, which no other machine reaches."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Host:
    """One address of a server: name or IP address and port, or the path of a socket."""

    name: str
    port: int = PORT
    socket: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the name is of this machine: the loopback, or a socket."""
        return self.socket is not None or is_loopback(self.name)

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
        ``heartbeat``, ``connect_timeout``, ``retry`` (``10s``, ``500ms``; a number is
        seconds), ``compress`` (``zlib``, ``zstd``,
        ``zstd:LEVEL``, ``none``), ``skip_torn_tail`` (``1``), ``socket``, ``defaults_file``;
        ``ssl_mode``, ``ssl_ca``, ``ssl_capath``, ``ssl_cert``, ``ssl_key``, ``tls_version``,
        ``server_public_key_path``; with underscores or dashes. ``overrides`` are the same options
        by name, and ``user``, ``password``. They take precedence, and are text or parsed values.
        Options that neither gives are looked up in the option file.

        Raises UsageError. No message quotes what may be part of a password.
        """
        if not isinstance(url, str):
            raise UsageError(f"a server's URL is text, mysql://user@host/, and not {url!r:.80}")
        scheme, authority, options = _split(url)
        user, password, hosts = _authority(authority)
        given = {
            _option_name(name): value for name, value in overrides.items() if value is not None
        }
        user = given.pop("user", user)
        password = given.pop("password", password)
        _check_names(given)
        said = {**_without_rivals(options, given), **given}
        _check_starts(said)
        _check_tls(options)
        _check_tls(given)
        defaults_file = said.pop("defaults_file", None)
        defaults_file = None if defaults_file is None else str(defaults_file)
        filed = _filed_options(_option_file(defaults_file))
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
            **_settings({**filed, **said}),
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
        plain = _option_name(_decode(name))
        _check_names([plain])
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


# --- the options, of the URL, of overrides and of option files ------------------------------------


def _filed_options(path: Path | None) -> dict[str, Any]:
    """The options of an option file, by plain name: ``user``, ``host``, ``port``, ``socket``, and
    options of the URL; not the password. Raises UsageError.
    """
    found: dict[str, Any] = {}
    for group, name, value in [] if path is None else read_options(path):
        plain = _option_name(name)
        if name in _SWITCHES:
            mode = mode_of_switch(name, "1" if value is None else value)
            if mode is not None:
                found["ssl_mode"] = mode
        elif plain in _FILED or (group == "tailrace" and plain in _OPTIONS.keys() - _STARTS):
            if value is None:
                raise UsageError(f"{path}: the option {name} has no value")
            found[plain] = value
        elif group == "tailrace" and name != "password":
            raise UsageError(f"{path}: [tailrace] has no option {name}; {_known()}")
    return found


def _option_name(name: str) -> str:
    """An option's name in its plain form: lower case, underscores."""
    return name.strip().lower().replace("-", "_")


def _check_names(names: Iterable[str]) -> None:
    """Raise UsageError for a name that no option of a URL has."""
    for name in names:
        if name not in _OPTIONS and name not in _PLACES:
            raise UsageError(f"a server's URL has no option {name[:40]!r}; {_known()}")


def _known() -> str:
    return f"known are {', '.join(sorted({*_OPTIONS, *_PLACES}))}"


def _without_rivals(options: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The URL's options, without the start if another start is given."""
    if given.keys() & _STARTS:
        return {name: value for name, value in options.items() if name not in _STARTS}
    return options


def _check_starts(said: Iterable[str]) -> None:
    """Raise UsageError where two options say where to begin."""
    starts = sorted(_STARTS.intersection(said))
    if len(starts) > 1:
        raise UsageError(f"{' and '.join(starts)} both say where to begin: give one of them")


def _check_tls(said: dict[str, Any]) -> None:
    """Raise UsageError if the given TLS options contradict each other."""
    text = said.get("ssl_mode")
    mode = None if text is None else mode_named(str(text))
    if mode is None or mode.verifies:
        return
    for name in ("ssl_ca", "ssl_capath"):
        if name in said:
            raise UsageError(
                f"{name} is for verifying, and ssl_mode={mode} does not verify: use VERIFY_CA or"
                " VERIFY_IDENTITY, or leave one of the two out"
            )
    for name in ("ssl_cert", "ssl_key", "tls_version"):
        if name in said and mode == "DISABLED":
            raise UsageError(f"{name} is for TLS, and ssl_mode=DISABLED turns TLS off")


def _settings(said: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `tailrace.live.url.Source` that these options make, ``tls`` always.

    Raises UsageError.
    """
    fields: dict[str, Any] = {}
    tls: dict[str, Any] = {}
    for name, value in said.items():
        place, read = _OPTIONS[name]
        meaning = read(name, value)
        (tls if name in _TLS else fields)[place] = meaning
    return {**fields, "tls": Tls(**tls)}


def _start(name: str, value: Any) -> Start | None:
    """Where to begin; ``position`` and ``gtid`` take one kind of start each."""
    start = start_of(f"gtid:{value}" if name == "gtid" and isinstance(value, str) else value, name)
    kinds = _KINDS.get(name)
    if kinds is not None and not isinstance(start, kinds):
        raise UsageError(f"{name} is {_KIND_TEXT[name]}, not {str(value)[:40]!r}")
    if isinstance(start, Position):
        if start.offset < len(MAGIC):
            raise UsageError(f"{name}: a log's events begin at {len(MAGIC)}, not at {start.offset}")
        try:
            LogName(start.file)
        except BadLogName as error:
            raise UsageError(f"{name}: {error}") from None
    return start


def _server_id(name: str, value: Any) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()) or int(text[:12]) not in _SERVER_IDS:
        raise UsageError(f"{name} is a number from 1 to {_SERVER_IDS[-1]}, not {text[:40]!r}")
    return int(text)


def _seconds(name: str, value: Any) -> float:
    return seconds_of(value, name, least=0.0 if name == "retry" else 0.01)


def _compression(name: str, value: Any) -> ConnectionCompression | None:
    if isinstance(value, ConnectionCompression) or str(value).strip().lower() == "none":
        return value if isinstance(value, ConnectionCompression) else None
    try:
        return ConnectionCompression.parse(str(value))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _switch(name: str, value: Any) -> bool:
    meaning = _SWITCH.get(str(value).strip().lower())
    if meaning is None:
        raise UsageError(f"{name} is 1 or 0, not {str(value)[:40]!r}")
    return meaning


def _text(name: str, value: Any) -> str:
    if not str(value):
        raise UsageError(f"{name} is empty")
    return str(value)


def _file(name: str, value: Any) -> str:
    return str(Path(_text(name, value)).expanduser())


_SWITCH: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_TLS: Final = {"ssl_mode", "ssl_ca", "ssl_capath", "ssl_cert", "ssl_key", "tls_version"}
_KINDS: Final[dict[str, Any]] = {"position": Position, "gtid": GtidState}
_KIND_TEXT: Final = {
    "position": "binlog.000003:1234",
    "gtid": "GTIDs that were read: uuid:1-77, or 0-1-77",
}
_STARTS: Final = {"position", "gtid", "start"}
_PLACES: Final = {"socket", "defaults_file"}
_OPTIONS: Final[dict[str, tuple[str, Callable[[str, Any], Any]]]] = {
    "position": ("start", _start),
    "gtid": ("start", _start),
    "start": ("start", _start),
    "server_id": ("server_id", _server_id),
    "heartbeat": ("heartbeat", _seconds),
    "connect_timeout": ("connect_timeout", _seconds),
    "retry": ("retry", _seconds),
    "compress": ("compress", _compression),
    "skip_torn_tail": ("skip_torn_tail", _switch),
    "ssl_mode": ("mode", lambda _, value: mode_named(str(value))),
    "ssl_ca": ("ca", _file),
    "ssl_capath": ("capath", _file),
    "ssl_cert": ("cert", _file),
    "ssl_key": ("key", _file),
    "tls_version": ("versions", lambda _, value: versions_named(str(value))),
    "server_public_key_path": ("server_public_key_path", _file),
}
"""An option's field of `Source` or `Tls`, and the parser of its text."""
_FILED: Final = {
    "user",
    "host",
    "port",
    "socket",
    "connect_timeout",
    "server_public_key_path",
    *_TLS,
}
"""Options that all MySQL programs share."""
