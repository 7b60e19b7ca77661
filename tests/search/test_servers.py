"""Full-text indexes of real servers: rows that were there before, and all that changes them."""

import json
import random
import re
from itertools import product

import pytest

from tailrace.errors import (
    AccessDenied,
    LogReset,
    SchemaError,
    ServerError,
    StorageError,
    UsageError,
)
from tailrace.live.snapshot import snapshot
from tailrace.live.url import Source
from tailrace.search import Index, ShardWriter, index
from tailrace.search.analysis import Folding
from tests.waiting import next_second, wait_for

SERVERS = pytest.mark.parametrize("followed", ["mysql-9.7", "mariadb-11.8"], indirect=True)
MARIADB = pytest.mark.parametrize("followed", ["mariadb-11.8"], indirect=True)
A, B = "shop.a", "shop.b"


@SERVERS
def test_rows_that_were_there_before_come_by_select(followed):
    """They are rows of the same interface as those of the log: WL#3283, "Row set and value
    interface". Text counts by its collation, and in JSON.
    """
    own = "nopad_" if "mariadb" in str(followed.server.name) else ""  # MySQL has no such collation
    followed.execute(
        f"CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT, v VARCHAR(50) COLLATE utf8mb4_{own}bin,"
        " j JSON, f FLOAT, d DATETIME, s TIMESTAMP NULL, b BLOB, n DECIMAL(10, 2), x BIT(3))",
        "INSERT INTO shop.a VALUES (1, 'Hello wörld', 'Big Fish', '{\"a\": [\"deep string\", 1]}',"
        " 1.1, '2020-01-01 10:00:00', '2020-01-01 10:00:00', x'ff00', 1.50, b'101')",
        "INSERT INTO shop.a (id) VALUES (2)",
    )
    followed.index()
    first = [(A, (1,), 1)]
    for query in ("world", "WÖRLD", "Fish", "deep", "strin*"):
        assert followed.found(query) == first, query
    assert not followed.found("fish")
    rows = {hit.key[0]: hit.row for hit in Index(followed.folder).rows(A)}
    followed.execute("UPDATE shop.a SET id = id + 10")  # now they come from the log
    followed.index()
    for hit in Index(followed.folder).rows(A):
        before = rows[hit.key[0] - 10]
        here, there = ({**each, "id": 0} for each in (hit.row, before))
        assert here == there
    assert followed.found("deep") == [(A, (11,), 1)]


@MARIADB
def test_every_call_knows_what_only_a_definition_says(followed, tmp_path):
    """MariaDB's log has BINARY for UUID and INET, and LONGTEXT for JSON."""
    typed = "(id INT PRIMARY KEY, u UUID, a INET4, b INET6, j JSON, t TEXT)"
    insert = (
        "INSERT INTO {} VALUES ({}, '123e4567-e89b-12d3-a456-426655440000', '10.0.0.1', '::1',"
        " '[\"deep\"]', 'word')"
    )

    def check(*folders):
        rows = followed.server.query("SELECT * FROM shop.a ORDER BY id")
        expected = [[*row[:4], json.loads(row[4]), row[5]] for row in rows]
        for folder in folders:
            hits = sorted(Index(folder).rows(A), key=lambda hit: hit.key)
            assert [[*hit.row.values()] for hit in hits] == expected, folder.name

    late, files = tmp_path / "late", tmp_path / "files"
    followed.execute(f"CREATE TABLE shop.a {typed}", f"CREATE TABLE shop.b {typed}")
    file, offset = followed.server.query("SHOW BINLOG STATUS")[0][:2]
    followed.execute(insert.format(A, 1))
    index(f"{followed.url}&start={file}:{offset}", late, tables=A)
    check(late)
    for number in (2, 3):
        followed.index(tables=A)
        index(followed.server.data, files, tables=A)
        last = followed.server.query("SHOW BINARY LOGS")[-1][0]
        followed.execute(f"PURGE BINARY LOGS TO '{last}'")  # and so the definitions
        followed.execute("FLUSH BINARY LOGS", insert.format(A, number))
    followed.index(tables=A)
    index(followed.server.data, files, tables=A)
    check(followed.folder, files)
    with followed.follow(tables=A) as errors:
        followed.execute(insert.format(B, 1), "RENAME TABLE shop.a TO shop.c, shop.b TO shop.a")
        for number in (2, 3):
            followed.execute(insert.format(A, number))
        followed.soon("word", *((A, (number,), 1) for number in (1, 2, 3)))
    assert not errors
    check(followed.folder)


