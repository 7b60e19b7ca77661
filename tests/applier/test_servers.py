"""Logs of real servers, applied to servers of the same release."""

import random
import signal
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pymysql
import pytest

import tailrace
from tailrace.applier import Applier, target_of
from tailrace.applier.target import NOTE_COMMENT
from tailrace.errors import SchemaError, ServerError, UsageError
from tailrace.events import QueryEvent
from tailrace.generators import EventStream
from tailrace.gtid import GtidList, GtidSet
from tests.applier.conftest import empty
from tests.cases import each_case
from tests.waiting import DEADLINE, wait_for
from tools.applied import gtid_mode
from tools.campaign.second import client, feed
from tools.load import Load

COMMAND = (sys.executable, "-m", "tailrace", "apply")
OPEN = (
    "SELECT COUNT(*) FROM information_schema.innodb_trx"
    " WHERE trx_rows_modified > 0 OR trx_rows_locked > 0"
)
STATEMENT = "SET SESSION binlog_format = 'STATEMENT'"


def gtids(pair, text):
    return (GtidSet if pair.source.flavour == "mysql" else GtidList).parse(text)


def test_a_random_load_gives_the_same_tables_and_gtids(pair):
    """With statements, definitions, XA, savepoints, temporary tables, tables without transactions;
    and a stream applied twice changes nothing.
    """
    with Load(
        pair.source, seed=21, clients=3, tables=2, large=0.2, huge=0, statements=True
    ) as load:
        wait_for(lambda: load.counts["as_statement"] + load.counts["small"] > 100)
    pair.source.settle()  # MariaDB's own event would follow the last transaction
    pair.source.execute("CREATE DATABASE the_last")  # which has its GTID on each target
    logs = pair.log()
    for workers in (1, 4):
        empty(pair.target)
        done = tailrace.apply(logs, pair.url, start="binlog.000001", workers=workers)
        assert done.transactions > 50
        assert done.skipped == 0
        pair.check("random_load")
        executed = pair.gtids(pair.target)
        assert not gtids(pair, pair.gtids(pair.source)) - gtids(pair, executed)

        second = tailrace.apply(logs, pair.url, start="binlog.000001", workers=workers)
        assert (second.transactions, second.skipped) == (0, done.transactions)
        third = tailrace.apply(logs, pair.url)
        assert third.transactions == 0
        # where an XA transaction in doubt begins, if there is one
        assert third.position <= done.position
        pair.check("random_load")
        assert pair.gtids(pair.target) == executed


