"""The options of a server's URL, of overrides and of option files: their names and meanings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import MAGIC
from tailrace.errors import BadLogName, UsageError
from tailrace.gtid import GtidState
from tailrace.live.options_file import read_options
from tailrace.live.tls import Tls, mode_named, mode_of_switch, versions_named
from tailrace.log_name import LogName
from tailrace.position import Position
from tailrace.selection import start_of
from tailrace.wire.compressed import ConnectionCompression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.selection import Start

_SERVER_IDS: Final = range(1, 1 << 32)
_LONGEST: Final = 31_536_000.0
"""A year, in seconds."""
_SWITCHES: Final = frozenset({"ssl", "skip-ssl", "ssl-verify-server-cert"})


def filed_options(path: Path | None) -> dict[str, Any]:
    """The options of an option file, by plain name: ``user``, ``host``, ``port``, ``socket``, and
    options of the URL; not the password. Raises UsageError.
    """
    found: dict[str, Any] = {}
    for group, name, value in [] if path is None else read_options(path):
        plain = option_name(name)
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


def option_name(name: str) -> str:
    """An option's name in its plain form: lower case, underscores."""
    return name.strip().lower().replace("-", "_")


def check_names(names: Iterable[str]) -> None:
    """Raise UsageError for a name that no option of a URL has."""
    for name in names:
        if name not in _OPTIONS and name not in _PLACES:
            raise UsageError(f"a server's URL has no option {name[:40]!r}; {_known()}")


def _known() -> str:
    return f"known are {', '.join(sorted({*_OPTIONS, *_PLACES}))}"


def without_rivals(options: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The URL's options, without the start if another start is given."""
    if given.keys() & _STARTS:
        return {name: value for name, value in options.items() if name not in _STARTS}
    return options


def check_starts(said: Iterable[str]) -> None:
    """Raise UsageError where two options say where to begin."""
    starts = sorted(_STARTS.intersection(said))
    if len(starts) > 1:
        raise UsageError(f"{' and '.join(starts)} both say where to begin: give one of them")


def check_tls(said: dict[str, Any]) -> None:
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


def settings(said: dict[str, Any]) -> dict[str, Any]:
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
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    least = 0.0 if name == "retry" else 0.01
    if not least <= seconds <= _LONGEST:
        raise UsageError(
            f"{name} is a number of seconds from {least:g} on, not {str(value)[:40]!r}"
        )
    return seconds


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