@MARIADB
def test_definitions_that_changed_while_an_xa_transaction_was_prepared(followed, tmp_path):
    """The next call reads from where it begins, with the definitions of where the last one ended."""
    uuid = "123e4567-e89b-12d3-a456-426655440000"
    sources = {followed.url: tmp_path / "server", str(followed.server.data): tmp_path / "files"}
    followed.execute(
        *("CREATE DATABASE other", "CREATE TABLE other.tpl (id INT PRIMARY KEY, u UUID)"),
        "CREATE TABLE shop.x (id INT PRIMARY KEY)",
        *(
            "CREATE TABLE shop.a (id INT PRIMARY KEY, u BINARY(16))",
            "INSERT INTO shop.a VALUES (1, 1)",
        ),
    )

    def take():
        for source, folder in sources.items():
            index(source, folder, tables="shop.*")

    take()
    for each in ("XA START 'x'", "INSERT INTO shop.x VALUES (1)", "XA END 'x'", "XA PREPARE 'x'"):
        followed.server.execute(each)
    followed.server.disconnect()
    followed.execute("DROP TABLE shop.a", "CREATE TABLE shop.a (id INT PRIMARY KEY, u UUID)")
    followed.execute(f"INSERT INTO shop.a VALUES (2, '{uuid}')")
    take()
    followed.execute(f"INSERT INTO shop.a VALUES (1, '{uuid}')", "XA COMMIT 'x'")
    followed.execute("CREATE TABLE shop.b LIKE other.tpl")  # not selected: the server is asked
    followed.execute(f"INSERT INTO shop.b VALUES (1, '{uuid}')")
    take()
    for folder in sources.values():
        rows = {}
        for table in (A, B, "shop.x"):
            hits = sorted(Index(folder).rows(table), key=lambda hit: hit.key)
            rows[table] = [hit.row for hit in hits]
        one, two = {"id": 1, "u": uuid}, {"id": 2, "u": uuid}
        assert rows == {A: [one, two], B: [one], "shop.x": [{"id": 1}]}


def test_phrases_are_in_one_column_and_near_words_may_be_in_two(followed):
    """As in MySQL's boolean mode, where the border of two columns counts as no word, not as one."""
    rows = [
        ("apple", "banana"),
        ("apple banana", ""),
        ("", "the apple banana"),
        ("xxx apple", "yyy banana"),
        ("banana", "apple"),
    ]
    followed.execute(
        "CREATE TABLE shop.a (id INT PRIMARY KEY, x TEXT, y TEXT, FULLTEXT(x, y))",
        *(f"INSERT INTO shop.a VALUES ({at}, '{x}', '{y}')" for at, (x, y) in enumerate(rows)),
    )
    followed.index()

    for query in ('"apple banana"', '"banana apple"', '"xxx apple"', '"apple banana" @9'):
        assert followed.found(query) == followed.matched(query, "x, y"), query
    assert followed.found('"apple banana"') == [(A, (1,), 1), (A, (2,), 1)]
    for size in (2, 3, 4):
        nearer = followed.matched(f'"apple banana" @{size}', "x, y")
        assert followed.found(f'"apple banana" @{size + 1}') == nearer


def test_near_words_of_rows_that_repeat_them(followed):
    """In any order, within the distance, wherever the row has them closest."""
    choose = random.Random(4)
    rows = [" ".join(choose.choices(("one", *"abcdefg"), k=20)) for _ in range(200)]
    texts = [re.sub("[a-g]", lambda found: found[0] * 3, row) for row in rows]
    followed.execute(
        "CREATE TABLE shop.a (id INT PRIMARY KEY, x TEXT, FULLTEXT(x))",
        *(f"INSERT INTO shop.a VALUES ({at}, '{text}')" for at, text in enumerate(texts)),
    )
    followed.index()
    for words in ("aaa bbb", "aaa bbb ccc", "ddd bbb aaa ccc", "aaa bbb ccc ddd eee"):
        for distance in (2, 3, 4, 5, 6, 8, 12, 20):
            query = f'"{words}" @{distance}'
            assert followed.found(query, limit=200) == followed.matched(query, "x"), query


