"""Filters that Spark pushes down to the data source: which we take, and what rows they leave."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, TypeGuard

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
Condition = (
    EqualTo
    | EqualNullSafe
    | GreaterThan
    | GreaterThanOrEqual
    | LessThan
    | LessThanOrEqual
    | In
    | IsNotNull
)
"""A filter of Spark's on one of the change record's own fields."""


def taken(filters: Iterable[Filter]) -> tuple[list[Condition], list[Filter]]:
    """The filters that we take, and those that are left to Spark."""
    ours: list[Condition] = []
    left: list[Filter] = []
    for each in filters:
        if _is_ours(each):
            ours.append(each)
        else:
            left.append(each)
    return ours, left


def _is_ours(each: Filter) -> TypeGuard[Condition]:
    """Whether a filter is on one of the change record's own fields, with values of its type."""
    if not isinstance(each, Condition) or len(each.attribute) != 1:
        return False
    name = each.attribute[0]
    if name == _STAMP:
        return all(isinstance(one, dt.datetime) and one.tzinfo is not None for one in _values(each))
    return name in _TEXTS and all(isinstance(one, str) for one in _values(each))


def _values(each: Condition) -> tuple[Any, ...]:
    if isinstance(each, IsNotNull):
        return ()
    return tuple(each.value) if isinstance(each, In) else (each.value,)


def matching(batch: pa.RecordBatch, conditions: Sequence[Condition]) -> pa.RecordBatch:
    """The rows of a batch that meet all conditions."""
    mask: Any = None
    for condition in conditions:
        column = batch.column(condition.attribute[0])
        if isinstance(condition, IsNotNull):
            found = column.is_valid()
        elif pa.types.is_dictionary(column.type):
            chosen = _compared(column.dictionary, condition)
            found = chosen.take(column.indices)
        else:
            found = _compared(column, condition)
        mask = found if mask is None else pc.and_(mask, found)
    return batch if mask is None else batch.filter(mask)


def _compared(values: pa.Array, condition: Condition) -> pa.Array:
    wanted = pa.array(_values(condition), values.type)
    if isinstance(condition, In):
        return pc.is_in(values, value_set=wanted)
    return _COMPARISONS[type(condition)](values, wanted[0])


def table_patterns(conditions: Iterable[Condition]) -> tuple[str, ...] | None:
    """Patterns of the tables that can have rows which meet the conditions; None for all tables.

    They may match more: `matching` decides.
    """
    databases, tables = _equal_to(conditions, "_db"), _equal_to(conditions, "_table")
    if databases is None and tables is None:
        return None
    return tuple(
        f"{database}.{name}"
        for database in (["*"] if databases is None else map(quoted_part, databases))
        for name in (["*"] if tables is None else map(quoted_part, tables))
    )


def _equal_to(conditions: Iterable[Condition], field: str) -> Sequence[str] | None:
    for each in conditions:
        if each.attribute[0] == field and isinstance(each, EqualTo | EqualNullSafe | In):
            return _values(each)
    return None


def full_name(pattern: str) -> str | None:
    """The table's full name that a pattern stands for; None if it may match several tables."""
    name = only_name(pattern)
    return str(name) if name is not None and name.database else None
