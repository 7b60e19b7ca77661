"""Two speeds, one truth: kernels that Python runs give what they give as machine code."""

import os
import random
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace
from tailrace.columns import native, plan_splits
from tailrace.columns.interpreted import _ABSENT, _module, interpreted
from tailrace.columns.json_text import jsonb_to_text
from tailrace.errors import TailraceError
from tailrace.storage import find
from tailrace.values.jsonb import load_json
from tests.columns.interpreting import compiling, interpreting
from tests.columns.random_log import logs
from tests.recorded import ROOT, folders

EXAMPLES = settings(max_examples=int(os.environ.get("TAILRACE_EXAMPLES", "20")))


def found(folder, keyring=None):
    """All that `changes` and the planner find in a folder, to the byte; at the end, the error."""
    given = []
    if keyring is not None:
        changes = tailrace.changes(folder, statements="skip", keyring=keyring)
        return [repr(pa.record_batch(batch).to_pylist()) for batch in changes]
    try:
        for series in find(folder):
            splits = plan_splits(series, target_bytes=1 << 12)
            given += [(each.file, each.start, each.end, repr(each.changes)) for each in splits]
        for batch in map(pa.record_batch, tailrace.changes(folder, statements="skip")):
            given += [batch.schema.serialize().to_pybytes(), repr(batch.to_pylist())]
    except TailraceError as error:
        given.append(repr(error))
    return given


def both(folder):
    with compiling():
        wanted = found(folder)
    with interpreting() as loaded:
        assert found(folder) == wanted
    assert not loaded
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize("folder", folders(shop=True), ids=lambda path: path.name)
def test_corpus(folder):
    assert both(folder)


def test_an_encrypted_log():
    folder = ROOT / "tests" / "corpus" / "mariadb-11.8.encrypted"
    with compiling():
        wanted = found(folder, folder / "keys")
    with interpreting() as loaded:
        assert found(folder, folder / "keys") == wanted
    assert wanted
    assert not loaded


def test_whatever_is_missing_is_an_error():
    """A kernel's function that Python cannot run is no call without an effect."""
    for module in {native.KERNELS[name][0] for name in native.INTERPRETED}:
        assert _ABSENT not in _module(module).values(), module
    assert _ABSENT not in _module("memory").values()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


@EXAMPLES
@given(data=logs(), seed=st.integers(0, 1 << 30))
@pytest.mark.slow
def test_random_tables_and_damage(folder, data, seed):
    path = folder / "binlog.000007"
    path.write_bytes(data)
    both(folder)
    chance = random.Random(seed)
    data = bytearray(data)
    for _ in range(chance.choice([1, 3])):
        data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    both(folder)


def test_a_larger_log_is_compiled(monkeypatch):
    """What has been read counts: of the log that passes the limit the rest is not interpreted."""
    folder = ROOT / "examples" / "shop" / "mysql"
    with interpreting() as loaded:
        monkeypatch.setattr(native, "SMALL", 2 << 20)
        list(tailrace.changes(folder))
        assert not loaded
        list(tailrace.changes([folder, folder]))
        assert {"plan_events", "decode_rows"} <= set(loaded)


def test_what_is_compiled_is_not_interpreted(monkeypatch):
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(native, "_interpreted", {})
    native.kernel("hash_bytes")
    monkeypatch.setattr(native, "_loaded", {})
    assert native.reading("hash_bytes").__class__.__name__ != "function"
    assert not native._interpreted


def test_words_are_cut_as_by_the_machine():
    """64 bits, with their sign: the hash multiplies, and its bytes come out the same."""
    data = bytes(range(200, 256)) + b"abc"
    array = pa.array([data], pa.binary())
    address = array.buffers()[2].address
    plain, compiled = interpreted("plan", "hash_bytes"), native.kernel("hash_bytes")
    for size in range(len(data)):
        assert plain(address, size) == compiled(address, size)


def test_numbers_as_text():
    """Doubles from all of their range, and whole numbers at the ends of theirs; as by objects."""
    chance = random.Random(7)
    values = [chance.getrandbits(64) for _ in range(300)] + [0, 1, 1 << 63, (1 << 64) - 1, 1 << 52]
    near = ("1e14", "1e15", "1e16", "1e-14", "1.5e-14", "1e-15", "999999999999999.9", "4.35")
    values += [struct.unpack("<Q", struct.pack("<d", float(each)))[0] for each in near]
    values = [each for each in values if each >> 52 & 0x7FF != 0x7FF]
    documents = [
        bytes([kind]) + each.to_bytes(8, "little") for each in values for kind in (9, 10, 11)
    ]
    array = pa.array(documents, pa.binary())
    with compiling():
        wanted = jsonb_to_text(array)
    assert wanted.to_pylist() == [load_json(each) for each in documents]
    with interpreting() as loaded:
        assert jsonb_to_text(array).equals(wanted)
    assert not loaded
