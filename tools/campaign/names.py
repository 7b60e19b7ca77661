"""Random names in random character sets, applied and fed as SQL to a server of the same release.

A name holds letters of its session's character set, quotes, and what would drop a database if the
name ended before it. Each try is a source's session with statements that have such names, and one
of the ways to its target: by one connection, by workers, by the server's own client in that
character set, by a driver. The target must have the tables of the source, and the database still.

Each fifth try is of names that are easily taken for others (with dots, commas, wildcards, in other
case): a lake, an index and statistics must have each table as the server has it, and a table's name
as a pattern must select this table only. Of as many tries as those, one half is on a server with
``lower_case_table_names=1``, whose statements have names in any case, and the other on one without,
where names differ in case alone: the lake must be equal to the server.
"""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pymysql

import tailrace
from tailrace.errors import SchemaError, TailraceError
from tailrace.schema.tokens import quoted_table
from tailrace.search import Index, index
from tailrace.spark import mirror
from tailrace.spark.manifest.lake_options import FORMATS
from tailrace.spark.verify import verify
from tailrace.table_filter import TableFilter
from tailrace.table_name import TableName
from tools.applied import differences, forget, gtid_mode
from tools.campaign.definitions import feed
from tools.campaign.report import Tries
from tools.dumps import quoted
from tools.servers import ONE_OF_EACH, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES: Final = {"small": 10, "full": 2_000}
"""Tries for each server."""
SERVERS: Final = ONE_OF_EACH
_CHARSETS: Final = (
    ("ascii", "ascii"),
    ("big5", "big5"),
    ("cp1251", "cp1251"),
    ("cp932", "cp932"),
    ("euckr", "euc_kr"),
    ("gb2312", "gb2312"),
    ("gb18030", "gb18030"),
    ("gbk", "gbk"),
    ("latin1", "latin1"),
    ("sjis", "shift_jis"),
    ("ujis", "euc_jp"),
    ("utf8mb4", "utf-8"),
)
_EVIL: Final = "DROP DATABASE victim"
_BETWEEN: Final = ("`", "``", "'", '"', "\\", ";", "-- ", "/*", " = 1; ", "x", "{", "#", "`; ")


def _letter(rng: random.Random, codec: str) -> str:
    """A letter of a character set that names may have.

    None whose code has a backtick: MariaDB loses a byte of a name after it.
    """
    while True:
        letter = chr(rng.choice((rng.randrange(0xC0, 0x500), rng.randrange(0x3041, 0x9FA0))))
        with suppress(UnicodeError):
            code = letter.encode(codec)
            if letter.isalnum() and b"`" not in code and code.decode(codec) == letter:
                return letter


def _name(rng: random.Random, codec: str) -> str:
    letters = "" if codec == "ascii" else "".join(_letter(rng, codec) for _ in range(2))
    parts = [*letters, *rng.sample(_BETWEEN, rng.randrange(3)), rng.choice(("`; ", "", "``; "))]
    rng.shuffle(parts)
    return f"{letters[:1]}{''.join(parts)}{_EVIL}; -- x"


def _statements(rng: random.Random, codec: str) -> Iterator[str]:
    database, table, column, variable = (quoted(_name(rng, codec)) for _ in range(4))
    text = "" if codec == "ascii" else _letter(rng, codec)
    yield f"CREATE DATABASE {database} CHARACTER SET utf8mb4"
    yield f"USE {database}"
    yield f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, {column} VARCHAR(99))"
    for number in range(1, rng.randrange(4, 10)):
        yield f"SET SESSION binlog_format = '{rng.choice(('ROW', 'STATEMENT'))}'"
        match rng.randrange(8):
            case 0:
                yield f"CREATE TABLE t{number} LIKE {table}"
            case 1:
                renamed = quoted(_name(rng, codec))
                yield f"RENAME TABLE {table} TO {renamed}"
                table = renamed
            case 2:
                yield f"ALTER TABLE {table} ADD {quoted(_name(rng, codec))} INT DEFAULT {number}"
            case 3:
                other = quoted(_name(rng, codec))
                yield f"CREATE TABLE {other} (id INT)"
                yield f"DROP TABLE {other}"
            case 4:
                yield f"CREATE TABLE {quoted(_name(rng, codec))} SELECT '{text}' AS {column}"
            case 5:  # the form in which servers write a table's definition
                yield f"CREATE TABLE {quoted(_name(rng, codec))} (\n  {column} INT)"
            case _:
                yield f"SET @{variable} = '{text}{number}'"
                yield f"INSERT INTO {table} ({column}) VALUES (@{variable}), ('{text}')"


