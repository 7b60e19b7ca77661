"""Every error of MySQL's list, provoked by a damaged file, in each way of reading a log.

The list is ``Binlog_read_error`` (sql/binlog_istream.h); docs/design/storage.md says which type of
ours each is.
"""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

import tailrace
from tailrace.columns.batches import changes
from tailrace.errors import (
    BadEventLength,
    BadMagic,
    CannotOpen,
    ChecksumMismatch,
    EncryptionError,
    EventDecodeError,
    EventTooLarge,
    KeyMissing,
    OutOfMemory,
    ReadFailed,
    StorageError,
    TailraceError,
    TruncatedEvent,
    WrongKey,
)
from tailrace.storage import LogFile, LogSeries, keyring
from tailrace.storage.streams import file as streams
from tests.cases import each_case
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.cli.test_errors import one_error
from tests.recorded import CORPUS, ROOT
from tools.campaign.mutate import Parsed

SOUND = ["mysql-9.7.checksum-crc32", "mariadb-11.8.checksum-crc32", "mysql-9.7.checksum-none"]
TABLE_MAP = 19
HEADER = 19


def objects(path, keys):
    for event in tailrace.open(path, keyring=keys):
        event.check()


def columns(path, keys):
    for batch in changes(path, keyring=keys, statements="skip"):
        batch.validate(full=True)


WAYS = {"objects": objects, "columns": columns}


class Expected(NamedTuple):
    kind: type[TailraceError]
    offset: int | None
    text: str


class Reading:
    """Reads a log in every way, and says that each raised what is expected, at that place."""

    def __init__(self, command):
        self._run = command

    def fails(self, path, expected, keys=None):
        for read in WAYS.values():
            with pytest.raises(expected.kind, match=expected.text) as caught:
                read(path, keys)
            error = caught.value
            assert type(error) is expected.kind
            assert Path(error.file or "").name == path.name
            assert error.offset == expected.offset
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again)) == (type(error), str(error))
            assert vars(again) == vars(error)
        ran = self._run("log", path, *(() if keys is None else ("--keyring", keys)))
        line = one_error(ran.err)
        assert (ran.status, line.startswith("tailrace: ")) == (2, True), ran.err
        assert path.name in line
        assert "Traceback" not in ran.err
        if expected.offset is not None and not issubclass(expected.kind, KeyMissing):
            assert f"{path.name} at {expected.offset}" in line

    def succeeds(self, path):
        for read in WAYS.values():
            read(path, None)
        assert self._run("log", path).status == 0


@pytest.fixture
def reading(run):  # noqa: F811 - the fixture
    return Reading(run)


def whole(name):
    """A log that is whole, cut into its events."""
    path = next((CORPUS / name).glob("binlog.0*"))
    return Parsed.of(path.read_bytes())


every_log = each_case("log", SOUND)


def offset(log, index):
    return 4 + sum(map(len, log.events[:index]))


def table_map(log):
    """The number of the first event that names a table."""
    return next(number for number, event in enumerate(log.events) if event[4] == TABLE_MAP)


def write(folder, data):
    path = folder / "binlog.000007"
    path.write_bytes(data)
    return path


@every_log
def test_read_eof(tmp_path, reading, log):
    """The end of a log is no error."""
    sound = whole(log)
    reading.succeeds(write(tmp_path, sound.bytes()))


@each_case(
    ("length", "kind"),
    [
        (0, BadEventLength),
        (18, BadEventLength),
        ((1 << 30) + 1, EventTooLarge),
        ((1 << 32) - 1, EventTooLarge),
    ],
)
@every_log
def test_bogus_and_event_too_large(tmp_path, reading, log, length, kind):
    sound = whole(log)
    at = table_map(sound)
    sound.events[at][9:13] = length.to_bytes(4, "little")
    path = write(tmp_path, sound.bytes())
    reading.fails(path, Expected(kind, offset(sound, at), rf"TABLE_MAP.* not {length}$"))


