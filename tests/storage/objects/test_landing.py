"""Issue 20, zero-loss landing: files that grow by segments, at every moment, killed or not."""

import random
import threading
from contextlib import closing, suppress
from uuid import uuid4

import pytest

import tailrace
from tailrace.errors import StorageError, UsageError
from tailrace.replication.copy.folder import open_folder
from tailrace.storage.objects import ObjectFolder, ObjectStore, ObjectUrl
from tailrace.storage.objects import folder as folders
from tailrace.storage.objects import output as outputs
from tailrace.storage.objects.bucket import PART, bucket_of
from tailrace.storage.objects.output import FAN
from tailrace.storage.objects.segments import SUFFIX, read_file
from tests.cases import each_case
from tests.storage.objects.test_find import FILES
from tests.waiting import DEADLINE, ended, in_thread, wait_for

NAME = "binlog.000001"
HEAD = b"\xfebin" + bytes(100)
"""Not in use, and so whole when it is closed."""


def a_folder():
    return ObjectUrl.parse(f"memory://landing/{uuid4()}")


def segments(url):
    """The segments that a plain listing shows, by offset: of no use where others took over."""
    listed = bucket_of(url).list((url / (NAME + SUFFIX)).key).objects
    return {
        int(each.partition("-")[0]): size
        for each, size in listed.items()
        if each.count("-") == 1 and each[0].isdigit()
    }


def stored(url, name=NAME):
    """What a reader gets, who knows nothing of the writer."""
    with closing(ObjectStore(url).open(name)) as stream:
        return b"".join(iter(lambda: stream.read(1 << 20), b""))


def forget():
    """The writer's process is gone."""
    outputs.OPEN.clear()


@pytest.mark.parametrize("seed", range(3))
def test_all_that_can_be_done_to_a_file(bucket, seed):
    """At random: any reader gets what was synced, also a writer on another machine."""
    change_at_random(f"{bucket.url}/deep/er", seed, 120)


