"""MariaDB's compressed columns: values in bulk are uncompressed as single ones."""

import random
import zlib

import pyarrow as pa
import pytest

from tailrace.columns.read.finish import _uncompressed
from tailrace.columns.text_output import BadRow
from tailrace.errors import EventDecodeError
from tailrace.values.compressed import uncompress
from tests.cases import each_case

_TEXT = b"some text of it " * 30
_DEFLATED = zlib.compress(_TEXT)[2:-4]
_GOOD = b"\x8a" + len(_TEXT).to_bytes(2, "big") + _DEFLATED


@each_case(
    "bad",
    [
        _GOOD[:-5],
        b"\x8a" + (len(_TEXT) - 1).to_bytes(2, "big") + _DEFLATED,
        b"\x8a" + (len(_TEXT) + 1).to_bytes(2, "big") + _DEFLATED,
        b"\x8c\xff\xff\xff\xff" + _DEFLATED,
        b"\x88" + _DEFLATED,
        b"\x8a\x01",
        b"\x8a",
        b"\x7a" + _GOOD[1:],
    ],
)
def test_what_is_wrong_is_said_as_for_one_value(bad):
    limit = 1 << 16
    with pytest.raises(EventDecodeError) as one:
        uncompress(bad, limit)
    with pytest.raises(BadRow) as all_:
        _uncompressed(pa.array([_GOOD, None, b"", b"\0as it is", bad, _GOOD], pa.binary()), limit)
    assert (all_.value.row, all_.value.reason) == (4, one.value.message)


def test_streams_of_all_kinds_sound_or_damaged_are_as_zlib_reads_them():
    """Levels, strategies, windows, flushes, with and without zlib's frame; of any stream some are damaged or cut."""
    chance = random.Random(5)
    for _ in range(120):
        value = _compressed(chance, _some_bytes(chance))
        assert _uncompressed(pa.array([value, None, value], pa.binary()), _LIMIT).to_pylist() == [
            uncompress(value, _LIMIT),
            None,
            uncompress(value, _LIMIT),
        ]
        for _ in range(8):
            bad = bytearray(value)
            bad[chance.randrange(min(len(bad), chance.choice([6, 30, 100_000])))] ^= (
                1 << chance.randrange(8)
            )
            bad = bytes(bad[: chance.choice([len(bad), chance.randrange(1, len(bad) + 1)])])
            array = pa.array([bad], pa.binary())
            found = _outcome(lambda array: _uncompressed(array, _LIMIT)[0].as_py(), array)
            assert found == _outcome(lambda data: uncompress(data, _LIMIT), bad)


_LIMIT = 1 << 24


def _some_bytes(chance):
    size = chance.choice([0, 1, 5, 50, 400, 3000, 40_000])
    if chance.random() < 0.3:
        return chance.randbytes(size)
    if chance.random() < 0.5:
        return (chance.randbytes(chance.randrange(1, 40)) * size)[:size]
    return bytes(min(255, int(chance.expovariate(0.05))) for _ in range(size))


def _compressed(chance, data):
    bits = chance.choice([9, 15])
    framed = chance.random() < 0.4
    stream = zlib.compressobj(
        chance.randrange(10), zlib.DEFLATED, bits if framed else -bits, 9, chance.randrange(5)
    )
    packed = stream.compress(data[: len(data) // 2])
    if chance.random() < 0.3:
        packed += stream.flush(
            chance.choice([zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_PARTIAL_FLUSH])
        )
    packed += stream.compress(data[len(data) // 2 :]) + stream.flush()
    size = len(data).to_bytes(max(1, (len(data).bit_length() + 7) // 8), "big")
    return bytes([(0x80 if framed else 0x88) | len(size)]) + size + packed


def _outcome(work, data):
    try:
        return work(data)
    except BadRow as error:
        return error.reason
    except EventDecodeError as error:
        return error.message
