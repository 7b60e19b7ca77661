"""The changes that hold: held to a transaction's end, told by reading ahead, streamed, or followed."""

import pytest

from tailrace.errors import BoundaryError, TailraceError
from tailrace.log.changes import MOST_HELD, Changes, Ended, RolledBack
from tailrace.log.reader import Reader
from tailrace.storage import find
from tailrace.transports import SeriesTransport
from tests.recorded import case_of, folders

OF_ALL_KINDS = ("image-", "payload-", "compressed-full-", "compressed-minimal-", "json-partial-")
FOLDERS = [
    folder
    for folder in folders("encrypted", shop=True)
    if not folder.name.startswith("mariadb-10.11")
    and (case_of(folder).startswith(OF_ALL_KINDS) or not folder.name.endswith(("-min", "-full")))
]
"""Of one release a flavour, and without the logs of inserts of one type."""
FOLLOWED = ("xa", "savepoints", "payload-full", "torn", "statement-format", "two-phase-alter")


def series_of(*cases):
    """The logs of these cases, of each flavour; without cases, of all but those of one type."""
    chosen = [folder for folder in FOLDERS if not cases or case_of(folder) in cases]
    assert chosen
    return [(folder.name, series) for folder in chosen for series in find(folder)]


def read(reader, most_held=MOST_HELD):
    """Where each change is and how many rows it has; what was counted; prepared transactions."""
    found = []
    changes = Changes(reader, statements="skip", most_held=most_held)
    try:
        for change in changes:
            event = change.event
            found.append(
                (event.file, event.offset, event.inner_index, change.first, len(change.rows()))
            )
    except TailraceError as error:
        found.append(type(error))
    counts = (changes.rolled_back, changes.unfinished, changes.skipped_statements)
    return found, counts, changes.prepared


def items(series, most_held=MOST_HELD):
    """What consumers of generators see, with the XA transactions at their commit."""
    found = []
    reader = Reader(series)
    changes = Changes(reader, statements="skip", most_held=most_held)
    try:
        for item in changes.with_rolled_back(iter(reader)):
            of = item.item if isinstance(item, RolledBack) else item
            place = of.event and (of.event.file, of.event.offset, of.event.inner_index)
            found.append((type(item), type(of), place))
    except TailraceError as error:
        found.append(type(error))
    return found, changes.prepared, changes.unfinished


class Streamed:
    """Files behind a transport that nobody knows to be files."""

    def __init__(self, series):
        self._files = SeriesTransport(series)
        self.name = series.name
        self.starts = []

    def __getattr__(self, name):
        return getattr(self._files, name)

    def peek(self):
        return None

    def read(self, start, *, follow):
        self.starts.append((start, follow))
        return self._files.read(start, follow=follow)


def same_changes(name, found, told):
    """Whether they are the same; an XA transaction's may come later, when it is committed."""
    return found == told or (
        name.endswith("xa") and sorted(found, key=str) == sorted(told, key=str)
    )


@pytest.mark.slow
def test_reading_ahead_and_a_stream_tell_what_holding_tells():
    """A stream is read once: its transactions are held in a temporary file."""
    wrong = []
    for name, series in series_of():
        told, counts, _ = read(Reader(series))
        if read(Reader(series), 0)[:2] != (told, counts):
            wrong.append(f"{name}: read ahead")
        transport = Streamed(series)
        streamed, now, _ = read(Reader(transport), 0)
        if not same_changes(name, streamed, told) or now != counts:
            wrong.append(f"{name}: streamed")
        if transport.starts != [(None, False)]:
            wrong.append(f"{name}: read more than once")
    assert wrong == []


@pytest.mark.slow
def test_what_was_rolled_back_is_told_of_large_transactions_too():
    """Also XA transactions over the limit are held until their commit, in a temporary file."""
    assert [name for name, series in series_of() if items(series, 0) != items(series)] == []


@pytest.mark.slow
def test_following_tells_what_files_tell():
    wrong = []
    for name, series in series_of(*FOLLOWED):
        told, counts, _ = read(Reader(series))
        for most in (64 << 20, 0):
            reader = Reader(series, follow=True)
            stop_when_quiet(reader)
            found, now, prepared = read(reader, most)
            if not same_changes(name, found, told) or (now, prepared) != (counts, 0):
                wrong.append(f"{name}, {most} bytes held")
    assert wrong == []


def stop_when_quiet(reader):
    """Let a reader that follows end where it has waited in vain for a look's length."""
    wait = reader.log.wait_for_next_event

    def looking(timeout):
        event = wait(timeout)
        if event is None and timeout:
            reader.stop()
        return event

    reader.log.wait_for_next_event = looking


def test_an_xa_transaction_that_is_rolled_back_while_the_log_is_read(monkeypatch):
    """What was given and is taken back behind what was read ahead cannot be taken back: an error."""
    for _, series in series_of("xa"):
        changes = Changes(Reader(series), statements="skip")
        monkeypatch.setattr(changes, "_read_ahead", Until)
        monkeypatch.setattr(changes, "_is_news", lambda _event: True)
        with pytest.raises(BoundaryError, match="rolled back while the log was read"):
            list(changes)


class Until:
    """What reading ahead tells where the log had ended right behind the rows."""

    def rolled_back(self, event):
        return False

    def has_no_end(self, event):
        return False


def test_each_transaction_ends_behind_its_changes():
    """Also a compressed one, whose own event comes first."""
    for _, series in series_of("payload-full", "image-full-full"):
        groups = [[]]
        for item in Changes(Reader(series), statements="skip").with_statements():
            if isinstance(item, Ended):
                groups.append([])
            else:
                groups[-1].append(item.group.start)
        assert groups.pop() == []
        assert all(len(set(group)) <= 1 for group in groups)
        starts = [group[0] for group in groups if group]
        assert starts == sorted(set(starts))
        assert len(groups) == sum(step.kind is not None for step in Reader(series))