def test_it_is_followed_into_later_files_with_a_given_server_id(followed):
    """The mark of a new file is read by another connection, which has another id."""
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT)")
    followed.url += "&server_id=77"
    with followed.follow() as errors:
        for number, word in enumerate(("alpha", "beta", "gamma"), 1):
            followed.execute(f"INSERT INTO shop.a VALUES ({number}, '{word}')")
            followed.soon(word, (A, (number,), 1))
            followed.server.rotate()
    assert not errors


@SERVERS
def test_a_log_that_was_reset_is_an_error(followed):
    """Also where a transaction ends at the index's position in the new log."""
    reset = (
        "RESET MASTER" if followed.server.flavour == "mariadb" else "RESET BINARY LOGS AND GTIDS"
    )
    rows = "CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT)", "INSERT INTO shop.a VALUES (1, '{}')"
    logs, of_files = str(followed.server.data), followed.folder.with_name("of files")
    followed.execute(reset, *(each.format("alpha") for each in rows))
    followed.index()
    index(logs, of_files, tables="shop.a")
    followed.index()
    next_second()  # a log has the second in which it was created
    followed.execute("DROP TABLE shop.a", reset, *(each.format("gamma") for each in rows))
    with pytest.raises(LogReset, match="build the index again"):
        followed.index()
    with pytest.raises(LogReset, match="build the index again"):
        index(logs, of_files, tables="shop.a")
    assert followed.found("alpha") == [(A, (1,), 1)]


@MARIADB
def test_hidden_columns_of_mariadb_are_no_part_of_a_row(followed):
    """It has one for a unique key of a long text; images of updates and deletes lack it."""
    followed.execute(
        "CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT UNIQUE, u TEXT)",
        "CREATE TABLE shop.b (t TEXT UNIQUE, u TEXT)",
    )
    followed.index()
    for name in ("a (id, t, u)", "b (t, u)"):
        first = "id, " if "id" in name else ""
        values = [f"({first and f'{at}, '}'t{at} one', 'u{at} two')" for at in range(4)]
        followed.execute(f"INSERT INTO shop.{name} VALUES {', '.join(values)}")
    followed.index()
    followed.execute(
        *(
            each.format(name)
            for name in (A, B)
            for each in (
                "UPDATE {} SET u = 'changed' WHERE t LIKE 't1%'",
                "UPDATE {} SET t = 'other' WHERE t LIKE 't2%'",
                "DELETE FROM {} WHERE t LIKE 't3%'",
            )
        )
    )
    followed.index()
    for name in (A, B):
        there = followed.server.query(f"SELECT t, u FROM {name} ORDER BY t")
        rows = [hit.row for hit in Index(followed.folder).rows(name)]
        assert sorted((row["t"], row["u"]) for row in rows) == sorted(there)
        assert {*rows[0]} <= {"id", "t", "u"}


@SERVERS
def test_accents_count_where_the_name_of_the_collation_says_so(followed):
    """By all collations with ``_ai_``, ``_as_`` or ``_cs`` in their names, also before ``_ks``."""
    query = followed.server.query
    names = query(
        "SELECT FULL_COLLATION_NAME, CHARACTER_SET_NAME"
        " FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        if "mariadb" in str(followed.server.name)
        else "SELECT COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"
    )
    equals = "CONVERT('{}' USING {}) = CONVERT('{}' USING {}) COLLATE {}"
    asked = [  # of two letters, since some languages have one of them as a letter of its own
        (name, " OR ".join(equals.format(a, charset, b, charset, name) for a, b in ("eé", "iï")))
        for name, charset in names
        if re.search("_a[is]_|_cs$", name) and charset != "cp1251"  # which has no é
    ]
    ((*equal,),) = query("SELECT " + ", ".join(text for _, text in asked))
    there = {name: bool(each) for (name, _), each in zip(asked, equal, strict=True)}
    here = {name: Folding.of(name).fold("e") == Folding.of(name).fold("é") for name in there}
    assert here == there
    assert len({*there.values()}) == 2


