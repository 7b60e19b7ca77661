"""Wrong arguments of the command line, in plain words: what is wrong, and what to do."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, Literal, get_args, get_origin

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from tailrace.cli.commands import COMMANDS
from tailrace.printable import suggestion

_KINDS: Final = {int: "a whole number", float: "a number"}


def explained(error: CycloptsError) -> str:
    """The error on one line; another's own text if it is of a kind that no user causes."""
    command = (error.command_chain or [""])[0]
    more = f"`tailrace help {command}`" if command else "`tailrace help`"
    argument: Any = error.argument
    match error:
        case UnknownCommandError(unused_tokens=[name, *_]):
            if name.startswith("-"):
                close = suggestion(name, ("--help", "--version"))
                return f"tailrace has no option {name}{close}: `tailrace help` lists the commands"
            close = suggestion(name, (each.name for each in COMMANDS))
            return f"there is no command {name!r}{close}: `tailrace help` lists the commands"
        case UnknownOptionError(token=token):
            name = (token.keyword or token.value).partition("=")[0]
            known = chain.from_iterable(each.names for each in error.argument_collection)
            return (
                f"{command} has no option {name}{suggestion(name, known)}: {more} lists its options"
            )
        case MissingArgumentError(unused_tokens=[name, *_]) if (
            name.startswith("--") and argument is not None and name not in argument.names
        ):
            return f"{command} has no option {name.partition('=')[0]}: {more} lists its options"
        case MissingArgumentError() if argument is not None:
            what = argument.parameter.metavar or ""
            if not argument.name.startswith("-"):
                return f"{command} needs a {argument.name.upper()}: see {more}"
            if error.tokens_so_far or error.keyword or argument.tokens:
                return f"{argument.name} needs a value, {_kind(argument.hint) or what}: see {more}"
            return f"{command} needs {argument.name} {what}: see {more}"
        case CoercionError(token=token) if token is not None and argument is not None:
            return f"{token.keyword or argument.name} {token.value}: give {_wanted(error)}"
        case UnusedCliTokensError(unused_tokens=[first, *_]):
            return f"{command} takes no argument {first!r} here: see {more}"
        case _:
            return str(error)


def _wanted(error: CoercionError) -> str:
    """The values that an option takes."""
    return _kind(error.target_type) or "another value"


def _kind(kind: Any) -> str:
    """What a type has, in words; empty for text."""
    if get_origin(kind) is Literal:
        *others, last = get_args(kind)
        return f"{', '.join(others)} or {last}"
    return next(filter(None, map(_kind, get_args(kind))), _KINDS.get(kind, ""))
