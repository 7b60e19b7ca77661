"""Finds the transport for a URL by its scheme; packages add more by `register` or entry point."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.printable import suggestion
from tailrace.storage.objects.url import SCHEMES
from tailrace.transports.base import Transport

Factory = Callable[[Any], Transport]
"""Makes a transport from the whole URL, a text."""

GROUP: Final = "tailrace.transports"
"""Entry points of this group: the name is a scheme, the object a factory."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?")


_OWN: Final = frozenset({"file", "memory", *SCHEMES})
"""Schemes of storage that holds files."""
_FACTORIES: Final[dict[str, Factory]] = {}


def register(scheme: str, factory: Factory) -> None:
    """Use this factory's transports for URLs of a scheme, from now on, in this process.

    Raises UsageError for an invalid scheme (at least two characters: letters, digits, ``+-.``).
    """
    if not _SCHEME.fullmatch(f"{scheme}:"):
        raise UsageError(f"not a URL scheme: {scheme!r}")
    _FACTORIES[scheme.lower()] = factory


def schemes() -> list[str]:
    """The known schemes, including those of entry points."""
    return sorted({*_OWN, *_FACTORIES, *_entry_points()})


def elsewhere(source: str) -> Transport | None:
    """The transport that a factory makes for a URL; None for a path, ``-`` and a URL of files.

    Raises UsageError for an unknown scheme, and what the factory raises.
    """
    found = _SCHEME.match(source)
    if found is None:
        return None
    scheme = found[1].lower()
    factory = _FACTORIES.get(scheme)
    if factory is None and scheme not in _OWN:
        factory = _load(scheme)
    if factory is not None:
        return factory(source)
    if found[2] is None or scheme in _OWN:
        return None
    known = schemes()
    raise UsageError(
        f"nothing here reads {scheme}: URLs{suggestion(scheme, known)}; known are"
        f" {', '.join(known)}; a server is mysql://user@host:3306/;"
        f" a package adds others by entry points of the group {GROUP!r}, a program by"
        " tailrace.transports.register"
    )


def transport_of_parsed(source: Any) -> Transport | None:
    """The transport of a URL that was parsed, an object with the URL's ``scheme``: its factory also
    takes that object. None if it is something else.
    """
    scheme = getattr(source, "scheme", None)
    if not isinstance(scheme, str):
        return None
    factory = _FACTORIES.get(scheme) or _load(scheme)
    return None if factory is None else factory(source)


def _entry_points() -> set[str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and seldom needed

    return {point.name.lower() for point in entry_points(group=GROUP)}


def _load(scheme: str) -> Factory | None:
    """The factory that an installed package offers for a scheme."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and seldom needed

    for point in entry_points(group=GROUP):
        if point.name.lower() == scheme:
            factory: Factory = point.load()
            return _FACTORIES.setdefault(scheme, factory)
    return None
