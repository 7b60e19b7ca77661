"""Finds the transport for a URL by its scheme; packages add more by `register` or entry point."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError
from tailrace.printable import short_repr
from tailrace.storage import LogSeries, find, find_all
from tailrace.storage.objects.url import SCHEMES
from tailrace.transports.base import Transport
from tailrace.transports.series import SeriesTransport

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers

Factory = Callable[[str], Transport]
"""Makes a transport from the whole URL."""

GROUP: Final = "tailrace.transports"
"""Entry points of this group: the name is a scheme, the object a factory."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?")


def _files(
    source: str | Path | list[str | Path],
    keyring: Keyring | str | Path | None,
    layers: Layers | None,
) -> SeriesTransport:
    """The transport of a path or URL, or of several that are one series."""
    if isinstance(source, list):
        series, *more = find_all(source, keyring, layers)
    else:
        series, *more = find(source, keyring, layers)
    if more:
        names = ", ".join(one.name for one in (series, *more))
        raise UsageError(f"{source} holds several logs ({names}): open one of them")
    return SeriesTransport(series)


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


def transport_of(
    source: str | Path | LogSeries | Transport | Sequence[str | Path],
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
) -> Transport:
    """The transport of a URL, a path, a series that was found, or several files of one series.

    A text is a URL if it starts with ``scheme://``, or with a known scheme and a colon; else it is
    a path, or ``-`` for standard input. ``keyring`` is for encrypted files, ``layers`` are those of
    `tailrace.storage.find`. Raises UsageError for an unknown scheme and for either with a source
    that is not of files, and what factories raise.
    """
    if isinstance(source, LogSeries):
        return SeriesTransport(source)
    if isinstance(source, Path):
        return _files(source, keyring, layers)
    if isinstance(source, Sequence) and not isinstance(source, str):
        if not source:
            raise UsageError("no files were given")
        return _files(list(source), keyring, layers)
    if not isinstance(source, str):
        if not hasattr(source, "locate"):
            raise UsageError(
                f"a log is a path, a URL, a list of paths, a LogSeries or a transport, not"
                f" {short_repr(source)}"
            )
        return source
    transport = elsewhere(source)
    if transport is None:
        return _files(source, keyring, layers)
    if keyring is not None:
        raise UsageError(f"{transport.name}: a keyring can only be used with encrypted files")
    if layers is not None:
        raise UsageError(f"{transport.name}: layers are of files, and this is none")
    return transport


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
