"""The kernels decrypt as the code without kernels does: any events, any blocks."""

import secrets

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.columns.read.decrypt import KernelCipher
from tailrace.storage.encryption.mariadb import batch as mariadb_batch
from tailrace.storage.encryption.mariadb.batch import BatchCipher
from tailrace.storage.encryption.mariadb.format import EventCipher, Mode
from tests.cases import each_case


def event(size):
    raw = bytearray(secrets.token_bytes(size))
    raw[9:13] = size.to_bytes(4, "little")
    return bytes(raw)


SIZES = st.lists(
    st.one_of(
        st.integers(19, 60), st.integers(19, 300), st.sampled_from([2047, 2048, 9000, 300_000])
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(
    sizes=SIZES,
    mode=st.sampled_from(Mode),
    key_size=st.sampled_from([16, 24, 32]),
    nonce=st.one_of(st.binary(min_size=12, max_size=12), st.just(b"\xff" * 12)),
    offset=st.one_of(
        st.integers(256, 1 << 20),
        st.sampled_from([0xFFFFFF00, (1 << 32) - 20, (1 << 33) + 5, 0xFF000000, 0xFD0000F0]),
    ),
    tail=st.integers(0, 30),
)
def test_all_ways_give_what_was_encrypted(sizes, mode, key_size, nonce, offset, tail):
    cipher = EventCipher(secrets.token_bytes(key_size), nonce, mode)
    plain = [event(size) for size in sizes]
    stored, at = [], offset
    for one in plain:
        made = cipher.encrypt(one, at)
        assert made[9:13] == one[9:13]
        assert cipher.decrypt(made, at) == one
        stored.append(made)
        at += len(one)
    begun = event(200)[:tail]
    raw = b"".join(stored) + begun
    end = sum(sizes)
    slow = BatchCipher(cipher)
    slow._np = None
    for batch in (BatchCipher(cipher), KernelCipher(cipher), slow):
        buffer = bytearray(raw)
        assert batch.decrypt(memoryview(buffer), len(raw), offset) == end
        assert bytes(buffer) == b"".join(plain) + begun


@each_case("mode", list(Mode))
def test_of_an_events_begin_only_what_is_known_is_given(mode):
    cipher = EventCipher(bytes(32), bytes(12), mode)
    plain = event(100)
    stored = cipher.encrypt(plain, 77)
    for size in range(13, 100):
        got = cipher.decrypt(stored[:size], 77)
        assert plain.startswith(got)
        assert size - len(got) < (20 if mode is Mode.CBC else 1)
    assert cipher.decrypt(stored, 77) == plain


@each_case("kind", [BatchCipher, KernelCipher])
def test_a_damaged_length_ends_the_run(kind):
    cipher = EventCipher(bytes(32), bytes(12), Mode.CBC)
    plain = [event(50) for _ in range(9)]
    raw = bytearray(b"".join(cipher.encrypt(one, 50 * at) for at, one in enumerate(plain)))
    raw[200 + 9 : 200 + 13] = (18).to_bytes(4, "little")
    assert kind(cipher).decrypt(memoryview(raw), len(raw), 0) == 200
    assert raw[:200] == b"".join(plain[:4])


def test_numpy_is_what_the_plain_way_uses():
    assert mariadb_batch._numpy() is not None
