"""Reading a statement's text takes time in proportion to its length, whatever the text is.

Who may write to a server chooses the statements of its log. Each shape below is read at two
lengths, of which the second is four times the first: it may take ten times as long (what is
quadratic takes sixteen times; the rest is room for the machine's other work). The first is long
enough to take some milliseconds: what is quadratic in C shows itself only then.
"""

import gc
import sys
import time
from contextlib import suppress

import pytest

from tailrace.constants import Flavour
from tailrace.errors import BoundaryError
from tailrace.schema import Catalogue, StatementKind, classify
from tailrace.schema import user_schema as given
from tailrace.schema.ddl import Unclear, effects
from tailrace.schema.session import StatementSession
from tailrace.schema.tokens import NotUnderstoodError, SqlMode, tokenize
from tailrace.sql.script import delimiter
from tailrace.transaction.statements import (
    begins,
    commits,
    rolls_back,
    savepoint_of_rollback,
    savepoint_set,
    without_start_transaction,
    xa_end,
    xa_statement,
)
from tests.cases import each_case

LENGTH = 6_000
LONGEST = 64 * LENGTH
"""What is not even read for `LONG_ENOUGH` at this length ended at its beginning."""
LONG_ENOUGH = 0.005

PIECES = [
    *("1", "1.", "1e", "1e+", "1.e1", "0x1", "0b1", "x'1", "b'1", "1$", "1é", ".", "''", '""'),
    *("'", '"', "`", "``", "'a''", "\\", "\\'", "'\\'", '"\\"', "'\\", "'\"`", "N'a'"),
    *(
        "/*",
        "/*!",
        "/*M!",
        "/*!99999",
        "/*/",
        "*/",
        "/*a*/",
        "/",
        "--",
        "-- \n",
        "#",
        "\n",
        "@",
        "@a",
    ),
    *("@'", "a.", "é", "\x00", "\udc80"),
]
FRAMES = ["{}", "'{}", "/*!99999 {}"]
STATEMENTS = [
    ("CREATE TABLE t (a INT DEFAULT {}", ["1", "(", "(1 ", "()", "CASE ", "a.", "'a'", "x'1'"]),
    (
        "CREATE TABLE t ({}z INT)",
        ["a INT, ", "UNIQUE (a), ", "CHECK (a), ", "PERIOD FOR p (a, a), "],
    ),
    ("CREATE TABLE t (a ENUM({}'z'))", ["'x',", "'', ", "(", "'é'"]),
    ("CREATE TABLE t (a INT) {}", ["(", "()", "((1", "SELECT ", "a=1 ", "DEFAULT ", ",", "/*"]),
    ("CREATE TABLE t (a INT){} START TRANSACTION", [" ", "\n ", " START TRANSACTION", "("]),
    ("ALTER TABLE t {}ADD z INT", ["ADD a INT, ", "ADD COLUMN IF NOT EXISTS a INT, "]),
    ("ALTER TABLE t {}ADD z INT", ["MODIFY a INT FIRST, ", "ADD UNIQUE (a), ", "DROP a, ", "("]),
    (
        "ALTER TABLE t {}ADD z INT",
        ["ADD a INT AFTER b, ", "ORDER BY a, ", "ALTER a ", "RENAME a, "],
    ),
    ("DROP TABLE {}z", ["a, ", "a.b, "]),
    ("RENAME TABLE {}a TO b", ["a TO b, ", "a TO b, b TO a, "]),
    ("{}INSERT INTO t VALUES (1)", ["SET STATEMENT a=1 FOR ", "(", "/*!", "-- \n", ";", " "]),
    ("SET STATEMENT {}", ["a=1 FOR ", "(", "FOR "]),
    ("ALTER DATABASE d {}", ["COLLATE a ", "DEFAULT CHARACTER SET a ", "("]),
    ("CREATE SEQUENCE s {}", ["AS INT ", "AS "]),
    ("SAVEPOINT a{}b", [" ", "\n ", "a "]),
    ("ROLLBACK TO a{}b", [" ", "\n ", "a "]),
    ("XA COMMIT X'{}',X'',1", ["6", "61", " "]),
    ("XA COMMIT X'',X'',{}", ["1", " "]),
    ("SELECT 1;;//$$|;|/*!*/;{}", ["".join(f";{n};" for n in range(1, 2000)), "'\\'\\", "/*/"]),
]


