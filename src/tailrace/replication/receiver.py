"""A receiver: keeps a byte-identical copy of a source's logs, and acknowledges what is stored."""

from __future__ import annotations

import logging
import random
import selectors
import socket
import time
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final, Literal

from tailrace.arguments import checked
from tailrace.durations import seconds_of
from tailrace.errors import (
    ConnectionLost,
    DuplicateServerId,
    LogPurged,
    LogReset,
    TailraceError,
    UsageError,
)
from tailrace.live.chunks import END, Chunk, Expected, FileBegin
from tailrace.live.feed import Feed
from tailrace.live.retry import Attempts
from tailrace.live.session import Identity
from tailrace.live.url import Source
from tailrace.log_name import LogName
from tailrace.observers import RelayIo, RelayIoDelegate, add
from tailrace.replication.copy.files import Copy
from tailrace.replication.copy.folder import CopyFolder, open_folder
from tailrace.replication.copy.writer import CopyWriter, SyncFirst, SyncPolicy
from tailrace.replication.progress import Meter, SourceEnd
from tailrace.replication.retain import Retention
from tailrace.replication.start import Follows, begin_of
from tailrace.replication.state import STATE_NAME, ReceiverState
from tailrace.replication.unframe import GrowingUnframe
from tailrace.storage.index import INDEX_SUFFIX
from tailrace.storage.objects.folder import Contested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tailrace.live.chunks import Item
    from tailrace.observers import Observer
    from tailrace.position import Position
    from tailrace.replication.progress import Progress
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.storage.target import Target

_log: Final = logging.getLogger("tailrace.receiver")
_LOOK_SECONDS: Final = 0.1
"""Seconds between checks for `stop` while nothing arrives."""
_PATIENCE: Final = 10.0
"""Seconds that `stop` waits for the end of a transaction while nothing arrives."""
_MARK_BYTES: Final = 64 << 20
"""Bytes between saves of the synced position, from which a restart scans the copy."""
_AGE_SECONDS: Final = 600.0
"""Seconds between purges of files by age."""


_CONTESTS: Final = 6
"""Attempts to receive into a folder while other receivers take it over, each soon after another."""
_QUIET_SECONDS: Final = 60.0


class _Phase(Enum):
    """What a run does with the items that come."""

    COPYING = "all is written; after `stop`: ENDING inside a transaction, else OVER"
    ENDING = "written up to the transaction's end, or the file's, or a long silence: then OVER"
    OVER = "nothing more is written"