def test_each_change_is_applied_once_though_the_applier_is_killed(pair):
    """Each transaction adds 1 to what is there: applied twice, or left out, the sum differs.

    Rows, statements and definitions by one connection; workers are killed by `tools.campaign.applied`.
    """
    server = pair.source
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.sum (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB")
    server.execute("INSERT INTO d.sum VALUES (1, 0), (2, 0)")
    for number in range(120):
        server.execute("SET SESSION binlog_format = %s", (("ROW", "STATEMENT")[number % 2],))
        server.execute("UPDATE d.sum SET n = n + 1 WHERE id = 1")
        if number % 4 == 0:
            server.execute(f"CREATE TABLE d.t{number} AS SELECT * FROM d.sum")
            server.execute(f"ALTER TABLE d.t{number} ADD COLUMN (c{number} INT)")
    logs = pair.log()
    rng = random.Random(21)
    killed = 0
    for _ in range(3):
        process = subprocess.Popen(
            [*COMMAND, logs, "--to", pair.url], stderr=subprocess.PIPE, text=True
        )
        before = pair.gtids(pair.target)
        wait_for(
            lambda process=process, before=before: (
                process.poll() is not None or pair.gtids(pair.target) != before
            )
        )
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate()
        assert process.returncode in {0, -signal.SIGKILL}, err
        killed += process.returncode != 0
    assert killed
    tailrace.apply(logs, pair.url)
    pair.check("d")


def test_a_statement_is_executed_with_all_that_it_reads_from_its_session(pair):
    """User variables, RAND(), LAST_INSERT_ID(), AUTO_INCREMENT, time, character set, sql_mode."""
    pair.applied(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(200) CHARACTER SET utf8mb4,"
        " b DOUBLE, c DATETIME(6), e BIGINT UNSIGNED, f DECIMAL(20, 5)) ENGINE=InnoDB",
        STATEMENT,
        "SET timestamp = 1700000000.25, time_zone = '+03:30', lc_time_names = 'de_DE'",
        "SET @text = _latin1 X'E9', @number = 18446744073709551615, @real = 0.1e0",
        "SET @decimal = 12345678.12345, @bytes = X'00FF', @nothing = NULL",
        "USE d",
        "SET auto_increment_increment = 5, auto_increment_offset = 3",
        "INSERT INTO t (a, b, c, e, f) VALUES (@text, @real, NOW(6), @number, @decimal)",
        "INSERT INTO t (a, b, c) VALUES (HEX(@bytes), RAND(), NOW(6)), (@nothing, RAND(), NULL)",
        "INSERT INTO t (a, e) VALUES (DATE_FORMAT('2026-01-01', '%W %M'), LAST_INSERT_ID())",
        "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT', character_set_client = latin1",
        "INSERT INTO t (a) VALUES ('x' || 'y')",
        "CREATE TEMPORARY TABLE tmp (n INT)",
        "INSERT INTO tmp VALUES (7)",
        "INSERT INTO t (e) SELECT n FROM tmp",
        "DROP TEMPORARY TABLE tmp",
    )
    pair.check("d")


def test_a_statement_that_changes_several_tables(pair):
    """By a join, a trigger and foreign keys: its rows of all tables are applied."""
    pair.applied(
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE a (id INT PRIMARY KEY, n INT) ENGINE=InnoDB",
        "CREATE TABLE b LIKE a",
        "CREATE TABLE child (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=InnoDB",
        "ALTER TABLE child ADD FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE",
        "CREATE TABLE told (n INT AUTO_INCREMENT PRIMARY KEY, x INT) ENGINE=InnoDB",
        "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO b VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE a JOIN b USING (id) SET a.n = a.n + 10, b.n = b.n + 20",
        "DELETE a, b FROM a JOIN b USING (id) WHERE a.id = 2",
        "CREATE TRIGGER tr AFTER INSERT ON a FOR EACH ROW INSERT INTO told (x) VALUES (NEW.id)",
        "INSERT INTO a VALUES (5, 5), (6, 6)",
        "INSERT INTO child VALUES (1, 1), (5, 5), (6, 6)",
        "DELETE FROM a WHERE id IN (5, 6)",
    )
    pair.check("d")


def test_a_target_whose_sessions_do_not_commit_by_themselves(pair):
    """With autocommit off, another transaction after each COMMIT, and packets smaller than the rows
    of a statement.
    """
    large = ", ".join(f"({number}, REPEAT('x', 300000))" for number in range(5, 9))
    logs = pair.did(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a LONGTEXT) ENGINE=InnoDB",
        *(f"INSERT INTO d.t VALUES ({number}, NULL)" for number in range(5)),
        f"INSERT INTO d.t VALUES {large}",
    )
    pair.target.execute("SET GLOBAL autocommit = 0, GLOBAL completion_type = CHAIN")
    pair.target.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        tailrace.apply(logs, pair.url)
    finally:
        pair.target.execute("SET GLOBAL autocommit = 1, GLOBAL completion_type = NO_CHAIN")
        pair.target.execute("SET GLOBAL max_allowed_packet = DEFAULT")
    pair.check("d")


def test_load_data_that_was_logged_as_its_statement_is_loaded_from_its_blocks(pair, tmp_path):
    server = pair.source
    file = tmp_path / "rows.csv"
    file.write_text("".join(f"{number},row {number}\n" for number in range(30_000)))
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(50)) ENGINE=InnoDB")
    server.execute(STATEMENT)
    server.execute("INSERT INTO d.t VALUES (5, 'is replaced')")
    server.execute(
        f"LOAD DATA LOCAL INFILE '{file}' REPLACE INTO TABLE d.t FIELDS TERMINATED BY ','"
        " (id, @a) SET a = CONCAT(@a, '!')"
    )
    server.disconnect()
    file.unlink()
    logs = pair.log()
    done = tailrace.apply(logs, pair.url)
    assert done.statements == 4
    pair.check("d")
    assert pair.target.query("SELECT COUNT(*), MAX(a) FROM d.t") == [(30_000, "row 9999!")]


def clients(server, number, statements):
    """Each client executes statements of its own at the same time as the others."""

    def run(client):
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in statements(client):
                cursor.execute(statement)

    with ThreadPoolExecutor(number) as pool:
        list(pool.map(run, range(number)))


