"""Hostile names: of logs, by a server that chooses them; of tables and columns, in logs we write.

Log names go through each command that connects to a server. Names of databases, tables and columns
go through each command, and into a lake of each format.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import tailrace
from tailrace.constants import Flavour
from tailrace.errors import TailraceError
from tailrace.events.description import STANDARD_VERSIONS
from tailrace.log_name import LogName
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.lake_options import KEEP
from tools.campaign.hostile.cli import said
from tools.campaign.hostile.indexes import logs
from tools.campaign.hostile.naming import Names, NamingServer, events_of
from tools.campaign.hostile.scenario import Scenario, command, outside
from tools.campaign.mirrored_here import mirrored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LOG_NAMES: Final = (
    *("{outside}/authorized_keys", "{outside}/x.000001", "../outside/x.000001"),
    *("../outside/victim/binlog.000001", "..", ".", "", "/", "..000001", "../binlog.000001"),
    *("a/b.000001", "a\\..\\b.000001", "binlog", "binlog.index", "binlog.~rec~", "receiver.json"),
    *("binlog.000001\n../outside/x.000001", "\x1b[2J\x1b]0;yours\x07.000001", "b\x9b2J.000001"),
    *("b\x00.000001", "b\r.000001", "b\u202e.000001", "b\u2028.000001", "b\u200b.000001"),
    *("x" * 248 + ".000001", "x" * 249 + ".000001", "x" * 400 + ".000001", "字" * 100 + ".000001"),
    *("binlog.1", "binlog.4294967296", "binlog." + "9" * 200, "binlog.٣", "binlog.-1", " b.000001"),
)
"""What a server calls a log; ``{outside}`` is a folder that is not ours."""
_BYTES: Final = (b"binlog\xff.000001", b"\xed\xa0\x80.000001", b"\xc0\xaf.000001")
_PLACES: Final = ("first", "rotate", "heartbeat", "listed")

OBJECT_NAMES: Final = (
    *("..", ".", "a/b", "../../outside", "/etc/passwd", "a\\b", "a\x00b", "a\nb", "a\r\nb", "\t"),
    *("\x1b[2J\x1b]0;yours\x07", "a\x9b2Jb", "\u202egnp.exe", "a\u2028b", "a\u200bb", "\ufeff"),
    *(" ", "a ", "-rf", "~", "$(id)", "`a`", "a'b\"c", "a;DROP TABLE t", "--", "/*!1*/", "%s{0}"),
    *("%2e%2e%2f", "a%b", "a=b", "a#b?c", "a.b", "*", "con", "_tailrace", "_SUCCESS", ".hidden"),
    *("x" * 64, "字" * 64, "x" * 255, "字" * 85, "größe", "e\u0301", "\u00e9", "T", "t", "🦀"),
    *("null", "_op", "_file", "before", "after", "id"),
)
"""What a database, a table or a column is called in a log."""
_KINDS: Final = ("database", "table", "column")
_IN_A_LAKE: Final = (
    *("..", "../../outside", "/etc/passwd", "a\\b", "a\nb", "\x1b[2J", "%2e%2e%2f", "a$b c"),
    *("größe", "字" * 64, "T", "t"),
)
"""Names of the tables of a lake of the small size, of which each is a database and a column too."""


def scenarios(size: str, seed: int) -> Iterator[Scenario]:
    """Those of a size; none is drawn."""
    del seed
    yield from _of_servers(size)
    yield from _of_logs(size)
    yield from _of_lakes(size)


# --- names of logs -------------------------------------------------------------------------------


def _of_servers(size: str) -> Iterator[Scenario]:
    names: list[str | bytes] = [*LOG_NAMES, *_BYTES]
    for number, name in enumerate(names):
        for at, place in enumerate(_PLACES):
            if size == "full" or (number + at) % len(_PLACES) == 0 or name in LOG_NAMES[:4]:
                yield Scenario(
                    f"receive, {place} is {name!r:.60}", partial(_received, place, name), seconds=20
                )
        if size == "full" or number % 8 == 0:
            yield Scenario(f"read, {name!r:.60}", partial(_read, name), seconds=30)
    for name in LOG_NAMES[:3] if size == "full" else LOG_NAMES[1:2]:
        yield Scenario(f"mirror of a server, {name!r:.60}", partial(_mirrored, name), seconds=120)


def _events() -> list[bytes]:
    """A log's events, without its ROTATE."""
    return events_of(logs()["binlog.000001"])[:-1]


def _wire(name: str | bytes, folder: Path) -> bytes:
    if isinstance(name, bytes):
        return name
    return name.replace("{outside}", str(outside(folder))).encode("utf-8", "surrogateescape")


def _received(place: str, name: str | bytes, folder: Path) -> None:
    """Into a folder, by command and by function, twice: what was left is gone on with."""
    with NamingServer(_events(), Names(**{place: _wire(name, folder)})) as server:
        for _ in range(2):
            said(
                "receive",
                server.address + "&start=now",
                "--into",
                folder / "copy",
            )
        said("receive", f"x={server.address}", "--into", folder / "named")
    for copy in (folder / "copy", folder / "named" / "x"):
        if copy.exists():
            _check_copy(copy)


def _check_copy(copy: Path) -> None:
    """Nothing is in a copy but plain names."""
    for path in copy.iterdir():
        assert path.is_file(), path
        plain = path.name in {"receiver.json", "receiver.lock"} or path.name.endswith(".index")
        assert plain or LogName.parse(path.name), path


