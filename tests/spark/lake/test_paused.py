"""A process that writes to a lake is paused at each of its steps, while another takes over."""

import errno
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tailrace.errors import LakeChanged, LakeTakenOver, PipelineError
from tailrace.spark.lake import claim
from tailrace.spark.lake.claim import Claim
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.iceberg.catalog import OwnCatalog
from tailrace.spark.lake.iceberg.tables import IcebergTables
from tailrace.spark.lake.lake import Lake, open_store
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest import journal
from tailrace.spark.manifest.on_disk import LocalObjects
from tests.spark.history.landing import FORMATS, parquet_rows
from tests.spark.lake.making import batch, begun
from tests.spark.lake.test_killed import STEPS, seen
from tools.campaign import paused

PATCHED = [
    *((Path, each) for each in STEPS),
    *((LocalObjects, each) for each in ("list", "put", "read", "remove")),
    *((tables, "commit") for tables in (DeltaTables, IcebergTables)),
    *((OwnCatalog, each) for each in ("commit_table", "create_table", "publish")),
    *((os, "fsync"), (shutil, "rmtree"), (Lake, "_finish")),
]


STRIDE = int(os.environ.get("TAILRACE_STRIDE", "11"))


class Pause:
    """Something that is done before a step, once."""

    def __init__(self, at, action):
        self.at = at
        self.count = 0
        self._action = action

    def __call__(self, original):
        def step(*arguments, **options):
            self.count += 1
            if self.count == self.at:
                self._action()
            return original(*arguments, **options)

        return step


def count(store):
    """How many batches are in a lake: each reads 100 bytes more of its source."""
    sources = store.manifest.sources
    return sources["mysql"].offset // 100 if sources else 0


def commit(store):
    store.commit(batch(store, count(store)))


def ended(opened, action):
    """The error with which a writer ends; empty without one."""
    try:
        with closing(opened()) as store:
            action(store)
    except PipelineError as error:
        return str(error)
    return ""


def links(lake):
    """The links by which readers of a Parquet lake find files, with what they lead to."""
    inner = lake / "_tailrace"
    found = [
        *lake.glob("*"),
        *inner.glob("*"),
        *inner.glob("tables/**/*"),
        *inner.glob("versions/*/*"),
    ]
    return {each: each.readlink() for each in found if each.is_symlink()}


def pause(lake, kind, at, late):
    """A writer, before a step of which another one takes over, which commits before the first one
    continues, or ``late``, after it has ended: the errors of both; None if there are not so many steps.
    """
    others = []

    def take_over():
        others.append(open_store(lake, kind).__enter__())
        if not late:
            commit(others[0])
        others.extend((count(others[0]), links(lake)))

    pausing = Pause(at, take_over)
    with pytest.MonkeyPatch.context() as patch:
        for owner, step in PATCHED:
            patch.setattr(owner, step, pausing(getattr(owner, step)))
        first = ended(open_store(lake, kind).__enter__, commit)
    if not others:
        return None
    other, then, found = others
    if first:
        assert count(LakeView.open(lake)) == then, at
        assert links(lake) == found, at
    return first, ended(lambda: other, commit if late else count)


