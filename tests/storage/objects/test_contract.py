"""The stream of an object keeps the contract of every stream, alone and below others."""

from uuid import uuid4

import pytest

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
