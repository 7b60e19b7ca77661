"""Random definitions that name several tables, applied and fed as SQL with a selection of tables.

The target has tables of its own by the names of the source's tables that are not selected. Each try
is one statement: DROP, RENAME, ALTER, CREATE LIKE, EXCHANGE PARTITION, of databases, of views, with
names in any spelling, with IF EXISTS, comments, temporary tables. Then the target's selected tables
are the source's and all others are as before; or the statement was rejected, with the names of
tables that are not selected, and the target is as it was.
"""

from __future__ import annotations

import random
import subprocess
import warnings
from typing import TYPE_CHECKING, Any, Final

import pymysql

import tailrace
from tailrace.errors import SchemaError, TailraceError
from tailrace.table_filter import TableFilter
from tools.applied import forget, gtid_mode
from tools.campaign.report import REJECTED, Tries
from tools.campaign.second import client
from tools.servers import ONE_OF_EACH, Server

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = {"small": 12, "full": 2_000}
"""Statements for each server."""
SERVERS: Final = ONE_OF_EACH
_TABLES: Final = {"shop": ("a", "b", "c", "part", "2024_x", "sel ect"), "priv": ("a", "b", "c")}
_ROWS: Final = ((1, 1), (2, 2))
_OWN: Final = ((8, 8), (10, 5))
_SELECTIONS: Final = (
    ("shop.*", ""),
    ("shop.a", ""),
    ("shop.a priv.c", ""),
    ("*.a", ""),
    ("b", ""),
    ("priv.*", "priv.c"),
    ("shop.*", "shop.[abc]"),
    ("shop.* priv.*", ""),
)

Content = dict[tuple[str, str], Any]


def _setup(server: Server, spare: TableFilter | None = None) -> Content:
    """The tables, and what is in them; with ``spare`` those not selected have other rows."""
    wanted: Content = {}
    for database, tables in _TABLES.items():
        wanted[database, "w"] = "a view"
        for table in tables:
            own = spare is not None and not spare(database, table)
            wanted[database, table] = _OWN if own else _ROWS
    if _contents(server) == wanted:
        return wanted
    forget(server, *_TABLES)
    for database, tables in _TABLES.items():
        server.execute(f"CREATE DATABASE {database}")
        server.execute(f"USE {database}")
        for table in tables:
            partitions = "PARTITION BY HASH (id) PARTITIONS 2" if table == "part" else ""
            server.execute(f"CREATE TABLE `{table}` (id INT PRIMARY KEY, v INT) {partitions}")
            rows = ", ".join(map(str, wanted[database, table]))
            server.execute(f"INSERT INTO `{table}` VALUES {rows}")
        server.execute(f"CREATE VIEW w AS SELECT id FROM {database}.a")
    server.connection.commit()
    return wanted


def _contents(server: Server) -> Content:
    found: Content = {}
    listed = server.query(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables "
        "WHERE table_schema IN ('shop', 'priv')"
    )
    for database, table, kind in listed:
        name = str(database), str(table)
        if kind == "VIEW":
            found[name] = "a view"
        else:
            rows = server.query(f"SELECT * FROM `{database}`.`{table}` ORDER BY id")
            found[name] = tuple(rows)
    server.connection.commit()
    return found


class _Text:
    """Writes the parts of a statement, each in one of its spellings."""

    def __init__(self, rng: random.Random, mariadb: bool) -> None:
        self.rng = rng
        self.mariadb = mariadb
        self.mode = rng.choice(("", "", "ANSI_QUOTES"))
        self.database = rng.choice(tuple(_TABLES))

    def name(self, table: str | None = None) -> str:
        rng = self.rng
        table = table or rng.choice((*_TABLES["shop"], "a", "b", "c", "new", "w"))
        database = rng.choice((*_TABLES, ""))
        shown = self._quoted(table)
        if not database:
            return shown
        between = rng.choice((".", ".", " . ", "./**/"))
        if shown[0] not in '`"' and between != ".":
            between = "."
        return f"{self._quoted(database)}{between}{shown}"

    def _quoted(self, text: str) -> str:
        quotes = ["`", '"' if self.mode else "`"]
        if text.isidentifier() or text == "2024_x":
            quotes.append("")
        quote = self.rng.choice(quotes)
        return f"{quote}{text}{quote}"

    def space(self) -> str:
        return self.rng.choice(
            (" ",) * 6 + ("  ", "\n", " /* , priv.c */ ", " -- , priv.c\n", "\t")
        )

    def words(self, *words: str) -> str:
        """Keywords in any case, with what may be between them."""
        cased = (self.rng.choice((each, each.lower())) for each in words)
        return self.space().join(cased)

    def statement(self) -> str:
        rng, name = self.rng, self.name
        comma = rng.choice((", ", ",", " , ", ",/* x */", ", # y\n"))
        many = comma.join(name() for _ in range(rng.choice((1, 2, 2, 3))))
        exists = rng.choice(("", "", self.words("IF", "EXISTS")))
        table = rng.choice(("TABLE", "TABLE", "TABLES"))
        match rng.randrange(14):
            case 0 | 1 | 2 | 3:
                end = rng.choice(("", "", " RESTRICT", " CASCADE", " /* z */", ";"))
                return f"{self.words('DROP', table)} {exists} {many}{end}"
            case 4 | 5 | 6:
                waits = (
                    f" WAIT {rng.randrange(2, 9)}" if self.mariadb and rng.random() < 0.2 else ""
                )
                pairs = [
                    f"{name()}{waits} {self.words('TO')} {name()}"
                    for _ in range(rng.choice((1, 2, 2, 3)))
                ]
                exists = exists if self.mariadb else ""
                return f"{self.words('RENAME', table)} {exists} {comma.join(pairs)}"
            case 7:
                one, two = name(), name()
                step = self._quoted("step")
                database = rng.choice(tuple(_TABLES))
                pairs = [
                    f"{one} TO {database}.{step}",
                    f"{two} TO {one}",
                    f"{database}.{step} TO {two}",
                ]
                return f"RENAME TABLE {comma.join(pairs)}"
            case 8:
                extra = rng.choice(("", ", ADD z INT", ", COMMENT 'x'"))
                word = rng.choice(("TO ", "AS ", "", "= "))
                return f"{self.words('ALTER', 'TABLE')} {name()} RENAME {word}{name('new')}{extra}"
            case 9:
                like = rng.choice((f"LIKE {name()}", f"(LIKE {name()})"))
                return f"{self.words('CREATE', 'TABLE')} {name('new')} {like}"
            case 10:
                return f"ALTER TABLE {name('part')} EXCHANGE PARTITION p0 WITH TABLE {name()}"
            case 11:
                what = rng.choice(("DATABASE", "SCHEMA"))
                return f"{self.words('DROP', what)} {exists} {rng.choice(tuple(_TABLES))}"
            case 12:
                view = comma.join(name("w") for _ in range(2))
                return rng.choice((f"DROP VIEW {exists} {view}", f"OPTIMIZE TABLE {many}"))
            case _:
                return f"{self.words('TRUNCATE')} {name()}"

    def before(self) -> list[str]:
        """What its session does before it."""
        found = [f"SET SESSION sql_mode = '{self.mode}'", f"USE {self.database}"]
        if self.rng.random() < 0.2:
            found.append(f"CREATE TEMPORARY TABLE {self.rng.choice('abc')} (id INT, z INT)")
        return found


