"""Statements as text: what stands where; servers run them in the other tests of this folder."""

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace
from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.events import FormatDescriptionEvent, QueryEvent
from tailrace.events.status_vars import StatusVariable
from tailrace.log.changes import Changes, Logged
from tailrace.log.reader import Reader, TransactionHead
from tailrace.position import Position
from tailrace.schema.tokens import SqlMode, TokenCursor, quoted_name, tokenize
from tailrace.schema.user_schema import split
from tailrace.sql import Statement, commands, script, statements, undo
from tailrace.sql.logged import effects_in, pair, selected, statement_of
from tailrace.sql.text import comment, encoded, plain, quoted, string
from tailrace.sql.triggers import Triggers
from tailrace.storage import find
from tailrace.table_filter import TableFilter
from tests.cases import each_case
from tests.recorded import CORPUS

PLACE = TransactionHead(Position("binlog.000001", 4), "0-1-1", 1_700_000_000_000_000, 1_700_000_000)
NEXT = TransactionHead(Position("binlog.000001", 400), None, None, 1_700_000_001)

CLIENT, ORDER = "character_set_client", "collation_connection"


def row(text, group=PLACE, settings=(("sql_mode", "''"),)):
    return Statement(text, settings, group)


def logged(text, group=PLACE):
    return Statement(text, (), group, alone=True, logged=True)


def query(sql, database="d"):
    return QueryEvent.make(sql=sql, database=database)


@given(st.text())
def test_quoted_text_means_the_same_in_every_mode(text):
    """No backslash, and quotes doubled: NO_BACKSLASH_ESCAPES changes nothing."""
    shown = string(text)
    if shown.startswith("'"):
        assert "\\" not in shown
        assert shown[1:-1].replace("''", "'") == text
        assert "\r" not in shown
        assert "\0" not in shown
    else:
        assert bytes.fromhex(shown.removeprefix("_utf8mb4 X'").removesuffix("'")) == text.encode()


@given(st.text())
def test_names_and_comments_end_where_they_should(text):
    for mode in SqlMode:
        cursor = TokenCursor(tokenize(f"{quoted_name(text)} x", Flavour.MYSQL, mode))
        kept = re.sub("[^\u0000-\uffff]", "?", text)  # as MySQL names it
        assert (cursor.name(), cursor.token.key) == (kept, "X")
    assert len(comment(text).splitlines()) == 1


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=4))
def test_a_script_holds_the_statements(texts):
    """Read back as a client does, by its marks."""
    shown = [f"SELECT {quoted(text)}" for text in texts if plain(text)]
    found = list(split("\n".join(script([row(text) for text in shown], ["heading ' \n x"]))))
    assert [text for text in found if text.startswith("SELECT")] == shown


@each_case(
    "text",
    [
        "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT ';;'; END",
        "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET @a = ';; // $$ |;| /*!*/;'",
        "CREATE TABLE t (a INT) -- the end",
        "DROP TABLE t # gone",
    ],
)
def test_a_logged_statement_may_hold_any_mark(text):
    ends = list(split("\n".join(script([logged(text), logged("DROP TABLE behind")]))))
    bare = text.split(" -- ")[0].split(" # ")[0].strip()
    assert ends[-3] == bare
    assert ends[-2] == "DROP TABLE behind"


def test_transactions_and_settings():
    """One SET for what changes, and all put back; statements that stand alone stand outside."""
    lenient = (("sql_mode", "'x'"),)
    found = [
        command.decode()
        for command in commands(
            [row("A"), row("B"), row("C", NEXT), logged("DDL", NEXT), row("D", NEXT, lenient)]
        )
    ]
    assert found == [
        "SET @tailrace_sql_mode = @@session.sql_mode",
        "SET @@session.sql_mode = ''",
        "START TRANSACTION",
        "A",
        "B",
        "COMMIT",
        "START TRANSACTION",
        "C",
        "COMMIT",
        f"SET @tailrace_{CLIENT} = @@session.{CLIENT}, @tailrace_{ORDER} = @@session.{ORDER}",
        f"SET @@session.{CLIENT} = utf8mb4, @@session.{ORDER} = utf8mb4_general_ci",
        "DDL",
        "SET @@session.sql_mode = 'x'",
        "START TRANSACTION",
        "D",
        "COMMIT",
        (
            f"SET @@session.sql_mode = @tailrace_sql_mode, @@session.{CLIENT} = @tailrace_{CLIENT},"
            f" @@session.{ORDER} = @tailrace_{ORDER}"
        ),
    ]


