"""Logs whose files have layers: a store on another one, for reading and for writing.

A file with layers that have a suffix is named with it in the store below (``binlog.000001.zst``),
and without it here. Indexes have no layers.

A log that grows is changed where it was written before: its IN_USE flag, a transaction that could
not be written. zstd can only be written from begin to end. So a file is written without such layers
(with those below them), and goes through all of them when it is complete. A killed writer leaves
the file as it was, or both forms of it: then the one without counts, and `ArchiveFolder.finish`
does the rest.
"""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from tailrace.constants import COPY_STATE, ENCRYPTED_MAGIC, HEADER_SIZE, MAGIC
from tailrace.errors import CannotOpen, StorageError, UsageError
from tailrace.events.format_description import is_by_tailrace
from tailrace.log_name import base_and_number, file_number
from tailrace.storage.encryption.folder import StoredInput
from tailrace.storage.index import GTID_INDEX_SUFFIX, INDEX_SUFFIX, read_index
from tailrace.storage.local import DRAFT_SUFFIX
from tailrace.storage.store import CompletingStore
from tailrace.storage.streams.base import (
    InputFile,
    InputStream,
    RandomInput,
    RandomOutput,
    needs,
    read_exactly,
)
from tailrace.storage.streams.input import ForwardInput, NamedInput, OffsetInput, close
from tailrace.storage.streams.layer import Layer, of_name, stacked
from tailrace.storage.streams.memory import MemoryOutput
from tailrace.storage.whole import WholeOutput, is_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tailrace.storage.store import Store, WritableStore
    from tailrace.storage.streams.base import SpillOutput

_PIECE: Final = 1 << 20
_MAGIC: Final = frozenset({MAGIC, ENCRYPTED_MAGIC})
_TAIL: Final = 16
"""The last bytes of a stored file, by which it is known again: zstd's checksum is among them."""
_sizes: Final[dict[tuple[str, int, bytes], int]] = {}


def suffix_of(layers: Iterable[Layer]) -> str:
    """What they add to a file's name."""
    return "".join(layer.suffix for layer in layers)


