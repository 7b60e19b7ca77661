"""Objects that are held in memory, and past a limit in a temporary file."""

import random

import pytest

from tailrace.errors import StorageError
from tailrace.storage.spill import SpilledObjects
from tests.cases import each_case


class Shared:
    """Does not pickle: it is kept in memory."""

    def __reduce__(self):
        raise AssertionError


def test_small_ones_stay_in_memory():
    held = SpilledObjects(100)
    for number in range(10):
        held.append(number, 10)
    assert held.in_file == 0
    assert (len(held), list(held)) == (10, list(range(10)))
    held.append(10, 1)
    assert held.in_file == 11
    held.clear()
    assert (len(held), held.in_file, list(held)) == (0, 0, [])


def test_what_is_shared_comes_back_as_the_same():
    shared = [Shared(), Shared()]
    held = SpilledObjects(0, shared=(Shared,))
    for number in range(6):
        held.append((number, shared[number % 2]), 1 << 20)
    assert held.in_file
    assert [item[1] for item in held] == shared * 3


@each_case("limit", [0, 5_000_000, 1 << 40])
def test_as_a_list_does(limit):
    """Appended and cut back at random, small and large ones, it is a list."""
    rng = random.Random(6)
    for _ in range(8):
        held, model = SpilledObjects(limit), []
        for _ in range(rng.randrange(60)):
            if rng.random() < 0.2:
                count = rng.randrange(len(model) + 1)
                held.truncate(count)
                del model[count:]
            else:
                item = rng.randbytes(rng.choice([0, 10, 1 << 16, 1 << 20]))
                held.append(item, len(item))
                model.append(item)
            assert len(held) == len(model)
        assert list(held) == model
        assert list(held) == model
        assert list(reversed(held)) == model[::-1]
        held.clear()


def test_a_folder_that_is_not_there(tmp_path):
    held = SpilledObjects(0, folder=tmp_path / "none")
    with pytest.raises(StorageError, match="temporary file"):
        held.append(b"x", 1)


def test_little_stays_in_memory(tmp_path):
    with SpilledObjects(1 << 20, folder=tmp_path) as held:
        for _ in range(5000):
            held.append("x" * 1000, 1000)
        assert held.in_memory < 2 << 20
        assert len(held) - held.in_file < 2000
        assert sum(1 for _ in reversed(held)) == 5000
    assert list(tmp_path.iterdir()) == []


def test_what_is_truncated_is_held_no_more():
    """As a transaction that rolls back to a savepoint again and again: nothing is written."""
    held = SpilledObjects(100)
    for number in range(50):
        held.append(number, 30)
        held.append(-number, 30)
        held.truncate(0 if number % 2 else 1)
    assert (list(held), held.in_memory, held.in_file) == ([], 0, 0)
