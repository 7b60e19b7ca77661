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
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import tailrace
from tailrace.cli import main
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
from tests.cli.test_errors import one_error
from tests.recorded import CORPUS, ROOT
from tools.campaign.mutate import Parsed

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import FileIO

SOUND = ["mysql-9.7.checksum-crc32", "mariadb-11.8.checksum-crc32", "mysql-9.7.checksum-none"]
TABLE_MAP = 19
HEADER = 19


def objects(path: Path, keys: str | None) -> None:
    for event in tailrace.open(path, keyring=keys):
        event.check()


def columns(path: Path, keys: str | None) -> None:
    for batch in changes(path, keyring=keys, statements="skip"):
        batch.validate(full=True)


WAYS: dict[str, Callable[[Path, str | None], None]] = {"objects": objects, "columns": columns}


class Expected(NamedTuple):
    kind: type[TailraceError]
    offset: int | None
    text: str


class Reading:
    """Reads a log in every way, and says that each raised what is expected, at that place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def fails(self, path: Path, expected: Expected, keys: str | None = None) -> None:
        for read in WAYS.values():
            with pytest.raises(expected.kind, match=expected.text) as caught:
                read(path, keys)
            error = caught.value
            assert type(error) is expected.kind
            assert Path(error.file or "").name == path.name  # type: ignore[attr-defined]
            assert error.offset == expected.offset  # type: ignore[attr-defined]
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again)) == (type(error), str(error))
            assert vars(again) == vars(error)
        status, _, err = self.command(path, keys)
        line = one_error(err)
        assert (status, line.startswith("tailrace: ")) == (2, True), err
        assert path.name in line
        assert "Traceback" not in err
        if expected.offset is not None and not issubclass(expected.kind, KeyMissing):
            assert f"{path.name} at {expected.offset}" in line

    def succeeds(self, path: Path) -> None:
        for read in WAYS.values():
            read(path, None)
        assert self.command(path, None)[0] == 0

    def command(self, path: Path, keys: str | None) -> tuple[object, str, str]:
        """``tailrace log``: its status and what it writes."""
        given = [] if keys is None else ["--keyring", keys]
        self._monkeypatch.setattr(sys, "argv", ["tailrace", "log", str(path), *given])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *self._capsys.readouterr())


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reading:
    return Reading(monkeypatch, capsys)


def whole(name: str) -> Parsed:
    """A log that is whole, cut into its events."""
    path = next((CORPUS / name).glob("binlog.0*"))
    return Parsed.of(path.read_bytes())


every_log = each_case("log", SOUND)


def offset(log: Parsed, index: int) -> int:
    return 4 + sum(map(len, log.events[:index]))


def table_map(log: Parsed) -> int:
    """The number of the first event that names a table."""
    return next(number for number, event in enumerate(log.events) if event[4] == TABLE_MAP)


def write(folder: Path, data: bytes) -> Path:
    path = folder / "binlog.000007"
    path.write_bytes(data)
    return path


@every_log
def test_read_eof(tmp_path: Path, reading: Reading, log: str) -> None:
    """The end of a log is no error."""
    sound = whole(log)
    reading.succeeds(write(tmp_path, sound.bytes()))


@each_case("length", [0, 18])
@every_log
def test_bogus(tmp_path: Path, reading: Reading, log: str, length: int) -> None:
    sound = whole(log)
    at = table_map(sound)
    sound.events[at][9:13] = length.to_bytes(4, "little")
    path = write(tmp_path, sound.bytes())
    reading.fails(path, Expected(BadEventLength, offset(sound, at), rf"TABLE_MAP.* not {length}$"))


@each_case("length", [(1 << 30) + 1, (1 << 32) - 1])
@every_log
def test_event_too_large(tmp_path: Path, reading: Reading, log: str, length: int) -> None:
    sound = whole(log)
    at = table_map(sound)
    sound.events[at][9:13] = length.to_bytes(4, "little")
    path = write(tmp_path, sound.bytes())
    reading.fails(path, Expected(EventTooLarge, offset(sound, at), rf"TABLE_MAP.* not {length}$"))


@each_case("kept", [1, HEADER - 1, HEADER, HEADER + 5])
@every_log
def test_trunc_event(tmp_path: Path, reading: Reading, log: str, kept: int) -> None:
    sound = whole(log)
    at = offset(sound, table_map(sound))
    path = write(tmp_path, sound.bytes()[: at + kept])
    reading.fails(path, Expected(TruncatedEvent, at, "ends"))


@each_case("kept", [1, HEADER, 90])
@every_log
def test_trunc_fd_event(tmp_path: Path, reading: Reading, log: str, kept: int) -> None:
    """MySQL has a type of its own for the first event, which stands at 4."""
    sound = whole(log)
    path = write(tmp_path, sound.bytes()[: 4 + kept])
    reading.fails(path, Expected(TruncatedEvent, 4, "ends"))


@every_log
def test_checksum_failure(tmp_path: Path, reading: Reading, log: str) -> None:
    sound = whole(log)
    at = table_map(sound)
    sound.events[at][HEADER + 9] ^= 1
    path = write(tmp_path, sound.bytes())
    if sound.tail:
        reading.fails(path, Expected(ChecksumMismatch, offset(sound, at), "TABLE_MAP"))
    else:  # nothing tells
        reading.succeeds(path)


@every_log
def test_invalid_event(tmp_path: Path, reading: Reading, log: str) -> None:
    """A table map whose database's name is longer than the event, under a sound checksum."""
    sound = whole(log)
    at = table_map(sound)
    sound.events[at][HEADER + 8] = 250
    sound.seal(at, size=False)
    path = write(tmp_path, sound.bytes())
    reading.fails(path, Expected(EventDecodeError, offset(sound, at), "TABLE_MAP"))


