"""Real servers' logs of the corpus, whole and plain, for what needs no running server."""

from __future__ import annotations

from array import array

from tailrace.events.format_description import marked
from tailrace.live.chunks import Chunk, FileBegin
from tests.live.feeding import events_of
from tests.recorded import case_of, folders


def files(*cases):
    """The log files of these cases of one release of each flavour; of all cases without any."""
    return [
        path
        for folder in folders("encrypted", "relay", "torn")
        if not folder.name.startswith("mariadb-10.11") and (not cases or case_of(folder) in cases)
        for path in sorted(folder.glob("*.[0-9][0-9][0-9][0-9][0-9][0-9]"))
    ]


def split(raw):
    """Offsets of the events, and the end."""
    return [*(at for at, _, _ in events_of(raw)), len(raw)]


def begin_of(name, raw):
    """A file's begin as a feed gives it."""
    starts = split(raw)
    return FileBegin(
        name, starts[1], bytes(marked(raw[4 : starts[1]], in_use=False)), artificial=False
    )


def chunks_of(name, raw, count=7, start=None):
    """The events behind the format description in chunks of so many events."""
    starts = split(raw)
    first = 1 if start is None else starts.index(start)
    for number in range(first, len(starts) - 1, count):
        part = starts[number : number + count + 1]
        begin, end = part[0], part[-1]
        own = memoryview(array("q", [each - begin for each in part[:-1]]))
        yield Chunk(name, begin, memoryview(bytearray(raw[begin:end])), own)
