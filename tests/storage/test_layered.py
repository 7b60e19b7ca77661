"""WL#10956, stream chain: a layer is added to any source and target, and removed from it."""

import pickle
import re
import subprocess
import threading
from functools import cache
from uuid import uuid4

import pytest
import zstandard

import tailrace
from tailrace.columns import plan_splits, read_split
from tailrace.errors import BadMagic, LogError, StorageError, UsageError
from tailrace.position import Position
from tailrace.replication.receiver import Receiver
from tailrace.storage import find
from tailrace.storage.encryption import EncryptedFolder
from tailrace.storage.keyring import make
from tailrace.storage.layered import ArchiveFolder, layered_folder
from tailrace.storage.local import LocalFolder, LocalStore
from tailrace.storage.memory import MemoryFolder, forget_memory, memory_folder
from tailrace.storage.objects import ObjectFolder
from tailrace.storage.purge import purge
from tailrace.storage.streams.counting import counted_input
from tailrace.storage.streams.layer import Layer, layer, layers_of
from tests.cases import each_case
from tests.recorded import ROOT
from tests.storage.layers import MASKED
from tests.waiting import DEADLINE, ended, in_thread
from tests.writing.made import FLAVOURS, UUID, Clock, check_files, fill, log, transactions_of

SHOP = ROOT / "examples" / "shop"
ZSTD = (layer("zstd"),)


def packed(source, target, *, last=True, **how):
    """A copy of a folder of logs, its files compressed by zstd's library; the last one if asked."""
    target.mkdir()
    logs = sorted(source.glob("binlog.0*"))
    for path in logs:
        raw = path.read_bytes()
        if last or path is not logs[-1]:
            raw = zstandard.ZstdCompressor(**how).compress(raw)
            (target / f"{path.name}.zst").write_bytes(raw)
        else:
            (target / path.name).write_bytes(raw)
    (target / "binlog.index").write_bytes((source / "binlog.index").read_bytes())
    return target


def events(source, **how):
    with tailrace.open(source, **how) as found:
        return [(event.name, event.encode()) for event in found]


def begin(folder, flavour, **given):
    """A new log in a folder."""
    return log(f"{folder}/binlog.000001", flavour, **given)


def go_on(target, flavour, **given):
    """A log that is continued."""
    if flavour == "mysql":
        given["server_uuid"] = UUID
    return tailrace.append(target, sync="none", **given)


def rows(source, **how):
    found = [row for batch in tailrace.changes(source, **how) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row["_seq"])


plain_events, plain_rows = cache(events), cache(rows)
"""Of the shop's logs as they are."""

# --- reading -------------------------------------------------------------------------------------


@each_case("flavour", FLAVOURS)
def test_a_compressed_file_is_recognised(flavour, tmp_path):
    plain = SHOP / flavour / "binlog.000001"
    path = packed(SHOP / flavour, tmp_path / "arch") / "binlog.000001.zst"
    assert events(path) == plain_events(plain)
    assert events(str(path)) == plain_events(plain)
    assert rows(path) == plain_rows(plain)
    with tailrace.open(path) as found:
        list(found)
        assert found.position == Position("binlog.000001", plain.stat().st_size)
    (series,) = find(path)
    (file,) = series.files
    assert (file.name, file.path, file.size) == (
        "binlog.000001",
        str(path),
        plain.stat().st_size,
    )


@pytest.mark.slow
@each_case("last", [True, False], ids=["all", "without the last"])
@each_case("flavour", FLAVOURS)
def test_a_folder_of_compressed_files(flavour, last, tmp_path):
    """With its index or without; also where the last file is still plain, and by URL."""
    plain = SHOP / flavour
    folder = packed(plain, tmp_path / "arch", last=last)
    (folder / "dump.sql.zst").write_bytes(zstandard.compress(b"select 1;"))  # no log
    (folder / "notes.txt").write_bytes(b"notes")
    assert events(folder) == plain_events(plain)
    assert events(folder / "binlog.index") == plain_events(plain)
    assert rows(folder) == plain_rows(plain)
    assert rows(folder, threads=2) == plain_rows(plain)
    assert [series.name for series in find(tmp_path)] == ["arch"]  # a folder of folders
    (folder / "binlog.index").unlink()
    assert events(f"file://{folder}") == plain_events(plain)
    paths = sorted(folder.glob("binlog.0*"))
    assert events([paths[1], paths[0]]) == events(sorted(plain.glob("binlog.0*"))[:2])


