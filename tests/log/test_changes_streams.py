"""The changes that hold in a log that cannot be read ahead: of a server, or one that is followed."""

from __future__ import annotations

import pytest

from tailrace.errors import BoundaryError, TailraceError
from tailrace.log.changes import MOST_HELD, Changes, Ended
from tailrace.log.reader import Reader
from tailrace.storage import find
from tailrace.transports import SeriesTransport
from tests.log.test_changes import FOLDERS, places


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


def changes_of(reader, most_held=MOST_HELD):
    """As `places` of test_changes."""
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


TELLING = ("xa", "savepoints", "payload-full", "torn", "statement-format", "two-phase-alter")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_stream_tells_what_files_tell(folder):
    """Held in a temporary file to its end, a transaction is what reading ahead makes of it.

    Only an XA transaction's changes come in another order, when it is committed. The log is read
    once.
    """
    told = places(folder)
    found = []
    for series in find(folder):
        transport = Streamed(series)
        changes, counts, _ = changes_of(Reader(transport), 0)
        assert transport.starts == [(None, False)]
        found += [*changes, counts]
    assert sorted(found, key=str) == sorted(told, key=str)
    assert found == told or folder.name.endswith("xa")


@pytest.mark.parametrize("most", [64 << 20, 0])
@pytest.mark.parametrize(
    "folder", [path for path in FOLDERS if path.name.endswith(TELLING)], ids=lambda path: path.name
)
def test_following_tells_what_files_tell(folder, most):
    """Only in another order: an XA transaction's changes come when it is committed."""
    for series in find(folder):
        told, counts, _ = changes_of(Reader(series))
        reader = Reader(series, follow=True)
        stop_when_quiet(reader)
        found, now, prepared = changes_of(reader, most)
        assert (now, prepared) == (counts, 0)
        assert sorted(found, key=str) == sorted(told, key=str)
        assert found == told or folder.name.endswith("xa")


def stop_when_quiet(reader):
    """Let a reader that follows end where it has waited in vain for a look's length."""
    wait = reader.log.wait_for_next_event

    def looking(timeout):
        event = wait(timeout)
        if event is None and timeout:
            reader.stop()
        return event

    reader.log.wait_for_next_event = looking


def test_an_xa_transaction_that_is_rolled_back_while_the_log_is_read(corpus_xa, monkeypatch):
    """What was given and is taken back behind what was read ahead cannot be taken back: an error."""
    for series in corpus_xa:
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
    folders = [path for path in FOLDERS if path.name.endswith(("payload-full", "image-full-full"))]
    assert folders
    for series in (series for folder in folders for series in find(folder)):
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


@pytest.fixture
def corpus_xa():
    folders = [path for path in FOLDERS if path.name.endswith(".xa")]
    assert folders
    return [series for folder in folders for series in find(folder)]