def change_at_random(place, seed, steps):
    """The test above, in a folder of any store."""
    chance = random.Random(seed)
    url = ObjectUrl.parse(place)
    folder = ObjectFolder(url)
    wanted = bytearray(HEAD)
    output = folder.spool.create(NAME, HEAD)
    for _ in range(steps):
        match chance.randrange(12):
            case 0:
                at = chance.randrange(len(wanted) + 1)
                del wanted[at:]
                output.truncate(at)
            case 1 if wanted:
                at = chance.randrange(len(wanted))
                data = chance.randbytes(min(chance.randrange(1, 50), len(wanted) - at))
                wanted[at : at + len(data)] = data
                output.update(at, data)
            case 2:
                output.close()
                forget()
                folder = ObjectFolder(url)
                output = folder.spool.reopen(NAME)
            case _:
                data = chance.randbytes(chance.choice([1, 20, 20, 20, 1000, PART // 3]))
                wanted += data
                output.write(data)
        assert output.size == folder.size(NAME) == len(wanted)
        some = chance.randrange(len(wanted) + 1)
        assert folder.read(NAME, some, 5000) == wanted[some : some + 5000]
        if chance.random() < 0.7:
            output.sync()
            assert ObjectStore(url).read(NAME, some, 1 << 30) == wanted[some:]
            assert ObjectStore(url).listing() == {NAME: len(wanted)}
    with pytest.raises(UsageError):
        output.truncate(len(wanted) + 1)
    with pytest.raises(UsageError):
        output.update(len(wanted), b"x")
    output.close()
    assert stored(url) == wanted
    assert folder.names() == folder.spool.names() == [NAME]
    folder.complete(NAME)
    folder.drain()
    assert folder.spool.names() == []
    key = (url / NAME).key
    assert bytes(bucket_of(url).read(key, 0, len(wanted) + 1)[0]) == wanted
    assert not segments(url)
    assert stored(url) == wanted
    folder.remove(NAME)
    assert folder.names() == []


class Killed(Exception):
    """The process ends here."""


class Mortal:
    """A bucket whose client is killed at its ``n``-th change: before or after it took effect."""

    def __init__(self, lower, n, *, after):
        self.lower = lower
        self.left = n
        self.after = after

    def __getattr__(self, name):
        act = getattr(self.lower, name)

        def call(*given, **named):
            if self.left <= 0:
                raise Killed
            if name not in {"put", "upload", "remove"}:
                return act(*given, **named)
            if name == "remove" and len(given) > 1:  # it may be killed within it
                return [call(each) for each in random.Random(1).sample(given, len(given))]
            if self.left == 1 and not self.after:
                self.left = 0
                raise Killed
            done = act(*given, **named)
            self.left -= 1
            if not self.left:
                raise Killed
            return done

        return call


@pytest.mark.slow
@each_case("after", [False, True], ids=["before", "behind"])
def test_killed_at_every_change(monkeypatch, after):
    """What was synced is there, once; the next writer resumes and completes it, byte by byte."""
    chance = random.Random(5)
    pieces = [chance.randbytes(chance.randrange(1, 40)) for _ in range(3 * FAN)]
    content = HEAD + b"".join(pieces)
    real = bucket_of
    n = 0
    merged = completed = 0
    while True:
        n += 1
        url = a_folder()
        mortal = Mortal(real(url), n, after=after)
        synced = 0
        with monkeypatch.context() as dying:
            dying.setattr(folders, "bucket_of", lambda _url, mortal=mortal: mortal)
            folder = ObjectFolder(url)
            with suppress(Killed):
                output = folder.spool.create(NAME, HEAD)
                synced = len(HEAD)
                for piece in pieces:
                    output.write(piece)
                    output.sync()
                    synced += len(piece)
                    folder._worker.drain()
                folder.complete(NAME)
                folder.drain()
                folder.clean()
                folder.drain()
        forget()
        there = ObjectStore(url).listing().get(NAME)
        if there is None:
            assert not synced
            continue
        found = stored(url)
        assert len(found) == there >= synced
        assert content.startswith(found)
        merged += sum(segments(url).values()) > there
        again = ObjectFolder(url)
        again.clean()
        again.drain()
        assert NAME in again.names()
        if NAME in again.spool.names():
            with closing(again.spool.reopen(NAME)) as output:
                output.write(content[len(found) :])
            assert stored(url) == content
            again.complete(NAME)
            again.drain()
        else:
            completed += 1
        assert not segments(url)
        assert again.spool.names() == []
        assert bytes(real(url).read((url / NAME).key, 0, 1 << 20)[0]) == content
        if mortal.left > 0:
            break
    assert n > 3 * FAN + 10
    assert merged > 5
    assert completed > 3


def test_a_reader_at_every_moment(bucket):
    """It gets at least what was synced before, and nothing twice."""
    url = ObjectUrl.parse(f"{bucket.url}/logs")
    chance = random.Random(3)
    content = bytearray(HEAD)
    synced = len(HEAD)
    folder = ObjectFolder(url)
    output = folder.spool.create(NAME, HEAD)
    wrong = []
    looks = 0
    over = threading.Event()
    stream = ObjectStore(url).open(NAME)

    def look():
        nonlocal looks
        with closing(stream):
            while not over.is_set():
                before = synced
                size = ObjectStore(url).listing().get(NAME) or 0
                found = stored(url)
                at = chance.randrange(before)
                stream.seek(at)
                piece = stream.read(10_000)
                if not (before <= size and before <= len(found) and content.startswith(found)):
                    wrong.append(f"{before} {size} {len(found)}")
                if not piece or bytes(content[at : at + len(piece)]) != piece:
                    wrong.append(f"{at} {len(piece)}")
                looks += 1

    reader = in_thread(look)
    for number in range(1, 1001):
        if number % 90 == 0:  # the file does not grow for ever where the reader is slow
            wait_for(lambda least=number // 90: looks >= least or wrong or reader.done())
        data = chance.randbytes(chance.choice([10, 300, 3000]))
        content += data
        output.write(data)
        output.sync()
        synced = len(content)
        assert not wrong, (number, wrong)
    output.update(10, b"\0")
    folder.complete(NAME)
    output.close()
    folder.drain()
    done = looks
    while looks < done + 3 and not reader.done():
        over.wait(0.01)
    over.set()
    ended(reader)
    assert not wrong
    assert looks > 10
    assert stored(url) == content


@pytest.mark.slow
def test_many_small_groups_are_few_segments():
    """So that a file of a million commits is resumed by some hundred requests."""
    url = a_folder()
    folder = ObjectFolder(url)
    output = folder.spool.create(NAME, HEAD)
    for number in range(2000):
        output.write(number.to_bytes(4, "big"))
        output.sync()
    folder._worker.drain()
    assert len(segments(url)) < 4 * FAN
    assert stored(url) == HEAD + b"".join(each.to_bytes(4, "big") for each in range(2000))
    output.close()


def test_two_writers_of_a_file(bucket):
    """On two machines: the one that was there before is stopped, and changes nothing."""
    url = ObjectUrl.parse(bucket.url)
    first = ObjectFolder(url).spool.create(NAME, HEAD)
    first.write(b"one")
    first.sync()
    forget()  # the other machine's process
    second = ObjectFolder(url).spool.reopen(NAME)
    first.write(b"lost, and more")
    with pytest.raises(StorageError, match="another receiver or writer has taken it over"):
        first.sync()
    for act in (first.sync, lambda: first.truncate(5), lambda: first.update(5, b"x")):
        with pytest.raises(StorageError, match="taken it over"):
            act()
    assert stored(url) == HEAD + b"one"
    second.write(b", two")
    second.sync()
    assert stored(url) == HEAD + b"one, two"
    second.truncate(len(HEAD) + 1)
    second.write(b"ther")
    second.sync()
    assert stored(url) == HEAD + b"other"
    forget()
    with pytest.raises(StorageError, match="File exists"):
        ObjectFolder(url).spool.create(NAME, HEAD)
    folder = ObjectFolder(url)
    folder.complete(NAME)
    folder.drain()
    assert bucket_of(url).list((url / (NAME + SUFFIX)).key).objects == {}
    second.write(b"!")
    with pytest.raises(StorageError, match="taken it over"):
        second.sync()
    assert stored(url) == HEAD + b"other"


def test_a_request_that_was_carried_out_and_failed(monkeypatch):
    """Its answer was lost: the same request again is no other writer's, also with more bytes."""
    url = a_folder()
    output = ObjectFolder(url).spool.create(NAME, HEAD)
    lower = output._bucket
    put = lower.put

    def lost(*given, **named):
        put(*given, **named)
        raise StorageError("connection reset")

    output.write(b"one")
    with monkeypatch.context() as broken:
        broken.setattr(lower, "put", lost)
        with pytest.raises(StorageError, match="connection reset"):
            output.sync()
    output.write(b", two")
    output.sync()
    assert stored(url) == HEAD + b"one, two"
    output.close()


@each_case("receiver", [False, True])
def test_the_store_is_away_when_a_file_is_complete(monkeypatch, caplog, receiver):
    """It is completed with the next file, or by a receiver before it reads the file's end."""
    url = a_folder()
    folder = ObjectFolder(url)
    for name in (NAME, "binlog.000002"):
        folder.spool.create(name, HEAD).close()

    def away(*_):
        raise StorageError("no route to host")

    with monkeypatch.context() as broken:
        broken.setattr(folder._bucket, "upload", away)
        folder.complete(NAME)
        folder.drain()
    assert "no route to host" in caplog.text
    assert stored(url) == HEAD
    assert segments(url)
    if receiver:
        forget()
        copy = open_folder(str(url))
        assert copy.can_grow(NAME)
        unlock = copy.lock()
        assert not copy.can_grow(NAME)
        unlock()
    else:
        folder.complete("binlog.000002")
        folder.drain()
        assert folder.spool.names() == []
    assert segments(url) == {}
    assert stored(url) == stored(url, "binlog.000002") == HEAD


def test_nothing_waits_for_a_file_that_is_completed(monkeypatch):
    """The latency of what is received next is that of its own request."""
    url = a_folder()
    folder = ObjectFolder(url)
    folder.spool.create(NAME, HEAD).close()
    lower = folder._bucket
    upload = lower.upload
    waiting, over = threading.Event(), threading.Event()

    def slow(*given):
        waiting.set()
        assert over.wait(DEADLINE)
        upload(*given)

    monkeypatch.setattr(lower, "upload", slow)
    folder.complete(NAME)
    assert waiting.wait(DEADLINE)
    output = folder.spool.create("binlog.000002", HEAD)
    output.write(b"next")
    output.sync()
    output.close()
    assert stored(url, "binlog.000002") == HEAD + b"next"
    assert stored(url) == HEAD
    assert segments(url)
    over.set()
    folder.drain()
    assert not segments(url)
    assert stored(url) == HEAD


# --- the format ----------------------------------------------------------------------------------


def put_version_1(bucket):
    """A folder of version 1, as docs/design/segments.md describes it: names are literal here."""
    whole, last = FILES[0].read_bytes(), FILES[1].read_bytes()
    bucket.put("binlog.000001", whole)
    first, second = "binlog.000001.segments-v1", "binlog.000002.segments-v1"
    bucket.put(f"{first}/00000000000000000000-0000000001", whole[:4])  # not yet deleted
    for name, content in {
        "00000000000000000000-0000000001-0000000000": b"",  # created
        "00000000000000000000-0000000001": last[:200],
        "00000000000000000200-0000000001": last[200:500],  # merged ...
        "00000000000000000300-0000000001": last[300:500],  # ... with this
        "00000000000000000500-0000000001": last[500:600] + b"torn",
        "00000000000000000604-0000000001": b"torn, too",
        "00000000000000000550-0000000002-0000000001": b"",  # who took it, and was replaced
        "00000000000000000550-0000000002": b"too late",
        "00000000000000000600-0000000003-0000000001": b"",  # taken over, and cut at 600
        "00000000000000000600-0000000003": last[600:],
        "owner-0000000003": b"any bytes",
    }.items():
        bucket.put(f"{second}/{name}", content)
    bucket.put("binlog.index", b"./binlog.000001\n./binlog.000002\n")
    return last


def test_golden_version_1_is_read(bucket):
    """A folder of version 1 is read by every later release."""
    last = put_version_1(bucket)
    url = ObjectUrl.parse(bucket.url)
    assert stored(url, "binlog.000002") == last
    assert ObjectStore(url).listing()["binlog.000002"] == len(last)
    assert ObjectStore(url).folders() == []
    local = [event.encode() for path in FILES[:2] for event in tailrace.open(str(path))]
    assert [event.encode() for event in tailrace.open(bucket.url)] == local
    second = [event.encode() for event in tailrace.open(str(FILES[1]))]
    assert [event.encode() for event in tailrace.open(f"{bucket.url}/binlog.000002")] == second
    assert ObjectFolder(url).size("binlog.000002") == len(last)
    assert ObjectFolder(url).names() == ["binlog.000001", "binlog.000002", "binlog.index"]
    folder = ObjectFolder(url)
    folder.clean()
    folder.drain()
    assert bucket.names("binlog.000001.segments-v1") == []
    with closing(folder.spool.reopen("binlog.000002")):
        pass
    assert stored(url, "binlog.000002") == last
    names = bucket.names("binlog.000002.segments-v1")
    assert f"{len(last):020}-0000000004-0000000003" in names
    assert [name for name in names if name.startswith("owner")] == ["owner-0000000004"]
    folder.complete("binlog.000002")
    folder.drain()
    assert (bucket.folder / "binlog.000002").read_bytes() == last
    assert bucket.names("binlog.000002.segments-v1") == []


def test_golden_version_1_is_written(bucket, monkeypatch):
    """The names and bytes of segments are those of version 1."""
    monkeypatch.setattr("tailrace.storage.objects.claims._FIRST", 1)  # else any number
    output = ObjectFolder(ObjectUrl.parse(f"{bucket.url}/logs")).spool.create(NAME, b"\xfebin")
    output.write(b"one")
    output.write(b"two")
    output.sync()
    output.write(b"three")
    output.sync()
    output.truncate(12)
    output.write(b"four")
    output.close()
    place = bucket.folder / "logs/binlog.000001.segments-v1"
    found = {path.name: path.read_bytes() for path in place.iterdir()}
    assert len(found.pop("owner-0000000002")) == 16
    assert found == {
        "00000000000000000000-0000000001-0000000000": b"",
        "00000000000000000000-0000000001": b"\xfebin",
        "00000000000000000004-0000000001": b"onetwo",
        "00000000000000000010-0000000001": b"three",
        "00000000000000000012-0000000002-0000000001": b"",
        "00000000000000000012-0000000002": b"four",
    }


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("binlog.000002.segments-v2/x", "its format has version 2"),
        (
            "binlog.000002.segments-v1/00000000000000001000-0000000001-0000000000",
            "a segment is missing",
        ),
        ("binlog.000002.segments-v1/notes", "it is no segment of a file"),
    ],
)
def test_what_is_not_version_1_is_an_error(bucket, key, told, monkeypatch):
    monkeypatch.setattr("tailrace.storage.objects.segments._PAUSE", 0.0)
    bucket.put("binlog.000001", FILES[0])
    bucket.put(key, b"x")
    bucket.put("binlog.000002.segments-v1/owner-0000000001", b"x")
    place = key.partition("/")[0]
    with pytest.raises(StorageError, match=f"^{bucket.url}/{place}(/x|/notes)?: {told}"):
        tailrace.open(bucket.url)


class Breaks:
    """A bucket that breaks off an answer, once."""

    def __init__(self, lower):
        self.lower = lower
        self.broken = False

    def __getattr__(self, name):
        return getattr(self.lower, name)

    def read(self, key, offset, count):
        if SUFFIX in key and not self.broken:
            self.broken = True
            raise StorageError(f"{key}: the answer ends too early")
        return self.lower.read(key, offset, count)


def test_an_answer_that_breaks_off_as_the_segment_is_replaced():
    """As rclone's server does. Where nothing was replaced, it is an error."""
    url = a_folder()
    folder = ObjectFolder(url)
    output = folder.spool.create(NAME, HEAD)
    bucket, key = bucket_of(url), (url / NAME).key

    def commit(count):
        for _ in range(count):
            output.write(b"commit")
            output.sync()

    commit(FAN)
    for more in (0, 2 * FAN):
        before = read_file(bucket, key, 0, 1000)[2]
        commit(more)
        folder.spool._worker.drain()
        breaks = Breaks(bucket)
        if more:
            assert read_file(breaks, key, 0, 200, before)[0] == (HEAD + 100 * b"commit")[:200]
            assert breaks.broken
        else:
            with pytest.raises(StorageError, match="the answer ends too early"):
                read_file(breaks, key, 0, 200, before)
    output.close()


def test_a_folder_in_memory_is_listed_while_another_thread_removes_from_it():
    bucket, folder = bucket_of(a_folder()), str(uuid4())
    keys = [f"{folder}/{number}" for number in range(50)]
    done = threading.Event()

    def change():
        while not done.is_set():
            for key in keys:
                bucket.put(key, b"x")
            bucket.remove(*keys)

    thread = in_thread(change)
    found, lists = set(), 0
    try:
        while lists < 1000 or len(found) < 2:  # the other thread may begin late
            found.add(len(bucket.list(folder).objects))
            lists += 1
    finally:
        done.set()
        ended(thread)