def test_cannot_open_what_is_not_there(tmp_path: Path, reading: Reading) -> None:
    path = tmp_path / "binlog.000007"
    reading.fails(path, Expected(CannotOpen, None, r"binlog\.000007: no such file or folder"))


@every_log
def test_cannot_open_what_is_not_allowed(
    tmp_path: Path, reading: Reading, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = whole(log)

    def refuse(path: str) -> FileIO:  # root may read everything
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = write(tmp_path, sound.bytes())
    monkeypatch.setattr(streams, "FileIO", refuse)
    reading.fails(path, Expected(CannotOpen, None, r"binlog\.000007: Permission denied"))


@every_log
def test_cannot_open_what_went_meanwhile(tmp_path: Path, log: str) -> None:
    sound = whole(log)
    path = write(tmp_path, sound.bytes())
    series = LogSeries("log", (LogFile.at(path),))
    path.unlink()
    for read in (tailrace.open, lambda log: next(changes(log))):
        with pytest.raises(CannotOpen, match=r"binlog\.000007: No such file or directory"):
            read(series)


def test_header_io_failure(tmp_path: Path, reading: Reading) -> None:
    """A file that the kernel opens, and then answers each read at its begin with EIO."""
    path = tmp_path / "binlog.000007"
    path.symlink_to("/proc/self/mem")
    reading.fails(path, Expected(ReadFailed, 0, "Input/output error"))


@every_log
def test_system_io(
    tmp_path: Path, reading: Reading, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that has a bad sector in the middle of the log."""
    sound = whole(log)
    bad = 300

    class Disk:
        """`os` as the module of streams sees it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def pread(self, handle: int, count: int, offset: int) -> bytes:
            return os.pread(handle, self._before(count, offset), offset)

        def preadv(self, handle: int, views: tuple[memoryview], offset: int) -> int:
            (view,) = views
            return os.preadv(handle, (view[: self._before(len(view), offset)],), offset)

        def _before(self, count: int, offset: int) -> int:
            if offset >= bad:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return min(count, bad - offset)

    path = write(tmp_path, sound.bytes())
    monkeypatch.setattr(streams, "os", Disk())
    reading.fails(path, Expected(ReadFailed, bad, "Input/output error"))


@each_case("begin", [b"#!/b", b"\xfebim", b"\x89PNG"])
@every_log
def test_bad_binlog_magic(tmp_path: Path, reading: Reading, log: str, begin: bytes) -> None:
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
def test_mem_allocate(tmp_path: Path) -> None:
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


def test_out_of_memory_is_told_with_its_place() -> None:
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


def encrypted_by(server: str) -> Encrypted:
    folder = CORPUS / f"{server}.encrypted"
    data = bytearray((folder / "binlog.000002").read_bytes())
    if "mysql" in server:
        key_id = data[7 : 7 + data[6]].decode()
        return Encrypted(data, folder / "keyring", key_id, 5, 512)
    start = 4 + int.from_bytes(data[13:17], "little")
    return Encrypted(data, folder / "keys", "1", start, start + 40)


every_server = each_case("server", ["mysql-9.7", "mariadb-11.8"])


@every_server
def test_an_encrypted_log_is_read(tmp_path: Path, server: str) -> None:
    encrypted = encrypted_by(server)
    path = write(tmp_path, bytes(encrypted.data))
    for read in WAYS.values():
        read(path, str(encrypted.keys))


@every_server
def test_invalid_encryption_header(tmp_path: Path, reading: Reading, server: str) -> None:
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
def test_cannot_get_file_password(tmp_path: Path, reading: Reading, server: str) -> None:
    """The keyring has other keys only."""
    encrypted = encrypted_by(server)
    ring = tmp_path / "ring"
    keyring.make(ring).add("another", bytes(32))
    path = write(tmp_path, bytes(encrypted.data))
    text = f"{encrypted.key_id}.*does not have"
    reading.fails(path, Expected(KeyMissing, encrypted.named_at, text), str(ring))


@every_server
def test_read_encrypted_log_file_is_not_supported(
    tmp_path: Path, reading: Reading, server: str
) -> None:
    """We read them; without a keyring there is nothing to read them with."""
    encrypted = encrypted_by(server)
    path = write(tmp_path, bytes(encrypted.data))
    text = f"the key {encrypted.key_id}.*--keyring"
    reading.fails(path, Expected(KeyMissing, encrypted.named_at, text))


@every_server
def test_error_decrypting_file(tmp_path: Path, reading: Reading, server: str) -> None:
    """A key of that name that is another."""
    encrypted = encrypted_by(server)
    ring = tmp_path / "ring"
    keyring.make(ring).add(encrypted.key_id, bytes(32))
    path = write(tmp_path, bytes(encrypted.data))
    expected = Expected(WrongKey, encrypted.begins_at, f"{encrypted.key_id}.* does not decrypt")
    reading.fails(path, expected, str(ring))


def test_what_a_store_refuses_is_a_storage_error() -> None:
    """Whoever handles StorageError handles these, too."""
    for kind in (CannotOpen, ReadFailed, partial(KeyMissing, key_id="k")):
        assert isinstance(kind("x", file="f", offset=3), StorageError)
