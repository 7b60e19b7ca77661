"""``--rewrite-db from=to``: reads logs with databases renamed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tailrace.errors import UsageError
from tailrace.events import TransactionPayloadEvent
from tailrace.handlers import Pipeline, Rename
from tailrace.log.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tailrace.log.reader import Step, Wants
    from tailrace.storage import LogSeries
    from tailrace.transports import Transport
    from tailrace.values.schema import TableSchema

RewriteDb = Annotated[
    tuple[str, ...],
    Parameter(
        name="--rewrite-db",
        help="Rename a database, ``from=to`` (repeatable): in rows, and as the default database of "
        "statements; names inside statements stay. ``--tables`` and ``--exclude`` use the new "
        "names.",
        negative=(),
    ),
]


def renamed_databases(given: Sequence[str]) -> dict[str, str]:
    """The names of ``--rewrite-db``. Raises UsageError."""
    names: dict[str, str] = {}
    for pair in given:
        old, mark, new = pair.partition("=")
        if not (old and mark and new):
            raise UsageError(f"--rewrite-db: give from=to, not {pair!r}")
        if names.setdefault(old, new) != new:
            raise UsageError(f"--rewrite-db: {old} cannot become both {names[old]} and {new}")
    return names


class RenamingReader(Reader):
    """A reader whose steps have the new names; ``wants`` is queried with those.

    Definitions, including those of the user's schema, use the names in the log.
    """

    def __init__(
        self,
        source: LogSeries | Transport,
        names: Mapping[str, str],
        *,
        wants: Wants,
        **settings: Any,
    ) -> None:
        super().__init__(
            source,
            wants=lambda database, table: wants(names.get(database, database), table),
            **settings,
        )
        self._names = names
        self._pipeline = Pipeline([Rename(names)])
        self._moved: dict[int, tuple[TableSchema, TableSchema]] = {}

    def __iter__(self) -> Iterator[Step]:
        self._pipeline.start()
        for step in super().__iter__():
            if isinstance(step.event, TransactionPayloadEvent):
                yield step  # the events inside follow, one by one
                continue
            for event in self._pipeline.process(step.event):
                yield step._replace(event=event, schema=self._renamed(step.schema))

    def _renamed(self, schema: TableSchema | None) -> TableSchema | None:
        """A table under its new name; the same object for the same table."""
        if schema is None or schema.database not in self._names:
            return schema
        known = self._moved.get(id(schema))
        if known is None or known[0] is not schema:
            moved = replace(schema, database=self._names[schema.database])
            known = self._moved[id(schema)] = schema, moved
        return known[1]
