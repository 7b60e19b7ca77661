"""Columns over ALTER TABLE: where rows from before have each of a table's columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.columns.arrays import described_column, described_field, description_of
from tailrace.schema.conversions import Modes, Redeclared, conversion
from tailrace.spark.state.current.conversions import Step
from tailrace.values.schema import Logical
from tailrace.values.sql_type import sql_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.schema.alteration import Alteration
    from tailrace.values.schema import Column


@dataclass(frozen=True, slots=True)
class Source:
    """Where a column of the table as it is comes from, in rows written before.

    ``name`` is the column's name in those rows. Where it is None the column was added since, and
    they have ``text``, the default as SELECT prints it (None: NULL). ``unknown`` says why the log
    does not tell what they have. ``steps`` were done to their values, in order.
    """

    name: str | None
    text: str | None = None
    unknown: str | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class _Held:
    """A column after some statements: where rows have it, and how it is declared, if known."""

    source: Source
    column: Column | None


class Lineage:
    """The columns of a table after alterations, and where rows from before have them."""

    def __init__(self, columns: pa.Schema, alterations: Sequence[Alteration]) -> None:
        self._before = columns
        self._held = _held_after(columns, alterations)

    @property
    def columns(self) -> pa.Schema:
        """The columns after the alterations; those added are not among them, as no row tells their
        type.
        """
        held = {each.source.name: (name, each) for name, each in self._held.items()}
        fields = []
        for column in self._before:
            if column.name in held:
                name, each = held[column.name]
                now = None if each.column is None else described_field(each.column)
                column = column if now is None or not each.source.steps else now  # noqa: PLW2901
                fields.append(column.with_name(name))
        return pa.schema(fields)

    @property
    def added(self) -> tuple[tuple[str, str | None, str | None], ...]:
        """The columns added: name, default's text, and why that is unknown."""
        held = ((name, each.source) for name, each in self._held.items())
        return tuple((name, one.text, one.unknown) for name, one in held if one.name is None)

    def sources(self, target: pa.Schema) -> dict[str, Source]:
        """Where rows from before have each of the target's columns.

        A column that has another type without a statement that says so is converted as well.
        """
        after = {name.casefold(): each for name, each in self._held.items()}
        found: dict[str, Source] = {}
        for column in target:
            each = after.get(column.name.casefold())
            if each is None:
                found[column.name] = Source(
                    None, unknown="no statement in the log says how it was added"
                )
                continue
            source, old, now = each.source, each.column, described_column(column)
            if source.name is not None and old is not None and now is not None:
                wanted = Redeclared(now, Modes())
                if description_of(old)[1:] != description_of(now)[1:]:
                    step = step_of(old, wanted, column.name, "another statement")
                    source = replace(source, steps=(*source.steps, step))
            steps = tuple(each for each in source.steps if not each.keeps)
            found[column.name] = replace(source, steps=steps)
        return found


def _held_after(columns: pa.Schema, alterations: Sequence[Alteration]) -> dict[str, _Held]:
    """The columns after the alterations.

    Column names are the same whatever their case, to the servers and here.
    """
    now = {each.name: _Held(Source(each.name), described_column(each)) for each in columns}
    for alteration in alterations:
        by_fold = {name.casefold(): name for name in now}
        moved = {
            new: now[by_fold[old.casefold()]]
            for old, new in alteration.renamed.items()
            if old.casefold() in by_fold
        }
        gone = {name.casefold() for name in (*alteration.renamed, *alteration.dropped)}
        now = {name: held for name, held in now.items() if name.casefold() not in gone}
        now |= moved
        there = {name.casefold() for name in now}
        for name, held in now.items():
            wanted = alteration.redeclared.get(name.casefold())
            if wanted is None and alteration.converts and _may_be_text(held.column):
                wanted = Redeclared(None, Modes())
            if wanted is not None:
                now[name] = _redeclared(held, wanted, name, alteration.statement)
        now |= {
            name: _Held(Source(None, each.text, each.unknown), None)
            for name, each in alteration.added.items()
            if name.casefold() not in there  # ADD COLUMN IF NOT EXISTS
        }
    return now


def _may_be_text(column: Column | None) -> bool:
    return column is None or column.members is not None or column.logical in _TEXTUAL


_TEXTUAL: Final = frozenset({Logical.TEXT, Logical.JSON})


def _redeclared(held: _Held, wanted: Redeclared, name: str, statement: str) -> _Held:
    source = held.source
    if source.name is None:
        if source.unknown is None and (source.text is not None or wanted.checks_nulls):
            source = replace(source, unknown=f"it was changed since by {statement}")
        return _Held(source, None)
    step = step_of(held.column, wanted, name, statement)
    return _Held(replace(source, steps=(*source.steps, step)), wanted.column)


def step_of(old: Column | None, wanted: Redeclared, name: str, statement: str) -> Step:
    """What a statement made of a column's values."""
    found = None if old is None else conversion(old, wanted)
    before, after = "its type" if old is None else sql_type(old), wanted.declared
    if wanted.column is None and wanted.checks_nulls:  # ADD PRIMARY KEY
        after = before
    if old is not None and wanted.column is not None and before == after:
        sets = [each.charset if each.collation else "" for each in (old, wanted.column)]
        if sets[0] != sets[1] and all(sets):
            before, after = (f"{before} character set {each}" for each in sets)
    after += " not null" * wanted.checks_nulls
    reason = (
        f"its column {name} was changed from {before} to {after} by {statement}, and "
        "what the server made of older values is not in the log"
    )
    return Step(found, wanted.checks_nulls, reason)