@pytest.mark.quick
def test_an_index_follows_what_changes(followed):
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT)")
    followed.execute("INSERT INTO shop.a VALUES (1, 'first row')")
    with followed.follow() as errors:
        followed.soon("first", (A, (1,), 1))
        followed.execute("INSERT INTO shop.a VALUES (2, 'fresh bread'), (3, 'fresh fish')")
        followed.soon("fresh", (A, (2,), 1), (A, (3,), 1))
        followed.execute("UPDATE shop.a SET t = 'stale bread' WHERE id = 2")
        followed.soon("stale", (A, (2,), 1))
        assert followed.found("fresh") == [(A, (3,), 1)]
        followed.execute("UPDATE shop.a SET id = 22 WHERE id = 2")
        followed.soon("bread", (A, (22,), 1))
        followed.execute("DELETE FROM shop.a WHERE id = 22")
        followed.soon("bread")
        followed.execute("TRUNCATE shop.a")
        followed.soon("fish")
        followed.execute("DROP DATABASE shop")
        wait_for(lambda: Index(followed.folder).tables == [])
    assert not errors


def test_a_table_that_gets_a_wanted_name_is_read(followed, tmp_path):
    """As tools do that change large tables: a copy takes the table's place."""
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT)")
    followed.execute("CREATE TABLE shop.new_a (id INT PRIMARY KEY, t TEXT, u TEXT)")
    followed.execute("INSERT INTO shop.a VALUES (1, 'word')")
    followed.execute("INSERT INTO shop.new_a SELECT id, t, 'more' FROM shop.a")
    with followed.follow(tables=["shop.a"]) as errors:
        followed.soon("word", (A, (1,), 1))
        followed.execute("RENAME TABLE shop.a TO shop.old_a, shop.new_a TO shop.a")
        followed.soon("more", (A, (1,), 1))
        followed.execute("INSERT INTO shop.a VALUES (2, 'word', 'more')")
        followed.soon("more", (A, (1,), 1), (A, (2,), 1))
        assert followed.found("word") == [(A, (1,), 1), (A, (2,), 1)]
    assert not errors
    with pytest.raises(SchemaError, match=r"RENAME TABLE shop.a TO .* select the table that was"):
        index(followed.server.data, tmp_path / "one", tables="shop.a")
    index(followed.server.data, tmp_path / "both", tables=["shop.a", "shop.new_a"])
    assert len(Index(tmp_path / "both").search("more").hits) == 2


def test_a_dropped_partition_is_dropped_from_the_index(followed, tmp_path):
    followed.execute(
        "CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
        "INSERT INTO shop.a VALUES (1, 'low'), (11, 'high')",
    )
    with followed.follow() as errors:
        followed.soon("low", (A, (1,), 1))
        followed.execute("ALTER TABLE shop.a DROP PARTITION p0")
        followed.soon("low")
        followed.soon("high", (A, (11,), 1))
    assert not errors
    with pytest.raises(SchemaError, match="rows came or went"):
        index(followed.server.data, tmp_path / "of_logs", tables="shop.*")


def test_readers_see_whole_transactions(followed):
    """Each moves an amount from one row to the other: both have the same number at any time."""
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT)")
    followed.execute("INSERT INTO shop.a VALUES (1, 'number0'), (2, 'number0')")
    seen = set()
    with followed.follow() as errors:
        followed.soon("number0", (A, (1,), 1), (A, (2,), 1))
        number = 0
        while len(seen) < 5:
            number += 1
            followed.execute(
                "BEGIN",
                f"UPDATE shop.a SET t = 'number{number}' WHERE id = 1",
                f"UPDATE shop.a SET t = 'number{number}' WHERE id = 2",
            )
            rows = [hit.row["t"] for hit in Index(followed.folder).rows(A)]
            assert len(rows) == 2
            assert len(set(rows)) == 1, rows
            seen.update(rows)
            assert not errors
        followed.soon(f"number{number}", (A, (1,), 1), (A, (2,), 1))
    assert not errors


def test_a_log_without_whole_rows_is_an_error(followed):
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT, u TEXT)")
    followed.execute("INSERT INTO shop.a VALUES (1, 'word', 'more')")
    followed.index()
    followed.execute("SET SESSION binlog_row_image = MINIMAL")
    followed.execute("UPDATE shop.a SET t = 'other'")
    with pytest.raises(SchemaError, match="binlog_row_image=FULL"):
        followed.index()
    assert followed.found("word") == [(A, (1,), 1)]


@SERVERS
def test_an_xa_transaction_is_found_once_it_is_committed(followed):
    """While it is prepared, the index goes on; after a restart nothing is indexed twice. Of the
    files of a log, too, whose later part is not known yet: WL#3283, "Motivation".
    """
    for of, end in product(("server", "files"), ("COMMIT", "ROLLBACK")):
        followed.begin_again(f"{of} {end}")
        prepared_and_ended(followed, of, end)


