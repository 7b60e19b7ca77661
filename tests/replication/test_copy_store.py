"""A copy in an object store that another receiver takes over while the first one writes to it."""

from uuid import uuid4

import pytest

from tailrace.errors import StorageError
from tailrace.log_name import LogName
from tailrace.replication.copy.files import Copy
from tailrace.replication.copy.folder import open_folder
from tailrace.storage.objects import ObjectUrl
from tailrace.storage.objects import folder as folders
from tailrace.storage.objects.bucket import bucket_of
from tests.replication.logs import begin_of, chunks_of, files
from tests.storage.objects.test_landing import forget, stored
from tests.storage.objects.test_two_writers import Stopped

PATH = files("several-tables")[0]
NAME = LogName(PATH.name)


class Copied:
    """A log that receivers copy, two events at a time; up to ``synced`` it is stored."""

    def __init__(self):
        self.url = ObjectUrl.parse(f"memory://copies/{uuid4()}")
        self.raw = PATH.read_bytes()
        self.chunks = {chunk.offset: chunk for chunk in chunks_of(NAME, self.raw, 2)}
        self.synced = 0

    def copy(self):
        forget()
        return Copy(open_folder(str(self.url)), None)

    def first(self):
        """A receiver that has received some of it."""
        copy = self.copy()
        copy.begin(NAME, begin_of(NAME, self.raw).description)
        for _ in range(3):
            self.write(copy)
        return copy

    def write(self, copy):
        """What the source sends next."""
        chunk = self.chunks[copy.position.offset]
        copy.write(chunk.data, list(chunk.starts))
        copy.sync()
        self.synced = copy.position.offset

    def check(self):
        """What was synced is there."""
        found = stored(self.url, NAME)
        assert len(found) >= self.synced  # a segment may be there that its writer was not told of
        assert found[25:] == self.raw[25 : len(found)]  # but for the flag


def taken_over(n, *, after, patch):
    """The second receiver is stopped at its ``n``-th request while the first one writes on; whether
    that succeeded, None if it was not stopped.
    """
    copied = Copied()
    first = copied.first()
    written = []

    def write_on():
        try:
            copied.write(first)
            written.append(True)
        except StorageError:
            written.append(False)

    stopped = Stopped(bucket_of(copied.url), n, write_on, after=after)
    with patch.context() as inner:
        inner.setattr(folders, "bucket_of", lambda _: stopped)
        second = copied.copy()
    second.recover()
    asked = second.position
    assert second.resume()
    assert second.position == asked  # the source was told to continue there
    copied.check()
    copied.write(second)
    copied.check()
    return written[0] if written else None


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
def test_what_a_receiver_stores_until_it_is_replaced_is_not_cut(after, monkeypatch):
    """Issue 20: it stores events while the next one reads the copy and asks the source."""
    n, seen = 1, []
    while (written := taken_over(n, after=after, patch=monkeypatch)) is not None:
        seen.append(written)
        n += 1
    assert seen == sorted(seen, reverse=True)
    assert {*seen} == {True, False}


def test_what_a_third_receiver_stores_is_not_cut():
    """The second one has read the copy, and was paused until the source answered it."""
    copied = Copied()
    copied.first()
    second = copied.copy()
    second.recover()
    third = copied.copy()
    third.recover()
    assert third.resume()
    copied.write(third)
    forget()
    with pytest.raises(StorageError, match="another receiver has written to it since it was read"):
        second.resume()
    copied.check()


def test_a_store_that_fails_is_told_with_what_to_do(monkeypatch):
    copied = Copied()
    copy = copied.first()

    def full(*_arguments, **_options):
        raise StorageError("the store is full")

    monkeypatch.setattr(type(bucket_of(copied.url)), "put", full)
    with pytest.raises(StorageError, match=r"store is full; .* it resumes$"):
        copied.write(copy)