def contents(lake, kind):
    """The numbers of the changelog, and of the current rows."""
    if kind != "parquet":
        log, rows = seen(lake, kind)
        return log, [each["id"] for each in rows]
    files = (lake / "shop.orders" / "changelog").glob("*.parquet")
    log = sorted(int(seq) for each in files for seq in pq.read_table(each)["_seq"].to_pylist())
    return log, sorted(parquet_rows(lake, "shop.orders")["id"].to_pylist())


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
def test_paused_at_each_step(tmp_path, kind, late, monkeypatch):
    """Whoever goes on, each batch is there once. All but the first steps and the last ones, where
    it has no claim, end with an error. TAILRACE_STRIDE=1 is every step.
    """
    monkeypatch.setattr(journal, "_MOST", 3)
    monkeypatch.setattr(claim, "_runs", lambda *_arguments, **_options: None)
    lake = begun(tmp_path, kind)
    failed, at, done = 0, 1, 1
    while (errors := pause(lake, kind, at, late)) is not None:
        first, second = errors
        assert not (first and second), at
        for error in filter(None, errors):
            assert "another process has taken over the lake" in error, at
        before, done = done, count(LakeView.open(lake))
        assert done - before >= (not first) + (not second or not late), at
        log, rows = contents(lake, kind)
        assert log == list(range(1, 10 * done + 1)), at
        assert rows == list(range(10 * done)), at
        failed += bool(first)
        at += STRIDE
    assert 50 < at < failed * STRIDE + 50


def test_a_batch_of_one_that_was_paused_is_not_withdrawn(tmp_path):
    """It could still bring its batch to a table, when others have written to the first of them."""
    lake = begun(tmp_path, "delta")
    with pytest.MonkeyPatch.context() as patch, open_store(lake, "delta") as store:
        work = batch(store, 1)

        def stopped(*_arguments, **_options):
            raise KeyboardInterrupt

        commit = DeltaTables.commit
        patch.setattr(DeltaTables, "commit", stopped)
        with pytest.raises(KeyboardInterrupt):
            store.commit(work)

        def changed(self, step, number, *, overrule=False):
            if not overrule:
                raise LakeChanged("others were first")
            return commit(self, step, number, overrule=overrule)

        patch.setattr(DeltaTables, "commit", changed)
        patch.setattr(claim, "_runs", lambda *_arguments, **_options: None)
        with pytest.raises(PipelineError, match="has overruled what others committed"):
            open_store(lake, "delta").__enter__()
        patch.undo()
        with pytest.raises(LakeTakenOver, match="another process has taken over"):
            store.close()
    with open_store(lake, "delta") as store:
        assert count(store) == 2
    assert seen(lake, "delta")[0] == list(range(1, 21))


@pytest.mark.parametrize("kind", FORMATS)
def test_one_that_fails_to_take_over_leaves_that_to_the_next(tmp_path, kind):
    """The process that was paused may prepare a batch until somebody has withdrawn its number."""
    lake = begun(tmp_path, kind)
    with pytest.MonkeyPatch.context() as patch, open_store(lake, kind) as store:
        paused = json.loads(store_claim(store)._token)["token"]

        def runs(token, **_options):
            return None if json.loads(token)["token"] == paused else False

        def full(*_arguments):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(claim, "_runs", runs)
        with pytest.MonkeyPatch.context() as failing:
            failing.setattr(journal.Journal, "fence", full)
            with pytest.raises(PipelineError, match="No space left"):
                open_store(lake, kind).__enter__()
        with open_store(lake, kind) as third:
            assert third.manifest.next == 3
        with open_store(lake, kind) as fourth:
            assert fourth.manifest.next == 3
        with pytest.raises(LakeTakenOver):
            store.close()


def test_generations_rise(tmp_path):
    lake, numbers = begun(tmp_path, "parquet"), []
    for _ in range(3):
        with open_store(lake) as store:
            numbers.append(store_claim(store).generation)
            assert len(list((lake / "_tailrace" / "claims").iterdir())) == 1
    assert numbers == [numbers[0] + each for each in range(3)]


def store_claim(store):
    return store._claim


