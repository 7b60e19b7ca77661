"""The class of each event type: ours, and those that other packages add.

Defining a subclass of `Event` that names type codes (``class Mine(Event, types=(200,))``) registers
it. A package can make its classes known without being imported: it names its module, or the class,
in the entry point group ``tailrace.events``. The group is loaded once, when an event of unknown
type is first read. A code that already has a class is given only to a subclass of that class (which
then replaces it), or to the same class defined again, for example by reloading a module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import event_name
from tailrace.errors import UnknownEvent, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events.base import Event

GROUP: Final = "tailrace.events"
"""The entry point group."""

REGISTRY: Final[dict[int, type[Event]]] = {}
"""Event type code to class; a code that is missing once the group is loaded is unknown."""

_loaded: Final[set[str]] = set()


def register(kind: type[Event], types: Iterable[int]) -> tuple[int, ...]:
    """Give the codes to a class. Raises UsageError for an invalid code, or another class's."""
    codes = tuple(types)
    for code in codes:
        if not isinstance(code, int) or not 0 <= code <= 0xFF:
            raise UsageError(f"{kind.__name__}: an event type is a number up to 255, not {code!r}")
        before = REGISTRY.get(code)
        if before is not None and not issubclass(kind, before) and _name(kind) != _name(before):
            raise UsageError(
                f"{_name(kind)}: event type {code} ({event_name(code)}) is {_name(before)}'s;"
                " only a subclass of that may take its place"
            )
    codes = tuple(map(int, codes))
    REGISTRY.update(dict.fromkeys(codes, kind))
    return codes


def _name(kind: type[Event]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def class_of(code: int) -> type[Event] | None:
    """The class of a type code, None for an unknown one.

    Raises UnknownEvent if a package that might know it cannot be loaded.
    """
    kind = REGISTRY.get(code)
    if kind is None and GROUP not in _loaded:
        _load(code)
        kind = REGISTRY.get(code)
    return kind


def _load(code: int) -> None:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise UnknownEvent(
                f"event type {code} is not known, and the package that may know it cannot be"
                f" loaded: entry point {entry.name} = {entry.value} of {GROUP}"
                f" ({type(error).__name__}: {error}); repair or remove that package"
            ) from error
    _loaded.add(GROUP)