def prepared_and_ended(followed, of, end):
    followed.execute("CREATE TABLE shop.a (t TEXT)")
    if of == "files":
        followed.url = str(followed.server.binlogs()[0].parent)
    followed.index()
    other = followed.server.connect(autocommit=True)
    with other, other.cursor() as cursor:
        cursor.execute("XA START 'x'")
        cursor.execute("INSERT INTO shop.a VALUES ('prepared row')")
        cursor.execute("XA END 'x'")
        cursor.execute("XA PREPARE 'x'")
        followed.index()
        assert followed.found("row") == []
        for _ in range(2):
            followed.execute("INSERT INTO shop.a VALUES ('same row')")
            followed.index()
        assert followed.found("row") == [(A, ("same row",), 2)]
        cursor.execute(f"XA {end} 'x'")
    prepared = [(A, ("prepared row",), 1)] if end == "COMMIT" else []
    for _ in range(2):
        followed.index()
        assert followed.found("row") == [*prepared, (A, ("same row",), 2)]


def test_a_table_that_others_have_locked_is_an_error_that_names_it(followed):
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY)")
    other = followed.server.connect(autocommit=False)
    with other, other.cursor() as cursor:
        cursor.execute("INSERT INTO shop.a VALUES (1)")
        with (
            pytest.raises(ServerError, match="ock wait timeout"),
            snapshot(Source.parse(followed.url), [("shop", "a")]),
        ):
            pass


def test_one_process_writes_to_an_index(followed):
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT)")
    followed.index()
    writer = ShardWriter(followed.folder / "shards/0", Index(followed.folder).manifest.analyser)
    with pytest.raises(StorageError, match="another process"):
        followed.index()
    writer.close()
    followed.index()


def test_a_key_that_show_create_table_hides(fresh_server, tmp_path):
    """MySQL's generated key is in the log whatever the server's settings print of it."""
    generated = "--sql-generate-invisible-primary-key=ON"
    hidden = "--show-gipk-in-create-table-and-information-schema=OFF"
    server = fresh_server("mysql-9.7", ["--binlog-row-metadata=FULL", generated, hidden])
    server.execute("CREATE DATABASE shop")
    server.execute("CREATE TABLE shop.a (t TEXT)")
    server.execute("INSERT INTO shop.a VALUES ('walrus'), ('walrus')")
    url = f"mysql://root@127.0.0.1:{server.port}/?ssl-mode=DISABLED"
    index(url, tmp_path, tables="shop.*")
    server.execute("DELETE FROM shop.a WHERE my_row_id = 1")
    index(url, tmp_path, tables="shop.*")
    assert [(hit.key, hit.copies) for hit in Index(tmp_path).search("walrus").hits] == [((2,), 1)]


def same(case, followed, *tables):
    """The index has the rows that the tables have now: their keys and texts."""
    index_ = Index(followed.folder)
    for table in tables:
        names = [name for name, *_ in followed.server.query(f"SHOW COLUMNS FROM {table}")]
        rows = followed.server.query(f"SELECT * FROM {table}")
        found = [
            tuple(hit.row.get(name) for name in names)
            for hit in index_.rows(table)
            for _ in range(hit.copies)
        ]
        assert sorted(found, key=repr) == sorted(map(tuple, rows), key=repr), (case, table)
        for row in rows:
            assert index_.search(str(row[-1]).split()[-1], table=table).total, (case, table, row)


