"""Where a lake's own state is read that others may have altered: damage in it is an error of ours.

A lake's manifest is checked where it is read (`manifest.consistent`). Its data files are read
by pyarrow, which has errors of its own for each kind of damage: `reading` turns these into
`PipelineError` and keeps the cause. For what Delta and Iceberg keep, `lake.tables` does so.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.errors import PipelineError, TailraceError
from tailrace.printable import first_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterator


DAMAGE: Final = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError),
    pa.ArrowException,
)
"""What our own code and pyarrow raise for values that are not what they were written as."""


@contextmanager
def reading(what: object) -> Iterator[None]:
    """Raises `PipelineError` that names ``what`` where its content is not as we wrote it."""
    try:
        yield
    except TailraceError:
        raise
    except DAMAGE as error:
        raise damaged(what, error) from error


@contextmanager
def reading_file(path: object, what: str) -> Iterator[None]:
    """Raises `PipelineError` that names one of a lake's files, where it is not ``what`` it has."""
    try:
        yield
    except PipelineError:
        raise
    except (*DAMAGE, OSError, TailraceError) as error:
        raise PipelineError(f"{path} cannot be read as {what}: {first_line(error)}") from error


def damaged(what: object, error: Exception) -> PipelineError:
    """The error that names what could not be read."""
    kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
    return PipelineError(
        f"{what} cannot be read: {kind}{printable(first_line(error))}; somebody may have altered "
        "it: restore it, or create a new lake"
    )
