"""The stream of an object keeps the contract of every stream, alone and below others."""

from random import Random
from uuid import uuid4

import pytest

from tailrace.errors import StorageError
from tailrace.storage.objects import store as objects_input
from tailrace.storage.objects.bucket import bucket_of
from tailrace.storage.objects.store import ObjectInput
from tailrace.storage.objects.url import ObjectUrl
from tailrace.storage.streams.layer import Layer, stacked
from tailrace.storage.streams.read_ahead import ReadAhead
from tailrace.testing import check_reading
from tests.cases import each_case
from tests.storage.layers import ENCRYPTION, closes, content


def an_object(data):
    url = ObjectUrl.parse(f"memory://contract/{uuid4()}")
    bucket_of(url).put(url.key, data)
    return url


def ranges(below):
    return closes(ObjectInput(an_object(content(below))), below)


def pieces(below):
    return ReadAhead(ranges(below), block=1000, first=100)


def same(store):
    return store


RANGES = Layer("object by ranges", ranges, same)
PIECES = Layer("object read ahead", pieces, same)


@pytest.mark.slow
@each_case("seed", range(5))
@each_case("above", [[], ["buffer"], ["counting", "buffer"], ["zstd"], [ENCRYPTION]])
@each_case("bottom", [RANGES, PIECES], ids=["ranges", "pieces"])
def test_reading(bottom, above, seed):
    check_reading(stacked([bottom, *above]), seed=seed)


class Refusing:
    """A store that refuses one request."""

    def __init__(self, store, number):
        self.store = store
        self.left = number

    def __getattr__(self, name):
        return getattr(self.store, name)

    def read(self, key, offset, count):
        self.left -= 1
        if self.left == -1:
            raise StorageError("connection reset")
        return self.store.read(key, offset, count)


@each_case("number", range(12))
@each_case("ahead", [0, 2])
def test_a_refused_request(monkeypatch, number, ahead):
    """The error comes out, in its place; who reads again gets on, and nothing is left out."""
    data = Random(number).randbytes(5000)
    url = an_object(data)
    refusing = Refusing(bucket_of(url), number)
    monkeypatch.setattr(objects_input, "bucket_of", lambda _url: refusing)
    stream = ObjectInput(url)
    if ahead:
        stream = ReadAhead(stream, block=500, first=100, ahead=ahead)
    found, told = bytearray(), 0
    while len(found) < len(data):
        try:
            piece = stream.read(400)
        except StorageError as error:
            assert "connection reset" in str(error)  # noqa: PT017 - the loop goes on
            told += 1
            assert told == 1
        else:
            assert piece
            found += piece
    stream.close()
    assert found == data
    assert told == (refusing.left < 0)
