"""One table's changes as one Arrow table, over all versions of its columns: `table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tailrace.arguments import checked
from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.columns.batches import batches_of
from tailrace.columns.results import table_named
from tailrace.errors import UnsupportedType, UsageError
from tailrace.log.sources import Reading
from tailrace.table_filter import only_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from tailrace.log.sources import Source
    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers

if TYPE_CHECKING:

    class ArrowTable(pa.Table):  # type: ignore[misc]  # pyarrow has no types of its own
        """A `pyarrow.Table`, with types also where no stubs of pyarrow are installed."""

        @property
        def num_rows(self) -> int: ...
        @property
        def num_columns(self) -> int: ...
        @property
        def column_names(self) -> list[str]: ...
        @property
        def nbytes(self) -> int: ...
        @property
        def schema(self) -> pa.Schema: ...
        def column(self, i: int | str) -> pa.ChunkedArray: ...
        def to_pandas(self) -> Any: ...
        def to_pylist(self) -> list[dict[str, Any]]: ...
        def to_pydict(self) -> dict[str, list[Any]]: ...
        def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
        def __len__(self) -> int: ...


_IMAGES: Final = ("before", "after")
_MOST_DIGITS: Final = 38
_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
"""The decimal digits of integers, by their bits."""


@checked
def table(
    source: Source,
    name: str,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    columns: str | Collection[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
    threads: int = 1,
) -> ArrowTable:
    """All changes of one table in a log as one `pyarrow.Table`, in the log's order.

    ``name`` is ``database.table``, or the table alone if one database has it. The fields are those
    of the change record (``_op``, ``_ts``, ``_gtid``, ``before``, ``after``, …; see
    ``docs/change-record.md``); ``before`` and ``after`` are structs of the table's columns. If an
    ALTER in the log changed the columns, they have the columns of all versions: those of the newest
    one first. A row has NULL in a column that its version did not have. A column whose type changed
    has one that holds the values of all versions: the larger integer, a DECIMAL with enough digits,
    a DATETIME for dates and DATETIMEs, text for members (ENUM). A change that no type
    holds, as from DATETIME to TIMESTAMP or from INT to VARCHAR, is an error.

    The other arguments are those of `changes`. The result is in memory as a whole; it has
    ``to_pandas()``, and polars and DuckDB take it as it is.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    Raises UsageError for wrong arguments, and if the log has no such table, UnsupportedType if a
    column has types that none holds together (it says which, and what to do); and what `changes`
    raises.

    >>> import tailrace
    >>> orders = tailrace.table("examples/shop/mysql", "shop.orders")
    >>> orders.num_rows, orders.column("_op").to_pylist().count("update")
    (1097, 537)
    >>> orders.to_pandas()["after"][0]["status"]
    'new'
    """
    if not isinstance(name, str) or only_name(name) is None or not name.strip():
        raise UsageError(f"name: one table, such as 'shop.orders', and not {name!r}")
    reading = Reading.of(
        source,
        start=start,
        until=until,
        tables=name,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers,
    )
    found = batches_of(
        reading,
        columns=columns,
        verify_checksums=verify_checksums,
        statements=statements,
        notice=None,
        threads=threads,
        missing=_reject,
    )
    batches = list(found.record_batches())
    names = sorted({table_named(batch.schema) for batch in batches})
    if len(names) > 1:
        raise UsageError(f"name: {name} is {' and '.join(names)}: give one with its database")
    whole: ArrowTable = joined(batches)
    return whole


def _reject(missing: str) -> None:
    raise UsageError(missing)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Batches of one table as one Arrow table. Raises UnsupportedType."""
    if not batches:
        return pa.schema(METADATA_FIELDS).empty_table()
    versions = list({id(batch.schema): batch.schema for batch in batches}.values())
    newest = batches[-1].schema
    if all(each.equals(newest, check_metadata=True) for each in versions):
        return pa.Table.from_batches(batches)
    image = _image_of(versions, newest)
    fields = [*METADATA_FIELDS, *(pa.field(each, image) for each in _IMAGES)]
    whole = pa.schema(fields, {b"tailrace.table": newest.metadata[b"tailrace.table"]})
    return pa.Table.from_batches([_fitted(batch, whole) for batch in batches], whole)


