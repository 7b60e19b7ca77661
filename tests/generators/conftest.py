"""Logs of each server in each format, recorded once, with what the server itself said of them.

Each statement that tests look for has its label in a comment: ``/* label */``. What its session was
like when it was executed, the server told by SELECT; the rest is in mysqlbinlog's output.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from tailrace import generators
from tests.conftest import _require
from tools.servers import ONE_OF_EACH, Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMATS = ("STATEMENT", "MIXED", "ROW")
TABLES = ("t", "m", "a", "b")

_SESSION = (
    "sql_mode", "character_set_client", "collation_connection", "collation_server",
    "collation_database", "foreign_key_checks", "unique_checks", "sql_auto_is_null",
    "auto_increment_increment", "auto_increment_offset", "lc_time_names", "time_zone",
    "pseudo_thread_id", "last_insert_id",
)  # fmt: skip
_SETTINGS = (
    "SET sql_mode='ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH'",
    "SET NAMES latin1 COLLATE latin1_german1_ci",
    "SET collation_server=utf8mb4_bin",
    "SET foreign_key_checks=0",
    "SET unique_checks=0",
    "SET sql_auto_is_null=1",
    "SET auto_increment_increment=3",
    "SET auto_increment_offset=2",
    "SET lc_time_names='de_DE'",
    "SET time_zone='+02:00'",
)
_VARIABLES = (
    "SET @i=-5, @u=CAST(18446744073709551615 AS UNSIGNED), @s=_utf8mb4'gr\u00fcn', @d=1.50, @r=2.5e0,"
    " @z=NULL, @b=X'00ff'"
)


@dataclass
class Recording:
    """A log, the events that the generators make of it, and what the server said."""

    name: str
    format: str
    log: Path
    text: str
    """mysqlbinlog's output, of the release of the server."""
    session: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What SELECT gave before a statement, by its label."""
    facts: dict[str, Any] = field(default_factory=dict)
    gtids: bool = True
    modes: dict[int, str] = field(default_factory=dict)
    """The names that the server gives to a number of sql_mode."""
    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    """The rows of each table at the end."""

    @property
    def mysql(self) -> bool:
        return self.name.startswith("mysql")

    @cached_property
    def events(self) -> list[generators.ReplicationEvent]:
        """All events, kept, with what was rolled back."""
        kept = Keeps()
        run(generators.EventStream(self.log), kept)
        return kept.events

    def named(self, *names: str) -> list[Any]:
        """The events of these names."""
        return [each for each in self.events if each.name in names]

    def query(self, label: str) -> Any:
        """The event of the statement with a label."""
        (found,) = [
            each
            for each in self.named("stmt_query", "stmt_load_query")
            if f"/* {label} */" in each.query_string
        ]
        return found

    def has(self, label: str) -> bool:
        """Whether the statement with a label was logged as its statement."""
        return any(
            f"/* {label} */" in each.query_string
            for each in self.named("stmt_query", "stmt_load_query")
        )

    def transaction(self, label: str) -> list[Any]:
        """The events of the transaction that has the statement, or the rows, with a label."""
        number = next(
            each.local_transaction_id
            for each in self.events
            if f"/* {label} */" in str(each.values().get("query_string"))
            or f"/* {label} */" in str(each.values().get("rows_query"))
            or label in map(str, (each.values().get("after_image") or {}).values())
        )
        return [each for each in self.events if each.local_transaction_id == number]

    def shown(self, pattern: str) -> list[Any]:
        """What mysqlbinlog prints that matches."""
        return re.findall(pattern, self.text)


def run(source: Any, *consumers: generators.Consumer, of: str = "row") -> Any:
    """Tell consumers of one generator's events all that a source has; returns it, closed."""
    with source:
        for each in consumers:
            source.stack[of].register(each)
        source.run()
    return source


class Keeps(generators.RowConsumer):
    """Keeps all events."""

    def __init__(self):
        self.events = []

    def event(self, event):
        self.events.append(event.keep())

    trx_rollback = event


