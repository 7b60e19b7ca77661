import pytest

from tailrace.errors import EventDecodeError
from tailrace.events.fields import Cursor


def test_bounds_inside_the_buffer():
    cursor = Cursor(b"abcdef", 1, 3)
    assert cursor.take(2, "it") == b"bc"
    with pytest.raises(EventDecodeError):
        cursor.take(1, "it")
    for pos, end in ((-1, 2), (3, 2), (0, 7)):
        with pytest.raises(EventDecodeError):
            Cursor(b"abcdef", pos, end)