def test_places_are_comments():
    lines = list(script([row("A"), row("B", NEXT)]))
    assert "-- binlog.000001:4  0-1-1  2023-11-14 22:13:20" in lines
    assert "-- binlog.000001:400  no GTID  2023-11-14 22:13:21" in lines


@each_case(("key", "conditions"), [("k", 1), ("k(2)", 2)])
def test_a_key_of_a_part_of_a_column_is_not_the_columns_value(tmp_path, key, conditions):
    create = f"CREATE TABLE d.t (k VARCHAR(9) NOT NULL, n INT, PRIMARY KEY ({key}))"
    with tailrace.create(tmp_path / "log.000001", flavour="mysql", server_id=1) as log:
        with log.transaction() as change:
            change.query(create, database="d")
        with log.transaction() as change:
            change.delete(tailrace.Table.parse(create, flavour="mysql"), [("ab", 1)])
    (text,) = (text for text in tailrace.redo(tmp_path) if text.startswith("DELETE"))
    assert text.partition(" WHERE ")[2].count("`k`") == conditions


def test_nothing_is_written_where_nothing_can_be_had():
    def broken():
        raise ValueError("no")
        yield

    lines = script(broken(), ["heading"])
    with pytest.raises(ValueError, match="no"):
        next(lines)


CREATE = "CREATE DEFINER=`a`@`b` TRIGGER IF NOT EXISTS tr AFTER INSERT ON t FOR EACH ROW SET @x = 1"


def triggers_after(*sqls):
    triggers = Triggers()
    out = []
    for sql in sqls:
        if sql is None:
            out += triggers.before_statement()
        elif sql.startswith("ROWS "):
            out += triggers.before_rows(("d", sql[5:]))
        else:
            event = query(sql)
            out += triggers.take(statement_of(Logged(event, PLACE)), event)
    out += triggers.before_statement()
    return [each.text for each in out]


def test_triggers_are_made_at_the_end():
    assert triggers_after(CREATE, "ROWS t", "DROP TABLE u") == ["DROP TABLE u", CREATE]


def test_triggers_follow_their_table():
    moved = triggers_after(CREATE, "RENAME TABLE t TO u", "ALTER TABLE u RENAME `v;``x`")
    assert moved[2] == CREATE.replace("ON t FOR", "ON `d`.`v;``x` FOR")
    assert triggers_after(CREATE, "DROP TABLE t") == ["DROP TABLE t"]
    assert triggers_after(CREATE, "DROP DATABASE d") == ["DROP DATABASE d"]


def test_triggers_that_go_before_they_came():
    assert triggers_after(CREATE, "DROP TRIGGER IF EXISTS d.tr") == []
    assert triggers_after("DROP TRIGGER tr") == ["DROP TRIGGER tr"]


@each_case(
    "sql",
    [
        "RENAME TABLE o TO p", "CREATE VIEW v AS SELECT 1 FROM t JOIN u ON t.id = u.trigger", "DROP VIEW `trigger`", "DROP USER `trigger`",
        "CREATE TRIGGER x", "CREATE TRIGGER `x",
    ],
)  # fmt: skip
def test_what_makes_or_drops_no_trigger_is_executed_in_its_place(sql):
    assert triggers_after(CREATE, sql) == [sql, CREATE]
    assert triggers_after(CREATE, None, sql) == [CREATE, sql]


def test_a_comment_before_the_statement_changes_nothing_of_a_trigger():
    create = f"/* app */ {CREATE}"
    assert triggers_after(create, "ROWS t", "DROP TABLE u") == ["DROP TABLE u", create]
    assert triggers_after(create, "/* app */ DROP TRIGGER tr") == []
    assert triggers_after(create, "SET STATEMENT max_statement_time = 1 FOR DROP TRIGGER tr") == []


def test_triggers_fire_for_statements_but_not_for_rows():
    found = triggers_after(CREATE, None, "INSERT INTO t VALUES (1)", "ROWS t", "ROWS u")
    assert found == [CREATE, "INSERT INTO t VALUES (1)", "DROP TRIGGER `d`.`tr`", CREATE]