def test_any_position_in_any_order(tmp_path):
    """Seeking backward begins the file anew."""
    folder = packed(SHOP / "mysql", tmp_path / "arch")
    with tailrace.open(SHOP / "mysql") as plain:
        ends = [(each.start, each.gtid) for each in plain.transactions() if each.gtid is not None]
    with tailrace.open(folder) as found:
        for position, gtid in [ends[400], ends[3], ends[77], ends[500], ends[0]]:
            found.seek(Position(position.file, position.offset))
            assert next(found.transactions()).gtid == gtid
        found.seek("2026-11-21T09:12:37")
        assert next(iter(found)) is not None


def test_splits_for_spark(tmp_path):
    """A file and a split of it are sent to other processes; splits give the same rows."""
    folder = packed(SHOP / "mysql", tmp_path / "arch")
    (series,) = pickle.loads(pickle.dumps(find(folder)))
    assert series == find(folder)[0]
    splits = plan_splits(series, target_bytes=100_000)
    assert len(splits) > 5
    found = [
        row
        for split in pickle.loads(pickle.dumps(splits))
        for batch in read_split(split)
        for row in batch.to_pylist()
    ]
    assert sorted(found, key=lambda row: row["_seq"]) == plain_rows(SHOP / "mysql")


@pytest.mark.slow
@each_case("layers", ["zstd", layer("zstd"), ["zstd", "buffer"]])
def test_layers_are_given(layers, tmp_path):
    """For files that do not have the name, one and in a folder, and in memory."""
    folder = packed(SHOP / "mariadb", tmp_path / "arch")
    for path in folder.glob("*.zst"):
        path.rename(path.with_suffix(""))
    for name in ("", "binlog.000002", "binlog.index"):
        assert events(folder / name, layers=layers) == plain_events(SHOP / "mariadb" / name)
        assert rows(folder / name, layers=layers) == plain_rows(SHOP / "mariadb" / name)
    with pytest.raises(BadMagic):
        tailrace.open(folder / "binlog.000002")
    forget_memory("arch")
    for path in folder.glob("binlog.0*"):
        memory_folder("arch").create(f"{path.name}.zst", path.read_bytes()).close()
    assert events("memory:arch") == plain_events(SHOP / "mariadb")
    for suffix in ("", ".zst"):
        name = f"binlog.000002{suffix}"
        if suffix:
            assert events(f"memory:arch/{name}") == plain_events(SHOP / "mariadb" / "binlog.000002")
    assert events("memory:arch", layers=layers) == plain_events(SHOP / "mariadb")


def test_a_layer_composes_with_others():
    """A counter above zstd and one below it; and a layer of one's own, at any offset."""
    plain = (SHOP / "mysql" / "binlog.000001").read_bytes()
    below = []
    above = []

    def kept(all_of):
        def count(lower):
            all_of.append(counted_input(lower))
            return all_of[-1]

        return Layer("kept", count)

    forget_memory("stack")
    packed_bytes = zstandard.compress(plain)
    memory_folder("stack").create("binlog.000001.zst", packed_bytes).close()
    found = events("memory:stack", layers=[kept(below), "zstd", kept(above)])
    assert found == plain_events(SHOP / "mysql" / "binlog.000001")
    assert max(each.bytes_read for each in above) == len(plain)
    assert max(each.bytes_read for each in below) == len(packed_bytes)


