"""A lake's journal: what each batch changed of the lake's manifest.

    _tailrace/journal/
      000005.jsonl        batch 5 as it was prepared: a change of the state before, and its steps
      000005.done.jsonl   its outcome: another change, or that it was withdrawn
      000005.decided.jsonl  which of both its outcome will be, where two processes might disagree
      000005.all.jsonl    a checkpoint: the whole state after batch 5

A document is created where there is none of its name, and never changed (`document` has the form).
The lake's state is that of the last batch which is done; a batch that has no outcome yet is to be
finished, or withdrawn. No two batches have one number. A checkpoint is written once the documents
since the last one have more bytes than it, or are very many; what is older than the checkpoint
before the last goes. So a reader may find that a document is gone: then it lists the journal again.

Whoever takes the lake over from a process that may still run writes the outcome of the batch that
this one may have prepared: the one that is, or the next one, which is withdrawn before it is there.
Both processes might do that in different ways, so whoever is to withdraw a prepared batch, or to
finish another's, has it decided first: by a document of which only one can be there.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import PipelineError, StorageError
from tailrace.spark.manifest import consistent
from tailrace.spark.manifest.damage import reading_file
from tailrace.spark.manifest.document import (
    LARGEST_WHOLE,
    WHAT,
    Change,
    Document,
    Line,
    change,
    changed,
    dump,
    folded,
    load,
)
from tailrace.spark.manifest.manifest import LazyTables, Manifest
from tailrace.spark.manifest.manifest_json import (
    Histories,
    lake_json,
    lake_of,
    table_json,
    table_of,
    with_status,
)
from tailrace.storage.objects.bucket import PART, NoSuchObject, ObjectExists

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import TypeVar

    from tailrace.spark.manifest.manifest import TableState
    from tailrace.storage.objects.bucket import Objects

    T = TypeVar("T")

FOLDER: Final = "journal"
FINISH: Final = "finish"
WITHDRAW: Final = "withdraw"
_NAME: Final = re.compile(r"([0-9]{6,18})(|\.done|\.all|\.decided)\.jsonl")
_LEAST: Final = 64 << 10
"""Bytes of documents that need no checkpoint."""
_MOST: Final = 1000
"""Documents after which there is one: readers open each of them."""

_Names = dict[tuple[int, str], int]


@dataclass
class _State:
    """A state as the documents have it: the lake's part as JSON, the tables as lines.

    ``path`` is of the document that prepared its batch, or of the checkpoint.
    """

    version: int = 0
    path: str = ""
    lake: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, tuple[Line, ...]] = field(default_factory=dict)

    def after(self, document: Document) -> _State:
        """The state that a document makes of it."""
        with reading_file(document.path, WHAT):
            lake = changed(self.lake, document.head.get("lake", {}))
            lines = dict(self.lines) if document.lines else self.lines
            for key, line in document.lines.items():
                if line is None:
                    del lines[key]
                elif line.replaces:
                    lines[key] = (line,)
                else:
                    lines[key] = (*lines[key], line)
            return _State(document.head["batch"], document.path, lake, lines)

    def manifest(self, withdrawn: int) -> Manifest:
        """The manifest; its tables are parsed and checked when they are asked for."""
        lines = self.lines

        def table(key: str) -> TableState:
            value = folded(lines[key])
            with reading_file(lines[key][-1].path, WHAT):
                state = table_of(value, states.get(key, ()))
                consistent.check_table(made, key, state)
            return state

        with reading_file(self.path, WHAT):
            lake, states = lake_of(self.lake, self.version)
            if strange := states.keys() - lines.keys():
                raise ValueError(f"table {min(strange)[:200]!r} has a status, and is missing")
            made = replace(lake, tables=LazyTables(lines, states, table), withdrawn=withdrawn)
            consistent.check_lake(made)
        return made


class Journal:
    """The journal in a store, in `FOLDER`. Raises `PipelineError`.

    ``manifest`` is the state of the last batch that is done. ``prepared`` is the number of one that
    has no outcome yet; 0 without one.
    """

    def __init__(self, objects: Objects, *, check: Callable[[], None] = lambda: None) -> None:
        """``check`` raises if another process writes to the lake now: it is called after a document
        was written, and before anything is done that follows from it.
        """
        self._objects = objects
        self._check_owner = check
        self._names: _Names = {}
        self._drafts: list[str] = []
        self._state = _State()
        self._coming: tuple[Manifest, dict[str, Any]] | None = None
        self._histories = Histories()
        self.manifest = Manifest()
        self.prepared = 0

    # --- reading ---------------------------------------------------------------------------------

    def read(self, until: int | None = None) -> None:
        """Read the lake's state.

        With ``until``, the state after that batch, which is done whether or not it has an outcome.
        """
        self._names = {
            name: size for name, size in self._listed().items() if until is None or name[0] <= until
        }
        state, withdrawn, self.prepared = _State(), 0, 0
        last = max((number for number, _ in self._names), default=0) if until is None else until
        first = max((number for number, kind in self._names if kind == ".all"), default=0)
        try:
            if first:
                state = state.after(self._document(first, ".all"))
            for number in range(first + 1, last + 1):
                outcome = None
                if number < last or (number, ".done") in self._names:
                    outcome = self._document(number, ".done")
                    if outcome.head.get("withdrawn") is True:
                        withdrawn = number
                        continue
                elif number != until:
                    self.prepared = number
                    break
                state = state.after(self._document(number, ""))
                if outcome is not None:
                    state = replace(state.after(outcome), path=state.path)
        except NoSuchObject as error:  # readers list again
            raise PipelineError(f"{error}: bring it back, or create a new lake") from error
        self._state = state
        empty = Manifest(withdrawn=withdrawn)
        self.manifest = state.manifest(withdrawn) if state.version else empty

    def coming(self, steps_of: Callable[[Any], T]) -> tuple[Manifest, T]:
        """The manifest of the batch that is prepared, and its steps."""
        document = self._document(self.prepared, "")
        state = self._state.after(document)
        manifest = state.manifest(self.manifest.withdrawn)
        with reading_file(document.path, WHAT):
            steps = steps_of(document.head["steps"])
        self._coming = manifest, state.lake
        return manifest, steps

    def _document(self, number: int, kind: str) -> Document:
        path, pieces, offset, size = self._path(number, kind), [], 0, 1
        while offset < size:
            with _lake_errors():
                piece, size = self._objects.read(self._key(number, kind), offset, PART)
            if size > LARGEST_WHOLE:
                raise PipelineError(f"{path} is larger than {LARGEST_WHOLE >> 20} MiB")
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
        document = load(path, b"".join(pieces))
        with reading_file(path, WHAT):
            if document.head["batch"] != number:
                raise ValueError("it is of another batch")
        return document

    def _listed(self) -> _Names:
        with _lake_errors():
            found = self._objects.list(FOLDER).objects
        self._drafts = [name for name in found if name.endswith(".tmp")]
        matches = ((_NAME.fullmatch(name), size) for name, size in found.items())
        return {(int(match[1]), match[2]): size for match, size in matches if match is not None}

    def _key(self, number: int, kind: str) -> str:
        return f"{FOLDER}/{number:06}{kind}.jsonl"

    def _path(self, number: int, kind: str) -> str:
        return self._objects.path(self._key(number, kind))

    # --- writing ---------------------------------------------------------------------------------

    def fence(self) -> None:
        """Withdraw the next batch, which another process may be about to prepare."""
        self.prepared = self.manifest.next
        self.withdraw()

    def prepare(self, manifest: Manifest, steps: list[dict[str, Any]]) -> None:
        """Write the next batch: whoever opens the lake finishes it from here on."""
        number = manifest.version
        if number != self.manifest.next:
            raise ValueError(f"batch {number} was to come, and {self.manifest.next} is the next")
        was = self._state.lake
        lake, head, tables = self._changed(number, "", self.manifest, was, manifest)
        self._put(number, "", {**head, "steps": steps}, tables)
        self.prepared = number
        self._coming = manifest, lake

    def done(self, manifest: Manifest) -> None:
        """Mark the prepared batch as done, with the state that it led to."""
        if self._coming is None:
            raise AssertionError("no batch is prepared")
        before, lake = self._coming
        head: dict[str, Change] = {}
        tables: dict[str, Change | None] = {}
        if manifest is not before:
            lake, head, tables = self._changed(self.prepared, ".done", before, lake, manifest)
        self._put(self.prepared, ".done", head, tables)
        self.manifest, self._state = manifest, _State(lake=lake)  # its tables are in the manifest
        self.prepared, self._coming = 0, None

    def withdraw(self) -> None:
        """Mark the prepared batch as withdrawn: the state stays that of the batch before."""
        self._put(self.prepared, ".done", {"withdrawn": True}, {})
        self.manifest = replace(self.manifest, withdrawn=self.prepared)
        self.prepared, self._coming = 0, None

    @property
    def decision(self) -> str | None:
        """What was decided of the prepared batch (`decide`); None of one that can be both."""
        if (self.prepared, ".decided") not in self._names:
            return None
        decided = self._document(self.prepared, ".decided").head.get("decision")
        with reading_file(self._path(self.prepared, ".decided"), WHAT):
            if decided not in {FINISH, WITHDRAW}:
                raise ValueError("it decides nothing")
        return str(decided)

    def decide(self, decision: str) -> str:
        """Decide that the prepared batch is to be finished, or withdrawn: what was decided first.

        Raises `PipelineError` if another process writes to the lake now.
        """
        self._put(self.prepared, ".decided", {"decision": decision}, {})
        return self.decision or decision

    def clean(self) -> None:
        """Write a checkpoint, if one is due, and remove what no reader needs any more."""
        self._remove(self._drafts)  # of a process that was killed
        self._drafts = []
        whole = sorted(number for number, kind in self._names if kind == ".all")
        last = whole[-1] if whole else 0
        since = [size for (number, kind), size in self._names.items() if number > last]
        least = max(_LEAST, self._names.get((last, ".all"), 0))
        if self.manifest.version > last and (sum(since) > least or len(since) > _MOST):
            self._checkpoint()
            whole.append(self.manifest.version)
        if len(whole) < 2:
            return
        first = whole[-2]
        gone = [
            name
            for name in self._names
            if name[0] < first or (name[0] == first and name[1] != ".all")
        ]
        self._remove(f"{number:06}{kind}.jsonl" for number, kind in gone)
        for name in gone:
            del self._names[name]

    def _remove(self, names: Iterable[str]) -> None:
        if keys := [f"{FOLDER}/{name}" for name in names]:
            with _lake_errors():
                self._objects.remove(*keys)

    def _checkpoint(self) -> None:
        self._state.lake = lake_json(self.manifest, self._histories)
        tables = _changes(Manifest(), self.manifest)
        self._put(self.manifest.version, ".all", {"lake": [self._state.lake]}, tables)

    def _changed(
        self, number: int, kind: str, before: Manifest, was: dict[str, Any], manifest: Manifest
    ) -> tuple[dict[str, Any], dict[str, Change], dict[str, Change | None]]:
        """The lake's part of a manifest as JSON, and a document's members and tables that make it
        of the one before, whose lake's part ``was`` so. Raises `PipelineError` for what no one
        could read.
        """
        tables = _changes(before, manifest)
        _check(self._path(number, kind), before, manifest, tables)
        lake = lake_json(manifest, self._histories)
        found = change(was, lake, lake.__eq__)
        return lake, {"lake": found} if found else {}, tables

    def _put(
        self, number: int, kind: str, head: Mapping[str, Any], tables: Mapping[str, Change | None]
    ) -> None:
        """Create a document. Raises `PipelineError` if there is another, but for a decision."""
        key = self._key(number, kind)
        content = dump(self._path(number, kind), {"batch": number, **head}, tables)
        found: memoryview | bytes = content
        with _lake_errors():
            try:
                self._objects.put(key, content, new=True)
            except ObjectExists:  # another process's, or an answer was lost
                self._check_owner()  # who has taken over may have removed it
                found, _ = self._objects.read(key, 0, len(content) + 1)
        self._check_owner()
        if found != content and kind != ".decided":
            raise PipelineError(f"{self._objects.path(key)}: another process writes to the lake")
        self._names[number, kind] = len(content)


def _check(path: str, before: Manifest, manifest: Manifest, altered: Collection[str]) -> None:
    """Raises `PipelineError` for what no one could read, of the tables that were altered."""
    try:
        consistent.check_lake(manifest)
        fresh = {key: state for key in altered if (state := manifest.tables.get(key)) is not None}
        if any(
            (known := before.tables.get(key)) is None
            or (known.folder, known.parts) != (state.folder, state.parts)
            for key, state in fresh.items()
        ):
            consistent.check_names(manifest.tables)
        for key, state in (fresh | dict(with_status(manifest.tables))).items():
            consistent.check_table(manifest, key, state, altered=key in fresh)
    except ValueError as error:
        raise PipelineError(
            f"{path}: what was to be committed could not be read again, so it is not: {error}; "
            "this is a mistake of Tailrace's, please report it"
        ) from error


def _changes(before: Manifest, after: Manifest) -> dict[str, Change | None]:
    """The changes of the tables that are not the same."""
    found: dict[str, Change | None] = {}
    for key in sorted(after.altered(before)):
        known, state = before.tables.get(key), after.tables.get(key)
        if state is None:
            found[key] = None
        elif known is not state:
            was = None if known is None else table_json(known)
            made = change(was, table_json(state), partial(_makes, state))
            if made:
                found[key] = made
    return found


def _makes(state: TableState, value: dict[str, Any]) -> bool:
    """Whether JSON is read as a table: so files are in their order, too."""
    return table_of(value, state.states) == state


@contextmanager
def _lake_errors() -> Iterator[None]:
    """The store's errors as the lake's, but for those that say what is there."""
    try:
        yield
    except (NoSuchObject, ObjectExists):
        raise
    except StorageError as error:
        raise PipelineError(f"the lake's journal: {error}") from error