@pytest.fixture
def independent(pair):
    """A transaction, then 400, of which each four are of different rows, and then one of all."""
    server = pair.source
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB")
    server.execute("INSERT INTO d.t VALUES (0, 0), (1, 0), (2, 0), (3, 0), (9, 0)")
    first = server.rotate()
    server.execute("UPDATE d.t SET n = 9 WHERE id = 9")
    change = "UPDATE d.t SET n = n + 1 WHERE id = "
    if server.flavour == "mysql":  # it compares the rows
        for number in range(400):
            server.execute(f"{change}{number % 4}")
    else:  # clients wait for each other, and are committed together
        server.execute("SET GLOBAL binlog_commit_wait_count = 4")
        server.execute("SET GLOBAL binlog_commit_wait_usec = 10000000")
        clients(server, 4, lambda each: [f"{change}{each}"] * 100)
        server.execute("SET GLOBAL binlog_commit_wait_count = 0")
    server.execute("UPDATE d.t SET n = n * 2 + id")
    log = pair.log()
    tailrace.apply(str(first), pair.url)
    return pair, log


def order(server):
    """The numbers of the changes of rows in a server's log, in their order."""
    server.rotate()
    return [
        (row.before["id"], row.after["n"])
        for row in tailrace.rows(str(server.data), start="oldest", tables="d.t")
        if row.before is not None
    ]


class WholeLog(deque):
    """The transactions that wait, which are taken when all 402 were read."""

    def __bool__(self):
        return len(self) == 402


@contextmanager
def one_waits_for_a_row(pair, log, monkeypatch):
    """`apply` with four workers, of which one waits for a row that another client has locked, while
    those after it are executed and wait for it. Gives its result, how many are open, and that
    client's cursor.
    """
    monkeypatch.setattr("tailrace.applier.server.workers._LOCK_WAITS", 50)
    monkeypatch.setattr("tailrace.applier.applier.deque", WholeLog)
    monkeypatch.setattr("tailrace.applier.applier._IDLE", 300)  # then it takes what there is
    target = pair.target
    _, (locked, _), *_ = order(pair.source)
    with target.connect() as holder, holder.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM d.t WHERE id = %s FOR UPDATE", (locked,))
        done = pool.submit(tailrace.apply, log, pair.url, workers=4)
        most, deadline = 0, time.monotonic() + DEADLINE
        while not done.done() and most < 2 and time.monotonic() < deadline:
            time.sleep(0.15)  # the server looks again a tenth of a second after the last answer
            most = max(most, target.query(OPEN)[0][0] - 1)
        try:
            yield done, most, cursor
        finally:
            cursor.execute("ROLLBACK")


def test_workers_execute_transactions_at_a_time_and_commit_them_in_their_order(
    independent, monkeypatch
):
    """Where another client has locked a row, those after it are executed, and wait."""
    pair, log = independent
    with one_waits_for_a_row(pair, log, monkeypatch) as (done, most, cursor):
        cursor.execute("ROLLBACK")
        assert done.result().transactions == 402
    assert most >= 2
    pair.check("d")
    assert order(pair.target) == order(pair.source)


def test_no_worker_commits_before_one_whose_connection_is_lost(independent, monkeypatch):
    """Its lock is released with the connection: the next has its turn, and nothing before it."""
    pair, log = independent
    target = pair.target
    waits = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = %s"
    with one_waits_for_a_row(pair, log, monkeypatch) as (done, most, cursor):
        ((lost,),) = target.query(waits, ("LOCK WAIT",))
        before = target.query("SELECT * FROM d.t")
        target.execute(f"KILL {lost}")
        wait_for(  # until it waits again, executed by itself
            lambda: target.query(waits, ("LOCK WAIT",)) not in ([], [(lost,)]), every=0.15
        )
        assert target.query("SELECT * FROM d.t") == before
        cursor.execute("ROLLBACK")
        assert done.result().transactions == 402
    assert most >= 2
    pair.check("d")
    assert order(target) == order(pair.source)


def test_a_row_that_stays_locked_makes_a_transaction_be_executed_by_itself(independent):
    """Workers wait for it a second, and are rolled back with all after it."""
    pair, log = independent
    target = pair.target
    with target.connect() as holder, holder.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM d.t WHERE id = 2 FOR UPDATE")
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(tailrace.apply, log, pair.url, workers=4)
            time.sleep(2.5)
            cursor.execute("ROLLBACK")
            assert done.result().transactions == 402
    pair.check("d")
    assert order(target) == order(pair.source)
    assert tailrace.apply(log, pair.url, workers=4).transactions == 0


