"""Keys for encrypted logs: the servers' keyrings, Tailrace's own, and those of other packages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from tailrace.errors import StorageError, UsageError
from tailrace.plugin import plugin
from tailrace.storage.keyring.base import Keyring
from tailrace.storage.keyring.mariadb import LINE, SALTED, MariadbKeyring, lines_of
from tailrace.storage.keyring.mysql import HEAD, ComponentKeyring, PluginKeyring
from tailrace.storage.keyring.own import MARK, OwnKeyring, make

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["Keyring", "OwnKeyring", "make", "open"]


GROUP: Final = "tailrace.keyrings"
"""Entry points of this group are called with the text after ``NAME:``, and the options after ``?``
as keyword arguments, and return a `Keyring`.
"""

_SPEC: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]+):(.*)", re.DOTALL)
_KINDS: Final[dict[str, Callable[..., Keyring]]] = {
    "component_keyring_file": ComponentKeyring,
    "keyring_file": PluginKeyring,
    "file_key_management": MariadbKeyring,
    "tailrace": OwnKeyring,
}
_HEAD_SIZE: Final = 4096


def open(source: str | Path | Keyring) -> Keyring:  # noqa: A001 - keyring.open
    """The keyring of a path or a specification ``KIND:WHERE[?option=value&...]``.

    A path alone is a file, and its first bytes show its kind. Kinds are ``component_keyring_file``,
    ``keyring_file`` (MySQL), ``file_key_management`` (MariaDB; with ``filekey``, ``filekey_env``,
    ``digest``, ``use_pbkdf2``), ``tailrace``, and the names of entry points in
    ``tailrace.keyrings``. Raises StorageError, UsageError.
    """
    if isinstance(source, Keyring):
        return source
    if not isinstance(source, (str, Path)):
        raise UsageError(f"a keyring is a path, a specification or a Keyring, not {source!r:.200}")
    text = str(source)
    match = _SPEC.fullmatch(text)
    if match and not Path(text).exists():
        return _of_kind(match[1], match[2])
    return _recognised(Path(source))


def _of_kind(kind: str, rest: str) -> Keyring:
    where, _, query = rest.partition("?")
    options: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    keyring_of = _KINDS.get(kind)
    if keyring_of is None:
        keyring_of = plugin(GROUP, kind, "file and no kind of keyring", _KINDS)
    try:
        keyring = keyring_of(where, **options)
    except TypeError as error:
        raise UsageError(f"keyring {kind}: {error}") from None
    if not isinstance(keyring, Keyring):
        raise UsageError(f"keyring {kind}: its entry point returned no Keyring")
    return keyring


def _recognised(path: Path) -> Keyring:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_SIZE)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from None
    start = head.lstrip()
    if start.startswith(b"{"):
        return OwnKeyring(path) if f'"{MARK}"'.encode() in head else ComponentKeyring(path)
    if head.startswith(HEAD):
        return PluginKeyring(path)
    if head.startswith(SALTED):
        return MariadbKeyring(path)
    if any(LINE.match(line) for line in lines_of(head)):
        return MariadbKeyring(path)
    raise StorageError(
        f"{path}: this is no keyring file: neither component_keyring_file's nor keyring_file's"
        " (MySQL), nor file_key_management's (MariaDB), nor Tailrace's own"
    )
