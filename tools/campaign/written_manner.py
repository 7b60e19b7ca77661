"""How a random schema's log is written: the form of its rows, the writer's options, its GTIDs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import tailrace
from tailrace.constants import Flavour
from tools.campaign.written_copy import Copier, Form
from tools.dumps import quoted

if TYPE_CHECKING:
    import random
    from collections import Counter
    from pathlib import Path

    from tailrace.storage import LogSeries
    from tailrace.writing.log import LogWriter
    from tailrace.writing.transaction import TransactionWriter
    from tools.campaign.settings import Settings
    from tools.campaign.workload import Recorded
    from tools.servers import Server

Gtids = Literal["plain", "tagged", "anonymous", "other domain"]

WRITER_ID: Final = 7
_UUID: Final = "7a11ace0-0000-4000-8000-000000000007"
_FORMS: Final[tuple[Form, ...]] = ("rows", "dicts", "tuples", "arrow")
_MYSQL: Final[tuple[Gtids, ...]] = ("plain", "tagged", "anonymous")
_MARIADB: Final[tuple[Gtids, ...]] = ("plain", "other domain")


@dataclass(frozen=True)
class Manner:
    """One way to write a log."""

    form: Form
    gtids: Gtids
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        listed = " ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.form} gtids={self.gtids} {listed}"

    @classmethod
    def choose(cls, rng: random.Random, flavour: Flavour) -> Manner:
        """Any manner of the flavour."""
        mysql = flavour is Flavour.MYSQL
        return cls(
            rng.choice(_FORMS),
            rng.choice(_MYSQL if mysql else _MARIADB),
            {
                "checksum": rng.choice(("crc32", "crc32", "none")),
                "metadata": rng.choice(("full", "minimal", *(() if mysql else ("none",)))),
                "image": rng.choice(("full", "minimal", "noblob")),
                "compress": rng.random() < 0.4,
                "max_rows_event_size": rng.choice((256, 8192)),
                "max_size": rng.choice((4096, 1 << 20)),
            },
        )

    def create(self, path: Path, flavour: Flavour, version: str, gtids: str = "") -> LogWriter:
        """A new log of this manner; ``gtids`` lie before it."""
        named = flavour is Flavour.MYSQL and self.gtids != "anonymous"
        return tailrace.create(
            path,
            flavour=flavour,
            server_id=WRITER_ID,
            server_version=version,
            server_uuid=_UUID if named else None,
            gtids=gtids or None,
            sync="none",
            **self.options,
        )

    def begin(self, log: LogWriter) -> TransactionWriter:
        """A transaction of this manner."""
        if self.gtids == "tagged":
            return log.transaction(tag="written")
        return log.transaction(domain_id=5 if self.gtids == "other domain" else None)


def full_images(given: Settings) -> Settings:
    """Settings of a source whose log says all: names by its DDL, images FULL, JSON in whole."""
    session = {**given.session, "binlog_row_image": "FULL"}
    if given.partial_json:
        session["binlog_row_value_options"] = "''"
    return replace(given, image="FULL", names="ddl", session=session, partial_json=False)


@dataclass(frozen=True)
class Written:
    """The files of a log that was written, and what is in it."""

    files: list[Path]
    counts: Counter[str]


def write(
    series: LogSeries, manner: Manner, folder: Path, origin: Server, *, gtids: str = ""
) -> Written:
    """Write the origin's log anew, into a folder."""
    path = folder / "written.000001"
    with manner.create(path, Flavour(origin.flavour), origin.version, gtids) as log:
        keep = manner.gtids != "anonymous"
        engines = origin.query(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE engine = 'MyISAM'"
        )
        copier = Copier(
            log,
            manner.form,
            lambda: manner.begin(log),
            keep_gtids=keep,
            without_transactions={(str(database), str(table)) for database, table in engines},
        )
        copier.copy(series)
    return Written([folder / name for name in log.files], copier.counts)


def parse_again(origin: Server, recorded: Recorded) -> None:
    """Have the origin parse the texts of its own ENUM, SET and JSON values.

    Text, which is what Python and Arrow have of such a value, does not tell all of it: whether an
    ENUM is invalid or the member '', whether a JSON string was a DATE. The origin's SELECT gives
    the same before and after.
    """
    with origin.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute("SET sql_log_bin = 0")
        for place, table in recorded.tables.items():
            wrapped, parsed = [], []
            for column in table.columns.values():
                name = quoted(column.name)
                if column.base in {"enum", "set"}:
                    parsed.append(f"{name} = CONVERT({name} USING utf8mb4)")
                elif column.base == "json" and origin.flavour == "mysql":
                    # -1.10 is -1.1 to an UPDATE, which then changes nothing: so by way of another
                    text = f"JSON_ARRAY(CONVERT({name} USING utf8mb4))"
                    wrapped.append(f"{name} = IF({name} IS NULL, NULL, {text})")
                    text = f"JSON_UNQUOTE(JSON_EXTRACT({name}, '$[0]'))"
                    parsed.append(f"{name} = CAST({text} AS JSON)")
            names = ".".join(map(quoted, place.split(".", 1)))
            for assignments in (wrapped, parsed):
                if assignments:
                    cursor.execute(f"UPDATE {names} SET {', '.join(assignments)}")