class Receiver:
    """Copies a source's logs into a folder: `run` it, in any thread, and `stop` it from any.

    ``into`` is a folder on disk, ``memory:name``, an object store's URL, or a store object. The
    copy has the source's file names and bytes, and its index. If the folder holds a copy, the
    receiver resumes it at exactly the byte at which it ends, also inside a transaction; then the
    URL's start is ignored. A new copy begins where the URL says, at the beginning of that file:
    ``oldest`` (the default) is the first file that the source has, ``now`` the current one.

    ``sync`` says when written events are synced (`SyncPolicy`), and so acknowledged by
    ``observers``. With ``encrypt`` new files are encrypted with a key of the ``keyring``, as MySQL
    does it. ``layers`` are on the copy's files, the lowest first; zstd is put on a file when its
    source has ended it. If the folder has files named ``.zst``, it is on the others, too.
    ``retain`` purges old files (`Retention`). The receiver ends at the source's present end;
    with ``follow`` it waits there for more. ``full`` is called with the size of each piece that was
    written; if it returns True, the receiver ends as after `stop`. ``on_progress`` is called every
    ``every`` seconds, and at the end.

    Raises UsageError.
    """

    def __init__(
        self,
        source: Source | str,
        into: Target,
        *,
        sync: str | float = "group",
        encrypt: bool = False,
        keyring: Keyring | str | Path | None = None,
        key_id: str | None = None,
        layers: Layers | None = None,
        retain: Retention | str | None = None,
        observers: Sequence[Observer] = (),
        follow: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
        every: float = 1.0,
        full: Callable[[int], bool] | None = None,
    ) -> None:
        self.source = source if isinstance(source, Source) else Source.parse(source)
        if len(self.source.hosts) > 1:
            raise UsageError(
                f"{self.source.name}: a byte copy holds one server's files: give one host, or use a"
                " separate receiver and folder for each server"
            )
        seconds_of(every, "every")
        self.into = into
        self._policy = SyncPolicy.of(sync)
        self._retain = Retention.parse(retain) if isinstance(retain, str) else retain
        if not isinstance(self._retain, Retention | None):
            raise UsageError(f"retain is text, as 7d or 100GB, not {retain!r}")
        self._open = partial(
            open_folder, into, encrypt=encrypt, keyring=keyring, key_id=key_id, layers=layers
        )
        self._first = SyncFirst()
        self._unframe = GrowingUnframe()
        self._delegate: RelayIoDelegate | None = None
        if observers:
            self._delegate = RelayIoDelegate([self._first])
            add(observers, self._delegate, to="receive")
        self._follow = follow
        self._on_progress = on_progress
        self._every = every
        self._full = full
        self._stop = Event()
        self._at_once = Event()
        self._feed: Feed | None = None
        self._asking: socket.socket | None = None
        self._next_purge = 0.0
        self._owned = False
        """Whether the file was still this receiver's when the source preferred another."""
        self.state: Literal["new", "running", "stopped", "failed"] = "new"
        """``stopped``: asked to, or at the source's end."""
        self.position: Position | None = None
        """Where the copy ends."""
        self.purged: list[str] = []
        """The files that were purged."""

    def stop(self, *, at_once: bool = False) -> None:
        """End at the next end of a transaction, or ``at_once``; then `run` returns, finally.

        If the source sends nothing for ten seconds inside a transaction, or is not connected, the
        receiver ends there: a restart resumes the copy at that byte.
        """
        self._stop.set()
        feed, asking = self._feed, self._asking
        if asking is not None:
            with suppress(OSError):  # it has just been answered
                asking.send(b"\0")
        if at_once:
            self._at_once.set()
        if feed is not None and (at_once or not feed.connected):
            feed.close()

    def run(self) -> Progress:
        """Receive until `stop`, or the source's current end; returns the progress.

        Raises the errors of the source, the store and observers. The copy is intact then, up to its
        end, and another run resumes it.
        """
        if self.state == "running":
            raise UsageError("this receiver is running already")
        self.state = "running"
        try:
            folder = self._open()
            unlock = folder.lock()
            try:
                done = self._receive_contested(folder)
            finally:
                unlock()
        except BaseException:
            self.state = "failed"
            raise
        self.state = "stopped"
        return done

    def reset(self) -> None:
        """Remove the copy, its index, and the state about its source, as RESET REPLICA does.

        The next run begins a new copy. Observers are told (``after_reset_replica``). Raises
        UsageError if this receiver is running, StorageError if another is.
        """
        if self.state == "running":
            raise UsageError("this receiver is running: stop it before its copy is removed")
        _remove_copy(self._open(), self._delegate or RelayIoDelegate(), self.source.user)
        self.position = None

    def _receive_contested(self, folder: CopyFolder) -> Progress:
        """`_receive`, again if another receiver of the folder came in between.

        The source gives its log to the replica that connected last, the store a file to the
        receiver that opened it last: these may be two. The store decides. Who has lost a file ends;
        who has not looks again and takes over what is there, also from a receiver that the source
        preferred.
        """
        contests = 0
        while True:
            begun = time.monotonic()
            try:
                return self._receive(folder)
            except (Contested, DuplicateServerId) as error:
                contests = 1 if time.monotonic() - begun > _QUIET_SECONDS else contests + 1
                lost = isinstance(error, DuplicateServerId) and not self._owned
                last = contests == _CONTESTS or self._stop.is_set()
                if lost or last or not folder.is_shared:
                    raise
                _log.warning("%s; looking again", error)
            self._stop.wait(random.uniform(0.1, 0.5))  # noqa: S311 - no secret

    def _receive(self, folder: CopyFolder) -> Progress:
        state = ReceiverState.load(folder) or ReceiverState()
        if state.encrypted and not folder.encrypting:
            folder.encrypt()
        copy = Copy(folder, state.base)
        copy.recover(state.mark)
        writer = CopyWriter(copy, self._policy, delegate=self._delegate, waiting=self._pending)
        self._first.writer = writer
        identity = Identity(state.server_id, state.uuid)
        end = SourceEnd(self.source, identity)
        meter = Meter(self.source.name, writer, end, self._on_progress, self._every)
        try:
            self._run_feed(writer, meter, state, identity)
        except (LogReset, LogPurged) as error:
            raise self._explained(error, copy) from error
        finally:
            self._first.writer = None
            self.position = copy.position
            end.close()
        return meter.done()

    def _run_feed(
        self, writer: CopyWriter, meter: Meter, state: ReceiverState, identity: Identity
    ) -> None:
        """Run a feed, and a second one if the source purged the file that was copied completely."""
        copy = writer.copy
        follows: Follows | None = None
        while True:
            try:
                feed = self._new_feed(copy, state, identity, follows)
            except ConnectionLost:
                if not self._stop.is_set():
                    raise
                copy.close()
                return
            try:
                self._loop(feed, writer, meter, state, follows)
            except (LogPurged, LogReset) as error:
                self._let_go(feed, writer)
                last = copy.last
                if follows is not None or writer.written or last is None or not last.closed:
                    raise
                follows = Follows.of(copy.folder, last, error)
            except DuplicateServerId:
                self._owned = False
                with suppress(TailraceError):
                    self._owned = copy.is_owned
                self._let_go(feed, writer)
                raise
            except BaseException:
                self._let_go(feed, writer)
                raise
            else:
                self._end(feed, writer)
                return

    def _new_feed(
        self, copy: Copy, state: ReceiverState, identity: Identity, follows: Follows | None
    ) -> Feed:
        description = copy.last.description if copy.last is not None else None
        start = copy.position or self._begin(identity)
        if follows is not None:
            start, description = follows.start, None
        expected = Expected(
            uuid=state.source_uuid,
            description=description or None,
            reached=copy.position is not None,
        )
        self._feed = Feed(
            self.source,
            start=start,
            follow=self._follow,
            delegate=self._delegate,
            unframe=self._unframe,
            expected=expected,
            identity=identity,
        )
        if self._at_once.is_set():
            self._feed.close()
        return self._feed

    def _begin(self, identity: Identity) -> Position | Literal["oldest"]:
        """Where a new copy begins; `stop` interrupts the query."""
        woken, wake = socket.socketpair()
        with woken, wake:
            self._asking = wake
            try:
                if self._stop.is_set():
                    wake.send(b"\0")
                attempts = Attempts(self.source)
                while True:
                    try:
                        return begin_of(self.source, identity, wake=woken)
                    except ConnectionLost as error:
                        if self._stop.is_set():
                            raise
                        attempts.failed(error, time.monotonic())
                        _log.warning("%s; trying again", error)
                    with selectors.DefaultSelector() as selector:
                        selector.register(woken, selectors.EVENT_READ)
                        selector.select(max(attempts.due - time.monotonic(), 0))
            finally:
                self._asking = None

    def _end(self, feed: Feed, writer: CopyWriter) -> None:
        """Sync, acknowledge as long as there is a connection, and close feed and copy."""
        try:
            writer.sync()
        finally:
            self._feed = None
            try:
                feed.close()
            finally:
                writer.copy.close()

    def _let_go(self, feed: Feed, writer: CopyWriter) -> None:
        """Do the same after an error, without raising further errors."""
        with suppress(TailraceError):
            self._end(feed, writer)

    def _loop(
        self,
        feed: Feed,
        writer: CopyWriter,
        meter: Meter,
        state: ReceiverState,
        follows: Follows | None,
    ) -> None:
        copy, writer.io = writer.copy, feed.io
        phase = _Phase.COPYING
        heard = time.monotonic()
        items = self._items(feed, writer, follows)
        while True:
            if phase is _Phase.COPYING and self._stop.is_set():
                inside = copy.is_open and writer.look()
                phase = _Phase.ENDING if inside else _Phase.OVER
            if phase is _Phase.ENDING and time.monotonic() - heard > _PATIENCE:
                phase = _Phase.OVER
            if phase is _Phase.OVER or (item := next(items)) is END:
                return
            if isinstance(item, Chunk):
                heard = time.monotonic()
                if phase is _Phase.COPYING:
                    writer.write(item)
                    if self._full is not None and self._full(len(item.data)):
                        self._stop.set()
                elif writer.write_to_end(item):
                    phase = _Phase.OVER
            elif isinstance(item, FileBegin):
                heard = time.monotonic()
                if phase is _Phase.ENDING:
                    phase = _Phase.OVER
                state = self._remember(feed, copy.folder, state, item.file)
                if writer.begin(item):
                    self._purge(copy)
            else:
                writer.idle()
                if self._next_purge and time.monotonic() > self._next_purge:
                    self._purge(copy)
            state = self._marked(writer, state)
            self.position = copy.position
            meter.tick(feed)

    @staticmethod
    def _items(feed: Feed, writer: CopyWriter, follows: Follows | None) -> Iterator[Item | None]:
        """The feed's items; a file of unknown continuity is held until its first events."""
        begin: FileBegin | None = None
        while True:
            item = feed.take(writer.patience(_LOOK_SECONDS))
            if follows is not None and not follows.checked:
                if isinstance(item, FileBegin):
                    begin = item
                    continue
                if isinstance(item, Chunk) and begin is not None:
                    follows.check(item)
                    yield begin
            yield item

    def _remember(
        self, feed: Feed, folder: CopyFolder, state: ReceiverState, file: LogName
    ) -> ReceiverState:
        """Save the source's identity before the copy's first file is created."""
        session = feed.session
        if session is None:
            return state
        known = replace(
            state,
            uuid=feed.identity.uuid,
            server_id=feed.identity.server_id,
            source_uuid=session.server_uuid,
            source_id=session.server_id,
            flavour=str(session.flavour),
            base=file.base,
            encrypted=folder.encrypting,
        )
        if known != state:
            known.save(folder)
        return known

    @staticmethod
    def _marked(writer: CopyWriter, state: ReceiverState) -> ReceiverState:
        """Save from time to time the position from which a resumed copy has to be scanned."""
        before, position = state.mark, writer.copy.position
        if position is None or not writer.copy.synced:
            return state
        start = before.offset if before is not None and before.file == position.file else 0
        if position.offset - start < _MARK_BYTES:
            return state
        state = replace(state, mark=writer.copy.mark(writer.ends.begun))
        state.save(writer.copy.folder)
        return state

    def _pending(self) -> bool:
        return self._feed is not None and self._feed.pending()

    def _purge(self, copy: Copy) -> None:
        if self._retain is None:
            return
        if self._retain.seconds is not None:
            self._next_purge = time.monotonic() + _AGE_SECONDS
        gone = self._retain.apply(copy.index, copy.folder)
        self.purged += gone
        if gone:
            _log.info("%s: purged %s", copy.folder.path(""), ", ".join(gone))

    def _explained(self, error: LogReset | LogPurged, copy: Copy) -> TailraceError:
        """The same error, with the state of the copy and what to do."""
        text = error.message
        if copy.position is not None:
            text += (
                f". The copy in {copy.folder.path('')} is kept, up to {copy.position}; begin a new"
                " one in another folder (--into, into=)"
            )
        return error.reworded(text)


