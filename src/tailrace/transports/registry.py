"""Which transport reads a URL: by its scheme; other packages join by `register` or entry point."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError
from tailrace.storage import LogSeries, find, find_all
from tailrace.storage.objects.url import SCHEMES
from tailrace.transports.base import Transport
from tailrace.transports.series import SeriesTransport

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring

Factory = Callable[[str], Transport]
"""Makes the transport of a URL, which it is given whole."""

GROUP: Final = "tailrace.transports"
"""Entry points of this group: the name is a scheme, the object a factory."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?")


def _files(
    source: str | Path | list[str | Path], keyring: Keyring | str | Path | None = None
) -> SeriesTransport:
    """The transport of a path or URL, or of several that are one series."""
    if isinstance(source, list):
        series, *more = find_all(source, keyring)
    else:
        series, *more = find(source, keyring)
    if more:
        names = ", ".join(one.name for one in (series, *more))
        raise UsageError(f"{source}: it holds several logs ({names}); open one of them")
    return SeriesTransport(series)


_OWN: Final = frozenset({"file", "memory", *SCHEMES})
"""Schemes of places where files lie."""
_FACTORIES: Final[dict[str, Factory]] = {}


def register(scheme: str, factory: Factory) -> None:
    """Read URLs of a scheme by this factory's transports, from now on, in this process.

    Raises UsageError for what is no scheme (two characters at least: letters, digits, ``+-.``).
    """
    if not _SCHEME.fullmatch(f"{scheme}:"):
        raise UsageError(f"not a URL scheme: {scheme!r}")
    _FACTORIES[scheme.lower()] = factory


def schemes() -> list[str]:
    """The schemes that are known, those of entry points among them."""
    return sorted({*_OWN, *_FACTORIES, *_entry_points()})


def transport_of(
    source: str | Path | LogSeries | Transport | Sequence[str | Path],
    keyring: Keyring | str | Path | None = None,
) -> Transport:
    """The transport of a URL, a path, a series that was found, or several files of one series.

    A text is a URL if ``scheme://`` begins it, or a scheme that is known and a colon; else a path,
    or ``-`` for standard input. ``keyring`` is for files that are encrypted. Raises UsageError for
    a scheme that is not known and for a keyring with a URL of no files, and what factories raise.
    """
    if isinstance(source, LogSeries):
        return SeriesTransport(source)
    if isinstance(source, Path):
        return _files(source, keyring)
    if isinstance(source, Sequence) and not isinstance(source, str):
        if not source:
            raise UsageError("no files were given")
        return _files(list(source), keyring)
    if not isinstance(source, str):
        return source
    transport = elsewhere(source)
    if transport is None:
        return _files(source, keyring)
    if keyring is not None:
        raise UsageError(f"{transport.name}: a keyring is for files that are encrypted")
    return transport


def elsewhere(source: str) -> Transport | None:
    """The transport that a factory makes of a URL; None for a path, ``-`` and the URL of files.

    Raises UsageError for a scheme that is not known, and what the factory raises.
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
    raise UsageError(
        f"no transport reads {scheme}: URLs; known are {', '.join(schemes())}."
        f" A package adds one by an entry point of the group {GROUP!r} (its name is the scheme),"
        " a program by tailrace.transports.register"
    )


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
