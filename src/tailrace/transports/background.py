"""A thread that reads ahead into a queue of limited size."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import finalize

from tailrace.warn import warn

if TYPE_CHECKING:
    from tailrace.transports.base import Record, Stream

_GRACE: Final = 10.0
"""Seconds that a stream has to end its reading when it is closed."""


class EndOfEvents:
    """Marks the end of the queue, after the last event."""


END: Final = EndOfEvents()


class _Shared:
    """State shared by both threads. Each counter is written by only one of them.

    The queue itself has no size limit, because errors and the end must always get through to the
    consumer. The reading thread waits for room before it adds an event.
    """

    def __init__(self, most_events: int, most_bytes: int) -> None:
        self.queue: SimpleQueue[Record | Exception | EndOfEvents | None] = SimpleQueue()
        self.room = Condition()
        self.stopped = False
        self.waiting = False
        self.most_events, self.most_bytes = most_events, most_bytes
        self.put_events = self.put_bytes = 0
        self.taken_events = self.taken_bytes = 0

    def has_room(self, size: int) -> bool:
        """Whether an event may be added; a single event always may."""
        held = self.put_events - self.taken_events
        held_bytes = self.put_bytes - self.taken_bytes
        return not held or (held < self.most_events and held_bytes + size <= self.most_bytes)

    def wait_for_room(self, size: int) -> None:
        """Wait until an event may be added, or reading is stopped."""
        with self.room:
            self.waiting = True
            self.room.wait_for(lambda: self.stopped or self.has_room(size))
            self.waiting = False

    def stop(self) -> None:
        """End the reading thread's wait."""
        self.stopped = True
        with self.room:
            self.room.notify_all()


def _read(stream: Stream, shared: _Shared) -> None:
    """The thread's work: all events, then the end or the error."""
    try:
        for record in stream:
            size = len(record[2])
            if not shared.has_room(size):
                shared.wait_for_room(size)
            if shared.stopped:
                break
            shared.put_events += 1
            shared.put_bytes += size
            shared.queue.put(record)
    except Exception as error:  # noqa: BLE001 - every error goes to the consumer
        shared.queue.put(error)
    else:
        shared.queue.put(END)


def _stop(stream: Stream, shared: _Shared) -> None:
    shared.stop()
    stream.close()


class BackgroundReader:
    """Reads a stream in a separate thread, ahead by a limited number of events and bytes.

    A full queue pauses the reading until there is room: nothing is lost. What the stream raises
    comes out in order, after all events before it. There is only one consumer. Reading ends with
    `close`, or when the reader is no longer referenced.
    """

    def __init__(
        self, stream: Stream, *, most_events: int = 4096, most_bytes: int = 16 << 20
    ) -> None:
        self.stream = stream
        self._shared = _Shared(most_events, most_bytes)
        self._over: Exception | EndOfEvents | None = None
        self._thread = Thread(
            target=_read, args=(stream, self._shared), name="tailrace reader", daemon=True
        )
        self._finalize = finalize(self, _stop, stream, self._shared)
        self._thread.start()

    def get(self, deadline: float | None = None) -> Record | EndOfEvents | None:
        """The next event; END after the last; None at the ``deadline`` (by `time.monotonic`), or
        when `wake` was called. An error of the stream is raised, and raised again by each later
        call.
        """
        if self._over is None:
            shared = self._shared
            timeout = None if deadline is None else max(0.0, deadline - monotonic())
            try:
                item = shared.queue.get(timeout=timeout)
            except Empty:
                return None
            if isinstance(item, tuple):
                shared.taken_events += 1
                shared.taken_bytes += len(item[2])
                if shared.waiting:
                    with shared.room:
                        shared.room.notify_all()
                return item
            if item is None:
                return None
            self._over = self._over or item
        if isinstance(self._over, Exception):
            raise self._over
        return self._over

    @property
    def held(self) -> tuple[int, int]:
        """Events and bytes in the queue now."""
        shared = self._shared
        return shared.put_events - shared.taken_events, shared.put_bytes - shared.taken_bytes

    def wake(self) -> None:
        """Let a waiting `get` return None; from any thread."""
        self._shared.queue.put(None)

    def close(self) -> None:
        """End the thread, even if it waits; from any thread. What is in the queue is dropped, and a
        waiting `get` returns END.
        """
        self._finalize()
        self._over = END
        self._thread.join(_GRACE)
        self._shared.queue.put(END)
        if self._thread.is_alive():
            warn(
                f"a reader did not end within {_GRACE:.0f} seconds of its stream's close; its"
                " thread is left behind",
                ResourceWarning,
            )