@pytest.fixture
def conflicting(pair):
    """Changes of three rows, and a target where one is there already, and one is not."""
    server = pair.source
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(50)) ENGINE=InnoDB")
    server.execute("INSERT INTO d.t VALUES (1, 'one'), (2, 'two')")
    middle = server.rotate()
    server.execute("INSERT INTO d.t VALUES (3, 'three'), (4, 'four')")
    server.execute("UPDATE d.t SET a = 'changed' WHERE id = 2")
    server.execute("DELETE FROM d.t WHERE id = 1")
    pair.log()
    tailrace.apply(str(middle), pair.url)
    server = pair.target
    server.execute("INSERT INTO d.t VALUES (4, 'other')")
    server.execute("DELETE FROM d.t WHERE id IN (1, 2)")
    return pair


@pytest.fixture
def without_gtids(pair):
    """A target that takes no GTIDs, where that can be."""
    if pair.target.flavour == "mysql":
        gtid_mode(pair.target, "OFF")
        yield pair
        gtid_mode(pair.target, "ON")
    else:
        yield pair


@pytest.mark.parametrize(("workers", "target_mode"), [(1, "ON_PERMISSIVE"), (4, "OFF")])
def test_a_log_without_gtids_is_applied_once_by_its_positions(pair, workers, target_mode):
    """Of a source with gtid_mode=OFF, also in parts, and to a target that could have GTIDs."""
    if pair.source.flavour != "mysql":
        pytest.skip("MariaDB always has GTIDs")
    server = pair.source
    gtid_mode(server, "OFF")
    gtid_mode(pair.target, target_mode)
    try:
        server.execute("CREATE DATABASE d")
        server.execute("CREATE TABLE d.sum (id INT PRIMARY KEY, n INT NOT NULL)")
        server.execute("INSERT INTO d.sum VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)")
        for number in range(100):
            server.execute(f"UPDATE d.sum SET n = n + 1 WHERE id = {number % 5}")
            if number == 50:
                first = server.rotate()
        log = pair.log()
        tailrace.apply(str(first), pair.url, workers=workers)
        done = tailrace.apply(log, pair.url, workers=workers)
        assert done.transactions == 49
        again = tailrace.apply(log, pair.url, start=first.name, workers=workers)
        assert (again.transactions, again.skipped > 90) == (0, True)
        pair.check("d")
    finally:
        gtid_mode(server, "ON")
        gtid_mode(pair.target, "ON")


@pytest.mark.parametrize("workers", [1, 4])
def test_nothing_after_a_transaction_that_failed_is_executed_though_it_was_sent(
    without_gtids, workers
):
    """The packets after the one that fails are on their way: the server rejects them as a whole."""
    pair = without_gtids
    server = pair.source
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, a LONGTEXT NOT NULL) ENGINE=InnoDB")
    first = server.rotate()
    for number in range(30):
        server.execute(f"INSERT INTO d.t VALUES ({number}, REPEAT('x', 100000))")
    log = pair.log()
    tailrace.apply(str(first), pair.url)
    pair.target.execute("INSERT INTO d.t VALUES (13, '')")
    with pytest.raises(ServerError, match="Duplicate entry"):
        tailrace.apply(log, pair.url, workers=workers)
    there = pair.target.query("SELECT id FROM d.t ORDER BY id")
    assert [number for (number,) in there] == [*range(14)]
    pair.target.execute("DELETE FROM d.t WHERE id = 13")
    tailrace.apply(log, pair.url)
    pair.check("d")


@pytest.mark.parametrize("workers", [1, 4])
def test_a_conflict_stops_with_an_error_that_names_it_or_is_skipped(conflicting, workers):
    target, log, url = conflicting.target, conflicting.log(), conflicting.url
    with pytest.raises(ServerError, match=r"(?s)in the transaction .* ends at .*--conflicts"):
        tailrace.apply(log, url, workers=workers)
    assert target.query("SELECT * FROM d.t") == [(4, "other")]
    tailrace.apply(log, url, conflicts="skip", workers=workers)
    assert target.query("SELECT * FROM d.t") == [(3, "three"), (4, "other")]