def growing(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Those that a file which is being written can have: up to the first that cannot be changed.

    Raises UsageError for an order that makes no sense.
    """
    kept = 0
    bottom = MemoryOutput(bytearray(b"."))
    stream: object = bottom
    for number, layer in enumerate(layers):
        stream = layer.output(stream)
        if kept == number and isinstance(stream, RandomOutput):
            stream.flush()
            kept += stream.size == 1 and bottom.data == b"."
    return tuple(layers[:kept])


class RestartingInput(OffsetInput):
    """A file through layers that are read from begin to end, at any offset.

    Going backward starts again from the start of the file, and going forward reads what is between.
    ``below`` opens the stored file. Its size is known once it was read to the end; the process
    remembers that, by the stored file's size and last bytes. It does not grow.
    """

    def __init__(
        self, below: Callable[[], InputStream], layers: Sequence[Layer], path: str
    ) -> None:
        self._below = below
        self._layer = stacked(layers)
        self.path = path
        self._size: int | None = None
        self._stream = self._begin()

    def _begin(self) -> ForwardInput:
        lower = self._below()
        try:
            stream = self._layer.input(lower)
        except BaseException:
            close(lower)
            raise
        return stream if isinstance(stream, ForwardInput) else ForwardInput(stream)

    def _read_at(self, offset: int, count: int) -> bytes:
        with self._placed():
            if offset < self._stream.tell():
                self._stream.close()
                self._stream = self._begin()
            self._stream.seek(offset)
            return self._stream.read(count) if self._stream.tell() == offset else b""

    def size(self) -> int:
        """The bytes after the layers. The first call reads the whole file, once for a process."""
        if self._size is None:
            with self._placed(), closing(cast("RandomInput", self._below())) as lower:
                stored = lower.size()
                tail = read_exactly(lower, max(stored - _TAIL, 0), _TAIL)
            key = self.path, stored, tail
            if key not in _sizes:
                with self._placed(), closing(self._begin()) as whole:
                    while whole.read(_PIECE):
                        pass
                    _sizes[key] = whole.tell()
            self._size = _sizes[key]
        return self._size

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """Name the file in a layer's errors."""
        try:
            yield
        except StorageError as error:
            if type(error) is not StorageError or self.path in str(error):
                raise
            raise StorageError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Close it, and the streams below."""
        super().close()
        self._stream.close()


class LayeredInput(NamedInput):
    """A stack of layers at any offset, as an open file: another package's need not say that."""

    def close(self) -> None:
        """Close it, and the streams below."""
        super().close()
        self._lower.close()


def _through(below: Callable[[], InputStream], layers: Sequence[Layer], path: str) -> InputFile:
    """A file through its layers, at any offset."""
    lower = below()
    try:
        stream = stacked(layers).input(lower)
    except BaseException:
        close(lower)
        raise
    if isinstance(stream, RandomInput):
        return stream if isinstance(stream, InputFile) else LayeredInput(stream, path)
    close(stream)
    return RestartingInput(below, layers, path)


@dataclass(frozen=True)
class LayeredStore:
    """The files of a store through layers, for reading.

    A file without the layers' suffix is one that is still being written: it has the layers that
    such a file can have (`growing`). With ``bare`` files have all layers and no suffix.
    """

    lower: Store
    layers: tuple[Layer, ...]
    bare: bool = False

    @property
    def joined(self) -> bool:
        """Whether it is a pipe."""
        return self.lower.joined

    @property
    def looks_every(self) -> float:
        """As the store below."""
        return self.lower.looks_every

    @property
    def name(self) -> str:
        """As the store below."""
        return self.lower.name

    @property
    def place(self) -> str:
        """As the store below."""
        return self.lower.place

    def _stored(self, name: str) -> tuple[str, tuple[Layer, ...]]:
        """A file's name in the store below, and its layers."""
        if name.endswith(INDEX_SUFFIX):
            return name, ()
        if self.bare:
            return name, self.layers
        parts = growing(self.layers)
        written = name + suffix_of(parts)
        if parts != self.layers and written not in self.lower.listing():
            return name + suffix_of(self.layers), self.layers
        return written, parts

    def fits(self, names: Iterable[str]) -> bool:
        """Whether files with these names in the store below are stored as it says."""
        suffix = suffix_of(self.layers)
        names = [*names]
        if any(suffix and name.endswith(suffix) for name in names):
            return True
        parts, logs = growing(self.layers), [name for name in names if _is_log(name)]
        if parts == self.layers:
            return not suffix
        return bool(logs) and LayeredStore(self.lower, parts, bare=True).head(logs[0])[0] in _MAGIC

    def plain(self, name: str) -> str:
        """A stored file's name here."""
        return name if self.bare else name.removesuffix(suffix_of(self.layers))

    def is_layered(self, name: str) -> bool:
        """Whether a file is stored as a log's name and the suffix of layers: these, or ours."""
        plain = _plain_name(name)
        return _is_log(plain) and plain != self._stored(name)[0]

    def path(self, name: str) -> str:
        """The stored file's path or URL."""
        return self.lower.path(self._stored(name)[0])

    def listing(self) -> dict[str, int | None]:
        """The names of the files, without the suffix. A file with layers has to be looked into."""
        found = self.lower.listing()
        if self.bare:
            return dict.fromkeys(found)
        parts = growing(self.layers)
        whole, written = suffix_of(self.layers), suffix_of(parts)
        names: dict[str, int | None] = {}
        for name, size in found.items():
            if name.endswith(INDEX_SUFFIX):
                names[name] = size
            elif whole and name.endswith(whole):
                names.setdefault(name.removesuffix(whole), None)
            elif name.endswith(written):
                names[name.removesuffix(written)] = None if parts else size
        if any(size is not None for size in found.values()):
            kept = (name for name, size in names.items() if size or _is_log(_plain_name(name)))
            return {name: names[name] for name in kept}
        return names

    def folders(self) -> list[LayeredStore]:
        """The folders in it."""
        return [LayeredStore(folder, self.layers, self.bare) for folder in self.lower.folders()]

    def within(self, folder: str) -> Store | None:
        """The store of a folder that an index names: its files as they are."""
        return self.lower.within(folder)

    def head(self, name: str) -> tuple[bytes, int]:
        """A file's first four bytes, and its size.

        Raises StorageError for another file than a log, if only reading all of it gives its size.
        """
        if self.joined:
            return self.open(name).read(len(MAGIC)), self.lower.head(name)[1]
        with closing(cast("RandomInput", self.open(name))) as stream:
            head = read_exactly(stream, 0, len(MAGIC))
            if isinstance(stream, RestartingInput) and head not in _MAGIC:
                raise StorageError(
                    f"{stream.path}: through its layers ({stacked(self.layers).name}) it is no"
                    " binary log (one begins with the bytes FE 62 69 6E)"
                )
            return head, stream.size()

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of a file."""
        stored, layers = self._stored(name)
        if not layers:
            return self.lower.read(stored, offset, count)
        with closing(cast("RandomInput", self.open(name))) as stream:
            return read_exactly(stream, offset, count)

    def open(self, name: str) -> InputStream:
        """A file through its layers."""
        if self.joined:
            return stacked(self.layers).input(self.lower.open(name))
        try:
            return self._opened(*self._stored(name))
        except CannotOpen:  # it has just been completed, or is not there
            return self._opened(*self._stored(name))

    def _opened(self, stored: str, layers: Sequence[Layer]) -> InputFile:
        return _through(lambda: self.lower.open(stored), layers, self.lower.path(stored))


def layered_store(store: Store, layers: Sequence[Layer], names: Iterable[str]) -> Store:
    """A store through layers: those given, else ours whose suffix one of ``names`` has.

    ``names`` are the store's files, or the one that is asked for. Where none has the suffix of the
    given layers, all files have the layers nevertheless, unless they begin as logs without those
    that a file gets when it is complete.
    """
    if layers:
        found = LayeredStore(store, tuple(layers), bare=store.joined)
        return found if store.joined or found.fits(names) else replace(found, bare=True)
    named = next((layer for layer in map(of_name, names) if layer is not None), None)
    return store if named is None else LayeredStore(store, (named,))


def completed(store: Store, name: str) -> Store | None:
    """The store, with our layer that a file in it has got since it was found; None if it has none.

    While a log is written, one form of each file is there at any time, plain or with the layer.
    """
    forms = (each for each in store.listing() if of_suffix(each)[0] == name)
    found = layered_store(store, (), forms)
    return None if found is store else found


def of_suffix(name: str) -> tuple[str, tuple[Layer, ...]]:
    """A file's name without our layer's suffix, and that layer if it has one."""
    found = of_name(name)
    return (name, ()) if found is None else (name.removesuffix(found.suffix), (found,))


def _plain_name(name: str) -> str:
    """A file's name without the suffixes of our layers."""
    while (found := of_suffix(name))[1]:
        name = found[0]
    return name


def with_suffix(log: str, names: Iterable[str]) -> str | None:
    """The file among those that is named like a log with a suffix of layers."""
    no_log = (DRAFT_SUFFIX, GTID_INDEX_SUFFIX)
    return next((n for n in names if n.startswith(f"{log}.") and not n.endswith(no_log)), None)


def check_layers(folder: WritableStore, layers: Sequence[Layer]) -> None:
    """Check that the logs in a folder have these layers, or are being written with them.

    No call could read a folder in which they have others. Raises UsageError, which says which.
    """
    names = folder.names()
    forms = {suffix_of(layers), suffix_of(growing(layers))}
    for name in sorted(names):
        other = _plain_name(name)
        if _is_log(other) and name.removeprefix(other) not in forms:
            raise _other_layers(folder, name, other, layers)
    for index in (name for name in names if name.endswith(INDEX_SUFFIX)):
        for log in (entry.name for entry in read_index(folder, index)):
            found = with_suffix(log, names)
            if found is not None and not any(log + form in names for form in forms):
                raise _other_layers(folder, found, log, layers)


def _other_layers(
    folder: WritableStore, name: str, log: str, layers: Sequence[Layer]
) -> UsageError:
    there: list[str] = []
    suffix = name.removeprefix(log)
    while (found := of_name(suffix)) is not None:
        suffix = suffix.removesuffix(found.suffix)
        there.insert(0, found.name)
    has = ", ".join(there) or (f"one with the suffix {suffix}" if suffix else "none")
    given = ", ".join(layer.name for layer in layers) or "none"
    return UsageError(
        f"{folder.path(name)}: the layers of this log are: {has}; given are: {given}. A log keeps"
        " the layers that it has: give those, or leave layers out (ours are found by the"
        " suffix); for others begin in another folder"
    )


def _is_log(name: str) -> bool:
    return file_number(name) is not None


class LayeredFolder:
    """A `WritableStore` on another one, with layers on each log, also while it is written.

    Only numbered files have the layers: not the index, nor what else is in the folder.
    """

    def __init__(self, folder: WritableStore, layers: Sequence[Layer]) -> None:
        self.folder = folder
        self._layers = tuple(layers)
        self._suffix = suffix_of(layers)
        self._open: tuple[str, int, RandomInput] | None = None

    def stored(self, name: str) -> str:
        """A file's name in the store below."""
        return name + self._suffix if _is_log(name) else name

    def path(self, name: str) -> str:
        """The stored file's path or URL."""
        return self.folder.path(self.stored(name))

    def names(self) -> list[str]:
        """The names of the files, without the suffix. A log that does not have it is left out."""
        found = []
        for name in self.folder.names():
            plain = name.removesuffix(self._suffix)
            if _is_log(plain):
                found += [plain] if name == plain + self._suffix else []
            else:
                found.append(name)
        return found

    def size(self, name: str) -> int:
        """The bytes after the layers."""
        return self._input(name).size() if _is_log(name) else self.folder.size(name)

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of a file."""
        if not _is_log(name):
            return self.folder.read(name, offset, count)
        return read_exactly(self._input(name), offset, count)

    def _input(self, name: str) -> RandomInput:
        """A log for reading; the last one stays open as long as it has the same size."""
        stored = self.stored(name)
        size = self.folder.size(stored)
        if self._open is None or self._open[:2] != (stored, size):
            stream = _through(
                lambda: StoredInput(self.folder, stored), self._layers, self.path(name)
            )
            self._open = stored, size, stream
        return self._open[2]

    def create(self, name: str, head: bytes) -> RandomOutput:
        """Create a file that begins with ``head``."""
        self._open = None
        if not _is_log(name):
            return self.folder.create(name, head)
        return self._output(self.folder.create(self.stored(name), self._written(head)))

    def reopen(self, name: str) -> RandomOutput:
        """Open an existing file to append to."""
        self._open = None
        output = self.folder.reopen(self.stored(name))
        return self._output(output) if _is_log(name) else output

    def _output(self, lower: RandomOutput) -> RandomOutput:
        output = stacked(self._layers).output(lower)
        needs(output, RandomOutput, type(self).__name__)
        return cast("RandomOutput", output)

    def _written(self, content: bytes) -> bytes:
        """What the layers make of a whole file's bytes."""
        bottom = MemoryOutput()
        output = stacked(self._layers).output(bottom)
        output.write(content)
        output.close()
        return bytes(bottom.data)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._open = None
        self.folder.remove(self.stored(name))

    def replace(self, name: str, content: bytes) -> None:
        """Give a file this content in one step."""
        self._open = None
        self.folder.replace(self.stored(name), self._written(content) if _is_log(name) else content)

    def spill(self, file: SpillOutput) -> SpillOutput:
        """A temporary file, protected as the folder's own are."""
        return self.folder.spill(file)


class ArchiveFolder:
    """A `CompletingStore` on another one: a log goes through the layers when it is complete.

    The spool is the same folder: there a file has the layers that a file which is being written can
    have (`growing`), so with zstd alone none. Errors of a layer's writing leave it there.
    """

    def __init__(self, folder: WritableStore, layers: Sequence[Layer]) -> None:
        parts = growing(layers)
        self.folder = folder
        self.spool: WritableStore = LayeredFolder(folder, parts) if parts else folder
        self._layer = stacked(layers)
        self._suffix = suffix_of(layers)
        self._whole = LayeredFolder(folder, layers)

    def _written(self) -> list[str]:
        """The names of the files that are in the spool, and of those that have no layers."""
        return [name for name in self.spool.names() if not self._is_stored(name)]

    def _is_stored(self, name: str) -> bool:
        """Whether a name in the folder below is that of a complete file."""
        return name.endswith(self._suffix) and _is_log(name.removesuffix(self._suffix))

    def _at(self, name: str) -> WritableStore:
        whole = _is_log(name) and name not in self._written() and name in self._whole.names()
        return self._whole if whole else self.spool

    def path(self, name: str) -> str:
        """The stored file's path or URL."""
        return self._at(name).path(name)

    def names(self) -> list[str]:
        """The names of the files, complete or not."""
        whole = filter(_is_log, self._whole.names())
        return [*dict.fromkeys([*whole, *self._written()])]

    def size(self, name: str) -> int:
        """The bytes of a file before the layers."""
        return self._at(name).size(name)

    def read(self, name: str, offset: int, count: int) -> bytes:
        """A piece of a file."""
        return self._at(name).read(name, offset, count)

    def create(self, name: str, head: bytes) -> RandomOutput:
        """Create a file that begins with ``head``; closing it completes it."""
        if _is_log(name) and name in self._whole.names():
            raise StorageError(f"{self.path(name)}: File exists")
        output = self.spool.create(name, head)
        return WholeOutput(self, name, output) if _is_log(name) else output

    def reopen(self, name: str) -> RandomOutput:
        """Open a file to append to. Raises StorageError for one that is complete."""
        if self._at(name) is self._whole:
            raise StorageError(
                f"{self.path(name)}: it is complete, and nothing can be appended to it as it is"
                " stored (" + self._layer.name + ")"
            )
        output = self.spool.reopen(name)
        return WholeOutput(self, name, output) if _is_log(name) else output

    def remove(self, name: str) -> None:
        """Remove a file."""
        written = name in self._written()
        if _is_log(name) and name in self._whole.names():
            self._whole.remove(name)
            if not written:
                return
        self.spool.remove(name)

    def replace(self, name: str, content: bytes) -> None:
        """Give a file this content in one step; a log has it before the layers."""
        self.spool.replace(name, content)
        if _is_log(name) and name in self._whole.names():
            self._whole.remove(name)

    def spill(self, file: SpillOutput) -> SpillOutput:
        """A temporary file, protected as the folder's own are."""
        return self.folder.spill(file)

    def complete(self, name: str, *, again: bool = False) -> None:  # noqa: ARG002 - it always may
        """Write a file through the layers, sync that, and remove it from the spool.

        Who calls it has the file open, so that it is not done twice at a time.
        """
        stored = self._whole.stored(name)
        if name in self._whole.names():
            self._whole.remove(name)  # a part, left by a writer that was killed
        bottom = self.folder.create(stored, b"")
        try:
            self._write(name, bottom)
            with closing(self.folder.reopen(stored)) as written:
                written.sync()
        except BaseException:
            with suppress(StorageError):
                self.folder.remove(stored)
            raise
        self.spool.remove(name)

    def _write(self, name: str, bottom: RandomOutput) -> None:
        output: object = bottom
        try:
            output = top = self._layer.output(bottom)
            offset = 0
            while piece := self.spool.read(name, offset, _PIECE):
                top.write(piece)
                offset += len(piece)
        finally:
            close(output)

    def _is_closed(self, name: str) -> bool:
        """Whether a file is a log that says so; one that MySQL's way encrypts does not."""
        return self.spool.read(name, 0, len(MAGIC)) == MAGIC and is_whole(self.spool, name)

    def _is_anothers(self, name: str) -> bool:
        """Whether a file is a log that no writer of Tailrace has written, as far as it can be read:
        one whose keys are not given may be a server's.
        """
        body_at = len(MAGIC) + HEADER_SIZE
        head = self.spool.read(name, 0, body_at + 52)
        if head.startswith(ENCRYPTED_MAGIC):
            return True
        return head.startswith(MAGIC) and not is_by_tailrace(head[body_at:])

    def finish(self) -> None:
        """Complete the files that a killed writer left: those that are closed, or that another of
        their series follows. Files that another writer has open, and a server's, are left alone.
        """
        logs = sorted((base_and_number(name), name) for name in self._written() if _is_log(name))
        last = {base: number for (base, number), _ in logs}
        is_copy = COPY_STATE in self.names()  # a receiver put them here
        for (base, number), name in logs:
            if not is_copy and self._is_anothers(name):
                continue
            if number == last[base] and not self._is_closed(name):
                continue
            try:
                output = self.spool.reopen(name)
            except StorageError:  # another writer's
                continue
            with closing(output):
                if name in self._written():  # else its writer has just completed it
                    self.complete(name)


def layered_folder(folder: WritableStore, layers: Sequence[Layer] | None) -> WritableStore:
    """A folder to write to, with layers: those given, else (None) ours whose suffix a log in it
    has.

    Files that a killed writer left complete go through their layers now. Raises UsageError for
    layers that cannot be written there: in an object store, or that can only be put on a complete
    file but have no suffix to tell that it has them.
    """
    if isinstance(folder, CompletingStore):
        if layers:
            raise UsageError(
                f"{folder.path('')}: layers are written to folders on disk and in memory; put files"
                " that have them into the object store afterwards, where they are read"
            )
        return folder
    if layers is None:
        found = (of_suffix(name) for name in folder.names())
        layers = next((layer for name, layer in found if layer and _is_log(name)), ())
    parts = growing(layers)
    if not layers:
        return folder
    if len(parts) == len(layers):
        return LayeredFolder(folder, layers)
    if not suffix_of(layers[len(parts) :]):
        raise UsageError(
            f"{layers[len(parts)].name}: it can only be put on a complete file, and has no suffix"
            " for the name of such (Layer.suffix)"
        )
    archive = ArchiveFolder(folder, layers)
    archive.finish()
    return archive
