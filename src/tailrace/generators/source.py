"""Sources of events: what all of them have, whatever they read."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from tailrace.closing import Closing
from tailrace.errors import UsageError
from tailrace.generators.stack import Stack, generators
from tailrace.schema.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.generators.generator import Generator


class EventSource(Closing):
    """What tells consumers of changes: they register with one of its generators."""

    is_local: ClassVar[bool] = False
    """Whether changes are offered before it is decided whether they are committed."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    @property
    def definitions(self) -> Catalogue:
        """The tables as they are defined where reading is, as far as that is known."""
        return Catalogue()

    @property
    def row(self) -> Generator:
        """The generator of rows."""
        return self.stack["row"]

    @property
    def statement(self) -> Generator:
        """The generator of statements."""
        return self.stack["statement"]


class EventReader(EventSource):
    """A source that is read from its start to its end: subclasses offer what they read.

    ``also`` names generators of other packages (entry points of the group
    ``tailrace.generators``). Raises UsageError for a name that no installed package offers.
    """

    def __init__(self, also: Iterable[str] = ()) -> None:
        super().__init__(Stack(generators(also)))
        self._offering: Iterator[None] | None = None
        self._over = False
        self._closed = False
        self._failed = False

    @property
    def transaction(self) -> Generator:
        """The generator of transactions."""
        return self.stack["transaction"]

    @abstractmethod
    def offer_all(self) -> Iterator[None]:
        """Offer all changes to the stack; gives None after each transaction. Called once."""

    def again(self) -> str:
        """What to do after an error, for the message."""
        return "open its source again"

    def run(self) -> None:
        """Tell the consumers of all that the source has, until its end or `stop`.

        Raises what a consumer raised whose rule is to stop, and what reading raises, after what
        comes before. It cannot be run again after that, or when it was closed: UsageError.
        """
        if self._closed:
            raise UsageError("this stream is closed")
        for _ in self:
            pass

    def __iter__(self) -> Self:
        """An iterator that tells of the events up to the end of a transaction at each step."""
        return self

    def __next__(self) -> None:
        """Tell the consumers up to the next end of a transaction; StopIteration at the end."""
        if self._over:
            raise StopIteration
        if self._failed:
            raise UsageError(f"this stream ended with an error: {self.again()}")
        if self._offering is None:
            self._offering = self.offer_all()
        try:
            next(self._offering)
        except StopIteration:
            raise
        except BaseException:
            self._failed = True
            raise

    def stop(self) -> None:
        """Let `run` return after the transaction that is being told of. Any thread may call it."""
        self._over = True

    def close(self) -> None:
        """End the reading."""
        self._over = self._closed = True
