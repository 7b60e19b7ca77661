"""How values and texts from elsewhere stand in messages: short, on one line, escaped."""

from tailrace.printable import first_line, one_line, short_repr
from tests.cases import each_case


class Odd:
    def __repr__(self):
        raise ZeroDivisionError


@each_case(
    ("value", "text"),
    [
        ("a\x1b[31m", r"'a\x1b[31m'"),
        ("x" * 80, f"'{'x' * 80}'"),
        ("x" * 81, f"'{'x' * 80}...'"),
        (b"x" * 200, f"b'{'x' * 78}..."),
        (10**100, f"1{'0' * 79}..."),
        (10**5000, "a int"),  # more digits than Python prints
        (Odd(), "a Odd"),
        (None, "None"),
    ],
)
def test_a_value_in_a_message(value, text):
    assert short_repr(value) == text


def test_a_text_on_one_line():
    assert one_line("  a\n\tb  c\n") == "a b c"
    assert one_line("a b c", 5) == "a b c"
    assert one_line("a  b  c", 4) == "a b ..."


def test_the_first_line_of_an_error():
    assert first_line(ValueError("\n  what it is \nwhere\n")) == "what it is"
    assert first_line(ValueError()) == "ValueError"
