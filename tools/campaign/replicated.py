"""Random statements, applied by `tailrace apply`, fed as SQL, and executed by a real replica.

Of two kinds: texts of one or several statements in one event, with all that may contain or hide a
semicolon; and definitions of scheduled events, logged by a server or written. A server executes
each as a replica does, from a relay log. After that, it executes the same from `tailrace.apply` or
as SQL, and must then have the same rows, tables, routines, triggers and events. What a replica
rejects must be an error. What is rejected here, though a replica executes it, must be several
statements, and must change nothing.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pymysql

import tailrace
from tailrace.errors import SchemaError, TailraceError
from tailrace.events import StatusVariable
from tools.applied import ApplyFailed, as_relay_log, forget, gtid_mode
from tools.campaign.definitions import feed
from tools.campaign.report import REJECTED, Tries
from tools.servers import ONE_OF_EACH, Server

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = {"small": 8, "full": 1_000}
"""Logs of each kind for each server."""
SERVERS: Final = ONE_OF_EACH
_MODES: Final = {
    "": 0,
    "ANSI_QUOTES": 4,
    "NO_BACKSLASH_ESCAPES": 1 << 20,
    "ORACLE": 2 | 4 | 8 | 1 << 9 | 7 << 13 | 1 << 28 | 1 << 33,
}
_CHARSETS: Final = {"utf8mb4": 45, "latin1": 8, "sjis": 13, "gbk": 28, "big5": 1}
_SETUP: Final = (
    "CREATE DATABASE d",
    "CREATE DATABASE victim",
    "CREATE TABLE d.t (id INT, v VARCHAR(200)) ENGINE=InnoDB CHARACTER SET utf8mb4",
    "CREATE TABLE victim.t (id INT) ENGINE=InnoDB",
    "CREATE EVENT d.old ON SCHEDULE EVERY 1 HOUR STARTS '2030-01-01' DISABLE DO DO 1",
)
_STATE: Final = {
    "tables": "SELECT table_schema, table_name, table_comment FROM information_schema.tables",
    "columns": "SELECT table_schema, table_name, column_name, column_type, column_default,"
    " column_comment FROM information_schema.columns",
    "routines": "SELECT routine_schema, routine_name, routine_type, routine_definition, sql_mode,"
    " character_set_client, definer, routine_comment FROM information_schema.routines",
    "triggers": "SELECT trigger_schema, trigger_name, action_statement, sql_mode,"
    " character_set_client, definer FROM information_schema.triggers",
    "events": "SELECT event_schema, event_name, definer, time_zone, event_body, event_definition,"
    " event_type, execute_at, interval_value, interval_field, sql_mode, starts, ends, status,"
    " on_completion, event_comment, character_set_client, collation_connection,"
    " database_collation FROM information_schema.events",
}

State = dict[str, Any]


def _state(server: Server) -> State:
    found: State = {}
    for what, query in _STATE.items():
        schema = query.partition(",")[0].removeprefix("SELECT ")
        rows = server.query(f"{query} WHERE {schema} IN ('d', 'victim')")
        found[what] = sorted((tuple(map(_without_end, row)) for row in rows), key=repr)
    for database, table, _ in found["tables"]:
        rows = server.query(f"SELECT * FROM `{database}`.`{table}`")
        found[f"{database}.{table}"] = sorted(rows, key=repr)
    return found


def _without_end(value: Any) -> Any:
    """A definition without its last semicolon, which no client sends, and no server logs."""
    return value.rstrip("; \n") if isinstance(value, str) else value


class _Text:
    """Writes statements, each part in one of its spellings.

    ``script`` are texts for the server's own client: it changes comments, and has events as they
    were logged.
    """

    def __init__(self, rng: random.Random, mariadb: bool, *, script: bool) -> None:
        self.rng = rng
        self.script = script
        self.mariadb = mariadb
        self.mode = rng.choice(("", "", *list(_MODES)[: 4 if mariadb else 3]))
        self.charset = rng.choice(("utf8mb4", "utf8mb4", *_CHARSETS))

    def one(self, *texts: str) -> str:
        return self.rng.choice(texts)

    def maybe(self, *texts: str) -> str:
        """One of the texts, or none."""
        return f"{self.rng.choice(texts)} " if self.rng.random() < 0.4 else ""

    def string(self) -> str:
        """A literal with what ends statements, comments and strings elsewhere."""
        inner = self.one(
            *(
                "x",
                "; DROP DATABASE victim",
                "-- ;",
                "/* ;",
                "*/;",
                "# ;",
                "é;",
                "表;",
                "ENABLE DO",
            ),
            *("END;", "`;", "''; x", "DELIMITER ;;", "$$", "\n; -- \n"),
        )
        if self.mode != "NO_BACKSLASH_ESCAPES":
            inner += self.one("", "", "\\\\", "\\';", "\\n")
        else:
            inner += self.one("", "", "\\")
        if self.mode in {"", "NO_BACKSLASH_ESCAPES"} and self.rng.random() < 0.2:
            return '"' + inner.replace("\\'", "'").replace("''", "'") + '"'
        return f"'{inner}'"

    def space(self) -> str:
        """What separates two words."""
        return self.rng.choice(
            (" ",) * 6 + (" /* ; */ ", " -- ; DO '\n", " # ; `\n", "\n", "\t", " /**/ ")
        )

    def name(self, *names: str) -> str:
        """An identifier, with or without its database."""
        name = self.one(*names)
        quotes = ["`"] + ['"'] * (self.mode in {"ANSI_QUOTES", "ORACLE"})
        quotes += [""] * (name.isalnum() and name.upper() not in {"DO", "ENABLE", "EVENT", "END"})
        quote = self.one(*quotes)
        return self.one("", "", "d.", "`d`.", "d . " if quote else "d.") + quote + name + quote

    def joined(self, *parts: str) -> str:
        """The parts that are not empty, with spaces and comments between them."""
        return "".join(
            f"{self.space()}{part.strip(' ')}" for part in parts if part.strip(" ")
        ).lstrip()

    # --- one or several statements ---------------------------------------------------------------

    def body(self, depth: int = 0) -> str:
        """A statement of a routine; below the first level it ends without its semicolon."""
        simple = self.one(
            f"SET @a = {self.string()}",
            f"INSERT INTO d.t VALUES (7, {self.string()})",
            "DO 1",
            "DO 1" if self.script else "DO 1 /* END; */",
            "BEGIN END" if self.mode != "ORACLE" else "DO 2",
        )
        if depth > 2 or self.rng.random() < 0.3:
            return simple
        inner = "; ".join(self.body(depth + 1) for _ in range(self.rng.choice((1, 1, 2)))) + ";"
        if self.mode == "ORACLE":
            return self.one(
                f"BEGIN {inner} END",
                f"IF 1 THEN {inner} END IF",
                f"WHILE 0 LOOP {inner} END LOOP",
            )
        return self.one(
            f"BEGIN {inner} END",
            f"x{depth}: BEGIN {inner} END x{depth}",
            f"BEGIN DECLARE `end` INT; DECLARE EXIT HANDLER FOR NOT FOUND DO 1; {inner} END",
            f"IF 1 THEN {inner} ELSEIF 2 THEN {inner} ELSE {inner} END IF",
            f"CASE 1 WHEN 1 THEN {inner} ELSE {inner} END CASE",
            f"WHILE 0 DO {inner} END WHILE",
            f"REPEAT {inner} UNTIL 1 END REPEAT",
            f"l{depth}: LOOP {inner} LEAVE l{depth}; END LOOP",
            f"SET @a = CASE 1 WHEN 1 THEN {self.string()} END",
        )

    def statement(self) -> str:
        """One statement, whose effect the state has."""
        rng, name = self.rng, self.name
        definer = self.one("DEFINER = root@localhost", "DEFINER=`a``b`@'%'")  # as servers write it
        compound = f"BEGIN {self.body(1)}; {self.body(1)}; END"
        body = self.one(self.body(1), compound)
        match rng.randrange(9):
            case 0 | 1:
                return self.joined("INSERT INTO d.t VALUES", f"(1, {self.string()})")
            case 2:
                return self.joined(
                    "CREATE TABLE", name("u", "end"), f"(a INT COMMENT {self.string()})"
                )
            case 3 | 4 if self.mode == "ORACLE":
                return f"CREATE {definer} PROCEDURE {name('p', 'end')} AS BEGIN {self.body(1)}; END"
            case 3 | 4:
                return self.joined("CREATE", definer, "PROCEDURE", name("p", "end"), "()", body)
            case 5 if self.mode != "ORACLE":
                head = self.joined("CREATE", definer, "FUNCTION", name("f"), "()")
                returned = f"BEGIN {self.body(2)}; RETURN {self.string()}; END"
                returned = self.one(returned, f"RETURN {self.string()}")
                return f"{head} RETURNS VARCHAR(99) DETERMINISTIC {returned}"
            case 6:
                head = self.joined("CREATE", definer, "TRIGGER", name("tr"), "BEFORE INSERT ON")
                return f"{head} d.t FOR EACH ROW {body}"
            case 7 if not self.script:
                return self.event(create=True)
            case _ if self.mariadb and rng.random() < 0.3:
                return self.one(
                    f"BEGIN NOT ATOMIC {self.body(1)}; {self.body(1)}; END",
                    "SET STATEMENT max_statement_time = 9 FOR INSERT INTO d.t VALUES "
                    f"(3, {self.string()})",
                    f"IF 1 THEN {self.body(1)}; END IF",
                )
            case _:
                return self.joined("UPDATE victim.t SET id = 1", f"WHERE {self.string()} = ''")

    def several(self) -> str:
        """What one event has: mostly one statement and its end, or a second one."""
        end = self.one("", ";", " ;", ";/* ; */", "; -- x\n", "\n;\n", "; # y", "/*!50000 ; */")
        second = ""
        if self.rng.random() < 0.5:
            end = end or ";"
            second = self.one(
                *("DROP DATABASE victim", "CREATE TABLE d.second (id INT)", "END", "COMMIT", "$$"),
                *("INSERT INTO d.t VALUES (2, 'second')", "DELIMITER //", "BEGIN", "UNTIL 1", "'"),
                *("/*!50000 DROP DATABASE victim */", "/*M! DROP DATABASE victim */", "/* x */"),
                *("-- x", "/*!99999 x */", "DROP TABLE victim.t;", "\\! id", "source x", "`x`"),
                self.statement(),
            )
        head = self.maybe("/* ; */", "-- ;\n", "/*! */", "# '\n")
        first = self.statement().rstrip("; ")
        return f"{head}{first}{end}{second}"

    # --- scheduled events ------------------------------------------------------------------------

    def event(self, *, create: bool) -> str:
        """CREATE EVENT, or another statement about one."""
        rng = self.rng
        name = self.name("e", "f", "do", "enable", "e v", "event", "old")
        definer = self.maybe(
            *("DEFINER = root@localhost", "DEFINER=CURRENT_USER", "definer = CURRENT_USER ( )"),
            *("DEFINER = 'root'@'localhost'", "DEFINER=`root` @ `%`", "DEFINER = root"),
            *("DEFINER = `EVENT`@`DO`", "DEFINER='a;b'@'%'", "DEFINER = root@127.0.0.1"),
        )
        schedule = self.joined("ON SCHEDULE", self._schedule())
        preserve = self.maybe("ON COMPLETION PRESERVE", "ON COMPLETION NOT PRESERVE")
        status = self.maybe(
            *("ENABLE", "DISABLE", "DISABLE ON SLAVE", "enable", "DISABLE /* x */ ON SLAVE"),
            *("/*!50106 ENABLE */", "/*! DISABLE*/", "DISABLE -- y\n"),
            *(("/*M! ENABLE */",) if self.mariadb else ("DISABLE ON REPLICA",)),
        )
        comment = self.maybe(f"COMMENT {self.string()}", "COMMENT 'DISABLE' ")
        body = self.one("DO 1", self.body(1), self.body(), "UPDATE d.t SET v = 'ENABLE'")
        if create:
            exists = self.maybe("IF NOT EXISTS")
            head = self.joined("CREATE", self.maybe("OR REPLACE") if self.mariadb else "", definer)
            rest = self.joined(
                "EVENT", exists, name, schedule, preserve, status, comment, "DO", body
            )
            if rng.random() < 0.15:  # as mysqldump writes it
                return f"/*!50106 {head}*/ /*!50106 {rest} */"
            text = f"{head}{self.space()}{rest}"
        elif rng.random() < 0.15:
            return self.joined("DROP EVENT", self.maybe("IF EXISTS"), name)
        else:
            renamed = self.maybe(f"RENAME TO {self.name('e', 'g', 'enable')}")
            parts = [self.maybe(schedule), preserve, renamed, status, comment]
            parts.append(self.maybe(f"DO {body}"))
            if not any(parts):
                parts[3] = "ENABLE"
            text = self.joined("ALTER", definer, "EVENT", name, *parts)
        if rng.random() < 0.1:
            text = f"/*!50106 {text} */"
        if self.mariadb and rng.random() < 0.1:
            text = f"SET STATEMENT max_statement_time = 9 FOR {text}"
        return self.maybe("/* ENABLE */", "-- DO\n") + text + self.one("", "", ";", " /* z */")

    def _schedule(self) -> str:
        if self.rng.random() < 0.3:
            return self.one(
                *("AT '2037-01-01 00:00:00'", "AT TIMESTAMP'2037-01-01 00:00:00' + INTERVAL 2 DAY"),
                *("AT NOW() + INTERVAL (1 + 1) YEAR", "AT CURRENT_TIMESTAMP + INTERVAL '1' MONTH"),
                "AT '2037-01-01' + INTERVAL 1 DAY + INTERVAL 2 HOUR",
            )
        every = self.one("1 DAY", "(1 + 1) HOUR", "'1:2' HOUR_MINUTE", "3 WEEK", "'2' YEAR")
        starts = self.maybe(
            *("STARTS '2036-01-01 10:00:00'", "STARTS NOW()", "STARTS NOW() + INTERVAL 1 DAY"),
            "STARTS CONCAT('2036', '-01-01')",
        )
        ends = self.maybe("ENDS '2037-12-31'", "ENDS NOW() + INTERVAL (8) MONTH + INTERVAL 1 YEAR")
        return self.joined("EVERY", every, starts, ends)


def _written(server: Server, text: _Text, statements: Sequence[str], folder: Path) -> Path:
    """A log of our own, with each statement in one event."""
    collation = _CHARSETS[text.charset]
    status = {
        StatusVariable.SQL_MODE: _MODES[text.mode],
        StatusVariable.CHARSET: (collation, collation, 45),
        StatusVariable.INVOKER: ("app", "127.0.0.1"),
    }
    with tailrace.create(folder / "binlog.000001", flavour=server.flavour, server_id=1) as log:
        for sql in statements:
            with log.transaction() as transaction:
                raw = sql.encode(_CODECS.get(text.charset, "utf-8"), "replace")
                transaction.query(raw, "d", status=status, alone=True)
    return folder / "binlog.000001"


_CODECS: Final = {"latin1": "latin-1", "sjis": "cp932", "gbk": "gbk", "big5": "big5"}


def _logged(server: Server, text: _Text, statements: Sequence[str], folder: Path) -> Path | None:
    """The log of a server that executed the statements; None if it rejected all."""
    server.execute("SET GLOBAL server_id = 1")
    server.rotate()
    executed = 0
    zone = text.one("+00:00", "-03:30", "+09:00")
    with server.connect(user="app", database="d") as session, session.cursor() as cursor:
        cursor.execute(f"SET SESSION sql_mode = '{text.mode}', time_zone = '{zone}'")
        cursor.execute(f"SET character_set_client = {text.charset}")
        codec = _CODECS.get(text.charset, "utf-8")
        for sql in statements:
            try:
                cursor.execute(sql.encode(codec, "replace"))  # type: ignore[call-overload]
                executed += 1
            except pymysql.err.MySQLError:
                continue
    copied = folder / "binlog.000001"
    shutil.copyfile(server.rotate(), copied)
    server.execute("SET GLOBAL server_id = 2")
    return copied if executed else None


def _fresh(server: Server) -> None:
    """The same state before each."""
    forget(server, "d", "victim")
    forget(server, "tailrace")
    server.disconnect()
    for sql in _SETUP:
        server.execute(sql)


def _one(rng: random.Random, server: Server, kind: str, before: State) -> tuple[str, str]:
    """One try: what came of it, and what failed."""
    events = kind == "events"
    way = rng.choice(("apply", "workers") if events else ("apply", "workers", "script", "commands"))
    mariadb = server.flavour == "mariadb"
    text = _Text(rng, mariadb, script=way in {"script", "commands"})
    if events:
        statements = [text.event(create=rng.random() < 0.6) for _ in range(rng.choice((1, 2, 4)))]
    else:
        statements = [text.several()]
    what = f"{statements!a} [{text.mode}, {text.charset}] {way}"
    with tempfile.TemporaryDirectory(prefix="tailrace-replicated-") as place:
        _fresh(server)
        if events and rng.random() < 0.7:
            log = _logged(server, text, statements, Path(place))
            what += ", logged"
            _fresh(server)
            if log is None:
                return REJECTED, ""
        else:
            log = _written(server, text, statements, Path(place))
        rejected = ""
        try:
            as_relay_log(server, [log])
        except ApplyFailed as error:
            rejected = str(error)
        of_replica = _state(server)
        _fresh(server)
        failed: Exception | None = None
        try:
            feed(way, server, str(log))
        except (TailraceError, pymysql.err.MySQLError, subprocess.CalledProcessError) as error:
            failed = error
        found = _state(server)
    says = getattr(failed, "stderr", None) or failed
    what += f"; a replica: {rejected[-300:] or 'executes it'}; here: {says}"
    if isinstance(failed, SchemaError) and not rejected and not events:
        several = "several statements" in str(failed) or "not understood" in str(failed)
        return "rejected by name, which a replica executes", (
            "" if several and found == before else f"{what}: {_different(found, before)}"
        )
    if isinstance(failed, subprocess.CalledProcessError) and not rejected and found == before:
        return "rejected by the client, which splits it", ""
    if bool(failed) != bool(rejected):
        return "as a replica", what
    different = _different(found, of_replica)
    outcome = "a replica rejects it" if rejected else "as a replica"
    return outcome, f"{what}: {different}" if different else ""


def _different(found: State, wanted: State) -> str:
    """Where two states differ first."""
    for key in {**wanted, **found}:
        if found.get(key) != wanted.get(key):
            return f"{key}: {found.get(key)!a:.600} instead of {wanted.get(key)!a:.600}"
    return ""


def run(name: str, count: int, seed: int) -> Tries:
    """So many logs of each kind on a server of this name."""
    report = Tries(f"logs on {name}")
    with Server(name, {"relay_log": "relay"}, server_id=2) as server:
        gtid_mode(server, "OFF_PERMISSIVE")
        if server.flavour == "mysql":
            server.execute("SET GLOBAL replica_parallel_workers = 1")
        server.execute("CREATE USER app@'127.0.0.1'")
        server.execute("GRANT ALL ON *.* TO app@'127.0.0.1'")
        _fresh(server)
        before = _state(server)
        for kind in ("statements", "events"):
            for number in range(count):
                rng = random.Random(f"{name}-{seed}-{kind}-{number}")
                outcome, failure = _one(rng, server, kind, before)
                outcome = outcome if outcome == REJECTED else f"{kind}: {outcome}"
                report.take(f"of {kind} {number}", outcome, failure)
    return report
