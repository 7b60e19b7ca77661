"""What a lake says, read as anybody reads it, and whether that is what a server's SELECT says."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import re
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tools.campaign.process import Wrong
from tools.campaign.selected import Declared, from_arrow

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from tools.dumps import TableDump

_SHOWN: Final = 3
_DIGITS: Final = re.compile(r"\(\d+,(\d+)\)")
_LONGEST: Final = 60
_EXACT: Final = decimal.Context(prec=100)
_MOMENTS: Final = {"date", "datetime", "timestamp"}
_NUMBERS: Final = {"decimal", "int", "bigint", "smallint", "mediumint", "tinyint", "year"}


class LakeReader:
    """Tables of a lake of one format, by its own reader: pyarrow, delta-rs, pyiceberg."""

    def __init__(self, lake: Path, format: str) -> None:  # noqa: A002 - what the command calls it
        self._lake = lake
        self._format = format

    def current(self, name: str) -> pa.Table | None:
        """The rows that a table has now; None where the lake has no such table."""
        return self._read(name, "current")

    def changelog(self, name: str, columns: Sequence[str] | None = None) -> pa.Table | None:
        """The changes of a table, Iceberg's under the names that the other formats have."""
        wanted = None if columns is None else [self._own(column) for column in columns]
        found = self._read(name, "changelog", wanted)
        if found is None:
            return None
        theirs = {self._own(each): each for each in ("_file", "_pos")}
        return found.rename_columns([theirs.get(each, each) for each in found.schema.names])

    def history(self, name: str) -> pa.Table | None:
        """All versions of a table's rows."""
        return self._read(name, "history")

    def names(self, mode: str = "changelog") -> list[str]:
        """The tables that have a changelog, or a history."""
        if self._format == "parquet":
            return sorted(path.parent.name for path in self._lake.glob(f"*.*/{mode}"))
        if self._format == "delta":
            found = (path.parent.name for path in self._lake.glob(f"*_{mode}/_delta_log"))
            return sorted(name.removesuffix(f"_{mode}") for name in found)
        catalog = self._catalog()
        spaces = catalog.list_namespaces()
        listed = [".".join(each) for space in spaces for each in catalog.list_tables(space)]
        return sorted(name.removesuffix(f"_{mode}") for name in listed if name.endswith(f"_{mode}"))

    def _own(self, column: str) -> str:
        if self._format == "iceberg" and column in {"_file", "_pos"}:
            return f"_log{column}"
        return column

    def _read(self, name: str, mode: str, columns: list[str] | None = None) -> pa.Table | None:
        if self._format == "parquet":
            folder = (self._lake / name / mode).resolve()
            files = folder.glob("*.parquet")
            parts = [_plain(pq.ParquetFile(path).read(columns)) for path in files]
            return pa.concat_tables(parts, promote_options="permissive") if parts else None
        full = name if mode == "current" else f"{name}_{mode}"
        if self._format == "delta":
            folder = self._lake / full
            return delta_rows(folder, columns) if (folder / "_delta_log").is_dir() else None
        catalog = self._catalog()
        identifier = tuple(full.split("."))
        if not catalog.table_exists(identifier):
            return None
        scan = catalog.load_table(identifier).scan(selected_fields=tuple(columns or ("*",)))
        return scan.to_arrow()

    def _catalog(self) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - where it is asked for

        return SqlCatalog(
            "lake", uri=f"sqlite:///{self._lake}/catalog.db", warehouse=str(self._lake)
        )