def _feed(rng: random.Random, target: Server, log: str, charset: str) -> str:
    """Let the target have what the log has; gives by which way."""
    way = rng.choice(("apply", "workers", "script", "commands"))
    if way in {"script", "commands"}:
        feed(way, target, log, options=[f"--default-character-set={charset}"])
        return way
    url = f"mysql://root@127.0.0.1:{target.port}/"
    workers, channel = 1 + (way == "workers"), rng.choice(("default", "канал", "丁"))
    tailrace.apply(log, url, workers=workers, channel=channel)
    if tailrace.apply(log, url, workers=workers, channel=channel).transactions:
        raise AssertionError("the second call applied transactions again")
    return way


def _one(rng: random.Random, source: Server, target: Server) -> tuple[str, str]:
    """One try: its way, and what failed."""
    for server in (source, target):
        forget(server, *_databases(server))
    target.execute("CREATE DATABASE victim")
    charset, codec = rng.choice(_CHARSETS)
    if not source.query("SHOW CHARACTER SET LIKE %s", (charset,)):
        return "no such character set", ""
    found: list[str] = []
    with source.connect() as session, session.cursor() as cursor:
        cursor.execute(f"SET NAMES {charset}")
        for sql in _statements(rng, codec):
            with suppress(pymysql.err.MySQLError):
                cursor.execute(sql.encode(codec))  # type: ignore[call-overload]
    names = _databases(source)
    source.disconnect()
    source.rotate()
    try:
        way = _feed(rng, target, str(source.data), charset)
    except SchemaError as error:
        unknown = "the character set of this definition is unknown" in str(error)
        return f"{charset} unknown", "" if unknown else f"{charset}: {error}"
    except (TailraceError, pymysql.err.MySQLError, AssertionError) as error:
        return charset, f"{charset}: {type(error).__name__}: {error}"
    except subprocess.CalledProcessError as error:
        return charset, f"{charset}: the client: {error.stderr!r}"
    if not target.query("SHOW DATABASES LIKE 'victim'"):
        found.append("the target's database was dropped")
    found += differences(source, target, *names)
    return f"{charset} {way}", "; ".join(found)


_LETTERS: Final = ("a", "A", "b", ".", ",", "`", "*", "?", "[", "]", " ", "/", "%", "é", "e\u0301")


def _alike(rng: random.Random) -> list[TableName]:
    """Names of which some are others', joined by a dot."""
    texts = ["".join(rng.choices(_LETTERS, k=rng.randrange(2, 6))).strip() or "x" for _ in range(3)]
    found = {TableName("co", f"{texts[0]}.y"), TableName(f"co.{texts[0]}", "y")}
    found |= {TableName(one, two) for one in texts for two in rng.sample(texts, 2)}
    return sorted(found)


def _tell_apart(rng: random.Random, source: Server, folder: Path) -> tuple[str, str]:
    """One try of such names: the lake's format, and what failed."""
    forget(source, *_databases(source))
    kind, names = rng.choice(FORMATS), []
    for name in _alike(rng):
        with suppress(pymysql.err.MySQLError):
            source.execute(f"CREATE DATABASE IF NOT EXISTS {quoted(name.database)}")
            source.execute(f"CREATE TABLE {quoted_table(*name)} (id INT PRIMARY KEY, v TEXT)")
            names.append(name)
    for batch in range(3):
        for number, name in enumerate(names):
            table = quoted_table(*name)
            source.execute(f"INSERT INTO {table} VALUES ({batch}, 'word{number}')")
            if rng.randrange(3) == 0:
                source.execute(rng.choice((f"TRUNCATE {table}", f"UPDATE {table} SET v = 'new'")))
        source.connection.commit()
        mirror(source.data, folder / "lake", format=kind)
    verified = verify(f"mysql://root@127.0.0.1:{source.port}/", folder / "lake")
    found = [str(each) for each in verified.tables if each.differing or each.reason]
    index(source.data, folder / "texts")
    texts, counted = Index(folder / "texts"), tailrace.stat(source.data).tables
    for name in names:
        (rows,) = source.query(f"SELECT COUNT(*) FROM {quoted_table(*name)}")
        if len([*texts.rows(str(name))]) != rows[0] or counted[str(name)].insert != 3:
            found.append(f"{name}: other rows in the index or in statistics")
        if [each for each in names if TableFilter.of(str(name))(*each)] != [name]:
            found.append(f"{name}: not the only table that it selects")
    return f"names apart, {kind}", "; ".join(found)


