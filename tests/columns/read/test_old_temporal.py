"""MariaDB's old TIME, DATETIME and TIMESTAMP, whose fraction's digits the log does not have."""

import pytest

import tailrace
from tailrace.errors import EventDecodeError


@pytest.fixture(scope="module")
def server(fresh_server):
    return fresh_server("mariadb-11.8", {"mysql56_temporal_format": "OFF"})


def test_digits_that_nothing_tells_are_not_guessed(server):
    """These three rows were read as five, with no digits assumed: the bytes fit by chance."""
    server.execute("CREATE DATABASE guessed")
    server.execute("CREATE TABLE guessed.t (v TIME(3) NULL, x TINYINT)")
    first = server.rotate()
    server.execute("INSERT INTO guessed.t VALUES ('-00:00:01',0), ('00:00:00',NULL), (NULL,NULL)")
    server.rotate()
    path = first.with_name(f"{first.stem}.{int(first.suffix[1:]) + 1:06}")
    for read in (tailrace.changes, tailrace.rows):
        message = rf"{path.name} at \d+.*guessed\.t: .* digits of column c1 .*\(--schema"
        with pytest.raises(EventDecodeError, match=message) as error:
            list(read(path))
        assert error.value.offset