@each_case("case", ["mysql-9.7.image-full-full", "mariadb-11.8.image-full-full"])
def test_undo_reads_all_first_and_gives_the_last_change_first(case):
    changes = Changes(Reader(find(CORPUS / case)[0]), statements="skip")
    back = [each for each in undo(changes) if each.text]
    guards = [each for each in back if "information_schema.triggers" in each.text]
    assert back[: len(guards)] == guards
    back = back[len(guards) :]
    forward = [
        each
        for each in statements(Changes(Reader(find(CORPUS / case)[0])))
        if each.text and not each.logged and "information_schema" not in each.text
    ]
    places = [each.group.start for each in forward]
    assert [each.group.start for each in back] == places[::-1]
    assert back[0].text.split()[0] in {"INSERT", "UPDATE", "DELETE"}


@each_case(
    ("charset", "collation", "new"), [("latin1", 8, "è"), ("gbk", 28, "丁"), ("sjis", 13, "チ")]
)
def test_a_trigger_follows_its_table_in_its_own_character_set(charset, collation, new):
    def logged_in(sql):
        raw = sql.encode(charset)
        return QueryEvent.make(
            sql=raw, database="d", status={StatusVariable.CHARSET: (collation, collation, 8)}
        )

    letter = "é" if charset == "latin1" else new
    text = f"CREATE TRIGGER tr AFTER INSERT ON `t{letter}` FOR EACH ROW SET @x = '{letter}'"
    triggers = Triggers()
    event = logged_in(text)
    assert not list(triggers.take(statement_of(Logged(event, PLACE)), event))
    event = logged_in(f"RENAME TABLE `t{letter}` TO `u{new}`")
    list(triggers.take(statement_of(Logged(event, PLACE)), event))
    (made,) = triggers.before_statement()
    want = text.replace(f"`t{letter}`", f"`d`.`u{new}`")
    assert encoded(made.sql) == want.encode(charset)
    event = query(f"RENAME TABLE `u{new}` TO `u\u0e01`")
    with pytest.raises(SchemaError, match=f"character set {charset}"):
        list(triggers.take(statement_of(Logged(event, PLACE)), event))


CUT = [
    ("DROP TABLE shop.a -- x\n, shop.b -- y\n, priv.c", [("shop", "a"), ("shop", "b")]),
    ("DROP TABLE shop.a # x\n, priv.c # y\n, shop.b", [("shop", "a"), ("shop", "b")]),
    ("DROP TABLE IF EXISTS priv.c, shop.a /* x */, shop.b", [("shop", "a"), ("shop", "b")]),
    ("DROP TABLE -- all\n shop.b, priv.c", [("shop", "b")]),
]


def test_a_definition_of_other_tables_names_these_only():
    wants = TableFilter.of("shop.*", "shop.own")
    for sql, names in (
        ("RENAME TABLE shop.a TO priv.e", "priv.e"),
        ("RENAME TABLE priv.c TO shop.e, shop.a TO shop.f", "priv.c"),
        ("ALTER TABLE shop.a RENAME TO priv.e", "priv.e"),
        ("ALTER TABLE priv.c RENAME TO shop.e, ADD COLUMN n INT", "priv.c"),
        ("CREATE TABLE shop.e LIKE priv.c", "priv.c"),
        ("CREATE TABLE priv.e LIKE shop.a", "priv.e"),
        ("ALTER TABLE shop.p EXCHANGE PARTITION p0 WITH TABLE priv.d", "priv.d"),
        ("CREATE TABLE shop.e (id INT) ENGINE=MERGE UNION=(shop.b, priv.c)", "priv.c"),
        ("CREATE TABLE priv.e (id INT) ENGINE=MERGE UNION (shop.b)", "priv.e"),
        ("DROP DATABASE shop", "shop[.][*]"),
        ("ALTER TABLE shop.p ADD c FROB, EXCHANGE PARTITION p0 WITH TABLE priv.d", "priv.d"),
        ("ALTER TABLE priv.d ADD c FROB, ADD `half", "d[.][*]"),
    ):
        with pytest.raises(SchemaError, match=f"not selected [(]{names}[)]"):
            selected(query(sql), wants)