_WORDS: Final = ("orders", "ähre", "\u03c3igma", "i\u0307x", "x1")


def _in_case(rng: random.Random, name: str) -> str:
    return "".join(rng.choice((each.lower(), each.upper())) for each in name)


def _fill(server: Server, number: int) -> None:
    """A row in each table."""
    for database, table in server.query(
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
    ):
        server.execute(
            f"INSERT INTO {quoted_table(str(database), str(table))} (v) VALUES ({number})"
        )


def _any_case(rng: random.Random, server: Server, folder: Path) -> tuple[str, str]:
    """One try with names in any case; the server's ``lower_case_table_names``, and what failed."""
    forget(server, *_databases(server))
    ((lowers,),) = server.query("SELECT @@lower_case_table_names")
    tables = [(_in_case(rng, "shop"), _in_case(rng, rng.choice(_WORDS))) for _ in range(6)]
    url, kind = f"mysql://root@127.0.0.1:{server.port}/", rng.choice(FORMATS)

    def named() -> str:
        """One of the tables, in a case that the server takes for it."""
        name = rng.choice(tables)
        return quoted_table(*(_in_case(rng, each) if lowers else each for each in name))

    for database, _ in tables:
        with suppress(pymysql.err.MySQLError):
            server.execute(f"CREATE DATABASE {quoted(database)}")
    for batch in range(3):
        for number in range(12):
            table = named()
            for sql in (
                f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
                f"INSERT INTO {named()} (v) VALUES ({number}), ({batch})",
                rng.choice(
                    (
                        f"TRUNCATE {named()}",
                        f"RENAME TABLE {named()} TO {named()}",
                        f"ALTER TABLE {named()} ADD c{batch}_{number} INT",
                        f"DROP TABLE {named()}",
                        f"CREATE TABLE {named()} LIKE {named()}",
                        f"ALTER TABLE {named()} RENAME TO {named()}",
                    )
                ),
            ):
                with suppress(pymysql.err.MySQLError):
                    server.execute(sql)
        _fill(server, batch)  # a column that was added comes with the first row that has it
        server.connection.commit()
        mirror(url, folder / "lake", format=kind)
    verified = verify(url, folder / "lake")
    found = [str(each) for each in verified.tables if each.differing or each.reason]
    return f"lower_case_table_names={lowers}, {kind}", "; ".join(found)


_OWN: Final = frozenset({"information_schema", "mysql", "performance_schema", "sys"})


def _databases(server: Server) -> list[str]:
    return [str(name) for (name,) in server.query("SHOW DATABASES") if name not in _OWN]


def run(name: str, count: int, seed: int) -> Tries:
    """So many tries on two servers of this name."""
    report = Tries(f"tries on {name}")
    with (
        Server(name, {"binlog_row_metadata": "FULL"}) as source,
        Server(name, server_id=2) as target,
    ):
        for server in (source, target):
            gtid_mode(server, "ON")
        for number in range(count):
            rng = random.Random(f"{name}-{seed}-{number}")
            if number % 5 == 0:
                with TemporaryDirectory(prefix="tailrace-names-") as folder:
                    outcome, failure = _tell_apart(rng, source, Path(folder))
            else:
                outcome, failure = _one(rng, source, target)
            report.take(number, outcome, failure)
        _lower_case(name, count, seed, report, source)
    return report


def _lower_case(name: str, count: int, seed: int, report: Tries, source: Server) -> None:
    """As many tries as there are fifths, on two servers of this name."""
    option = {"lower_case_table_names": 1}
    with Server(name, {"binlog_row_metadata": "FULL", **option}, init_options=option) as other:
        for number in range(count // 5):
            rng = random.Random(f"{name}-{seed}-case-{number}")
            with TemporaryDirectory(prefix="tailrace-names-") as folder:
                outcome, failure = _any_case(rng, (other, source)[number % 2], Path(folder))
            report.take(f"of case {number}", outcome, failure)
