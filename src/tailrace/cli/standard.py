"""The process's standard streams, when they are closed or cannot be written."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from tailrace.errors import StorageError

if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


class _Output(io.FileIO):
    """Standard output or stderr. What it cannot write is lost after the error, which comes once;
    of stderr it never comes: nobody could be told.
    """

    def __init__(self, handle: int, *, raises: bool) -> None:
        super().__init__(handle, "w", closefd=False)
        self._raises = raises
        self._failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        """Raises BrokenPipeError, and StorageError for other errors."""
        if not self._failed:
            try:
                return super().write(data)
            except OSError as error:
                if self._raises and isinstance(error, BrokenPipeError):
                    raise
                self._failed = True
                if self._raises:
                    raise StorageError(f"standard output: {error.strerror or error}") from None
        return memoryview(data).nbytes


def use_standard_streams() -> None:
    """Let errors of writing be Tailrace's; a stream that is closed is an error when it is used."""
    for name, flags in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:  # the descriptor is free, and a log's file could take it
            handle = os.open(os.devnull, flags)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(handle, mode, closefd=False))  # noqa: SIM115 - it stays open
    sys.stdout = _told(sys.stdout, raises=True)
    sys.stderr = _told(sys.stderr, raises=False)


def _told(stream: TextIO, *, raises: bool) -> TextIO:
    try:
        handle = stream.fileno()
    except OSError:  # the caller's own, in memory
        return stream
    if type(stream) is not io.TextIOWrapper:  # a test's
        return stream
    stream.flush()
    raw = _Output(handle, raises=raises)
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def flush_quietly() -> None:
    """Write out what was printed before an error, if the reader still exists."""
    try:
        sys.stdout.flush()
    except StorageError:  # one error is said
        return
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Drop what standard output still holds: nobody reads it any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