@pytest.mark.parametrize("workers", [1, 4])
def test_conflicts_overwrite_makes_the_rows_those_of_the_source(conflicting, workers):
    tailrace.apply(conflicting.log(), conflicting.url, conflicts="overwrite", workers=workers)
    conflicting.check("d")


@each_case("change", ["CREATE TABLE d.other (id INT)", "INSERT INTO d.plain VALUES (2)"])
def test_the_position_is_kept_also_if_the_last_change_has_no_transaction(pair, change):
    """Without ``start`` the next call continues there, and not at the oldest log."""
    pair.empty()
    server = pair.source
    pair.applied(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT)",
        "CREATE TABLE d.plain (id INT) ENGINE=MyISAM",
        "INSERT INTO d.t VALUES (1)",
        channel="the copy",
    )
    start = server.binlogs()[-1].name
    server.execute(change)
    done = tailrace.apply(pair.log(), pair.url, start=start)
    assert done.transactions == 1
    server.execute("INSERT INTO d.t VALUES (2)")
    again = tailrace.apply(pair.log(), pair.url)
    assert (again.transactions, again.skipped) == (1, 1)
    pair.check("d")


@each_case("format_", ["ROW", "STATEMENT", "MIXED"])
@each_case("first", ["d.t", "d.plain"])
@each_case("end", ["COMMIT", "ROLLBACK"])
def test_what_follows_a_transaction_with_tables_of_both_kinds_is_applied(pair, format_, first, end):
    """The target may log it as several: none may be taken for the source's next transaction."""
    pair.empty()
    server = pair.source
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT)")
    server.execute("CREATE TABLE d.plain (id INT) ENGINE=MyISAM")
    server.execute(f"SET SESSION binlog_format = '{format_}'")
    tables = sorted(("d.t", "d.plain"), key=lambda name: name != first)
    server.execute("BEGIN")
    for name in (*tables, tables[-1]):
        with suppress(pymysql.err.OperationalError):  # MySQL with GTIDs rejects some
            server.execute(f"INSERT INTO {name} VALUES (1)")
    server.execute(end)
    server.disconnect()
    tailrace.apply(pair.log(), pair.url)
    for number in range(2, 5):
        server.execute(f"INSERT INTO d.t VALUES ({number})")
        tailrace.apply(pair.log(), pair.url)
    pair.check("d")


def test_the_error_for_a_column_of_another_type_names_the_table(pair):
    pair.applied("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, a INT)")
    pair.target.execute("ALTER TABLE d.t MODIFY a TINYINT")
    pair.source.execute("INSERT INTO d.t VALUES (1, 500)")
    with pytest.raises(ServerError, match=r"another type there than on the source, in d\.t"):
        tailrace.apply(pair.log(), pair.url)


RIGHTS = {
    "mysql": ("SESSION_VARIABLES_ADMIN", "SET_ANY_DEFINER", "SYSTEM_USER", "BINLOG_ADMIN"),
    "mariadb": ("BINLOG MONITOR", "BINLOG ADMIN", "BINLOG REPLAY", "SET USER"),
}
"""What docs/guide/applying.md says an account needs, next to rights on the tables."""


def test_the_rights_in_the_guide_are_needed_and_enough(pair):
    """Those on tables and databases, and the ones above; without BINLOG_ADMIN rows go as SQL."""
    logs = pair.did(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(10), b DOUBLE)",
        "INSERT INTO d.t VALUES (1, 'é', NULL), (2, NULL, 0.5)",
        "UPDATE d.t SET a = 'x' WHERE id = 2",
        STATEMENT,
        "INSERT INTO d.t VALUES (3, 'y', RAND())",
        "SET SESSION binlog_format = 'ROW'",
        "CREATE VIEW d.v AS SELECT * FROM d.t",
        "DELETE FROM d.t WHERE id = 1",
    )
    target = pair.target
    url = pair.url.replace("root@", "applier@")
    needed = RIGHTS[target.flavour]
    guide = Path("docs/guide/applying.md").read_text(encoding="utf-8")
    for missing in (*needed, None):
        pair_rights = [right for right in needed if right != missing]
        for sql in (
            "DROP DATABASE IF EXISTS d",
            "DROP DATABASE IF EXISTS tailrace",
            "DROP USER IF EXISTS applier@'%'",
            "CREATE USER applier@'%'",
            "GRANT ALL ON d.* TO applier@'%'",
            "GRANT ALL ON tailrace.* TO applier@'%'",
            *(f"GRANT {right} ON *.* TO applier@'%'" for right in pair_rights),
            "RESET BINARY LOGS AND GTIDS" if target.flavour == "mysql" else "RESET MASTER",
        ):
            target.execute(sql)
        assert missing is None or f"`{missing}`" in guide
        if missing in {None, "BINLOG_ADMIN"}:
            tailrace.apply(logs, url)
            pair.check("d")
        else:
            with pytest.raises(ServerError, match=f"(?s){missing}"):
                tailrace.apply(logs, url)
    target.execute("DROP USER applier")