def _image_of(versions: Sequence[pa.Schema], newest: pa.Schema) -> pa.StructType:
    """The type of an image that has the columns of all versions."""
    types: dict[str, pa.DataType] = {}
    for version in (newest, *versions):
        for field in version.field("after").type:
            known = types.setdefault(field.name, field.type)
            wider = _wider(known, field.type)
            if wider is None:
                raise UnsupportedType(
                    f"column {table_named(newest)}.{field.name} was changed from {field.type} to"
                    f" {known}, and no type holds both: read the log on each side of the ALTER"
                    " (start=, until=), or leave the column out (columns=)"
                )
            types[field.name] = wider
    return pa.struct(list(types.items()))


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The smallest type that holds all values of two; None if there is none."""
    if one.equals(other):
        return one
    plain = _plain(one), _plain(other)
    if plain[0].equals(plain[1]):
        return plain[0]
    for a, b in (plain, plain[::-1]):
        if t.is_integer(a):
            if t.is_integer(b):
                return a if a.bit_width >= b.bit_width else b
            if t.is_decimal(b):
                return _decimal(_DIGITS[a.bit_width], 0, b.precision, b.scale)
            if t.is_float64(b) and a.bit_width <= 32:
                return b
            if t.is_float32(b) and a.bit_width <= 32:
                return b if a.bit_width <= 16 else pa.float64()
        if t.is_float64(a) and t.is_float32(b):
            return a
        if t.is_date(a) and t.is_timestamp(b) and b.tz is None:
            return b
    if all(map(t.is_decimal, plain)):
        a, b = plain
        return _decimal(a.precision, a.scale, b.precision, b.scale)
    return None


def _decimal(digits: int, scale: int, others: int, other: int) -> pa.DataType | None:
    most = max(scale, other)
    whole = max(digits - scale, others - other) + most
    return pa.decimal128(whole, most) if whole <= _MOST_DIGITS else None


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if t.is_dictionary(kind) else kind


def _fitted(batch: pa.RecordBatch, whole: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of another version."""
    arrays = [batch.column(field.name) for field in METADATA_FIELDS]
    image = whole.field("after").type
    names = [field.name for field in batch.schema.field("after").type]
    place = whole.get_field_index("_present")
    arrays[place] = _present_in(arrays[place], names, [field.name for field in image])
    return pa.record_batch(
        [*arrays, *(_image_in(batch.column(each), image) for each in _IMAGES)], schema=whole
    )


def _image_in(array: pa.StructArray, image: pa.StructType) -> pa.StructArray:
    known = {field.name: number for number, field in enumerate(array.type)}
    children = [
        array.field(known[field.name]).cast(field.type)
        if field.name in known
        else pa.nulls(len(array), field.type)
        for field in image
    ]
    return pa.StructArray.from_arrays(children, fields=list(image), mask=array.is_null())


def _present_in(array: pa.StructArray, names: Sequence[str], wanted: Sequence[str]) -> Any:
    """The bitmaps of a version's columns (``names``) as those of other columns."""
    if array.null_count == len(array):
        return array
    places = [wanted.index(name) for name in names]
    size = (len(wanted) + 7) // 8
    rows = [
        row and {image: _moved_bits(bits, places, size) for image, bits in row.items()}
        for row in array.to_pylist()
    ]
    return pa.array(rows, array.type)


def _moved_bits(bits: bytes | None, places: Sequence[int], size: int) -> bytes | None:
    if not bits:
        return bits
    old = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[: len(places)]
    new = np.zeros(size * 8, np.uint8)
    new[np.asarray(places)[: len(old)]] = old
    return np.packbits(new, bitorder="little").tobytes()