def delta_rows(folder: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a Delta table by delta-rs' query engine, which knows deletion vectors."""
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415 - where it is asked for

    names = "*" if columns is None else ", ".join(f'"{each}"' for each in columns)
    query = QueryBuilder().register("t", DeltaTable(folder))
    return _plain(pa.table(query.execute(f"SELECT {names} FROM t").read_all()))


def _plain(table: pa.Table) -> pa.Table:
    """The same in types for which pyarrow has all functions, whatever form a reader gives."""
    fields = [field.with_type(_plain_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    return kind


def compare(
    name: str,
    table: pa.Table | None,
    expected: TableDump | None,
    *,
    image: str = "",
    optional: Collection[str] = (),
) -> None:
    """Raise `Wrong` where rows of a lake are not those that SELECT gave.

    A table may be missing in the lake, on the server, or in both, where it has no rows.
    Of a changelog ``image`` is ``after.``: so ``_raw`` calls its columns. ``optional`` columns may
    be missing, of some rows too.
    """
    rows, count = table.num_rows if table else 0, len(expected["rows"]) if expected else 0
    if rows != count:
        raise Wrong(f"{name} has {rows} rows, and {count} by SELECT")
    if table is None or expected is None or not rows:
        return
    places = [
        place
        for place, column in enumerate(expected["columns"])
        if column not in optional or _has_all(table, column)
    ]
    names, types = ([expected[each][at] for at in places] for each in ("columns", "types"))
    binary = [column in expected["binary"] for column in names]
    raws = [dict(each or ()) for each in table.column("_raw").to_pylist()]
    columns = [_values(name, table, column) for column in names]
    found: Counter[tuple[str, ...]] = Counter()
    for raw_texts, values in zip(raws, zip(*columns, strict=True), strict=True):
        texts = []
        for column, value, declared, raw in zip(names, values, types, binary, strict=True):
            text = raw_texts.get(image + column)
            if text is not None and _is_a_moment(text, declared):
                raise Wrong(
                    f"{name}: {column} is NULL, and _raw has {text}, which {declared} holds"
                )
            texts.append(_text(value if text is None else text, declared, raw))
        found[tuple(texts)] += 1
    wanted = Counter(
        tuple(
            _wanted(select[place], declared, raw)
            for place, declared, raw in zip(places, types, binary, strict=True)
        )
        for select in expected["rows"]
    )
    if missing := wanted - found:
        left = list((found - wanted).elements())
        raise Wrong(
            f"{name}: {missing.total()} rows of SELECT are not there: "
            f"{_shown(list(missing.elements()))}, but {_shown(left)}"
        )


def variants(table: pa.Table, column: str) -> list[str]:
    """A column, and those that go on with it in another type (``price__string``)."""
    return [
        each for each in table.schema.names if each == column or each.rpartition("__")[0] == column
    ]


def _has_all(table: pa.Table, column: str) -> bool:
    """Whether a column is there, and has a value in each row."""
    found = variants(table, column)
    return bool(found) and not any(table.column(each).null_count for each in found)


def _values(name: str, table: pa.Table, column: str) -> list[Any]:
    parts: list[list[Any]] = [table.column(each).to_pylist() for each in variants(table, column)]
    if not parts:
        raise Wrong(f"{name} lacks {column}")
    if len(parts) == 1:
        return parts[0]
    return [
        next((value for value in values if value is not None), None)
        for values in zip(*parts, strict=True)
    ]


def _is_a_moment(text: str, declared: str) -> bool:
    """Whether a date, with a time of day or not, is in the calendar."""
    if _base(declared) not in _MOMENTS:
        return False
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _shown(rows: Sequence[tuple[str, ...]]) -> str:
    short = [tuple(text[:_LONGEST] for text in row) for row in rows[:_SHOWN]]
    return str(short)


def _base(declared: str) -> str:
    return declared.split("(", maxsplit=1)[0].split(maxsplit=1)[0]


def _wanted(text: str | None, declared: str, binary: bool) -> str:
    """What SELECT gave, in the one form in which both are compared."""
    if text is None or not binary:
        return _text(text, declared, binary)
    data = base64.b64decode(text)
    value = int.from_bytes(data, "big") if _base(declared) == "bit" else data
    return _text(value, declared, binary)


def _text(value: Any, declared: str, binary: bool) -> str:
    """A value of the lake in that form."""
    if value is None:
        return "NULL"
    base = _base(declared)
    if binary:
        return _hex(value, base)
    if base == "json":
        return _json(value)
    if base == "float":
        return f"{float(value):.6g}"
    if base == "double":
        digits = _DIGITS.search(declared)  # SELECT shows so many, whatever is stored
        return repr((round(float(value), int(digits[1])) if digits else float(value)) + 0.0)
    if base in _NUMBERS:
        return _number(value)
    return value if isinstance(value, str) else _moment(value, declared)


def _number(value: Any) -> str:
    return str(_EXACT.normalize(decimal.Decimal(value)))


def _hex(value: Any, base: str) -> str:
    if base == "bit":
        return str(int(value))
    if base == "vector" and not isinstance(value, bytes):
        return struct.pack(f"<{len(value)}f", *value).hex()
    data: bytes = value if isinstance(value, bytes) else str(value).encode()
    return data.hex()


def _json(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def _moment(value: Any, declared: str) -> str:
    """A date or time as SELECT prints it; a TIME is microseconds where a format lacks intervals."""
    if _base(declared) == "time" and not isinstance(value, dt.timedelta):
        value = dt.timedelta(microseconds=int(value))
    return from_arrow(Declared("", declared, binary=False))(value)