PARTITIONS = "PARTITION p VALUES LESS THAN (2), PARTITION q VALUES LESS THAN MAXVALUE"
CHANGED_LATER = {
    "columns that change their names": (
        "ALTER TABLE shop.a ADD COLUMN body VARCHAR(50) DEFAULT ''",
        "UPDATE shop.a SET body = CONCAT('fresh ', t)",
        "ALTER TABLE shop.a DROP COLUMN t",
        "ALTER TABLE shop.a CHANGE body t VARCHAR(50)",
    ),
    "a table that is renamed": (
        "ALTER TABLE shop.a ADD COLUMN body VARCHAR(50) DEFAULT 'word'",
        "RENAME TABLE shop.a TO shop.c",
        "INSERT INTO shop.c VALUES (7, 'seven', 'later')",
    ),
    "a table that is renamed and made again": (
        "ALTER TABLE shop.a ADD COLUMN body VARCHAR(50) DEFAULT 'word'",
        "RENAME TABLE shop.a TO shop.c",
        "CREATE TABLE shop.a (id INT PRIMARY KEY, t VARCHAR(50))",
        "INSERT INTO shop.a VALUES (9, 'nine lives')",
    ),
    "a table that is dropped": (
        "ALTER TABLE shop.a ADD COLUMN body VARCHAR(50) DEFAULT 'word'",
        "DROP TABLE shop.a",
    ),
    "a table that is emptied": (
        "ALTER TABLE shop.a ADD COLUMN body VARCHAR(50) DEFAULT 'word'",
        "TRUNCATE TABLE shop.a",
        "INSERT INTO shop.a VALUES (8, 'eight', 'later')",
    ),
    "a key of its own": (
        "ALTER TABLE shop.a DROP PRIMARY KEY, ADD COLUMN n INT AUTO_INCREMENT PRIMARY KEY FIRST",
        "DELETE FROM shop.a WHERE id = 1",
    ),
    "a key of another type": (
        "ALTER TABLE shop.a MODIFY id DECIMAL(10, 3)",
        "UPDATE shop.a SET t = 'changed text' WHERE id = 2",
        "ALTER TABLE shop.a MODIFY id INT",
    ),
    "values that are converted": (
        "ALTER TABLE shop.a MODIFY t VARCHAR(60) CHARACTER SET latin1",
        "ALTER TABLE shop.a ADD COLUMN n VARCHAR(20)",
        "UPDATE shop.a SET n = '00777'",
        "ALTER TABLE shop.a MODIFY n INT",
        "ALTER TABLE shop.a MODIFY n VARCHAR(20)",
    ),
    "a column fewer of a table without a key": (
        "ALTER TABLE shop.b DROP COLUMN n",
        "DELETE FROM shop.b LIMIT 1",
    ),
    "a table that is changed and renamed": (
        "ALTER TABLE shop.a CHANGE t words VARCHAR(60), RENAME TO shop.c",
        "INSERT INTO shop.c VALUES (4, 'fourth word')",
    ),
    "a partition for a table": (
        f"ALTER TABLE shop.a PARTITION BY RANGE (id) ({PARTITIONS})",
        "CREATE TABLE shop.c (id INT PRIMARY KEY, t VARCHAR(50))",
        "INSERT INTO shop.c VALUES (5, 'exchanged row')",
        "ALTER TABLE shop.a EXCHANGE PARTITION q WITH TABLE shop.c",
    ),
}


@SERVERS
def test_statements_that_are_older_than_rows_that_were_read_again(followed):
    """Rows that a statement changed come by SELECT: they have what later ones did to them, too."""
    for changes in CHANGED_LATER:
        followed.begin_again(changes)
        changed_later(followed, changes)


def changed_later(followed, changes):
    followed.execute(
        "CREATE TABLE shop.a (id INT PRIMARY KEY, t VARCHAR(50))",
        "INSERT INTO shop.a VALUES (1, 'first row'), (2, 'second line'), (3, 'third thing')",
        "CREATE TABLE shop.b (n INT, t VARCHAR(50))",
        "INSERT INTO shop.b VALUES (1, 'equal text'), (2, 'equal text'), (3, 'equal text')",
    )
    followed.index()
    followed.execute(*CHANGED_LATER[changes])
    followed.index()
    tables = [f"shop.{name}" for (name,) in followed.server.query("SHOW TABLES FROM shop")]
    same(changes, followed, *tables)
    assert {*Index(followed.folder).tables} == {*tables}, changes


@MARIADB
def test_the_history_of_a_table_with_system_versioning_is_not_found(followed):
    followed.execute(
        "CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT) WITH SYSTEM VERSIONING",
        "INSERT INTO shop.a VALUES (1, 'first'), (2, 'second')",
    )
    followed.index()
    followed.execute(
        "UPDATE shop.a SET t = 'changed' WHERE id = 1",
        "DELETE FROM shop.a WHERE id = 2",
        "INSERT INTO shop.a VALUES (3, 'third')",
    )
    followed.index()
    assert followed.found("changed third first second") == [(A, (1,), 1), (A, (3,), 1)]