class _Session:
    def __init__(self, server: Server, recording: Recording):
        self.connection = server.connect(database="g")
        self.recording = recording
        self.execute(f"SET SESSION binlog_format={recording.format}")
        if recording.mysql:
            self.execute("SET SESSION binlog_rows_query_log_events=ON")

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def labelled(self, label: str, sql: str) -> None:
        """Execute a statement with a label, and note its session."""
        (values,) = self.execute("SELECT " + ", ".join(f"@@{each}" for each in _SESSION))
        found = dict(zip(_SESSION, values, strict=True))
        found["database"] = self.execute("SELECT DATABASE()")[0][0]
        self.recording.session[label] = found
        self.execute(f"{sql} /* {label} */")

    def close(self) -> None:
        self.connection.close()


def _record(server: Server, name: str, format_: str, folder: Path) -> Recording:
    recording = Recording(name, format_, folder / "binlog.000001", "")
    if recording.mysql:  # the last format has GTIDs
        recording.gtids = format_ == FORMATS[-1]
        for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON") if recording.gtids else ():
            server.execute("SET GLOBAL enforce_gtid_consistency=ON")
            server.execute(f"SET GLOBAL gtid_mode={mode}")
    server.execute("CREATE DATABASE g CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    server.rotate()
    write_log(server, recording)
    shutil.copy(server.rotate(), recording.log)
    arguments = ["-v", "-v", "--base64-output=DECODE-ROWS"]
    recording.text = server.mysqlbinlog(*arguments, recording.log).stdout.decode("utf-8", "replace")
    for table in TABLES:
        columns = "id, v, n, CAST(at AS CHAR)" if table == "t" else "*"
        recording.tables[table] = server.query(f"SELECT {columns} FROM g.{table}")
    for number in map(int, set(recording.shown(r"session\.sql_mode=(\d+)"))):
        server.execute(f"SET sql_mode={number}")
        ((recording.modes[number],),) = server.query("SELECT @@sql_mode")
    server.execute("DROP DATABASE g")
    server.disconnect()
    return recording


def write_log(server: Server, recording: Recording) -> None:
    """Have a server do what tests look for, in the recording's format, in its database ``g``."""
    facts = recording.facts
    one = _Session(server, recording)
    for sql in (
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(100), n DOUBLE, at DATETIME)",
        "CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(100)) ENGINE=MyISAM",
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE b (id INT PRIMARY KEY, a_id INT, v INT)",
        "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO b VALUES (10, 1, 1), (20, 2, 2), (30, 3, 3)",
    ):
        one.execute(sql)
    one.labelled("plain", "INSERT INTO t (v) VALUES ('plain')")
    one.labelled("non_transactional", "INSERT INTO m VALUES (1, 'non_transactional')")
    one.execute(_VARIABLES)
    one.labelled(
        "variables",
        "INSERT INTO t (v) VALUES (CONCAT_WS('|', @i, @u, @s, @d, @r, @z, HEX(@b)))",
    )
    one.labelled("rand", "INSERT INTO t (n) VALUES (RAND())")
    facts["rand"] = one.execute("SELECT n FROM t ORDER BY id DESC LIMIT 1")[0][0]
    one.labelled("insert_id", "INSERT INTO t (v) VALUES ('insert_id')")
    facts["insert_id"] = one.execute("SELECT LAST_INSERT_ID()")[0][0]
    one.labelled("last_insert_id", "INSERT INTO t (n) VALUES (LAST_INSERT_ID())")
    one.labelled("replaced", "REPLACE INTO t (id, v) VALUES (1, 'replaced')")
    one.labelled("updated", "UPDATE t SET v = 'updated' WHERE id <= 2 ORDER BY id")
    one.labelled("deleted", "DELETE FROM t WHERE id = 2")
    one.labelled("multi", "UPDATE a JOIN b ON b.a_id = a.id SET a.v = 7, b.v = 8 WHERE a.id < 3")
    one.labelled("uuid", "INSERT INTO t (v) VALUES (UUID())")
    one.execute("CREATE TEMPORARY TABLE temporary_one (id INT)")
    one.execute("INSERT INTO temporary_one VALUES (1)")
    one.labelled("temporary", "INSERT INTO t (n) SELECT id FROM temporary_one")
    one.execute("DROP TEMPORARY TABLE temporary_one")
    with pytest.raises(pymysql.err.IntegrityError) as raised:
        one.labelled("error", "INSERT INTO m VALUES (5, 'error'), (5, 'twice')")
    facts["error"] = raised.value.args[0]
    file = recording.log.with_name("rows.tsv")
    file.parent.chmod(0o755)
    file.write_text("".join(f"{number}\tloaded {number}\n" for number in range(100, 200)))
    facts["file"] = file.read_bytes()
    one.labelled("load", f"LOAD DATA INFILE '{file}' REPLACE INTO TABLE t (id, v)")
    _transactions(one)
    one.close()
    other = _Session(server, recording)
    for sql in _SETTINGS:
        other.execute(sql)
    other.labelled(
        "settings",
        "INSERT INTO t (v, at) VALUES (CONCAT(DATE_FORMAT('2026-05-01', '%M'),"
        " CAST(FROM_UNIXTIME(3600) AS CHAR)), FROM_UNIXTIME(1000))",
    )
    other.close()
    last = _Session(server, recording)
    last.labelled("ddl", "ALTER TABLE b ADD COLUMN w INT DEFAULT 1")
    last.execute("SET explicit_defaults_for_timestamp = OFF")
    last.labelled("implicit", "CREATE TABLE implicit_defaults (id INT PRIMARY KEY, at TIMESTAMP)")
    last.execute("CREATE TABLE selected SELECT id, v FROM a")
    last.close()


