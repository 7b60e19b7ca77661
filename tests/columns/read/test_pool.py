"""Memory of batches is used again when the last buffer over it is gone, and never before."""

import gc
import random
import threading

import pyarrow as pa
import pytest

import tailrace
from tailrace.columns.read import blocks
from tailrace.columns.read.pool import Pool

ROWS, BLOCK = 20_000, 1 << 14


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log of many blocks, each a batch of much the same size."""
    monkeypatch.setattr(blocks, "BLOCK", BLOCK)
    monkeypatch.setattr("tailrace.columns.batches.BLOCK", BLOCK)
    monkeypatch.setattr("tailrace.columns.read.walk._WORTH_A_BATCH", 0)
    table = tailrace.Table.parse(
        "create table d.t (id bigint primary key, name varchar(40))", flavour="mysql"
    )
    path = tmp_path / "binlog.000001"
    with tailrace.create(path, flavour="mysql", server_id=7) as out:
        for start in range(0, ROWS, 500):
            with out.transaction() as transaction:
                transaction.insert(
                    table, [{"id": n, "name": f"row {n}"} for n in range(start, start + 500)]
                )
    return path


def test_held_batches_stay(log):
    """What is held of each batch is the batch, a slice, a column or a buffer: all keep it."""
    keep = (
        lambda batch: batch,
        lambda batch: batch.slice(3, 40),
        lambda batch: batch.column("after").field("name"),
        lambda batch: batch.column("after").field("id").to_numpy(zero_copy_only=True),
        lambda batch: batch.column("_pos").buffers()[1].slice(8, 64),
    )
    held, copies = [], []
    for number, batch in enumerate(tailrace.changes(log)):
        held.append(keep[number % len(keep)](batch))
        copies.append(_plain(held[-1]))
    assert len(held) > 20
    assert [_plain(each) for each in held] == copies


def _plain(held):
    if isinstance(held, pa.Buffer):
        return held.to_pybytes()
    return held.tolist() if hasattr(held, "tolist") else held.to_pylist()


def test_memory_comes_back_with_the_last_slice():
    pool = Pool()
    lease = pool.take(1000)
    address = lease.memory.ctypes.data
    part = pa.Array.from_buffers(pa.int8(), 10, [None, lease.buffer().slice(16, 10)]).slice(2, 3)
    del lease
    assert pool.take(1000).memory.ctypes.data != address
    del part
    assert address in {pool.take(1000).memory.ctypes.data, pool.take(1000).memory.ctypes.data}


def test_memory_is_used_again(log):
    seen = [batch.column("_pos").buffers()[1].parent.address for batch in tailrace.changes(log)]
    assert len(seen) > 20
    assert len(set(seen)) < 6


def test_no_more_is_kept_than_the_limit():
    pool = Pool(limit=10_000)
    leases = [pool.take(4_000) for _ in range(10)]
    del leases
    assert sum(map(len, pool._free)) <= 10_000
    large = pool.take(1_000_000)
    del large
    assert not pool._free


def test_leases_end_in_other_threads():
    """Buffers are dropped by three threads while a fourth takes memory; each has its own."""
    pool = Pool()
    handed = [[], [], []]
    done = threading.Event()
    wrong = []

    def drop(mine, seed):
        rng = random.Random(seed)
        while not done.is_set() or mine:
            if mine:
                mark, buffer = mine.pop(rng.randrange(len(mine)))
                if buffer.to_pybytes() != mark.to_bytes(4, "little") * (len(buffer) // 4):
                    wrong.append(mark)

    threads = [
        threading.Thread(target=drop, args=each) for each in zip(handed, range(3), strict=True)
    ]
    for thread in threads:
        thread.start()
    for mark in range(5_000):
        lease = pool.take(4_000)
        lease.memory[:4_000].view("<u4")[:] = mark
        handed[mark % 3].append((mark, lease.buffer().slice(0, 4_000)))
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_lease_ends_inside_take():
    """The garbage collector may end leases while the lock is held: nothing waits for anything."""
    pool = Pool()
    cycle = [pool.take(1000).buffer()]
    cycle.append(cycle)
    del cycle
    with pool._lock:
        gc.collect()
    assert pool.take(1000) is not None
