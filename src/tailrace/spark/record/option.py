"""Options of Spark's data sources: texts, under names in any case.

A table of `Option` declares them: those of reads and of streams in `tailrace.spark.stream.options`,
those of writes in `tailrace.spark.writer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.errors import UsageError
from tailrace.table_filter import split_patterns

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Callable[[str, str], Any]
"""Returns a text's value. The second argument is how an error names the option."""


def choice(*values: str) -> Callable[[str, str], str]:
    """One of these values."""

    def chosen(given: str, name: str) -> str:
        for value in values:
            if value == given.lower():
                return value
        raise UsageError(f"{name} is {' or '.join(values)}, and not {given.lower()!r}")

    return chosen


def flag(given: str, name: str) -> bool:
    """``true`` or ``false``."""
    return choice("true", "false")(given, name) == "true"


def number(least: int = 1, most: int | None = None) -> Kind:
    """A whole number in these bounds."""
    bounds = f"above {least - 1}" if most is None else f"from {least} to {most}"

    def counted(given: str, name: str) -> int:
        value = int(given) if given.isascii() and given.isdecimal() else -1
        if value < least or (most is not None and value > most):
            raise UsageError(f"{name} is a number {bounds}, and not {given!r}")
        return value

    return counted


def names(given: str, name: str) -> tuple[str, ...]:
    """Names with commas between them, or a JSON list of names."""
    if not given.startswith("["):
        return tuple(each.strip() for each in given.split(","))
    try:
        return tuple(str(each) for each in json.loads(given))
    except ValueError as error:
        raise UsageError(f"{name} is no list of names: {error}") from None


def patterns(given: str, name: str) -> tuple[str, ...]:
    """Patterns of tables, as `names`; a comma in backticks is part of a name."""
    return names(given, name) if given.startswith("[") else tuple(split_patterns(given))


class Option(NamedTuple):
    """What an option's text may be, and the value without it."""

    kind: Kind = lambda given, _name: given
    default: Any = None


def parse(given: Mapping[str, str], options: Mapping[str, Option], of: str = "") -> dict[str, Any]:
    """The value of each of the options; raises UsageError for a text that is none.

    With ``of``, which begins the message, also for an option that is none of these.
    """
    texts = {name.lower(): value for name, value in given.items()}
    if of and (unknown := sorted(texts.keys() - {name.lower() for name in options})):
        known = ", ".join(sorted(options, key=str.lower))
        raise UsageError(f"{of} has no option {unknown[0]!r}: it has {known}")
    return {
        name: option.default if found is None else option.kind(found, f"option {name}")
        for name, option in options.items()
        for found in [texts.get(name.lower())]
    }