@each_case("what", ["cut", "garbage", "no log", "flipped"])
def test_damage_names_the_file(what, tmp_path):
    folder = packed(SHOP / "mysql", tmp_path / "arch", write_checksum=True)
    path = folder / "binlog.000001.zst"
    raw = bytearray(path.read_bytes())
    if what == "cut":
        path.write_bytes(raw[: len(raw) // 2])
    elif what == "garbage":
        path.write_bytes(b"garbage" * 100)
    elif what == "no log":
        path.write_bytes(zstandard.compress(b"no log"))
    else:
        raw[len(raw) // 2] ^= 0xFF
        path.write_bytes(raw)
    for read in (events, rows):
        with pytest.raises((StorageError, LogError)) as caught:
            read(path)
        assert ("binlog.000001" if what == "no log" else str(path)) in str(caught.value)


@each_case("index", [True, False], ids=["index", "no index"])
@each_case("layers", ["counting", "buffer", ["zstd", "zstd"], MASKED], ids=str)
def test_no_file_is_passed_over_that_has_another_layer(layers, index, tmp_path):
    """WL#10956, stream chain: a layer that is given wrongly is an error which names the file."""
    folder = packed(SHOP / "mysql", tmp_path / "arch", last=False)
    if not index:
        (folder / "binlog.index").unlink()
    forget_memory("other")
    url = f"memory://other{uuid4().hex}/arch"
    for path in folder.iterdir():
        memory_folder("other").create(path.name, path.read_bytes()).close()
        ObjectFolder(url).create(path.name, path.read_bytes()).close()
    for source in (folder, "memory:other", url):
        for read in (events, rows):
            with pytest.raises(StorageError, match=r"binlog\.000001\.zst"):
                read(source, layers=layers)
    if index:
        with pytest.raises(StorageError, match=r"index: it lists .*only as binlog\.000001\.zst"):
            events(folder / "binlog.index", layers=layers)


@each_case("number", [1, 4], ids=["first", "last"])
@each_case("index", [True, False], ids=["index", "no index"])
@each_case("content", [b"", zstandard.compress(b""), None], ids=["0", "none", "2"])
def test_a_compressed_file_without_a_log_is_an_error(content, index, number, tmp_path):
    """Empty, a frame of nothing, compressed twice: it was left out at either end of a folder."""
    folder = packed(SHOP / "mysql", tmp_path / "arch")
    path = folder / f"binlog.00000{number}.zst"
    path.write_bytes(zstandard.compress(path.read_bytes()) if content is None else content)
    if not index:
        (folder / "binlog.index").unlink()
    for source in (folder, path):
        for read in (events, rows):
            with pytest.raises(StorageError, match=re.escape(str(path))):
                read(source)


def test_compressed_files_in_an_object_store(tmp_path):
    """Uploaded as they are; in place, by file and by folder, next to one that is not compressed."""
    folder = packed(SHOP / "mysql", tmp_path / "arch", last=False)
    url = f"memory://layered{tmp_path.name}/arch"
    for path in folder.iterdir():
        ObjectFolder(url).create(path.name, path.read_bytes()).close()
    assert events(url) == plain_events(SHOP / "mysql")
    assert rows(url) == plain_rows(SHOP / "mysql")
    for name in ("binlog.000002.zst", "binlog.index"):
        wanted = SHOP / "mysql" / name.removesuffix(".zst")
        assert events(f"{url}/{name}") == plain_events(wanted)


def test_arguments():
    with pytest.raises(UsageError, match="no stream is called 'gzip'"):
        tailrace.open(SHOP / "mysql", layers=["zstd", "gzip"])
    for read in (tailrace.changes, tailrace.open):
        with pytest.raises(UsageError, match="layers are of files"):
            read("mysql://root@127.0.0.1:1/", layers="zstd")


# --- writing -------------------------------------------------------------------------------------

STACKS = [
    "zstd",
    ["counting", "zstd"],
    [MASKED],
    [MASKED, "zstd"],
    ["buffer", "counting"],
]


@pytest.mark.slow
@each_case("layers", STACKS, ids=str)
@each_case("flavour", FLAVOURS)
@each_case("kind", ["disk", "memory"])
def test_a_log_is_written_through_layers(layers, flavour, kind, tmp_path):
    """Without them the files are those that are written without them, byte by byte."""
    forget_memory("layers")
    target = str(tmp_path / "layers") if kind == "disk" else "memory:layers"
    for where, given in ((tmp_path / "plain", None), (target, layers)):
        with begin(where, flavour, max_size=4096, layers=given, now=Clock()) as made:
            fill(made, 60)
    plain = sorted((tmp_path / "plain").glob("binlog.0*"))
    assert len(plain) > 4
    lower = LocalFolder(tmp_path / "layers") if kind == "disk" else memory_folder("layers")
    put = layers_of(layers)
    suffix = "".join(each.suffix for each in put)
    names = {f"{path.name}{suffix}" for path in plain}
    assert set(lower.names()) == names | {"binlog.index"}
    folder = layered_folder(lower, put)
    for path in plain:
        raw = path.read_bytes()
        assert folder.read(path.name, 0, len(raw) + 1) == raw
        if put == ZSTD:
            stored = lower.read(f"{path.name}.zst", 0, len(raw))
            assert zstandard.ZstdDecompressor().decompressobj().decompress(stored) == raw
    assert lower.read("binlog.index", 0, 9999) == (tmp_path / "plain/binlog.index").read_bytes()
    assert events(target, layers=layers) == events(tmp_path / "plain")
    assert rows(target, layers=layers) == rows(tmp_path / "plain")


@each_case("flavour", FLAVOURS)
def test_a_file_is_plain_until_it_is_complete(flavour, tmp_path):
    folder = tmp_path / "log"
    with begin(folder, flavour, layers="zstd") as made:
        fill(made, 5)
        assert sorted(path.name for path in folder.iterdir()) == ["binlog.000001", "binlog.index"]
        assert len(transactions_of(folder)) == 5
        made.rotate()
        fill(made, 5, first=6)
        assert {path.name for path in folder.glob("binlog.0*")} == {
            "binlog.000001.zst",
            "binlog.000002",
        }
        assert len(transactions_of(folder)) == 10
    assert {path.name for path in folder.glob("binlog.0*")} == {
        "binlog.000001.zst",
        "binlog.000002.zst",
    }
    subprocess.run(["zstd", "-dq", *folder.glob("*.zst")], check=True, cwd=folder)
    check_files(*sorted(path for path in folder.glob("binlog.0*") if path.suffix != ".zst"))


@each_case("last", [True, False], ids=["closed", "in use"])
@each_case("layers", ["buffer", [], ["zstd", "zstd"], MASKED], ids=str)
def test_a_log_is_continued_with_its_own_layers(layers, last, tmp_path):
    """WL#10956, stream chain: others are an error that says which it has, and change nothing."""
    with begin(tmp_path / "plain", "mysql") as made:
        for number in range(1, 4):
            fill(made, 1, first=number)
            made.rotate()
    folder = packed(tmp_path / "plain", tmp_path / "log", last=last)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(
        UsageError, match=r"binlog\.000001\.zst: the layers of this log are: zstd; "
    ):
        go_on(folder, "mysql", layers=layers)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with go_on(folder, "mysql", layers="zstd") as again:
        fill(again, 1)
    assert sorted(path.suffix for path in folder.glob("binlog.0*")) == [".zst"] * 5


@each_case("kind", ["disk", "memory"])
def test_a_file_is_compressed_after_it_was_found(kind, tmp_path):
    """WL#10956, stream chain: who found the plain file, or reads already, gets all of the log."""
    forget_memory("found")
    folder = str(tmp_path / "found") if kind == "disk" else "memory:found"
    with begin(folder, "mysql", layers="zstd") as made:
        fill(made, 200)
        made.flush()
        (series,) = find(folder)
        before, opened = events(series), iter(tailrace.open(folder))
        unopened, batches = tailrace.open(series), tailrace.changes(series)
        first = next(opened)
        made.rotate()
        fill(made, 1, first=201)
        made.flush()
        assert events(series)[1 : len(before)] == before[1:]  # the first one's IN_USE flag is gone
        for rest in ([first, *opened], list(unopened)):
            assert [event.name for event in rest][: len(before)] == [name for name, _ in before]
        assert sum(batch.num_rows for batch in batches) > 200
        made.rotate()
        assert rows(series) == rows(folder)[: len(rows(series))]


@each_case("kind", ["disk", "memory"])
@pytest.mark.slow
def test_a_folder_is_read_while_its_writer_compresses(kind, tmp_path):
    """All that was committed before is read each time; a follower reads it, too."""
    forget_memory("busy")
    folder = str(tmp_path / "busy") if kind == "disk" else "memory:busy"
    committed, has_read = [0], threading.Event()
    seen = []

    def write():
        for number in range(1, 121):
            fill(made, 1, first=number)
            committed[0] = number
            if number == 60:
                has_read.wait(DEADLINE)
            if not number % 3:
                made.rotate()

    def follow():
        with tailrace.open(folder, follow=True) as found:
            for transaction in found.transactions():
                seen.append(transaction.start.offset)
                if len(seen) == 120:
                    return

    with begin(folder, "mysql", layers="zstd") as made:
        writing = in_thread(write)
        following = in_thread(follow)
        while not writing.done():
            least = committed[0]
            if least:
                assert len(transactions_of(folder)) >= least
                assert len({row["_gtid"] for row in rows(folder)}) >= least
                has_read.set()
        ended(writing, following)
    assert (len(seen), has_read.is_set()) == (120, True)


@each_case("flavour", FLAVOURS)
def test_it_is_continued_and_purged(flavour, tmp_path):
    """`append` and `purge` find the layer by the names."""
    folder = tmp_path / flavour
    with begin(folder, flavour, layers="zstd") as made:
        fill(made, 3)
    for number in (1, 2):
        target = folder / "binlog.000002.zst" if number == 2 else folder
        with go_on(target, flavour) as again:
            fill(again, 3, first=3 * number + 1)
            assert again.recovery is None
    assert {path.name for path in folder.glob("binlog.0*")} == {
        f"binlog.00000{number}.zst" for number in (1, 2, 3)
    }
    assert len(transactions_of(folder)) == 9
    assert purge(folder, to="binlog.000003") == ["binlog.000001", "binlog.000002"]
    assert sorted(path.name for path in folder.iterdir()) == ["binlog.000003.zst", "binlog.index"]


@each_case("flavour", FLAVOURS)
def test_a_killed_writer_loses_nothing(flavour, tmp_path):
    """Killed in a transaction, before and inside compressing, and before the plain file goes."""
    folder = tmp_path / "log"
    made = begin(folder, flavour, layers="zstd")
    fill(made, 3)
    made.rotate()
    fill(made, 3, first=4)
    made.close()
    first, second = folder / "binlog.000001", folder / "binlog.000002"
    raw = (
        zstandard.ZstdDecompressor()
        .decompressobj()
        .decompress((folder / "binlog.000001.zst").read_bytes())
    )
    for left in (b"", (folder / "binlog.000001.zst").read_bytes()[:100], None):
        first.write_bytes(raw)
        if left is None:
            (folder / "binlog.000001.zst").unlink()
        elif left:
            (folder / "binlog.000001.zst").write_bytes(left)
        assert len(transactions_of(folder)) == 6
        go_on(folder, flavour).close()
        assert not first.exists()
        assert len(transactions_of(folder)) == 6
        assert not second.exists()
    crashed = go_on(folder, flavour)
    fill(crashed, 1, first=7)
    last = folder / str(crashed.position.file)
    with last.open("ab") as file:
        file.write(last.read_bytes()[200:300])
    raw = last.read_bytes()
    crashed.close()
    (folder / f"{last.name}.zst").unlink()
    last.write_bytes(raw[:21] + bytes([raw[21] | 1]) + raw[22:])
    with go_on(folder, flavour, recovered=lambda _: None) as again:
        assert again.recovery is not None
        assert again.recovery.removed == 100
        fill(again, 1, first=8)
    assert len(transactions_of(folder)) == 8


def test_what_cannot_be_kept_is_rejected(tmp_path):
    nameless = Layer("nameless", layer("zstd").input, layer("zstd").output)
    with pytest.raises(UsageError, match="nameless: it can only be put on a complete file"):
        begin(tmp_path / "log", "mysql", layers=[nameless])
    with pytest.raises(UsageError, match="layers are written to folders on disk and in memory"):
        begin("memory://bucket/log", "mysql", layers="zstd")
    with pytest.raises(UsageError, match="MaskedOutput needs a RandomOutput"):
        begin(tmp_path / "log", "mysql", layers=["zstd", MASKED])
    folder = ArchiveFolder(LocalFolder(tmp_path / "log"), ZSTD)
    folder.create("binlog.000001", b"whole").close()
    with pytest.raises(StorageError, match="it is complete, and nothing can be appended"):
        folder.reopen("binlog.000001")
    with pytest.raises(StorageError, match="File exists"):
        folder.create("binlog.000001", b"again")


def test_a_disk_that_is_full_leaves_the_plain_file(tmp_path, monkeypatch):
    folder = tmp_path / "log"
    made = begin(folder, "mysql", layers="zstd")
    fill(made, 3)
    plain = (folder / "binlog.000001").read_bytes()

    def full(_):
        raise StorageError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ArchiveFolder, "_write", lambda *_: full(None))
        with pytest.raises(StorageError, match="No space left"):
            made.close()
    assert [path.name for path in folder.glob("binlog.0*")] == ["binlog.000001"]
    assert (folder / "binlog.000001").read_bytes()[30:].startswith(plain[30:])
    assert len(transactions_of(folder)) == 3
    go_on(folder, "mysql", layers="zstd").close()
    assert [path.suffix for path in sorted(folder.glob("binlog.0*"))] == [".zst", ".zst"]
    assert len(transactions_of(folder)) == 3


@each_case("flavour", FLAVOURS)
def test_encryption_above_a_layer(flavour, tmp_path):
    name = "MySQLReplicationKey_x_1" if flavour == "mysql" else "1"
    keys = make(tmp_path / "keys", name).path
    with begin(
        tmp_path / "log", flavour, layers=["zstd"], encrypt=True, keyring=keys, max_size=4096
    ) as made:
        fill(made, 30)
    assert all(path.suffix == ".zst" for path in (tmp_path / "log").glob("binlog.0*"))
    assert len(rows(tmp_path / "log", keyring=keys)) == 90
    go_on(tmp_path / "log", flavour, keyring=keys).close()
    assert len(rows(tmp_path / "log", keyring=keys)) == 90
    assert isinstance(layered_folder(LocalFolder(tmp_path / "log"), None), ArchiveFolder)


# --- a store that one has ------------------------------------------------------------------------


def stores(tmp_path, flavour):
    keys = make(tmp_path / "keys", "MySQLReplicationKey_x_1" if flavour == "mysql" else "1")
    return {
        "disk": LocalFolder(tmp_path / "disk"),
        "memory": MemoryFolder("mine"),
        "layers": layered_folder(MemoryFolder("packed"), ZSTD),
        "encrypted": EncryptedFolder(MemoryFolder("safe"), keys),
    }


@each_case("kind", ["disk", "memory", "layers", "encrypted"])
@each_case("flavour", FLAVOURS)
def test_a_log_is_made_in_a_store_that_one_has(flavour, kind, tmp_path):
    """Binlog_ofile: `create`, `append` and `purge` take the store object."""
    store = stores(tmp_path, flavour)[kind]
    with log(store, flavour, now=Clock()) as made:
        fill(made, 3)
    with begin(tmp_path / "plain", flavour, now=Clock()) as made:
        fill(made, 3)
    raw = (tmp_path / "plain" / "binlog.000001").read_bytes()
    if kind != "encrypted" or flavour == "mysql":  # MariaDB's has an event more
        assert store.read("binlog.000001", 0, len(raw) + 1) == raw
    with pytest.raises(StorageError, match=r"binlog\.000001(\.zst)? exists: choose another name"):
        log(store, flavour)
    with go_on(store, flavour) as again:
        fill(again, 2, first=4)
    assert sorted(store.names()) == ["binlog.000001", "binlog.000002", "binlog.index"]
    assert purge(store, to="binlog.000002") == ["binlog.000001"]


def test_what_is_no_target_is_rejected(tmp_path, monkeypatch):
    """It was a file of the name of its repr."""
    monkeypatch.chdir(tmp_path)
    for wrong in (object(), 5, None, b"binlog.000001", MemoryFolder, LocalStore(tmp_path)):
        for call in (
            lambda wrong=wrong: tailrace.create(wrong, flavour="mysql", server_id=1),
            lambda wrong=wrong: tailrace.append(wrong),
            lambda wrong=wrong: Receiver("mysql://root@127.0.0.1:1/", wrong).run(),
            lambda wrong=wrong: purge(wrong, to="binlog.000001"),
        ):
            with pytest.raises(UsageError, match="is neither a path nor a URL, nor a store"):
                call()
    with pytest.raises(UsageError, match="is neither a path nor a URL"):
        find(object())
    assert list(tmp_path.iterdir()) == []