@each_case(("sql", "names"), CUT)
def test_a_drop_that_is_cut_down_loses_no_table_to_a_comment(sql, names):
    event = selected(query(sql), TableFilter(["shop.*"]))
    assert [pair(effect.name) for effect in effects_in(event)] == names


IN_UTF8 = "CREATE TABLE `t` (\n  `模` INT)"
FROM_SELECT = "CREATE TABLE `t` (\n  `模` int DEFAULT NULL\n) START TRANSACTION"
MARIADB, XID = "11.8.9-MariaDB-log", {StatusVariable.XID: 7}
IS_UNKNOWN = "the character set of this definition is unknown"


@each_case(
    ("sql", "collation", "version", "status", "charset"),
    [
        (IN_UTF8, 28, "9.7.1", {}, IS_UNKNOWN),
        (IN_UTF8, 8, "9.7.1", {}, IS_UNKNOWN),
        (IN_UTF8, 45, "9.7.1", {}, "utf8mb4"),
        (FROM_SELECT, 28, "9.7.1", {}, None),
        (IN_UTF8, 28, MARIADB, XID, IS_UNKNOWN),
        (IN_UTF8, 28, MARIADB, {}, None),
        (IN_UTF8, 28, "10.5.1-MariaDB", {}, IS_UNKNOWN),
        (IN_UTF8.encode("gbk"), 28, "9.7.1", {}, IS_UNKNOWN),
        (IN_UTF8.replace("模", "丁").encode("gbk"), 28, "9.7.1", {}, "gbk"),
    ],
)
def test_a_definition_as_servers_write_them_is_not_always_theirs(
    sql, collation, version, status, charset
):
    """A client may send the text of SHOW CREATE TABLE; its character set counts then."""
    form = FormatDescriptionEvent.make(server_version=version, flavour=None).description
    given_status = {StatusVariable.CHARSET: (collation, collation, 8), **status}
    event = QueryEvent.make(sql=sql, database="d", status=given_status, form=form)
    if charset == IS_UNKNOWN:
        with pytest.raises(SchemaError, match=charset):
            statement_of(Logged(event, PLACE))
    else:
        found = dict(statement_of(Logged(event, PLACE)).settings)["character_set_client"]
        assert found == (charset or "utf8mb4")


JAVASCRIPT = "CREATE FUNCTION f() RETURNS INT LANGUAGE JAVASCRIPT AS"
ONE = [
    "CREATE PROCEDURE p() REPEAT SET @i = @i + 1; UNTIL @i > 5 END REPEAT",
    "CREATE PROCEDURE p() BEGIN SELECT 1; END;;",
    f"{JAVASCRIPT} $$ let x = 1; return x; $$",
    f"{JAVASCRIPT} $js$ // don't\n let x = `$$;`; return x; $js$ ; -- end",
    "INSERT INTO t VALUES ('a;''b\\'c'), (\"x;\"), (`y;`) /* ; */ -- ;",
    "SELECT 1 /*! + 1 */; # ;",
]
SEVERAL = [
    "INSERT INTO t VALUES (';'); DROP DATABASE d",
    "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET @a = 1; INSERT INTO t SELECT 1 END",
    "/*! INSERT INTO t VALUES (1); */ DROP DATABASE d",
    f"{JAVASCRIPT} $$ return 1; $$; DROP DATABASE d; -- $$",
    f"{JAVASCRIPT} -- AS $$\n 'return 1'; DROP DATABASE d; -- $$",
]


@each_case(("sql", "several"), [*((sql, False) for sql in ONE), *((sql, True) for sql in SEVERAL)])
def test_an_event_with_semicolons_is_one_statement_or_several(sql, several):
    if several:
        with pytest.raises(SchemaError, match="has several statements"):
            statement_of(Logged(query(sql), PLACE))
    else:
        assert statement_of(Logged(query(sql), PLACE)).text.startswith(sql[:20])


def test_a_text_that_is_not_understood_is_not_called_several():
    with pytest.raises(SchemaError, match="contains a semicolon is not understood"):
        statement_of(Logged(query("INSERT INTO t VALUES (';"), PLACE))


def test_a_large_statement_is_not_split_into_a_list_of_tokens():
    event = query("/* x */ INSERT INTO t VALUES " + ",".join(["(1, 'a;b')"] * 100_000))
    tracemalloc.start()
    statement_of(Logged(event, PLACE))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * len(event.sql_bytes)
