"""Filters that Spark pushes down to the data source: which we take, and what rows they leave."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tailrace.table_filter import only_name
from tailrace.table_name import quoted_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql.datasource import Filter

_TEXTS: Final = frozenset({"_op", "_db", "_table", "_gtid"})
_STAMP: Final = "_ts"
_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], Any]]] = {
    EqualTo: pc.equal,
    EqualNullSafe: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}


@dataclass(frozen=True)
class Condition:
    """A filter on one of the change record's own fields; ``kind`` is Spark's class."""

    field: str
    kind: type[Filter]
    values: tuple[Any, ...]


def taken(filters: Iterable[Filter]) -> tuple[list[Condition], list[Filter]]:
    """The conditions for those filters that we take, and the filters that are left to Spark."""
    found = [(each, _condition(each)) for each in filters]
    left = [each for each, condition in found if condition is None]
    return [condition for _, condition in found if condition is not None], left


def _condition(each: Filter) -> Condition | None:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    value: Any = getattr(each, "value", None)
    if len(attribute) != 1 or attribute[0] not in _TEXTS | {_STAMP}:
        return None
    name = attribute[0]
    if isinstance(each, IsNotNull):
        return Condition(name, IsNotNull, ())
    if not isinstance(each, In) and type(each) not in _COMPARISONS:
        return None
    values = tuple(value) if isinstance(each, In) else (value,)
    if not all(_fits(name, one) for one in values):
        return None
    return Condition(name, type(each), values)


def _fits(name: str, value: Any) -> bool:
    if name == _STAMP:
        return isinstance(value, dt.datetime) and value.tzinfo is not None
    return isinstance(value, str)


def matching(batch: pa.RecordBatch, conditions: Sequence[Condition]) -> pa.RecordBatch:
    """The rows of a batch that meet all conditions."""
    mask: Any = None
    for condition in conditions:
        column = batch.column(condition.field)
        if condition.kind is IsNotNull:
            found = column.is_valid()
        elif pa.types.is_dictionary(column.type):
            chosen = _compared(column.dictionary, condition)
            found = chosen.take(column.indices)
        else:
            found = _compared(column, condition)
        mask = found if mask is None else pc.and_(mask, found)
    return batch if mask is None else batch.filter(mask)


def _compared(values: pa.Array, condition: Condition) -> pa.Array:
    wanted = pa.array(condition.values, values.type)
    if condition.kind is In:
        return pc.is_in(values, value_set=wanted)
    return _COMPARISONS[condition.kind](values, wanted[0])


def table_patterns(conditions: Iterable[Condition], table: str | None) -> tuple[str, ...] | None:
    """Patterns of the tables that can have rows which meet the conditions; None for all tables.

    They may match more: `matching` decides.
    """
    databases = _equal_to(conditions, "_db")
    tables = _equal_to(conditions, "_table")
    if table is not None:
        return (table,)
    if databases is None and tables is None:
        return None
    return tuple(
        f"{database}.{name}"
        for database in (["*"] if databases is None else map(quoted_part, databases))
        for name in (["*"] if tables is None else map(quoted_part, tables))
    )


def _equal_to(conditions: Iterable[Condition], field: str) -> Sequence[str] | None:
    for condition in conditions:
        if condition.field == field and condition.kind in {EqualTo, EqualNullSafe, In}:
            return condition.values
    return None


def full_name(pattern: str) -> str | None:
    """The table's full name that a pattern stands for; None if it may match several tables."""
    name = only_name(pattern)
    return str(name) if name is not None and name.database else None
