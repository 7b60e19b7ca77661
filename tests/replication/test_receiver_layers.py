"""WL#10956, stream chain: a copy whose files have layers, from the real servers, killed and not."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import zstandard

import tailrace
from tailrace.errors import StorageError, UsageError
from tailrace.replication.receiver import Receiver
from tailrace.storage.keyring import make
from tailrace.storage.memory import forget_memory, memory_folder
from tests.cases import each_case
from tests.recorded import ROOT
from tests.replication.conftest import insert, rotate, url_of
from tests.storage.layers import MASKED
from tests.storage.test_layered import events
from tests.waiting import ended, in_thread, wait_for


def run(source, folder, layers="zstd", **settings):
    return Receiver(url_of(source), folder, follow=False, layers=layers, **settings).run()


def plain(path):
    """A file without zstd, by zstd's own library."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


def same_without_zstd(server, folder):
    """All files but the last are compressed; without that the copy is the server's log."""
    logs = server.binlogs()
    for log in logs[:-1]:
        assert plain(folder / f"{log.name}.zst") == log.read_bytes(), log.name
    assert (folder / logs[-1].name).read_bytes() == logs[-1].read_bytes()
    assert (folder / "binlog.index").read_text() == (server.data / "binlog.index").read_text()
    others = {"binlog.index", "receiver.json", "receiver.lock", logs[-1].name}
    assert {path.name for path in folder.iterdir()} == others | {
        f"{log.name}.zst" for log in logs[:-1]
    }


def test_a_file_is_compressed_when_its_source_has_ended_it(source, folder):
    insert(source, [10, 5000])
    rotate(source)
    insert(source, [20, 100_000])
    run(source, folder)
    same_without_zstd(source, folder)
    insert(source, [30])
    run(source, folder)
    for _ in range(2):
        rotate(source)
        insert(source, [40, 7])
    assert run(source, folder, layers=None).received < 4000  # told by the names
    same_without_zstd(source, folder)
    assert run(source, folder).received == 0
    same_without_zstd(source, folder)
    for path in (folder, folder / "binlog.index"):
        assert events(path) == events(source.data / "binlog.index")
    rows = [
        sum(batch.num_rows for batch in tailrace.changes(each))
        for each in (folder, source.data / "binlog.index")
    ]
    assert rows[0] == rows[1] > 6


OTHERS = [
    ("zstd", ["zstd", "zstd"], r"\.zst: the layers of this log are: zstd; given are: z"),
    ("zstd", "counting", r"\.zst: the layers of this log are: zstd; given are: count"),
    ("zstd", [], r"\.zst: the layers of this log are: zstd; given are: none"),
    (["zstd", "zstd"], "zstd", r"\.zst\.zst: the layers of this log are: zstd, zstd;"),
    (MASKED, "zstd", r"\.masked: the layers .* are: one with the suffix \.masked"),
    ([], MASKED, ": the layers of this log are: none; given are: masked"),
]


@each_case(("had", "given", "told"), OTHERS)
def test_a_copy_keeps_its_layers(source, tmp_path, had, given, told):
    """WL#10956, stream chain: others are an error, and none (None) are those that it has."""
    folder = tmp_path / "copy"
    rotate(source)
    source.execute(f"PURGE BINARY LOGS TO '{source.binlogs()[-1].name}'")
    first = source.binlogs()[0].name
    rotate(source)
    run(source, folder, had)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    insert(source, [10])
    with pytest.raises(UsageError, match=re.escape(first) + told):
        run(source, folder, given)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    run(source, folder, had)
    assert events(folder, layers=had) == events(source.data / "binlog.index")


def test_a_plain_copy_is_compressed_from_now_on(source, folder):
    insert(source, [10])
    rotate(source)
    run(source, folder, None)
    rotate(source)
    run(source, folder)
    same_without_zstd(source, folder)


@each_case("cut", [0, 100])
def test_killed_while_it_compressed(source, tmp_path, cut):
    """Both forms are there, or a part of the new one: the plain file counts."""
    folder = tmp_path / "copy"
    insert(source, [10, 5000])
    run(source, folder)
    rotate(source)
    insert(source, [10])
    before, last = source.binlogs()[-2:]
    run(source, folder)
    whole = folder / f"{before.name}.zst"
    (folder / before.name).write_bytes(before.read_bytes())
    whole.write_bytes(whole.read_bytes()[: cut or None])
    with (folder / last.name).open("ab") as file:
        file.write(b"torn" * 30)
    assert events(folder / before.name) == events(before)
    run(source, folder, layers=None if cut else "zstd")
    same_without_zstd(source, folder)


def test_killed_behind_the_end_of_a_file(source, folder):
    """Its flag is cleared, and nothing of the next is there."""
    insert(source, [10])
    rotate(source)
    run(source, folder)
    first, last = source.binlogs()[-2:]
    (folder / last.name).unlink()
    (folder / f"{first.name}.zst").unlink()
    (folder / first.name).write_bytes(first.read_bytes())
    run(source, folder)
    same_without_zstd(source, folder)