def test_a_kill_before_a_statements_position_is_known_repeats_nothing(followed, monkeypatch):
    """The effect of a statement is committed with the position after it."""
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT)")
    followed.execute("INSERT INTO shop.a VALUES (1, 'first')")
    followed.index()
    followed.execute("RENAME TABLE shop.a TO shop.b")
    committed = []
    commit = ShardWriter.commit

    def watched(writer, position, **given):
        committed.append((position, sorted(writer.state.tables)))
        return commit(writer, position, **given)

    monkeypatch.setattr(ShardWriter, "commit", watched)
    before = Index(followed.folder).states[0].position
    followed.index()
    assert all(position > before for position, tables in committed if tables == [B])
    assert committed[-1][1] == [B]


def test_tables_that_the_user_may_not_see_are_an_error(followed):
    followed.execute("CREATE TABLE shop.a (id INT PRIMARY KEY, t TEXT)")
    followed.execute("CREATE USER other@'%' IDENTIFIED BY ''")
    followed.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO other@'%'")
    followed.url = followed.url.replace("root@", "other@")
    with pytest.raises(AccessDenied, match="grant SELECT"):
        followed.index()


def test_a_log_without_names_of_columns_is_an_error_before_rows_are_read(followed):
    followed.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    with pytest.raises(UsageError, match="binlog_row_metadata=FULL"):
        followed.index()


def test_words_with_marks_are_found_as_by_mysql(followed):
    words = ["हिन्दी", "हिंदी", "தமிழ்", "مُحَمَّد", "שָׁלוֹם"]
    for number, collation in enumerate(("0900_ai_ci", "0900_as_ci", "bin")):
        table = f"shop.t{number}"
        followed.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, t VARCHAR(50) COLLATE utf8mb4_{collation},"
            " FULLTEXT (t))",
            *(f"INSERT INTO {table} VALUES ({at}, '{word}')" for at, word in enumerate(words)),
        )
    followed.index()
    for number in range(3):
        for word in words:
            table = f"shop.t{number}"
            assert followed.found(word, table=table) == followed.matched(word, table=table), word


CONVERTED = {
    "MODIFY t VARCHAR(90)": True,
    "MODIFY n BIGINT": True,
    "MODIFY e ENUM('a', 'b', 'c')": True,
    "ADD INDEX (n), COMMENT 'x'": True,
    "MODIFY n VARCHAR(20)": False,
    "MODIFY e ENUM('A', 'B')": False,
    "MODIFY t VARCHAR(3)": False,
    "CONVERT TO CHARACTER SET latin1": False,
    "ENGINE = BLACKHOLE": False,
    "ADD d DATE": True,
    "ADD d INT NOT NULL": False,
    "ADD d BLOB NOT NULL": False,
}
"""Whether all values look the same after an ALTER TABLE, so that an index of files keeps them."""


def test_rows_of_files_that_alter_converts_are_not_kept(followed, tmp_path):
    for number, clause in enumerate(CONVERTED):
        table = f"shop.t{number}"
        followed.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, t VARCHAR(60), n INT, e ENUM('a', 'b'))",
            f"INSERT INTO {table} VALUES (1, 'abc', 5, 'a')",
            f"ALTER TABLE {table} {clause}",
        )
    for number, (clause, kept) in enumerate(CONVERTED.items()):
        name = f"shop.t{number}"
        folder = tmp_path / str(number)
        if kept:
            index(followed.server.data, folder, tables=name)
            assert Index(folder).search("abc").total == 1, clause
        else:
            with pytest.raises(SchemaError, match=f"(?s){name}.*(index the server|--exclude)"):
                index(followed.server.data, folder, tables=name)


@SERVERS
def test_a_key_whose_values_look_alike(followed):
    """The server has two rows, whose keys it shows as '': an index keeps them apart by the rest."""
    followed.execute(
        "CREATE TABLE shop.t (k ENUM('', 'a') PRIMARY KEY, t VARCHAR(20))",
        "INSERT INTO shop.t VALUES (1, 'first word')",
        "INSERT IGNORE INTO shop.t VALUES (0, 'second word')",
    )
    followed.index()
    followed.execute("UPDATE shop.t SET t = 'third word' WHERE k = 1")
    followed.index()
    rows = sorted(hit.row["t"] for hit in Index(followed.folder).rows("shop.t"))
    assert rows == sorted(t for (t,) in followed.server.query("SELECT t FROM shop.t"))
    followed.execute("DELETE FROM shop.t WHERE k = 0")
    followed.index()
    assert [hit.row["t"] for hit in Index(followed.folder).rows("shop.t")] == ["third word"]