def reset(
    into: Target, *, observers: Sequence[Observer] = (), layers: Layers | None = None
) -> list[str]:
    """Remove a copy, its index, and the state about its source, as RESET REPLICA does; the next
    `receive` begins a new one. Returns the names of its log files.

    ``into`` and ``layers`` are as in `receive`. ``observers`` are told (``after_reset_replica``).
    Raises UsageError if no copy is there, StorageError if a receiver writes to it.
    """
    delegate = RelayIoDelegate()
    add(observers, delegate, to="the reset of a copy")
    folder = open_folder(into, layers=layers)
    if STATE_NAME not in folder.names():
        raise UsageError(f"{folder.path('')}: no receiver's copy is in this folder")
    return _remove_copy(folder, delegate, "")


def _remove_copy(folder: CopyFolder, delegate: RelayIoDelegate, user: str) -> list[str]:
    unlock = folder.lock()
    try:
        state = ReceiverState.load(folder) or ReceiverState()
        logs = folder.logs()
        for name in folder.names():
            log = name
            if name.endswith(INDEX_SUFFIX):
                log = name.removesuffix(INDEX_SUFFIX) + ".000001"
            if name == STATE_NAME or LogName.parse(log):
                folder.remove(name)
    finally:
        unlock()
    delegate.after_reset_replica(RelayIo(server_id=state.server_id or 0, user=user))
    return [*map(str, logs)]