def _transactions(one: _Session) -> None:
    for sql in (
        "BEGIN",
        "INSERT INTO t (v) VALUES ('first of two') /* two */",
        "INSERT INTO t (v) VALUES ('second of two')",
        "COMMIT",
        "XA START 'prepared', 'branch', 3",
        "INSERT INTO t (v) VALUES ('xa committed')",
        "XA END 'prepared', 'branch', 3",
        "XA PREPARE 'prepared', 'branch', 3",
        "XA COMMIT 'prepared', 'branch', 3",
        "XA START 'rolled'",
        "INSERT INTO t (v) VALUES ('xa rolled back')",
        "XA END 'rolled'",
        "XA PREPARE 'rolled'",
        "XA ROLLBACK 'rolled'",
        "XA START 'once'",
        "INSERT INTO t (v) VALUES ('xa at once')",
        "XA END 'once'",
        "XA COMMIT 'once' ONE PHASE",
    ):
        one.execute(sql)
    if one.recording.gtids and one.recording.mysql:
        return  # with GTIDs the server rejects transactions over tables of both sorts
    for sql in (
        "BEGIN",
        "INSERT INTO t (v) VALUES ('kept')",
        "SAVEPOINT here",
        "INSERT INTO t (v) VALUES ('to savepoint')",
        "INSERT INTO m VALUES (6, 'to savepoint')",
        "ROLLBACK TO here",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t (v) VALUES ('whole')",
        "INSERT INTO m VALUES (7, 'whole')",
        "ROLLBACK",
    ):
        one.execute(sql)


@pytest.fixture(scope="session")
def recordings() -> dict[str, dict[str, Recording]]:
    """What was recorded: each server once, in whatever order the files ask for it."""
    return {}


@pytest.fixture(scope="session", params=ONE_OF_EACH)
def recorded(
    request: pytest.FixtureRequest,
    recordings: dict[str, dict[str, Recording]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Recording]:
    """The logs of one server, by their format."""
    name = request.param
    _require(name)
    if name not in recordings:
        options = ["--character-set-server=utf8mb4"]
        if name.startswith("mysql"):
            options += ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]
        with Server(name, options) as server:
            recordings[name] = {
                format_: _record(server, name, format_, tmp_path_factory.mktemp(name))
                for format_ in FORMATS
            }
    return recordings[name]


@pytest.fixture
def rows(recorded: dict[str, Recording]) -> Recording:
    """The log in ROW format."""
    return recorded["ROW"]


@pytest.fixture
def statements(recorded: dict[str, Recording]) -> Recording:
    """The log in STATEMENT format."""
    return recorded["STATEMENT"]


@pytest.fixture
def logged(recorded: dict[str, Recording]) -> Callable[[str], list[Recording]]:
    """Of each label the logs, in any format, that have its statement as such."""

    def having(label: str) -> list[Recording]:
        found = [each for each in recorded.values() if each.has(label)]
        assert recorded["STATEMENT"] in found
        return found

    return having


@pytest.fixture
def mixed(recorded: dict[str, Recording]) -> Recording:
    """The log in MIXED format."""
    return recorded["MIXED"]
