"""Tables that are altered, in an index and in other databases, against copies by the server.

The log has a copy of each table, which the server made in the end: ``INSERT ... SELECT`` into a
table of the same columns. So a target has what SELECT gives as rows, each value as it spells it.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import sqlalchemy as sa

import tailrace
from tailrace.errors import SchemaError, TailraceError, ValueRejected
from tailrace.search import Index, index
from tools.campaign.alters_statements import DATABASE
from tools.campaign.process import Wrong
from tools.campaign.report import Report
from tools.dumps import dump_table, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from tools.campaign.alters_statements import Altered
    from tools.servers import Server

COPIES: Final = f"{DATABASE}_copies"
_TABLES: Final = f"{DATABASE}*.*"
_TABLE: Final = re.compile(r"\bt\d+\b")
_REMEDY: Final = re.compile(r"--(?:start|exclude|schema)\b|index the server")


@dataclass
class Targets(Report):
    """What came of a round's tables in one target."""

    columns: ClassVar = "Server | Target | Calls | Metadata | Image | Tables | Equal | rejected"
    server: str
    target: str
    calls: str
    metadata: str
    image: str
    tables: int = 0
    equal: int = 0
    rejected: int = 0


def copy_tables(server: Server, tables: Iterable[Altered]) -> list[Altered]:
    """Copy tables into a database of their own; those whose copy the server does not change."""
    copied: list[Altered] = []
    server.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
    if server.flavour == "mariadb":  # what an added JSON column has is no JSON
        server.execute("SET check_constraint_checks = 0")
    for table in tables:
        name = table.name
        described = server.query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s"
            " AND table_name = %s AND COALESCE(generation_expression, '') = ''",
            (DATABASE, name),
        )
        columns = ", ".join(quoted(str(column)) for (column,) in described)
        server.execute(f"CREATE TABLE {COPIES}.{name} LIKE {DATABASE}.{name}")
        server.execute(
            f"INSERT INTO {COPIES}.{name} ({columns}) SELECT {columns} FROM {DATABASE}.{name}"
        )
        server.connection.commit()
        if dump_table(server, COPIES, name) == dump_table(server, DATABASE, name):
            copied.append(table)
    return copied


class Rejected:
    """The tables that a target rejected, and why; ``errors`` are no rejections."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.errors: dict[str, TailraceError] = {}

    @property
    def exclude(self) -> list[str]:
        """The tables to leave out."""
        return [f"{place}.{name}" for name in self.reasons for place in (DATABASE, COPIES)]

    def until_none(self, run: Callable[[], object]) -> None:
        """Run it until no table is rejected."""
        while True:
            try:
                run()
            except TailraceError as error:
                text = str(error)
                found = _TABLE.search(text)
                if found is None or found[0] in self.reasons:
                    raise
                self.reasons[found[0]] = text
                known = isinstance(error, (SchemaError, ValueRejected))
                if not (known and _REMEDY.search(text)):
                    self.errors[found[0]] = error
            else:
                return


def apply_parts(
    folder: Path, parts: Sequence[Sequence[Path]], url: str, rejected: Rejected
) -> dict[str, list[Any]]:
    """Apply logs to a database part by part, without the tables that it rejects; its rows."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    for part in parts:
        for log in part:
            shutil.copy(log, logs / log.name)
        rejected.until_none(
            lambda: tailrace.apply(logs, url, tables=_TABLES, exclude=rejected.exclude)
        )
    engine = sa.create_engine(url)
    schemas = [None] if engine.dialect.name == "sqlite" else [DATABASE, COPIES]
    found = {}
    with engine.begin() as connection:
        inspector = sa.inspect(connection)
        for schema in schemas:
            for name in inspector.get_table_names(schema):
                full = name if schema is None else f"{schema}.{name}"
                table = f'"{name}"' if schema is None else f'"{schema}"."{name}"'
                rows = connection.execute(sa.text(f"SELECT * FROM {table}")).mappings()
                found[full] = [_spelled(dict(row)) for row in rows]
        for schema in (*schemas, "tailrace") if None not in schemas else ():
            connection.execute(sa.text(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'))
    engine.dispose()
    return found


def _spelled(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """A row's values in the target's own spelling, and by name."""
    return tuple(sorted((name, f"{type(value).__name__} {value!r}") for name, value in row.items()))


class Indexer:
    """An index of a server's tables, begun with the log and continued by each call."""

    def __init__(self, url: str, start: str, folder: Path) -> None:
        self._url = url
        self._start = start
        self._folder = folder
        self.rejected = Rejected()

    @property
    def _into(self) -> Path:
        return self._folder / f"index {len(self.rejected.reasons)}"

    def take(self) -> None:
        """Index what there is now; without a table that is rejected, begin again."""
        self.rejected.until_none(self._index)

    def _index(self) -> None:
        into = self._into
        start = "" if into.exists() else f"&position={self._start}"
        index(f"{self._url}{start}", into, tables=_TABLES, exclude=self.rejected.exclude)

    def rows(self) -> dict[str, list[Any]]:
        """Its rows, by table. One without a column has NULL in it."""
        found = Index(self._into)
        return {
            table: [
                _spelled({name: value for name, value in hit.row.items() if value is not None})
                for hit in found.rows(table)
                for _ in range(hit.copies)
            ]
            for table in found.tables
        }


def compare_copies(
    report: Targets,
    tables: Sequence[Altered],
    rows: Mapping[str, Sequence[Any]],
    rejected: Rejected,
) -> None:
    """Compare each table with its copy, unless it was rejected."""
    report.tables = len(tables)
    for table in tables:
        with report.noting(f"{report.server} {report.target} {report.calls}: {table.story()}"):
            if table.name in rejected.errors:
                raise rejected.errors[table.name]
            if table.name in rejected.reasons:
                report.rejected += 1
                continue
            found, wanted = (
                Counter(rows.get(f"{place}.{table.name}", ())) for place in (DATABASE, COPIES)
            )
            if found != wanted:
                raise Wrong(
                    f"{table.name}: {[*(wanted - found)][:3]}, not {[*(found - wanted)][:3]}"
                )
            report.equal += 1