def _read(name: str | bytes, folder: Path) -> None:
    for place in _PLACES:
        with NamingServer(_events(), Names(**{place: _wire(name, folder)})) as server:
            said("log", server.address)
            said("log", server.address, "--as", "json", "--start", "binlog.000001:4")
            said("stat", server.address)


def _mirrored(name: str, folder: Path) -> None:
    with NamingServer(_events(), Names(rotate=_wire(name, folder))) as server:
        text = command("mirror", server.address, "--into", folder / "lake", "--cores", "1")
    assert "log file" in text, text[-500:]


# --- names of databases, tables and columns ------------------------------------------------------


def _made(kind: str, name: str, number: int, flavour: str) -> tailrace.Table:
    """A table of which one thing, or all, are called by the name."""
    sql = f"CREATE TABLE d{number}.t{number} (id INT PRIMARY KEY, v VARCHAR(20))"
    table = tailrace.Table.parse(
        sql, flavour=flavour, server_version=STANDARD_VERSIONS[Flavour(flavour)]
    )
    schema = table.schema
    if kind in {"database", "all"}:
        schema = replace(schema, database=name)
    if kind in {"table", "all"}:
        schema = replace(schema, table=name)
    if kind in {"column", "all"}:
        columns = (schema.columns[0], replace(schema.columns[1], name=name))
        specs = (table.specs[0], replace(table.specs[1], name=name))
        schema = replace(schema, columns=columns)
        object.__setattr__(table, "specs", specs)
    object.__setattr__(table, "schema", schema)  # no SQL can say some of these names
    return table


def _write(path: Path, flavour: str, kinds: Sequence[str], names: Sequence[str]) -> int:
    """A log in which these names are used; how many of them can be written at all."""
    written = 0
    with tailrace.create(path, flavour=flavour, server_id=7, metadata="full") as log:
        for kind in kinds:
            for number, name in enumerate(names):
                try:
                    table = _made(kind, name, number, flavour)
                    with log.transaction() as transaction:
                        transaction.insert(table, [(1, "a"), (2, name[:20])])
                        transaction.update(table, [(1, "a")], [(1, "b")])
                        transaction.delete(table, [(2, name[:20])])
                except TailraceError:
                    continue
                written += 1
            quoted = [each.replace("`", "``") for each in names if "\0" not in each]
            for name in quoted:
                with log.transaction() as transaction:
                    transaction.query(f"CREATE TABLE `{name}`.`{name}` (`{name}` INT)", "d")
    return written


def _of_logs(size: str) -> Iterator[Scenario]:
    for flavour in ("mysql", "mariadb"):
        for kind in _KINDS if size == "full" else ("all",):
            groups = [OBJECT_NAMES] if size == "small" else [(each,) for each in OBJECT_NAMES]
            for names in groups:
                shown = "all names" if len(names) > 1 else f"{names[0]!r:.40}"
                yield Scenario(
                    f"commands, {flavour}, {kind}: {shown}",
                    partial(_commanded, flavour, kind, names),
                    seconds=60,
                )


def _commanded(flavour: str, kind: str, names: Sequence[str], folder: Path) -> None:
    path = folder / "binlog.000001"
    if not _write(path, flavour, [kind], names):  # a table map ends its names by a zero byte
        assert all("\0" in name for name in names), "no name could be written"
    for form in ("text", "json"):
        said("log", path, "--as", form, "--statements", "skip")
        said("stat", path, "--as", form)
    for form in ("sql", "undo"):  # names stand in statements as they are
        said("log", path, "--as", form, "--statements", "skip", escaped=False)
    said("log", path, "--events", "--as", "json")
    said("check", path)
    said("log", path, "--as", "raw", "--into", folder / "cut.000001")
    for name in names[:: max(1, len(names) // 8)]:
        if "\0" not in name:
            said("log", path, "--tables", f"{name}.*", "--statements", "skip")
            said("stat", path, "--tables", f"d1.{name}", "--start", f"{name}:4")
            said("log", path, "--rewrite-db", f"d1={name}", "--statements", "skip")
            said("log", path, "--keyring", folder / name)
            said("log", path, "--schema", folder / name)
            said("log", folder / name)


def _of_lakes(size: str) -> Iterator[Scenario]:
    for form in ("parquet", "delta", "iceberg"):
        yield Scenario(
            f"mirror here into {form}: all, {len(_IN_A_LAKE)} names",
            partial(_landed_here, form),
            seconds=120,
        )
        groups = [(("all",), _IN_A_LAKE), *(((kind,), OBJECT_NAMES) for kind in _KINDS)]
        for kinds, names in groups if size == "full" else ():
            yield Scenario(
                f"mirror into {form}: {', '.join(kinds)}, {len(names)} names",
                partial(_landed, form, kinds, names),
                seconds=300,
            )


def _landed_here(form: str, folder: Path) -> None:
    """A lake of tables with these names, made without Spark, whose start takes longer."""
    _write(folder / "logs" / "binlog.000001", "mysql", ["all"], _IN_A_LAKE)
    mirrored(folder / "logs", folder / "lake", form, keep=["current"], statements="skip")
    made = LakeView.open(folder / "lake").manifest.tables
    assert len(made) == len(_IN_A_LAKE), sorted(made)


def _landed(form: str, kinds: Sequence[str], names: Sequence[str], folder: Path) -> None:
    """A lake of tables with these names; another run goes on with it."""
    _write(folder / "logs" / "binlog.000001", "mysql", kinds, names)
    options = ("--format", form, "--keep", ",".join(KEEP), "--cores", "1", "--statements", "skip")
    for _ in range(2):
        command("mirror", folder / "logs", "--into", folder / "lake", *options)
