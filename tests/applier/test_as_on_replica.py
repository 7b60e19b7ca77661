"""Definitions as a replica executes them: the text that a server is sent."""

from types import SimpleNamespace

from tailrace.applier.server.definitions import as_on_replica
from tailrace.constants import Flavour
from tailrace.values.charsets import decode
from tests.cases import each_case

MYSQL, MARIADB = Flavour.MYSQL, Flavour.MARIADB
DISABLED = "DISABLE ON SLAVE"


def changed(text, flavour, invoker=None):
    found = as_on_replica(
        SimpleNamespace(
            query_string=text,
            query_bytes=text.encode(),
            sql_mode=0,
            error_code=0,
            invoker=invoker,
            character_set_client="utf8mb4",
        ),
        flavour,
    )
    return None if found is None else found.decode()


@each_case(
    ("flavour", "text", "expected"),
    [
        (
            MYSQL,
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY -- nightly\n DO SELECT 1",
            f"CREATE EVENT e ON SCHEDULE EVERY 1 DAY -- nightly\n \n{DISABLED} DO SELECT 1",
        ),
        (
            MYSQL,
            "ALTER EVENT e ON SCHEDULE EVERY 2 DAY # twice\n ENABLE -- x\n DO SELECT 1",
            f"ALTER EVENT e ON SCHEDULE EVERY 2 DAY # twice\n \n{DISABLED}  -- x\n DO SELECT 1",
        ),
        (MYSQL, "ALTER EVENT e RENAME TO f -- x", f"ALTER EVENT e RENAME TO f -- x\n{DISABLED} "),
        (MYSQL, "ALTER EVENT e RENAME TO f;", f"ALTER EVENT e RENAME TO f\n{DISABLED} ;"),
        (MYSQL, "/*!50106 ALTER EVENT e ENABLE*/", f"/*!50106 ALTER EVENT e \n{DISABLED} */"),
        (
            MYSQL,
            "/* x */ -- y\n ALTER EVENT e DISABLE ON SLAVE",
            f"/* x */ -- y\n ALTER EVENT e \n{DISABLED} ",
        ),
        (MARIADB, "DROP TABLE -- old\n a, b", "DROP TABLE -- old\n \nIF EXISTS a, b"),
        (
            MARIADB,
            "SET STATEMENT max_statement_time = 1 FOR DROP TABLE a",
            "SET STATEMENT max_statement_time = 1 FOR DROP TABLE \nIF EXISTS a",
        ),
        (MARIADB, "ALTER TABLE a DROP COLUMN b", None),
    ],
)
def test_what_is_inserted_is_in_no_comment(flavour, text, expected):
    assert changed(text, flavour) == expected


@each_case(
    ("text", "expected"),
    [
        ("ALTER EVENT e ENABLE", f"ALTER \nDEFINER = `a`@`%` EVENT e \n{DISABLED} "),
        (
            "ALTER DEFINER=current_user ( ) EVENT e",
            f"ALTER \nDEFINER = `a`@`%`  EVENT e\n{DISABLED} ",
        ),
        (
            "CREATE /*!50117 DEFINER=CURRENT_USER*/ EVENT e DO DO 1",
            f"CREATE /*!50117 \nDEFINER = `a`@`%` */ EVENT e \n{DISABLED} DO DO 1",
        ),
        ("ALTER DEFINER=b@h EVENT e", f"ALTER DEFINER=b@h EVENT e\n{DISABLED} "),
    ],
)
def test_the_definer_of_an_event_is_the_user_of_the_source(text, expected):
    assert changed(text, MYSQL, ("a", "%")) == expected


def test_a_large_statement_is_not_split(monkeypatch):
    """It took a hundred times its size of memory."""
    monkeypatch.delattr("tailrace.applier.server.definitions.tokenize")
    for text in ("INSERT INTO t VALUES ('EVENT; DROP')", "# x\nUPDATE event SET `drop` = 1"):
        assert changed(text, MARIADB) is None


def test_an_event_with_a_backslash_in_a_character_set_of_two_spellings():
    """A server of sjis would write a backslash in two bytes; a client writes ASCII."""
    raw = b"CREATE EVENT e ON SCHEDULE EVERY 1 DAY COMMENT 'a\\'\x83\x5c' DO SELECT 1"
    query = SimpleNamespace(
        query_string=decode("sjis", raw),
        query_bytes=raw,
        sql_mode=0,
        error_code=0,
        invoker=None,
        character_set_client="sjis",
    )
    at = raw.index(b"COMMENT")
    assert as_on_replica(query, MYSQL) == raw[:at] + b"\n" + DISABLED.encode() + b" " + raw[at:]
