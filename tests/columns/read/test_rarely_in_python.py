"""What Python handles takes microseconds for each event: the kernel passes over the usual ones."""

from collections import Counter

import pytest

from tailrace.columns import changes
from tailrace.columns.read.decoder import LogDecoder
from tailrace.errors import BoundaryError
from tailrace.schema import ddl
from tailrace.schema.session import StatementSession
from tailrace.storage import find
from tests.cases import each_case
from tests.columns.oracle import assert_equal_paths
from tests.recorded import CORPUS


def handled(monkeypatch):
    """Counts the statements that Python handles."""
    found = Counter()
    handle = LogDecoder._statement

    def counted(self, event):
        found[event.sql.split("`")[0]] += 1
        handle(self, event)

    monkeypatch.setattr(LogDecoder, "_statement", counted)
    return found


@each_case("server", ["mysql-9.7", "mariadb-11.8", "mariadb-10.11"])
def test_savepoints(server, monkeypatch):
    counts = handled(monkeypatch)
    (series,) = find(CORPUS / f"{server}.savepoints")
    assert assert_equal_paths(series) > 0
    assert counts["SAVEPOINT "] == 0
    assert counts["ROLLBACK TO "] <= 1  # the first makes the decoder find out what is left out


def test_a_savepoint_that_was_not_set(tmp_path):
    (recorded,) = (CORPUS / "mariadb-11.8.savepoints").glob("*.0*")
    data = recorded.read_bytes()
    at = data.rindex(b"SAVEPOINT `s p`")
    path = tmp_path / "binlog.000001"
    path.write_bytes(data[:at] + b"SAVEPOINT `s q`" + data[at + 15 :])
    with pytest.raises(BoundaryError, match="no savepoint of that name"):
        list(changes(path, statements="skip", verify_checksums=False))


def test_a_statement_that_comes_again_is_not_parsed_again(monkeypatch):
    parsed = Counter()
    parse = ddl._effects

    def counted(sql, database, session):
        parsed[sql] += 1
        return parse(sql, database, session)

    monkeypatch.setattr(ddl, "_effects", counted)
    ddl._kept_effects.cache_clear()
    sql = "CREATE TABLE again (a INT, b VARCHAR(3))"
    first = ddl.effects(sql, "d", StatementSession())
    assert ddl.effects(sql, "d", StatementSession()) == first
    assert parsed[sql] == 1
    other = ddl.effects(sql, "e", StatementSession())
    assert other != first
    assert parsed[sql] == 2