def test_a_channel_has_one_applier_at_a_time(pair, monkeypatch):
    logs = pair.did("CREATE DATABASE d")
    monkeypatch.setattr("tailrace.applier.server.target.LOCK_SECONDS", 1)
    pair.target.query("SELECT GET_LOCK('tailrace apply default', 0)")
    with pytest.raises(UsageError, match="another applier has the channel 'default'"):
        tailrace.apply(logs, pair.url)
    tailrace.apply(logs, pair.url, channel="second")
    pair.target.disconnect()


@each_case(
    ("given", "error"),
    [
        ({"conflicts": "never"}, "conflicts is stop, skip or overwrite"),
        ({"to": "nowhere"}, "'nowhere' is no URL"),
    ],
)
def test_wrong_arguments(given, error):
    with pytest.raises(UsageError, match=error):
        tailrace.apply("examples/shop/mysql", **({"to": "mysql://root@127.0.0.1:1/"} | given))


def test_definitions_of_the_table_of_positions_are_not_for_the_target(pair):
    """As its rows: a source that was a target, too, may drop its own."""
    logs = pair.did(
        "CREATE DATABASE tailrace",
        "CREATE TABLE tailrace.applied (id INT PRIMARY KEY)",
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "INSERT INTO tailrace.applied VALUES (1)",
        "DROP DATABASE tailrace",
        "INSERT INTO d.t VALUES (1)",
    )
    done = tailrace.apply(logs, pair.url)
    again = tailrace.apply(pair.log(), pair.url, start="binlog.000001")
    notes = pair.source.flavour == "mariadb"  # whose state has the GTID of the note, too
    assert (again.transactions, again.skipped) == (0, done.transactions + notes)
    pair.check("d")
    logs = pair.did(
        "CREATE DATABASE tailrace",
        "CREATE TABLE tailrace.applied (id INT)",
        "DROP TABLE d.t, tailrace.applied",
    )
    with pytest.raises(SchemaError, match=r"which holds the progress"):
        tailrace.apply(logs, pair.url)


def in_charset(letter):
    """Statements that name things with a letter, whose names hold what must not be executed: the
    letter's last byte in UTF-8 and a backtick are one character of some character sets.
    """
    evil = f"{letter}`` = 1; DROP DATABASE victim; -- x"
    return (
        f"CREATE DATABASE `d{letter}`",
        f"USE `d{letter}`",
        f"CREATE TABLE `t{letter}` (`a{letter}` VARCHAR(99) CHARACTER SET utf8mb4 DEFAULT '{letter}')",
        f"CREATE TABLE `{letter}``; DROP DATABASE victim; -- x` LIKE `t{letter}`",
        f"CREATE TABLE `u{letter}` SELECT 'y{letter}' AS `c{letter}`",
        f"CREATE TABLE `v{letter}` (`a{letter}` INT)",
        f"DROP TABLE `v{letter}`",
        STATEMENT,
        f"SET @`{evil}` = '{letter}'",
        f"INSERT INTO `t{letter}` VALUES (@`{evil}`), ('{letter}')",
        f"CREATE DATABASE `{evil}`",
        f"USE `{evil}`",
        f"CREATE TABLE `t{letter}` (id INT)",
        f"DROP DATABASE `{evil}`",
        f"USE `d{letter}`",
        f"CREATE VIEW w AS SELECT '{letter}' AS `c{letter}`",  # MySQL logs its name in UTF-8
    )


CHARSETS = {
    "big5": "中",
    "cp932": "チ",
    "gb18030": "丁",
    "gbk": "丁",
    "latin1": "é",
    "sjis": "チ",
    "utf8mb4": "丁",
}
"""Character sets, and a letter whose last byte in UTF-8 begins a character of those of Asia."""


