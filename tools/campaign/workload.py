"""A random schema on a server: tables, transactions, and the log that holds them."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pymysql

from tailrace.storage import LogSeries
from tailrace.storage.file import LogFile
from tools.campaign.columns import Types
from tools.campaign.replay import UNKNOWN
from tools.campaign.selected import Declared, canonical, expression
from tools.campaign.settings import Settings, choose
from tools.campaign.tables import RandomTable, Shape
from tools.dumps import definitions, quoted, raw_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pymysql.cursors import Cursor

    from tools.campaign.replay import Texts
    from tools.servers import Server


_SEQUENCE = "q"


@dataclass
class Selected:
    """What SELECT says of a table at the end, and what its columns are."""

    columns: dict[str, Declared]
    rows: list[Texts]
    defaults: Texts
    generated: frozenset[str]
    sequence: bool = False
    """It is a sequence; ``defaults`` is its row as it was when it was made."""
    uncomputed: bool = False
    """It is versioned: MariaDB does not compute VIRTUAL columns for its MINIMAL images, and logs
    NULL for them (`mariadb-binlog -v` shows the same).
    """

    def logged(self, image: Texts | None) -> Texts | None:
        """An image of the log without values of generated columns that the server left NULL."""
        if image is None or not self.uncomputed:
            return image
        nulls = {name for name in self.generated if image.get(name, "") is None}
        return {**image, **dict.fromkeys(nulls, UNKNOWN)}


@dataclass
class Recorded:
    """A schema's log and its tables' contents; ``statements`` for a reproducer."""

    label: str
    settings: Settings
    series: LogSeries
    schema: str
    tables: dict[str, Selected] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)


class Workload:
    """Makes schemas on one server, each with a log of its own; see `record`.

    ``odd`` adds what only MariaDB has: the old temporal format, system-versioned tables, periods
    WITHOUT OVERLAPS and sequences.
    """

    def __init__(self, server: Server, *, odd: bool = False) -> None:
        self.server = server
        self.odd = odd
        self.types = Types(server)

    @contextmanager
    def record(
        self, seed: int, number: int, choice: Callable[[Settings], Settings] = lambda given: given
    ) -> Iterator[Recorded]:
        """Write schema ``number`` of this seed; the log is gone when the block ends.

        ``choice`` may put other settings in place of the random ones.
        """
        rng = random.Random(f"{seed}/{self.server.name}/{number}")
        settings = choice(choose(rng, self.server, odd=self.odd))
        database = f"random_{number}"
        server = self.server
        usual = {name: server.query(f"SELECT @@GLOBAL.{name}")[0][0] for name in settings.globals_}
        for name, value in settings.globals_.items():
            server.execute(f"SET GLOBAL {name} = {value}")
        before = server.rotate().name
        recorded = Recorded(
            f"{server.name} seed {seed} schema {number}",
            settings,
            LogSeries("random", ()),
            "",
        )
        try:
            with server.connect() as connection, connection.cursor() as cursor:
                self._run(rng, cursor, database, recorded)
            last = server.rotate().name
            paths = [path for path in server.binlogs() if before < path.name <= last]
            recorded.series = LogSeries("random", tuple(LogFile.at(path) for path in paths))
            yield recorded
        finally:
            for name, value in usual.items():
                server.execute(f"SET GLOBAL {name} = {value!r}")
            server.execute("SET sql_log_bin = 0")
            server.execute(f"DROP DATABASE IF EXISTS {database}")
            server.execute("SET sql_log_bin = 1")
            server.execute(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")

    def _run(self, rng: random.Random, cursor: Cursor, database: str, recorded: Recorded) -> None:
        settings = recorded.settings
        cursor.execute("SET sql_mode = ''")
        for name, value in settings.session.items():
            cursor.execute(f"SET SESSION {name} = {value}")
        logged = settings.names == "ddl"
        if not logged:
            cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {database}")
        plain = settings.names == "log"
        tables = [
            self._create(rng, cursor, f"t{number}", recorded, plain=plain)
            for number in range(rng.choice((1, 1, 2, 3)))
        ]
        sequence = self.odd and not self.types.mysql and rng.random() < 0.3
        made = self._sequence(rng, cursor, database, recorded) if sequence else None
        cursor.execute("SET sql_log_bin = 1")
        self._change(rng, cursor, tables, recorded, alters=logged and settings.image == "FULL")
        for table in tables:
            recorded.tables[f"{database}.{table.name}"] = self._select(cursor, database, table)
        if made is not None:
            rows, _ = raw_rows(self.server, f"SELECT * FROM {database}.{_SEQUENCE}")
            made.rows = [dict(zip(made.columns, rows[0], strict=True))]
            recorded.tables[f"{database}.{_SEQUENCE}"] = made
        if settings.names == "given":
            names = [name.partition(".")[2] for name in recorded.tables]
            recorded.schema = definitions(self.server, database, names)

    def _sequence(
        self, rng: random.Random, cursor: Cursor, database: str, recorded: Recorded
    ) -> Selected:
        """Make a sequence; its row as it is then."""
        options = rng.choice(("", " INCREMENT BY 7 CACHE 3", " MINVALUE 2 MAXVALUE 9 CYCLE"))
        self._execute(cursor, f"CREATE SEQUENCE {_SEQUENCE}{options}", recorded)
        rows, _ = raw_rows(self.server, f"SELECT * FROM {database}.{_SEQUENCE}")
        cursor.execute(
            "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = "
            "%s AND table_name = %s ORDER BY ordinal_position",
            (database, _SEQUENCE),
        )
        columns = {
            str(name): Declared(str(name), _type(kind), binary=False)
            for name, kind in cursor.fetchall()
        }
        defaults = dict(zip(columns, rows[0], strict=True))
        return Selected(columns, [], defaults, frozenset(), sequence=True)

    def _create(
        self, rng: random.Random, cursor: Cursor, name: str, recorded: Recorded, *, plain: bool
    ) -> RandomTable:
        while True:
            shape: Shape = "plain"
            if self.odd and not self.types.mysql and rng.random() < 0.4:
                shape = rng.choice(("versioned", "overlaps"))
            if shape == "versioned" and recorded.settings.image == "NOBLOB":
                shape = "plain"  # a version that an update keeps is logged without what stayed
            table = RandomTable(rng, self.types, name, plain=plain, shape=shape)
            sql = table.create()
            try:
                cursor.execute(sql)
            except pymysql.err.Error:  # a row too large, a key too long: make another
                continue
            recorded.statements.append(sql)
            return table

    def _execute(self, cursor: Cursor, sql: str, recorded: Recorded) -> bool:
        recorded.statements.append(sql)
        try:
            cursor.execute(sql)
        except pymysql.err.Error as error:  # duplicate keys and the like: part of life
            recorded.statements[-1] += f" -- {error}"
            return False
        return True

    def _change(
        self,
        rng: random.Random,
        cursor: Cursor,
        tables: list[RandomTable],
        recorded: Recorded,
        *,
        alters: bool,
    ) -> None:
        for table in tables:
            self._execute(cursor, table.insert(), recorded)
        for _ in range(rng.randint(3, 12)):
            inside = rng.random() < 0.6
            chosen = [table for table in tables if table.transactional]
            if not inside or not chosen:
                table = rng.choice(tables)
                if self.odd and not self.types.mysql and rng.random() < 0.2:
                    # it fails where there is no sequence
                    call = rng.choice(("NEXTVAL(q)", f"SETVAL(q, {rng.randint(2, 99)})"))
                    self._execute(cursor, f"DO {call}", recorded)
                if alters and table.shape == "plain" and rng.random() < 0.15:
                    self._alter(cursor, table, recorded)
                else:
                    self._execute(cursor, self._statement(rng, table, recorded), recorded)
                continue
            begin, *ends = self._frame(rng)
            self._execute(cursor, begin, recorded)
            for step in range(rng.randint(1, 5)):
                if step and begin == "BEGIN" and rng.random() < 0.15:
                    self._execute(cursor, "SAVEPOINT s", recorded)
                    sql = self._statement(rng, rng.choice(chosen), recorded)
                    self._execute(cursor, sql, recorded)
                    self._execute(cursor, "ROLLBACK TO s", recorded)
                self._execute(cursor, self._statement(rng, rng.choice(chosen), recorded), recorded)
            for end in ends:
                self._execute(cursor, end, recorded)

    def _frame(self, rng: random.Random) -> list[str]:
        """How a transaction begins, and the statements that end it."""
        if rng.random() < 0.85:
            return ["BEGIN", rng.choice(("COMMIT",) * 5 + ("ROLLBACK",))]
        name = f"'x{rng.randint(0, 9)}','{rng.choice(('', 'b'))}'"
        ends = rng.choice(
            ("COMMIT {} ONE PHASE", "PREPARE {}; COMMIT {}", "PREPARE {}; ROLLBACK {}")
        )
        return [f"XA START {name}", f"XA END {name}"] + [
            f"XA {end.format(name)}" for end in ends.split("; ")
        ]

    def _alter(self, cursor: Cursor, table: RandomTable, recorded: Recorded) -> None:
        before = list(table.columns), {id(c): vars(c).copy() for c in table.columns}
        self._execute(cursor, table.empty(), recorded)
        if not self._execute(cursor, table.alter(), recorded):
            table.columns = before[0]
            for column in table.columns:
                vars(column).update(before[1][id(column)])
        self._execute(cursor, table.insert(), recorded)

    def _statement(self, rng: random.Random, table: RandomTable, recorded: Recorded) -> str:
        pick = rng.random()
        settings = recorded.settings
        resets = self.types.mysql or settings.image == "FULL"
        if table.shape == "overlaps" and rng.random() < 0.25:
            return table.portion()
        if pick < 0.35:
            return table.insert()
        if pick < 0.65:
            return table.update(partial_json=settings.partial_json)
        if pick < 0.75:
            return table.delete()
        if pick < 0.85:
            return table.copy()
        if resets and pick < 0.93:  # MariaDB's other images leave out what REPLACE resets
            return table.insert("REPLACE")
        return table.upsert() if resets else table.insert("INSERT IGNORE")

    def _select(self, cursor: Cursor, database: str, table: RandomTable) -> Selected:
        documents = {c.name for c in table.columns if c.kind.family == "json"}
        cursor.execute(
            "SELECT column_name, column_type, extra FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (database, table.name),
        )
        described = [
            (str(name), "json" if name in documents else _type(kind), str(extra).upper())
            for name, kind, extra in cursor.fetchall()
        ]
        hidden = ("row_start", "row_end") if table.shape == "versioned" else ()
        described += [(name, "timestamp(6)", "STORED GENERATED") for name in hidden]
        shown = ", ".join(expression(name, kind) for name, kind, *_ in described)
        place = f"{quoted(database)}.{quoted(table.name)}"
        versions = " FOR SYSTEM_TIME ALL" if hidden else ""
        rows, binary = raw_rows(self.server, f"SELECT {shown} FROM {place}{versions}")
        columns = {
            name: Declared(name, kind, is_binary)
            for (name, kind, _), is_binary in zip(described, binary, strict=True)
        }
        generated = frozenset(
            name
            for name, _, extra in described
            if "VIRTUAL" in extra or "STORED" in extra or "PERSISTENT" in extra
        )
        defaults = self._defaults(cursor, place, table, columns)
        texts = [
            {
                column.name: canonical(column, text)
                for column, text in zip(columns.values(), row, strict=True)
            }
            for row in rows
        ]
        return Selected(columns, texts, defaults, generated, uncomputed=bool(hidden))

    def _defaults(
        self, cursor: Cursor, place: str, table: RandomTable, columns: dict[str, Declared]
    ) -> Texts:
        """What a row has in columns that an INSERT leaves out: that of a twin of the table."""
        rng = random.Random(1)
        needed = [c for c in table.columns if not c.nullable and c.default is None]
        period = table.period()
        names = ", ".join([*(quoted(column.name) for column in needed), *period])
        literals = ", ".join([*(c.kind.literal(rng) for c in needed), *period.values()])
        twin = f"{place[:-1]}twin`"
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"CREATE TABLE {twin} LIKE {place}")
        cursor.execute(f"INSERT INTO {twin} ({names}) VALUES ({literals})")
        left_out = {c.name for c in table.columns if c not in needed and not c.generated}
        asked = [column for column in columns.values() if column.name in left_out]
        if not asked:
            return {}
        shown = ", ".join(expression(column.name, column.type) for column in asked)
        rows, _ = raw_rows(self.server, f"SELECT {shown} FROM {twin}")
        return {c.name: canonical(c, text) for c, text in zip(asked, rows[0], strict=True)}


def _type(kind: object) -> str:
    text = kind.decode() if isinstance(kind, bytes) else str(kind)
    return text if text.startswith(("enum", "set")) else text.lower()
