"""Base classes for objects that hold resources, and are closed when their ``with`` block ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn, Self

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from types import TracebackType


class NotPickled:
    """Makes pickling an object a UsageError that says what to pass instead."""

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            f"{type(self).__name__} objects cannot be pickled: pass the source, and use the"
            " position as start"
        )


class Closing(ABC):
    """Makes a class with a `close` method a context manager."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
