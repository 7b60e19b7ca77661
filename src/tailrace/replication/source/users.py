"""The accounts that may log in to a source: names, and what is stored of their passwords."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import UsageError
from tailrace.wire.authentication import METHODS, StoredPassword

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_LARGEST_FILE: Final = 16 << 20
_LONGEST_NAME: Final = 32


class Users:
    """Accounts by name; an account is valid from any address. Raises UsageError if there is none.

    Every account may do the same: read all that is served.
    """

    def __init__(self, accounts: Mapping[str, StoredPassword]) -> None:
        if not accounts:
            raise UsageError(
                "no account may log in: give a user and a password, or a file of users"
            )
        for name in accounts:
            if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
                raise UsageError(
                    f"a user's name has 1 to {_LONGEST_NAME} printable characters, not {name!r}"
                )
        self._accounts = dict(accounts)
        self._secret = secrets.token_bytes(16)
        kinds = {type(each): each for each in self._accounts.values()}
        self._decoys = [kind.decoy() for kind in kinds]

    @classmethod
    def of_file(cls, path: str | os.PathLike[str]) -> Self:
        """From a file: a line for each account, with its name, method and stored password.

        They are separated by tabs or spaces, and are those of a server's ``mysql.user``. A stored
        password that begins with ``0x`` is hexadecimal. Lines that begin with ``#`` are comments::

            mysql -NBe "SELECT user, plugin, CONCAT('0x', HEX(authentication_string))
                        FROM mysql.user WHERE user = 'repl'"

        Raises UsageError, which names the line, and never quotes a password.
        """
        try:
            with Path(path).open("rb") as file:
                raw = file.read(_LARGEST_FILE + 1)
            if len(raw) > _LARGEST_FILE:
                raise UsageError(f"{path}: a file of users has at most {_LARGEST_FILE} bytes")
            lines = raw.decode("utf-8-sig").splitlines()
        except OSError as error:
            raise UsageError(
                f"{path}: the file of users cannot be read: {error.strerror}"
            ) from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: the file of users is not UTF-8") from error
        accounts: dict[str, StoredPassword] = {}
        for number, line in enumerate(lines, 1):
            fields = line.split()
            if not fields or fields[0].startswith("#"):
                continue
            place = f"{path}, line {number}"
            if len(fields) != 3:
                raise UsageError(
                    f"{place}: a user, a method and a stored password, not {len(fields)} fields"
                )
            user, method, stored = fields
            if user in accounts:
                raise UsageError(f"{place}: the user {user!r} is there already")
            try:
                accounts[user] = stored_password(method, stored)
            except UsageError as error:
                raise UsageError(f"{place}: {error}") from error
        return cls(accounts)

    def find(self, name: str) -> StoredPassword:
        """The stored password of an account; of one that does not exist, one that nobody has.

        So a client cannot tell which accounts exist: an unknown name always has the same method.
        """
        known = self._accounts.get(name)
        if known is not None:
            return known
        digest = hashlib.blake2b(name.encode("utf-8", "replace"), key=self._secret).digest()
        return self._decoys[digest[0] % len(self._decoys)]

    @property
    def first_plugin(self) -> str:
        """The method that most accounts have: the one to begin with."""
        plugins = [each.plugin for each in self._accounts.values()]
        return max(plugins, key=plugins.count)


def stored_password(method: str, stored: str) -> StoredPassword:
    """From a server's ``plugin`` and ``authentication_string``, the latter also in hexadecimal.

    Raises UsageError, which does not quote it.
    """
    kind = METHODS.get(method)
    if kind is None:
        raise UsageError(f"the method is one of {', '.join(METHODS)}, not {method[:40]!r}")
    raw = stored.encode()
    if stored.startswith("0x"):
        try:
            raw = bytes.fromhex(stored[2:])
        except ValueError:
            raise UsageError("the stored password is not hexadecimal after its 0x") from None
    return kind.of_hash(raw)
