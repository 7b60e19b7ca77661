import pytest

from tailrace.errors import EventDecodeError
from tailrace.events.fields import Cursor, text
from tests.cases import each_case


@each_case(
    ("raw", "value"),
    [
        ("00", 0),
        ("fa", 250),
        ("fcfb00", 251),
        ("fcffff", 65535),
        ("fd000001", 65536),
        ("fdffffff", 0xFFFFFF),
        ("fe0000000001000000", 1 << 32),
        ("feffffffffffffffff", (1 << 64) - 1),
    ],
)
def test_length_encoded_integers(raw: str, value: int) -> None:
    data = bytes.fromhex(raw)
    cursor = Cursor(data)
    assert cursor.lenenc("it") == value
    cursor.finish("it")
    for size in range(len(data)):
        with pytest.raises(EventDecodeError):
            Cursor(data[:size]).lenenc("it")


@each_case("first", [0xFB, 0xFF])
def test_what_begins_no_length(first: int) -> None:
    with pytest.raises(EventDecodeError, match="does not begin a length"):
        Cursor(bytes([first] * 9)).lenenc("it")


def test_fixed_numbers() -> None:
    data = bytes.fromhex(
        "ff ffff ffffffff ffffffffffffffff feffffff feffffffffffffff 000000000000f83f"
    )
    cursor = Cursor(data)
    assert cursor.u8("a") == 0xFF
    assert cursor.u16("b") == 0xFFFF
    assert cursor.u32("c") == 0xFFFFFFFF
    assert cursor.u64("d") == (1 << 64) - 1
    assert cursor.i32("e") == -2
    assert cursor.i64("f") == -2
    assert cursor.f64("g") == 1.5
    assert cursor.remaining == 0
    with pytest.raises(EventDecodeError, match="needs 1 bytes, 0 remain"):
        cursor.u8("h")


def test_a_failed_step_names_the_field_and_does_not_move() -> None:
    cursor = Cursor(b"abc")
    with pytest.raises(EventDecodeError, match="the name needs 4 bytes, 3 remain"):
        cursor.take(4, "the name")
    assert cursor.rest() == b"abc"


def test_bounds_inside_the_buffer() -> None:
    cursor = Cursor(b"abcdef", 1, 3)
    assert cursor.take(2, "it") == b"bc"
    with pytest.raises(EventDecodeError):
        cursor.take(1, "it")
    for pos, end in ((-1, 2), (3, 2), (0, 7)):
        with pytest.raises(EventDecodeError):
            Cursor(b"abcdef", pos, end)


def test_left_over_bytes_are_refused() -> None:
    with pytest.raises(EventDecodeError, match="1 bytes follow"):
        Cursor(b"x").finish("it")


def test_names_are_utf8() -> None:
    assert text("é".encode(), "a name") == "é"
    with pytest.raises(EventDecodeError, match="a name is not UTF-8"):
        text(b"\xe9", "a name")