@each_case("charset", CHARSETS)
@each_case("how", (1, 2, "script", "commands"))
def test_names_of_any_character_set_are_names(pair, charset, how):
    """One connection, workers, the server's own client in that character set, and a driver."""
    letter, target = CHARSETS[charset], pair.target
    pair.empty()
    if not pair.source.query("SHOW CHARACTER SET LIKE %s", (charset,)):
        return
    target.execute("CREATE DATABASE victim")
    with pair.source.connect(charset=charset) as session, session.cursor() as cursor:
        for sql in in_charset(letter):
            cursor.execute(sql)
    log = pair.log()
    if how == "script":
        text = "\n".join(tailrace.redo(log)).encode("utf-8", "surrogateescape")
        argv = client(target, f"--default-character-set={charset}")
        subprocess.run(argv, input=text, check=True)
    elif how == "commands":
        with target.connect() as session, session.cursor() as cursor:
            for command in tailrace.redo(log).commands():
                cursor.execute(command)
    else:
        given = {"workers": how, "channel": f"channel{letter}", "table": f"of{letter}.applied"}
        assert tailrace.apply(log, pair.url, **given).skipped == 0
        assert tailrace.apply(pair.log(), pair.url, **given).transactions == 0
    assert target.query("SHOW DATABASES LIKE 'victim'")
    pair.check(f"d{letter}")
    row = target.query(f"SELECT HEX(`a{letter}`) FROM `d{letter}`.`t{letter}`")
    assert row == [(letter.encode().hex().upper(),)] * 2


