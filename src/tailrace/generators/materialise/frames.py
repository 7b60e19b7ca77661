"""Frames of a native stream, as contexts: an event's values are read from its bytes when asked."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Self

from tailrace.errors import EventDecodeError, LogError
from tailrace.generators import statement, transaction
from tailrace.generators.event import (
    Context,
    Place,
    ReplicationEvent,
    context_of,
    kept,
    kinds_of,
    names_of,
    place_of,
    put_in,
)
from tailrace.generators.generator import Change, Offer
from tailrace.generators.materialise import layout as t
from tailrace.generators.materialise.blocks import BlockReader
from tailrace.generators.materialise.decode import Dictionary, span
from tailrace.generators.row import OPERATIONS, Operation, RowBatch, RowsContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tailrace.generators.materialise.decode import Kind

_NO_IMAGE: Final = object()

_CHANGES: Final = {
    kind.name: change
    for kinds in (transaction.KINDS, statement.KINDS)
    for change, (kind,) in kinds.items()
}


class FrameContext(Context):
    """What an event's frame tells: the bytes after its head."""

    __slots__ = ("_at", "_data", "_dictionary", "_end", "_file", "_offset", "_starts", "kind")

    def __init__(
        self,
        kind: Kind,
        dictionary: Dictionary,
        data: bytes,
        at: int,
        end: int,
        file: str | None,
        offset: int,
    ) -> None:
        self.kind = kind
        self._dictionary = dictionary
        self._data = data
        self._at = at
        self._end = end
        self._file = file
        self._offset = offset
        self._starts: list[int] | None = None

    @property
    def extra(self) -> Sequence[str]:
        """The accessors that the stream has of this kind of events."""
        return self.kind.accessors

    def read(self, accessor: str) -> Any:
        """Decode a value; None for an accessor that the stream does not have."""
        at = self._start_of(accessor)
        if at < 0:
            return None
        try:
            return self._dictionary.value(self._data, at, self._end)[0]
        except LogError as error:
            raise self._placed(error) from None

    def _placed(self, error: LogError) -> LogError:
        return error.at(self._file, self._offset, self.kind.name)

    def items(self, accessor: str) -> Iterator[Any] | None:
        """The values of a list, each decoded when it is asked for; None for None."""
        at = self._start_of(accessor)
        if at < 0:
            return None
        return self._items(at)

    def _items(self, at: int) -> Iterator[Any]:
        try:
            yield from self._dictionary.items(self._data, at, self._end)
        except LogError as error:
            raise self._placed(error) from None

    def _start_of(self, accessor: str) -> int:
        """Where an accessor's value starts; -1 if it is None."""
        index = self.kind.index.get(accessor)
        if index is None:
            return -1
        starts = self._starts
        if starts is None:
            try:
                starts = self._starts = self._locate()
            except LogError as error:
                raise self._placed(error) from None
        return starts[index]

    def _locate(self) -> list[int]:
        data, end = self._data, self._end
        at = self._at + self.kind.bitmap
        if at > end:
            raise EventDecodeError("the event ends in its bitmap")
        bits = int.from_bytes(data[self._at : at], "little")
        starts: list[int] = []
        for _ in self.kind.accessors:
            if bits & 1:
                starts.append(at)
                at = span(data, at, end)[2]
            else:
                starts.append(-1)
            bits >>= 1
        if at != end or bits:
            raise EventDecodeError(f"the event's values end at {at}, its frame at {end}")
        return starts


class FrameRows(FrameContext, RowsContext):
    """Rows that changed together."""

    __slots__ = ()

    @property
    def operation(self) -> Operation:
        """What was done to the rows."""
        found = self.read("operation")
        if found not in OPERATIONS.values():
            raise self._placed(EventDecodeError(f"rows with the operation {found!r}"))
        operation: Operation = found
        return operation

    def rows(self) -> Iterable[Context]:
        """The rows, each decoded when it is read."""
        before, after = self.items("before_images"), self.items("after_images")
        if before is None:
            return (_Row(self, None, image) for image in after or ())
        if after is None:
            return (_Row(self, image, None) for image in before)
        return self._pairs(before, after)

    def _pairs(self, before: Iterator[Any], after: Iterator[Any]) -> Iterator[Context]:
        for one, other in zip_longest(before, after, fillvalue=_NO_IMAGE):
            if one is _NO_IMAGE or other is _NO_IMAGE:
                raise self._placed(
                    EventDecodeError("an update has other numbers of rows before and after")
                )
            yield _Row(self, one, other)


class FrameRow(FrameContext, RowsContext):
    """One row that was materialised by itself."""

    __slots__ = ()

    @property
    def operation(self) -> Operation:
        """What was done to the row."""
        return OPERATIONS[self.kind.name]

    def rows(self) -> Iterable[Context]:
        """The row."""
        return (self,)

    def read(self, accessor: str) -> Any:
        """As the row's, and as those of a batch of one."""
        if accessor == "operation":
            return self.operation
        if accessor in {"before_images", "after_images"}:
            image = super().read(accessor.removesuffix("s"))
            return None if image is None else [image]
        return super().read(accessor)


