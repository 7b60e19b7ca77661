"""The password that a command asks its user for, if the account turns out to have one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from tailrace.errors import AccessDenied, ConnectionLost
from tailrace.live.password import VARIABLES, ask_password, in_background
from tailrace.live.tables import connected

if TYPE_CHECKING:
    from tailrace.live.url import Source

_NO_PASSWORD: Final = frozenset({1045, 1698})
"""Login errors that a password may resolve."""


def with_password_asked(source: Source) -> Source:
    """The same source, with the password that the user typed at the terminal, if it needs one.

    Nothing is asked if a password is found elsewhere, if standard input is no terminal, if the
    server lets the user in without one, or if it does not answer. It asks once and does not check
    the answer.

    Only for commands: a library does not ask. A background job cannot: AccessDenied says where it
    looks for the password. Raises what connecting raises, except for ConnectionLost.
    """
    if source.has_password or not sys.stdin.isatty():
        return source
    try:
        with connected(source):
            return source
    except ConnectionLost:
        return source
    except AccessDenied as error:
        if error.code not in _NO_PASSWORD:
            raise
        if in_background():
            raise error.reworded(
                f"{source.name}: the account needs a password, and a background process cannot ask"
                f" for it: set {VARIABLES[0]}, or password in the group [client] of ~/.my.cnf"
            ) from error
    answer = ask_password(source.name)
    return source if answer is None else source.with_password(answer)