def test_a_position_that_cannot_be_noted_is_an_error(pair):
    """Else the next call applies all of it again."""
    pair.applied("CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "INSERT INTO d.t VALUES (1)")
    pair.source.execute("INSERT INTO d.t VALUES (2)")
    applier = Applier(target_of(pair.url, conflicts="stop"))
    pair.target.execute("DELETE FROM tailrace.applied")

    def run():
        with EventStream(pair.log()) as stream, applier:
            applier.register(stream)
            stream.run()
            applier.flush()

    with pytest.raises(ServerError, match="which holds the progress, is missing"):
        run()
    assert pair.target.query("SELECT * FROM d.t") == [(1,)]


def test_notes_that_were_logged_as_statements_are_notes_in_the_servers_log(pair, tmp_path):
    """The server logs the comment by which they are known."""
    logs = pair.did("CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "INSERT INTO d.t VALUES (1)")
    (before,) = pair.target.query("SELECT @@GLOBAL.binlog_format")[0]
    pair.target.execute("SET GLOBAL binlog_format = 'MIXED'")
    try:
        tailrace.apply(logs, pair.url)
        pair.target.rotate()
        with tailrace.open(str(pair.target.data)) as events:
            texts = [str(event.sql) for event in events if isinstance(event, QueryEvent)]
        assert any(text.endswith(NOTE_COMMENT) for text in texts)
        tailrace.apply(str(pair.target.data), f"sqlite:///{tmp_path / 'applied.db'}")
    finally:
        pair.target.execute(f"SET GLOBAL binlog_format = '{before}'")


TABLES = ("shop.a", "shop.b", "shop.p", "shop.own", "priv.c", "priv.d", "priv.p")
IS_OF_OTHERS = "also concerns tables that are not selected"  # what the error says of a definition that is not cut
DEFINITIONS = [
    ("DROP TABLE priv.c, shop.a", None),
    ("DROP TABLE IF EXISTS shop.a, priv.c, shop.b RESTRICT", None),
    ("/* a, b */ DROP TABLE priv.c, priv.d /* , shop.a */", None),
    ("RENAME TABLE priv.c TO priv.e, shop.a TO shop.e, shop.b TO shop.a", None),
    ("RENAME TABLE priv.c TO priv.e", None),
    ("RENAME TABLE shop.a TO priv.e", IS_OF_OTHERS),
    ("RENAME TABLE priv.c TO shop.e, shop.a TO shop.f", IS_OF_OTHERS),
    ("ALTER TABLE shop.a RENAME TO priv.e", IS_OF_OTHERS),
    ("ALTER TABLE priv.c RENAME TO shop.e, ADD COLUMN n INT", IS_OF_OTHERS),
    ("CREATE TABLE shop.e LIKE priv.c", IS_OF_OTHERS),
    ("CREATE TABLE priv.e LIKE shop.a", IS_OF_OTHERS),
    ("ALTER TABLE shop.p EXCHANGE PARTITION p0 WITH TABLE priv.d", IS_OF_OTHERS),
    ("ALTER TABLE priv.p EXCHANGE PARTITION p0 WITH TABLE priv.d", None),
    ("CREATE TABLE shop.e (id INT) ENGINE=MERGE UNION=(shop.b, priv.c)", IS_OF_OTHERS),
    ("CREATE TABLE priv.e (id INT) ENGINE=MERGE UNION (shop.b)", IS_OF_OTHERS),
    ("CREATE TABLE shop.e (id INT) SELECT 1 AS id UNION (SELECT 2)", None),
    ("TRUNCATE priv.c", None),
    ("DROP DATABASE shop", IS_OF_OTHERS),
    ("DROP DATABASE priv", None),
]


@pytest.mark.filterwarnings("ignore::tailrace.errors.NoSuchTable")
@each_case(("sql", "rejected"), DEFINITIONS)
@each_case("way", ("apply", "raw", "sqlite"))
def test_a_definition_changes_no_table_that_is_not_selected(pair, tmp_path, sql, rejected, way):
    """The target has tables of its own by the others' names, and ``shop.own`` is excluded.

    SQL that is fed with a selection: `tools.campaign.definitions`.
    """
    pair.empty()
    parts = " (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9))"
    for database in ("shop", "priv"):
        pair.did(f"CREATE DATABASE {database}")
        pair.target.execute(f"CREATE DATABASE {database}")
    for name in TABLES:
        columns = parts if name.endswith(".p") else " (id INT PRIMARY KEY)"
        pair.source.execute(f"CREATE TABLE {name}{columns}")
        pair.target.execute(f"CREATE TABLE {name}{columns}")
    pair.source.execute("FLUSH BINARY LOGS")
    log = f"{pair.source.data}/{pair.source.binlogs()[-1].name}"
    pair.did(sql)
    chosen = {"tables": "shop.*", "exclude": "shop.own"}

    def run():
        if way == "apply":
            tailrace.apply(log, pair.url, start="oldest", **chosen)
        elif way == "sqlite":
            tailrace.apply(log, f"sqlite:///{tmp_path / 'a.db'}", start="oldest", **chosen)
        else:
            into = str(tmp_path / "out.000001")
            argv = [sys.executable, "-m", "tailrace", "log", log, "--as", "raw", "--into", into]
            argv += ["--tables", "shop.*", "--exclude", "shop.own"]
            done = subprocess.run(argv, check=False, capture_output=True, text=True)
            if done.returncode:
                raise SchemaError(done.stderr)
            feed(pair.target, tailrace.redo(into))

    before = names_of(pair.target)
    if rejected:
        with pytest.raises(SchemaError, match=rejected):
            run()
        assert names_of(pair.target) == before
        return
    run()
    if way != "sqlite":
        of_source = {each for each in names_of(pair.source) if each[0] == "shop"}
        assert names_of(pair.target) == of_source | {each for each in before if each[0] == "priv"}


def names_of(server):
    """All tables of the databases ``shop`` and ``priv``."""
    return set(
        server.query(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_schema IN ('shop', 'priv')"
        )
    )


STOPPED = [
    ("", "DROP TABLE d.t, d.missing"),
    ("mariadb", "DROP /* , */ TABLE d.t, d.missing, d.`if`"),
    ("mariadb", "CREATE SEQUENCE d.s", "DROP SEQUENCE d.s, d.missing"),
    (
        "mariadb",
        "SET sql_mode = 'ORACLE'",
        STATEMENT,
        "INSERT INTO d.t VALUES (2)",
        "DELETE FROM d.t",
    ),
    ("", "CREATE TABLE d.u ENGINE=InnoDB COMMENT=') START TRANSACTION' SELECT ') START' AS `a'b`"),
]
"""What a replica executes, and stopped the applier."""


@each_case("case", STOPPED)
def test_what_a_replica_executes_does_not_stop(pair, case):
    flavour, *statements = case
    if flavour not in {"", pair.source.flavour}:
        return
    pair.empty()
    pair.did("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    for sql in statements:
        with suppress(pymysql.err.OperationalError):  # that a table is missing
            pair.source.execute(sql)
    tailrace.apply(pair.did("CREATE TABLE d.after_it (id INT)"), pair.url)
    pair.check("d")