def test_the_source_was_killed(source, folder):
    """A file without a last event: MariaDB leaves it in use, MySQL does not."""
    insert(source, [10])
    run(source, folder)
    source.kill()
    source.start()
    insert(source, [20])
    source.settle()
    run(source, folder)
    same_without_zstd(source, folder)


def test_killed_again_and_again(source, folder):
    """SIGKILL at random moments, while the source writes and rotates: byte by byte in the end."""
    sync = {"mysql": "group", "mariadb": "transaction"}[source.flavour]
    chance = random.Random(5)
    over = threading.Event()

    def load():
        while not over.is_set():
            insert(source, [chance.randint(1, 200_000) for _ in range(5)])
            source.rotate()
            wait_for(lambda: over.is_set() or ahead() < 8)  # or there is ever more to compare

    def ahead():
        return len(source.binlogs()) - len(list(folder.glob("*.zst")))

    writer = in_thread(load)
    argv = ["receive", url_of(source), "--follow", "--into", folder]
    argv += ["--layers", "zstd", "--sync", sync]
    try:
        for _ in range(4):
            with subprocess.Popen(
                [sys.executable, "-m", "tailrace", *argv],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as victim:
                had = len(list(folder.glob("*.zst"))) if folder.exists() else 0
                wait_for(lambda had=had: folder.exists() and len(list(folder.glob("*.zst"))) > had)
                time.sleep(chance.random() / 5)
                victim.send_signal(signal.SIGKILL)
            check_what_is_there(source, folder)
    finally:
        over.set()
        ended(writer)
    source.settle()
    run(source, folder)
    same_without_zstd(source, folder)


def check_what_is_there(source, folder):
    """Every file is the begin of the source's, whichever form counts."""
    for log in source.binlogs():
        whole, written = folder / f"{log.name}.zst", folder / log.name
        if written.exists():
            raw = written.read_bytes()
            assert log.read_bytes()[22 : len(raw)] == raw[22:]
        elif whole.exists():
            assert plain(whole) == log.read_bytes()


@each_case("layers", [[MASKED], [MASKED, "zstd"], ["counting"]])
def test_other_layers(source, tmp_path, layers):
    """One that can be changed is on a file from its begin; what a file has below zstd, too."""
    folder = tmp_path / "copy"
    insert(source, [10, 5000])
    rotate(source)
    insert(source, [20])
    run(source, folder, layers)
    masked = MASKED in layers
    last = source.binlogs()[-1]
    names = {path.name for path in folder.glob(f"{last.name}*")}
    assert names == {f"{last.name}.masked" if masked else last.name}
    raw = (folder / names.pop()).read_bytes()
    assert (raw == last.read_bytes()) == (not masked)
    insert(source, [7])
    rotate(source)
    run(source, folder, layers)
    assert events(folder, layers=layers) == events(source.data / "binlog.index")


def test_in_memory_and_encrypted(source, tmp_path):
    forget_memory("arch")
    insert(source, [10, 5000])
    rotate(source)
    run(source, "memory:arch")
    first, last = source.binlogs()[-2:]
    assert {f"{first.name}.zst", last.name} <= set(memory_folder("arch").names())
    assert bytes(memory_folder("arch").files[last.name]) == last.read_bytes()
    keyring = make(tmp_path / "keys", "copies").path
    for _ in range(2):
        run(source, tmp_path / "safe", keyring=keyring, encrypt=True)
        insert(source, [10])
        rotate(source)
    run(source, tmp_path / "safe", keyring=keyring)
    assert plain(tmp_path / "safe" / f"{first.name}.zst").startswith(b"\xfdbin")
    assert events(tmp_path / "safe", keyring=keyring) == events(source.data / "binlog.index")


def test_retain_and_reset(source, folder):
    for _ in range(4):
        insert(source, [100_000])
        rotate(source)
    limit = sum(log.stat().st_size for log in source.binlogs()[-3:]) + 1000
    receiver = Receiver(url_of(source), folder, follow=False, layers="zstd", retain=f"{limit}B")
    receiver.run()
    logs = [log.name for log in source.binlogs()]
    left = sorted(path.name for path in folder.glob("binlog.0*"))
    assert [name.removesuffix(".zst") for name in left] == logs[-3:]
    assert receiver.purged == logs[:-3]
    receiver.reset()
    assert {path.name for path in folder.glob("*")} <= {"receiver.lock"}


def test_what_cannot_be_kept_is_rejected(source, folder):
    with pytest.raises(UsageError, match="layers are written to folders on disk and in memory"):
        run(source, "memory://bucket/logs")
    insert(source, [10])
    run(source, folder)
    (log,) = folder.glob("binlog.0*")
    raw = log.read_bytes()
    log.unlink()
    (folder / f"{log.name}.zst").write_bytes(
        zstandard.compress(raw[:21] + bytes([raw[21] & ~1]) + raw[22:])
    )
    insert(source, [10])
    with pytest.raises(StorageError, match="nothing can be added to"):
        run(source, folder)
    assert os.listdir(folder)  # noqa: PTH208 - it is kept
