"""The columns of a history: those of all its versions, each value under a name of its type.

A version has the columns that its table had while it was valid, so files of one history differ in
them; and a name that was reused (DROP and CREATE, or ALTER to another type) stands for two types.
As in a changelog, values stay under the name while its type is wide enough. Otherwise they go to a
column whose name has the type, ``price__string`` (`tailrace.spark.parquet.shapes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.spark.parquet.shapes import merged, plain_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from tailrace.spark.state.built import Built

    Names = Mapping[str, str]


def shaped(shape: pa.Schema | None, built: Built) -> tuple[pa.Schema, tuple[Names, ...], Names]:
    """A history's columns, ``shape`` before, once it has what was built.

    The other results are new names for columns: of each closed file that was built, and of the
    files of open versions. The same columns always get the same names.
    """
    closed = []
    for file in built.closed:
        shape, names = merged(shape, plain_schema(file.columns))
        closed.append(names)
    shape, names = merged(shape, plain_schema(built.rows.columns))
    return shape, tuple(closed), names
