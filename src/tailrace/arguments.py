"""Checks of the arguments of public functions, by their annotations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Any, Final, ParamSpec, TypeVar

from tailrace.errors import UsageError
from tailrace.printable import short_repr

P = ParamSpec("P")
R = TypeVar("R")

_TYPES: Final[dict[str, tuple[Any, ...]]] = {
    "str": (str,),
    "bytes": (bytes,),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "Path": (os.PathLike,),
    "os.PathLike[str]": (os.PathLike,),
    "Callable": (Callable,),
    "Collection": (Iterable,),
    "Sequence": (Iterable,),
    "Iterable": (Iterable,),
    "None": (type(None),),
}
_WORDS: Final = {
    "str": "text",
    "bytes": "bytes",
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "Path": "a path",
    "os.PathLike[str]": "a path",
    "Callable": "a function",
    "Collection": "a list",
    "Sequence": "a list",
    "Iterable": "a list",
    "None": "None",
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function raise UsageError for an argument that is not of its annotation's types, and
    for text that no name, path or URL can be.

    Types other than those of Python itself are left to the function.
    """
    parameters = signature(function).parameters

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, given in (*zip(parameters, args, strict=False), *kwargs.items()):
            parameter = parameters.get(name)
            if parameter is not None and parameter.kind is not Parameter.VAR_KEYWORD:
                check_type(name, given, str(parameter.annotation))
            if isinstance(given, str):
                check_text(name, given)
        return function(*args, **kwargs)

    return call


def check_type(name: str, given: object, annotation: str) -> None:
    """Raise UsageError for a value that has none of the types of an annotation: ``int | None``.

    Annotations with other types than Python's own accept everything.
    """
    types, words = _parsed(annotation)
    if not types:
        return
    wrong = not isinstance(given, types) or (isinstance(given, bool) and bool not in types)
    if "[str]" in annotation and isinstance(given, (bytes, list, tuple, set, range)):
        wrong = wrong or not all(isinstance(each, str) for each in given)
        words = words.replace("a list", "a list of text")
    if wrong:
        raise UsageError(f"{name} is {words}, not {short_repr(given)}")


def check_text(name: str, given: str) -> None:
    """Raise UsageError for text with a zero byte, and for text that UTF-8 cannot encode."""
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        raise UsageError(f"{name}: the text is not Unicode") from None
    if "\0" in given:
        raise UsageError(f"{name}: the text contains a zero byte")


def check_object(name: str, given: object, kind: type) -> None:
    """Raise UsageError for a value that is no object of a class."""
    if not isinstance(given, kind):
        raise UsageError(f"{name} is an object of {kind.__name__}, not {short_repr(given)}")


def check_choice(name: str, given: object, known: Sequence[str]) -> None:
    """Raise UsageError for a value that is none of the ``known`` ones."""
    if given not in known:
        raise UsageError(f"{name} is {_one_of(known)}, and not {short_repr(given)}")


def _one_of(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


@cache
def _parsed(annotation: str) -> tuple[tuple[type, ...], str]:
    parts = annotation.split(" | ")
    parts = [part if part in _TYPES else part.partition("[")[0] for part in parts]
    if not all(part in _TYPES for part in parts):
        return (), ""
    words = list(dict.fromkeys(_WORDS[part] for part in parts))
    return tuple(each for part in parts for each in _TYPES[part]), _one_of(words)