@checked
def receive(
    source: Source | str,
    into: Target,
    *,
    sync: str | float = "group",
    encrypt: bool = False,
    keyring: Keyring | str | Path | None = None,
    key_id: str | None = None,
    layers: Layers | None = None,
    retain: Retention | str | None = None,
    observers: Sequence[Observer] = (),
    follow: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    every: float = 1.0,
) -> Progress:
    """Keep a byte-identical copy of a server's logs, in this thread, until it ends.

    ``source`` is the server's URL (``mysql://user@host``; ``start`` in it says where a new copy
    begins). ``into`` is a folder on disk, ``memory:name``, an object store's URL, or a store
    object. If it holds a copy, that is continued at the byte at which it ends. Returns the
    progress: what was received, and up to where.

    ``sync`` says when what was received is synced, to disk or into the object store, and so
    acknowledged: ``group`` (what arrived together), ``transaction``, or an interval (``50ms``,
    ``2s``, a number of seconds).
    With ``encrypt`` new files are encrypted with the key ``key_id`` of the ``keyring``. ``layers``
    are on the copy's files, as ``zstd``. ``retain`` purges old files: ``7d``, ``100GB``.
    ``observers`` are told what arrives, such as
    `tailrace.replication.semisync.replica.SemisyncReplica`. With ``follow`` it waits for more at
    the source's end, else it ends there. ``on_progress`` is called every ``every`` seconds, and at
    the end. `tailrace.replication.receiver.Receiver` has the same options, and a ``stop`` for other
    threads.

    Raises UsageError for wrong arguments, ConnectionLost if the server is not reached, ServerError
    and its kinds (LogPurged, LogReset, …) for its errors, StorageError if the copy cannot be
    written.

    With the ``url`` of a server, ``mysql://user@host``:

    >>> import tailrace
    >>> progress = tailrace.receive(url, "copy")
    >>> progress.done, str(progress.position) == str(tailrace.open("copy", start="now").position)
    (True, True)
    """
    return Receiver(
        source,
        into,
        sync=sync,
        encrypt=encrypt,
        keyring=keyring,
        key_id=key_id,
        layers=layers,
        retain=retain,
        observers=observers,
        follow=follow,
        on_progress=on_progress,
        every=every,
    ).run()
