"""Optional packages: which extra includes them, in which versions, and what to install.

The package's own metadata says so, which is read when something is missing.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from tailrace.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_IMPORTED_AS: Final = {
    "psycopg-binary": "psycopg_binary",
    "pynacl": "nacl",
    "vl-convert-python": "vl_convert",
}
"""Packages that are imported under another name than that of their distribution."""
_REQUIREMENT: Final = re.compile(
    r"([\w.-]+)\s*(?:\[([^\]]*)\])?\s*([^;]*?)\s*(?:;.*\bextra\s*==\s*['\"]([\w.-]+)['\"].*)?",
    re.ASCII,
)
_LIMIT: Final = re.compile(r"(>=|<)\s*([\d.]+)")


@cache
def extras() -> Mapping[str, Mapping[str, str]]:
    """By extra, the packages that it includes, by import name, with their versions (``<2,>=1.6``).

    Included are those of a package's own extras, if that package is installed.
    """
    found: dict[str, dict[str, str]] = {}
    for name, inner, versions, extra in _requirements("tailrace"):
        if extra:
            packages = found.setdefault(extra, {})
            packages[_imported(name)] = versions
            for more, _, limit, of in _requirements(name) if inner else ():
                if of in {each.strip() for each in inner.split(",")}:
                    packages.setdefault(_imported(more), limit)
    return found


def _imported(name: str) -> str:
    return _IMPORTED_AS.get(name.lower(), name.lower())


def _requirements(package: str) -> Iterator[tuple[str, str, str, str]]:
    """A package's requirements: name, extras of it, versions, and the extra that includes it."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - slow

    try:
        stated = requires(package) or ()
    except PackageNotFoundError:
        return
    for text in stated:
        parts = _REQUIREMENT.fullmatch(text)
        if parts is not None:
            yield parts[1], parts[2] or "", parts[3], parts[4] or ""


def hint(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'tailrace[{extra}]'"


def missing(extra: str, package: str, what: str) -> MissingExtra:
    """The error for a package that is not installed; ``what`` is the feature that needs it."""
    return MissingExtra(
        f"{what} needs the package {package}, which is not installed: {hint(extra)}", name=package
    )


def extra_of(package: str) -> str | None:
    """The smallest extra that includes a package; None if none does."""
    among = [extra for extra, packages in extras().items() if package in packages]
    return min(among, key=lambda extra: len(extras()[extra]), default=None)


def check_version(extra: str, package: str, what: str) -> None:
    """Raise MissingExtra if a package is not installed, or in a version that the extra excludes."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow

    wanted = extras().get(extra, {}).get(package, "")
    try:
        found = version(package)
    except PackageNotFoundError:
        raise missing(extra, package, what) from None
    if not fits(found, wanted):
        raise MissingExtra(
            f"{what} needs {package}{wanted}, and {found} is installed: {hint(extra)}",
            name=package,
        )


def fits(version: str, wanted: str) -> bool:
    """Whether a version is among the wanted ones (``<2,>=1.6``)."""
    here = _parts(version)
    return all((here >= _parts(limit)) == (sign == ">=") for sign, limit in _LIMIT.findall(wanted))


def _parts(version: str) -> tuple[int, int, int]:
    """A version's first three numbers."""
    numbers = [int(number) for number in re.findall(r"(?:^|\.)(\d+)", version, re.ASCII)]
    major, minor, patch, *_ = (*numbers, 0, 0, 0)
    return major, minor, patch


@contextmanager
def importing(extra: str, what: str) -> Iterator[None]:
    """Imports inside this block need an extra: raises MissingExtra if it is not installed.

    For a package that only another extra includes, the error names that extra. If several of these
    blocks are nested, the outermost raises the error.
    """
    try:
        yield
    except (ModuleNotFoundError, MissingExtra) as error:
        package = (error.name or "").partition(".")[0]
        found = extra if package in extras().get(extra, ()) else extra_of(package)
        if found is None:
            raise
        raise missing(found, package, what) from error