CODE = (
    "import sys\n"
    "from tailrace.spark.lake.lake import open_store\n"
    "with open_store(sys.argv[1]):\n"
    "    print('open', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def other(lake):
    """Another process that has the lake open."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", CODE, lake], **pipes, text=True)
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.communicate()


def test_who_may_take_over(lake, other, caplog):
    """Of a process on this host: one that is stopped, or has ended."""
    with pytest.raises(PipelineError, match=rf"another process \(.*pid {other.pid}\)"):
        open_store(lake).__enter__()
    assert not caplog.messages
    other.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, other.pid, os.WSTOPPED | os.WNOWAIT)
    with open_store(lake):
        (line,) = caplog.messages
        assert line.startswith(f"{lake}: taking over from another process (generation ")
        assert line.endswith(f"pid {other.pid}), which is stopped or on another host")
        other.send_signal(signal.SIGCONT)
        _, said = other.communicate("")
        assert f"another process has taken over the lake {lake} (generation" in said
        assert f"pid {os.getpid()}). This process" in said
        assert other.returncode == 1
        with pytest.raises(PipelineError, match=rf"pid {os.getpid()}\)"):
            open_store(lake).__enter__()
    assert len(caplog.messages) == 1


def test_a_claim_of_a_process_that_was_killed(lake, other, caplog):
    caplog.set_level(logging.INFO, "tailrace.spark")
    other.kill()
    other.wait()
    with open_store(lake):
        assert caplog.messages[0].endswith(f"pid {other.pid}), which has ended")


@pytest.mark.parametrize(
    "token",
    [b"", b"\xff", b"[]", b"{}", b"[" * 4000, b'{"pid": -1}', b'{"pid": "1"}', b'{"pid": 1}'],
)
def test_a_claim_that_nobody_can_read(lake, caplog, token):
    claims = lake / "_tailrace" / "claims"
    claims.mkdir(parents=True)
    (claims / "owner-0000000007").write_bytes(token)
    with open_store(lake):
        assert [each.name for each in claims.iterdir()] == ["owner-0000000008"]
    assert "which is stopped or on another host" in caplog.text


@pytest.mark.parametrize("name", ["system", "started"])
def test_a_process_of_the_same_number(lake, other, name, caplog):
    """On another host, after the machine was started again, or after the process has ended."""
    caplog.set_level(logging.INFO, "tailrace.spark")
    assert other.poll() is None
    (path,) = (lake / "_tailrace" / "claims").iterdir()
    found = json.loads(path.read_text())
    assert found["host"] == socket.gethostname()
    path.write_text(json.dumps(found | {name: "x"}))
    with open_store(lake):
        pass
    assert ("which has ended" in caplog.text) == (name == "started")


def test_two_at_once(tmp_path, monkeypatch):
    """Of two that claim a lake at a time, one at most has it."""
    objects = LocalObjects(tmp_path)
    first, second = Claim(objects, "lake"), Claim(objects, "lake")
    put = LocalObjects.put

    def later(self, *arguments, **options):
        monkeypatch.setattr(LocalObjects, "put", put)
        second.take()
        put(self, *arguments, **options)

    monkeypatch.setattr(LocalObjects, "put", later)
    with pytest.raises(PipelineError, match="is being written to"):
        first.take()
    second.check()
    assert len(list((tmp_path / "claims").iterdir())) == 1


def test_one_that_loses_does_not_end_the_claim_of_a_thread(tmp_path, monkeypatch):
    """It looked before the other thread's claim was there, and tried the same number."""
    objects = LocalObjects(tmp_path)
    before, first, second = (Claim(objects, "lake") for _ in range(3))
    before.take()
    before.release()  # both try the generation after it: the first of a lake is random
    put = LocalObjects.put

    def later(self, *arguments, **options):
        monkeypatch.setattr(LocalObjects, "put", put)
        first.take()
        return put(self, *arguments, **options)

    monkeypatch.setattr(LocalObjects, "put", later)
    for each in (second, Claim(objects, "lake")):
        with pytest.raises(PipelineError, match="is being written to"):
            each.take()
    first.check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_paused_by_a_signal(kind):
    """TAILRACE_PAUSES makes it more; ``--size full`` of the campaign has a hundred."""
    pauses = int(os.environ.get("TAILRACE_PAUSES", "1"))
    report = paused.run(kind, pauses, seed=1)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.places.total() == pauses
