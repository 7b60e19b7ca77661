"""The password of a connection: where it is looked up, and a type that never shows it."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from typing import TYPE_CHECKING, Final, NoReturn

from tailrace.errors import UsageError
from tailrace.live.options_file import read_options

if TYPE_CHECKING:
    from pathlib import Path

VARIABLES: Final = ("TAILRACE_PASSWORD", "MYSQL_PWD")
"""Its environment variables: ours comes before an option file, the servers' own after it."""


class Secret:
    """A text that no repr, message or pickle shows; `reveal` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if "\0" in text:
            raise UsageError("a password cannot hold a NUL character")
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(...)"

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            "a password that was given with the URL is not sent to another process: leave it out"
            f" of the URL, and set {VARIABLES[0]} or an option file, in that process too"
        )


def find_password(option_file: Path | None) -> str | None:
    """The password that this process has outside the URL; None if there is none.

    It looks in TAILRACE_PASSWORD, in the option file and in MYSQL_PWD, in this order. Raises
    UsageError for an option file that cannot be read.
    """
    ours, servers = (os.environ.get(name) for name in VARIABLES)
    if ours is not None:
        return ours
    if option_file is not None:
        for _, name, value in reversed(read_options(option_file)):
            if name == "password":
                return value if value is not None else servers
    return servers


def ask_password(what: str) -> str | None:
    """Ask at the terminal, without echo; None if standard input is no terminal."""
    if not sys.stdin.isatty():
        return None
    return getpass(f"Password of {what}: ")


def in_background() -> bool:
    """Whether this process is a background job: the system stops one that reads its terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except (OSError, AttributeError):  # no terminal, or a system without job control
        return False
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    finally:
        os.close(terminal)