@each_case(
    ("first", "kept"),
    [
        *((False, kept) for kept in (1, HEADER - 1, HEADER, HEADER + 5)),
        *((True, kept) for kept in (1, HEADER, 90)),
    ],
)
@every_log
def test_trunc_event_and_trunc_fd_event(tmp_path, reading, log, first, kept):
    """MySQL has a type of its own for the first event, which stands at 4."""
    sound = whole(log)
    at = 4 if first else offset(sound, table_map(sound))
    path = write(tmp_path, sound.bytes()[: at + kept])
    reading.fails(path, Expected(TruncatedEvent, at, "ends"))


@every_log
def test_checksum_failure(tmp_path, reading, log):
    sound = whole(log)
    at = table_map(sound)
    sound.events[at][HEADER + 9] ^= 1
    path = write(tmp_path, sound.bytes())
    if sound.tail:
        reading.fails(path, Expected(ChecksumMismatch, offset(sound, at), "TABLE_MAP"))
    else:  # nothing tells
        reading.succeeds(path)


@every_log
def test_invalid_event(tmp_path, reading, log):
    """A table map whose database's name is longer than the event, under a sound checksum."""
    sound = whole(log)
    at = table_map(sound)
    sound.events[at][HEADER + 8] = 250
    sound.seal(at, size=False)
    path = write(tmp_path, sound.bytes())
    reading.fails(path, Expected(EventDecodeError, offset(sound, at), "TABLE_MAP"))


def test_cannot_open_what_is_not_there(tmp_path, reading):
    path = tmp_path / "binlog.000007"
    reading.fails(path, Expected(CannotOpen, None, r"binlog\.000007: no such file or folder"))


@every_log
def test_cannot_open_what_is_not_allowed(tmp_path, reading, log, monkeypatch):
    sound = whole(log)

    def refuse(path):  # root may read everything
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = write(tmp_path, sound.bytes())
    monkeypatch.setattr(streams, "FileIO", refuse)
    reading.fails(path, Expected(CannotOpen, None, r"binlog\.000007: Permission denied"))


@every_log
def test_cannot_open_what_went_meanwhile(tmp_path, log):
    sound = whole(log)
    path = write(tmp_path, sound.bytes())
    series = LogSeries("log", (LogFile.at(path),))
    path.unlink()
    for read in (tailrace.open, lambda log: next(changes(log))):
        with pytest.raises(CannotOpen, match=r"binlog\.000007: No such file or directory"):
            read(series)


def test_header_io_failure(tmp_path, reading):
    """A file that the kernel opens, and then answers each read at its begin with EIO."""
    path = tmp_path / "binlog.000007"
    path.symlink_to("/proc/self/mem")
    reading.fails(path, Expected(ReadFailed, 0, "Input/output error"))


@every_log
def test_system_io(tmp_path, reading, log, monkeypatch):
    """A disk that has a bad sector in the middle of the log."""
    sound = whole(log)
    bad = 300

    class Disk:
        """`os` as the module of streams sees it."""

        def __getattr__(self, name):
            return getattr(os, name)

        def pread(self, handle, count, offset):
            return os.pread(handle, self._before(count, offset), offset)

        def preadv(self, handle, views, offset):
            (view,) = views
            return os.preadv(handle, (view[: self._before(len(view), offset)],), offset)

        def _before(self, count, offset):
            if offset >= bad:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return min(count, bad - offset)

    path = write(tmp_path, sound.bytes())
    monkeypatch.setattr(streams, "os", Disk())
    reading.fails(path, Expected(ReadFailed, bad, "Input/output error"))


@each_case("begin", [b"#!/b", b"\xfebim", b"\x89PNG"])
@every_log
def test_bad_binlog_magic(tmp_path, reading, log, begin):
    sound = whole(log)
    path = write(tmp_path, begin + sound.bytes()[4:])
    reading.fails(path, Expected(BadMagic, 0, "not a binary log"))


MEMORY = """
import resource, sys
from tailrace.cli import main
from tests.storage.test_read_errors import WAYS, Path
from tailrace.errors import OutOfMemory
sound, *logs = map(Path, sys.argv[1:])
for read in WAYS.values():
    read(sound, None)
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (600 << 20),) * 2)
for large in logs:
    for name, read in WAYS.items():
        try:
            read(large, None)
        except OutOfMemory as error:
            print(name, error.file, error.offset, error)
    sys.argv = ["tailrace", "log", str(large)]
    print("next error", file=sys.stderr)
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 2
"""