class _Row(Context):
    """A row of those that changed together."""

    __slots__ = ("_after", "_before", "_of")

    def __init__(self, of: FrameRows, before: Any, after: Any) -> None:
        self._of = of
        self._before = before
        self._after = after

    def read(self, accessor: str) -> Any:
        """The row's images; all else is that of the batch."""
        if accessor == "before_image":
            return self._before
        if accessor == "after_image":
            return self._after
        return self._of.read(accessor)


class UndeclaredEvent(ReplicationEvent):
    """An event of a kind that no class here declares: a stream's definition says what it has.

    Its values are attributes; what does not know it can pass it on, and show it.
    """

    __slots__ = ("name",)

    name: str  # type: ignore[misc]

    def __init__(self, context: Context, name: str) -> None:
        object.__setattr__(self, "name", name)
        super().__init__(context)

    def __getattr__(self, accessor: str) -> Any:
        if accessor.startswith("_") or accessor not in names_of(self):
            raise AttributeError(f"{self.name} has no {accessor}")
        return context_of(self).read(accessor)

    def replace(self, **values: Any) -> Self:
        """As that of its base."""
        return kept(type(self), self.values() | values, place_of(self), self.name)

    def __reduce__(self) -> Any:
        return kept, (type(self), self.values(), place_of(self), self.name)


class Frame:
    """An event of a stream: its context, its transaction, and where its bytes end."""

    __slots__ = ("context", "end", "place")

    def __init__(self, context: FrameContext, place: Place, end: int) -> None:
        self.context = context
        self.place = place
        self.end = end

    @property
    def offer(self) -> Offer:
        """What a stack takes."""
        name = self.context.kind.name
        if isinstance(self.context, RowsContext):
            change: str = Change.ROWS
        else:
            change = _CHANGES.get(name, name)
        return Offer(change, self.context, *self.place)

    @property
    def event(self) -> ReplicationEvent:
        """The event, which lasts."""
        name = self.context.kind.name
        known = _known(name)
        made = UndeclaredEvent(self.context, name) if known is None else known(self.context)
        put_in(made, self.place)
        return made


_found: Final[dict[str, type[ReplicationEvent]]] = {}


def _known(name: str) -> type[ReplicationEvent] | None:
    """The class of events of a name, if there is one by now."""
    if name not in _found:
        for each in kinds_of(ReplicationEvent):
            if each.name == name:
                _found[name] = each
    return _found.get(name)


def frame_at(
    data: bytes, at: int, dictionary: Dictionary, file: str | None, offset: int
) -> Frame | None:
    """The frame at a place of a block's frames, whose first is at ``offset`` of the stream.

    None after it took in a definition; the frame's length is in its head. Raises LogError.
    """
    kind_number, flags, transaction, end = _frame_head(data, at, file, offset)
    body = at + t.HEAD
    try:
        if kind_number == t.DEFINITION:
            dictionary.define(data, body, end)
            return None
        kind = dictionary.kind(kind_number)
    except LogError as error:
        raise error.at(file, offset + at) from None
    context_kind = FrameContext
    if kind.name == RowBatch.name:
        context_kind = FrameRows
    elif kind.name in OPERATIONS:
        context_kind = FrameRow
    context = context_kind(kind, dictionary, data, body, end, file, offset + at)
    place = Place(transaction, bool(flags & t.ROLLED_BACK), bool(flags & t.HELD))
    return Frame(context, place, end)


def _frame_head(data: bytes, at: int, file: str | None, offset: int) -> tuple[int, int, int, int]:
    """A frame's kind, flags and transaction, and where it ends. Raises EventDecodeError."""
    left = len(data) - at
    size = int.from_bytes(data[at : at + 4], "little")
    if left < t.HEAD or not t.HEAD <= size <= left:
        raise EventDecodeError(
            f"a frame of {size} bytes, of which {left} are there", file=file, offset=offset + at
        )
    _, kind, flags, _table, transaction = t.FRAME.unpack_from(data, at)
    return kind, flags, transaction, at + size


class NativeReader:
    """The events of a stream in the native format."""

    def __init__(self, source: Any) -> None:
        self._blocks = BlockReader(source)

    def frames(self) -> Iterator[Frame]:
        """The frames of events. Raises LogError."""
        dictionary = Dictionary()
        file = self._blocks.file
        for block in self._blocks:
            if block.begins:
                dictionary = Dictionary()
            data, at = block.frames, 0
            while at < len(data):
                end = at + int.from_bytes(data[at : at + 4], "little")
                frame = frame_at(data, at, dictionary, file, block.offset)
                if frame is not None:
                    yield frame
                at = end

    def offers(self) -> Iterator[Offer]:
        """Each event as an offer to a stack."""
        return (frame.offer for frame in self.frames())

    def events(self) -> Iterator[ReplicationEvent]:
        """Each event as an object that lasts."""
        return (frame.event for frame in self.frames())
