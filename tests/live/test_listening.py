"""`tailrace.live.listening`: what an address to listen at may be."""

import pytest

from tailrace.errors import UsageError
from tailrace.live.listening import address_of, listening
from tests.cases import each_case


@each_case(
    ("text", "found"),
    [
        ("127.0.0.1:3306", ("127.0.0.1", 3306)),
        ("db.example:0", ("db.example", 0)),
        ("[::1]:4000", ("::1", 4000)),
        ("*:3306", ("", 3306)),
    ],
)
def test_an_address(text, found):
    assert address_of(text) == found


@each_case("text", ["", "3306", ":3306", "::1:3306", "host:", "host:x", "h:65536", 3306])
def test_no_address(text):
    with pytest.raises(UsageError):
        address_of(text)


@each_case("host", ["no.such.host.invalid", f"{'a' * 70}.example", "a..b", "192.0.2.1"])
def test_a_host_that_is_not_here(host):
    with pytest.raises(UsageError, match="cannot listen at"):
        listening(host, 0, 1)