def feed(
    way: str, target: Server, log: str, options: Sequence[str] = ("--comments",), **chosen: Any
) -> None:
    """Bring a log to a server; ``options`` are the client's, ``chosen`` says which tables."""
    url = f"mysql://root@127.0.0.1:{target.port}/"
    if way in {"apply", "workers"}:
        tailrace.apply(log, url, workers=1 + (way == "workers"), **chosen)
        return
    found = tailrace.redo(log, **chosen)
    if way == "script":
        script = "\n".join(found).encode("utf-8", "surrogateescape")
        subprocess.run(client(target, *options), input=script, check=True, capture_output=True)
    else:
        with target.connect() as session, session.cursor() as cursor:
            for command in found.commands():
                cursor.execute(command)  # type: ignore[call-overload]


def _one(rng: random.Random, source: Server, target: Server) -> tuple[str, str]:
    """One try: what came of it, and what failed."""
    only, exclude = (each.split() for each in rng.choice(_SELECTIONS))
    wants = TableFilter.of(only, exclude or None)
    fresh, before = _setup(source), _setup(target, wants)
    forget(target, "tailrace")
    text = _Text(rng, source.flavour == "mariadb")
    source.disconnect()
    source.rotate()
    with source.connect() as session, session.cursor() as cursor:
        try:
            for sql in (*text.before(), statement := text.statement()):
                cursor.execute(sql)
            session.commit()
        except pymysql.err.MySQLError:
            if _contents(source) == fresh:
                return REJECTED, ""
    log = str(source.rotate())
    way = rng.choice(("apply", "workers", "script", "commands"))
    others = {name: each for name, each in before.items() if not wants(*name)}
    what = f"{statement!r} in {text.database} [{text.mode}], {only} {exclude or ''}, {way}"
    try:
        with warnings.catch_warnings(action="ignore"):  # no selected table is named
            feed(way, target, log, tables=only, exclude=exclude or None)
    except SchemaError as error:
        if _contents(target) != before:
            return "rejected", f"{what}: rejected, but the target changed: {error}"
        named = any(f"{name[0]}.{name[1]}" in str(error) for name in before if not wants(*name))
        named = named or any(part in str(error) for part in ("shop.", "priv."))
        return "rejected by name", "" if named else f"{what}: {error}"
    except (TailraceError, pymysql.err.MySQLError, AssertionError) as error:
        return "failed", f"{what}: {type(error).__name__}: {error}"
    except subprocess.CalledProcessError as error:
        if b"ERROR 1051" in error.stderr and _contents(target).items() >= others.items():
            return "ended as on the source, which dropped a part", ""
        return "failed", f"{what}: the client: {error.stderr!r}"
    wanted = others | {name: each for name, each in _contents(source).items() if wants(*name)}
    found = _contents(target)
    different = [
        ".".join(name)
        for name in sorted({*wanted, *found})
        if wanted.get(name) != found.get(name)
        and "a view" not in {wanted.get(name), found.get(name)}
    ]
    return "as on the source", f"{what}: {', '.join(different)}" if different else ""


def run(name: str, count: int, seed: int) -> Tries:
    """So many statements on two servers of this name."""
    report = Tries(f"statements on {name}")
    with Server(name) as source, Server(name, server_id=2) as target:
        for server in (source, target):
            gtid_mode(server, "ON")
        number = 0
        while report.tried < count:
            rng = random.Random(f"{name}-{seed}-{number}")
            report.take(number, *_one(rng, source, target))
            number += 1
    return report