@pytest.mark.slow
def test_mem_allocate(tmp_path):
    """An event of 1 GiB that the file has (as a hole), and a process that has no such memory."""
    places = {}
    for name in SOUND:
        sound = whole(name)
        at = table_map(sound)
        sound.events[at][9:13] = (1 << 30).to_bytes(4, "little")
        (tmp_path / name).mkdir()
        large = write(tmp_path / name, sound.bytes()[: offset(sound, at) + HEADER])
        places[large] = offset(sound, at)
        os.truncate(large, places[large] + (2 << 30))
    case = next((CORPUS / SOUND[0]).glob("binlog.0*"))
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(case), *map(str, places)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[:3] for line in done.stdout.splitlines() if "memory" in line] == [
        [way, str(large), str(place)] for large, place in places.items() for way in WAYS
    ]
    assert "Traceback" not in done.stderr
    _, *said = done.stderr.split("next error\n")
    for text, (large, place) in zip(said, places.items(), strict=True):
        last = one_error(text)
        assert f"{large.name} at {place}" in last
        assert "no memory" in last


def test_out_of_memory_is_told_with_its_place():
    error = OutOfMemory("no memory", file="b.1", offset=4)
    assert str(pickle.loads(pickle.dumps(error))) == "b.1 at 4: no memory"


class Encrypted(NamedTuple):
    data: bytearray
    keys: Path
    key_id: str
    named_at: int
    """Where the log names its key."""
    begins_at: int
    """Where what is encrypted begins."""


def encrypted_by(server):
    folder = CORPUS / f"{server}.encrypted"
    data = bytearray((folder / "binlog.000002").read_bytes())
    if "mysql" in server:
        key_id = data[7 : 7 + data[6]].decode()
        return Encrypted(data, folder / "keyring", key_id, 5, 512)
    start = 4 + int.from_bytes(data[13:17], "little")
    return Encrypted(data, folder / "keys", "1", start, start + 40)


every_server = each_case("server", ["mysql-9.7", "mariadb-11.8"])


@every_server
def test_invalid_encryption_header(tmp_path, reading, server):
    """A version (MySQL), a scheme (MariaDB) that no server has."""
    encrypted = encrypted_by(server)
    data = encrypted.data
    if encrypted.begins_at == 512:
        data[4] = 9
        expected = Expected(EncryptionError, 4, "version 9")
    else:
        log = Parsed.of(bytes(data[: encrypted.begins_at]))
        log.tail = 4
        log.events[1][HEADER] = 9
        log.seal(1)
        data[: encrypted.begins_at] = log.bytes()
        expected = Expected(EncryptionError, encrypted.named_at, "scheme 9")
    path = write(tmp_path, bytes(data))
    reading.fails(path, expected, str(encrypted.keys))


@every_server
@each_case(
    ("held", "kind", "text"),
    [
        ("another", KeyMissing, "{key}.*does not have"),
        (None, KeyMissing, "the key {key}.*--keyring"),
        ("{key}", WrongKey, "{key}.* does not decrypt"),
    ],
)
def test_keys_that_do_not_fit(tmp_path, reading, server, held, kind, text):
    """CANNOT_GET_FILE_PASSWORD: the keyring has other keys only.

    READ_ENCRYPTED_LOG_FILE_IS_NOT_SUPPORTED: there is no keyring. ERROR_DECRYPTING_FILE: the key of
    that name is another.
    """
    encrypted = encrypted_by(server)
    ring = tmp_path / "ring"
    if held is not None:
        keyring.make(ring).add(held.format(key=encrypted.key_id), bytes(32))
    path = write(tmp_path, bytes(encrypted.data))
    at = encrypted.named_at if kind is KeyMissing else encrypted.begins_at
    expected = Expected(kind, at, text.format(key=encrypted.key_id))
    reading.fails(path, expected, None if held is None else str(ring))


def test_what_a_store_refuses_is_a_storage_error():
    """Whoever handles StorageError handles these, too."""
    for kind in (CannotOpen, ReadFailed, partial(KeyMissing, key_id="k")):
        assert isinstance(kind("x", file="f", offset=3), StorageError)