@pytest.fixture(autouse=True)
def parsed_each_time(monkeypatch):
    """What short statements are is kept, which would take no time at all."""
    for name in ("tailrace.schema.classify", "tailrace.schema.ddl"):
        monkeypatch.setattr(sys.modules[name], "LONGEST_KEPT", -1)


def repeated(frame, piece, size):
    return frame.replace("{}", piece * (size // len(piece)))


def tokens(text):
    for mode in (SqlMode.NONE, SqlMode.NO_BACKSLASH_ESCAPES):
        with suppress(NotUnderstoodError):
            tokenize(text, Flavour.MARIADB, mode)


def every_reader(text):
    """All that reads a statement's text; only errors of our own may come."""
    classify(text)
    catalogue = Catalogue()
    catalogue.apply("CREATE TABLE d.t (a INT, b INT)", "d", flavour=Flavour.MARIADB)
    catalogue.apply(text, "d", flavour=Flavour.MARIADB)
    savepoint_set(text)
    savepoint_of_rollback(text)
    with suppress(BoundaryError):
        xa_statement(text)
    raw = text.encode("utf-8", "surrogateescape")
    begins(raw), commits(raw), rolls_back(raw), xa_end(raw)
    without_start_transaction(text.encode("utf-8", "surrogateescape"))
    delimiter(text)
    for _ in given.split(text):
        pass


def seconds(read, text):
    """Seconds of this thread's alone, without going through what other tests left in memory."""
    gc.disable()
    try:
        start = time.thread_time()
        read(text)
        return time.thread_time() - start
    finally:
        gc.enable()


def check(read, frame, piece):
    size = LENGTH
    while (first := seconds(read, repeated(frame, piece, size))) < LONG_ENOUGH and size < LONGEST:
        size *= 4 if first < LONG_ENOUGH / 4 else 2
    short, long = repeated(frame, piece, size), repeated(frame, piece, 4 * size)
    for _ in range(3):  # another look where the machine was busy
        if (took := seconds(read, long)) < 10 * max(seconds(read, short), LONG_ENOUGH):
            return
    raise AssertionError(f"{took:.2f} s for {len(long)} characters: {frame!r} {piece!r}")


def test_copies_of_the_rest_are_found():
    """Quadratic in C: 24,000 characters take a millisecond, and millions take seconds."""
    with pytest.raises(AssertionError, match="characters"):
        check(lambda text: sum(len(text[at:]) for at in range(0, len(text), 100)), "{}", "a")


@pytest.mark.slow
@each_case("frame", FRAMES)
def test_tokens(frame):
    for piece in PIECES:
        check(tokens, frame, piece)


def test_digits_as_a_server_takes_them():
    """A number of 60,000 digits took 25 seconds; MySQL accepts the statement."""
    assert seconds(tokens, f"INSERT INTO t VALUES ({'1' * 60_000})") < 5


@pytest.mark.slow
@each_case(("frame", "pieces"), STATEMENTS)
def test_statements(frame, pieces):
    for piece in pieces:
        check(every_reader, frame, piece)


def test_statements_one_in_the_other_end():
    """5000 of them ended in a RecursionError."""
    text = "SET STATEMENT a=1 FOR " * 5000
    assert classify(f"{text}INSERT INTO t VALUES (1)") is StatementKind.DML
    found = effects(f"{text}DROP TABLE t", "d", StatementSession(Flavour.MARIADB))
    assert [type(effect).__name__ for effect in found] == ["DropTable"]


def test_more_columns_than_a_table_may_have():
    columns = ", ".join(f"c{number} INT" for number in range(4097))
    for sql in (f"CREATE TABLE t ({columns})", f"ALTER TABLE t ADD COLUMN ({columns})"):
        [found] = effects(sql, "d", StatementSession())
        assert isinstance(found, Unclear)
        assert "4096" in found.reason


@each_case("text", ["SELECT 'a", 'SELECT "a', "SELECT `a", "SELECT /* a", "/*!99999 a"])
def test_what_does_not_end(text):
    with pytest.raises(NotUnderstoodError, match="has no end"):
        tokenize(text, Flavour.MARIADB)
