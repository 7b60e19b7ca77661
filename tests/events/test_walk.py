"""Walks over events, by the lengths in their headers."""

from random import Random

import pytest

from tailrace.errors import BadEventLength
from tailrace.events.walk import event_length, frames, whole_events
from tests.cases import each_case


def event(length):
    return bytes(9) + length.to_bytes(4, "little") + b"x" * (length - 13)


def reader(data, rng):
    def read_into(at, view):
        piece = data[at : at + rng.randint(1, len(view))]
        view[: len(piece)] = piece
        return len(piece)

    return read_into


def test_only_whole_events_are_walked_over():
    data = event(19) + event(40) + event(25)
    assert list(frames(data)) == [(0, 19), (19, 59), (59, 84)]
    assert list(frames(memoryview(data), 83)) == [(0, 19), (19, 59)]
    assert list(frames(event(19) + event(18) + bytes(20))) == [(0, 19)]
    assert event_length(data, 19) == 40
    assert event_length(data[:5]) == 0


@each_case("block", [19, 30, 100, 1 << 20])
@each_case("padding", [0, 8])
def test_pieces_of_whole_events(block, padding):
    rng = Random(block)
    for _ in range(30):
        events = [event(rng.choice((19, 20, 50, 300))) for _ in range(rng.randrange(40))]
        data = b"".join(events)
        found = []
        for piece in whole_events(reader(data, rng), len(data), block, padding):
            assert len(piece) <= max(block, 300)
            assert len(piece.obj) >= len(piece) + padding
            found += [bytes(piece[start:end]) for start, end in frames(piece)]
        assert found == events


def test_a_length_that_no_event_has():
    data = event(19) + event(18) + bytes(100)
    with pytest.raises(BadEventLength, match="not 18"):
        list(whole_events(reader(data, Random(1)), len(data), 50))
