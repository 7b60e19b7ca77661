"""Checks whether a declared column type (``decimal(10,2)``) fits the logged type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType, Flavour

if TYPE_CHECKING:
    from tailrace.events.column_metadata import ColumnSpec

_T = ColumnType
_DECLARED: Final = re.compile(r"\s*([a-z]\w*)\s*(?:\(([^)]*)\))?", re.IGNORECASE)

_STRING: Final = frozenset({_T.STRING})
_VARCHAR: Final = frozenset({_T.VARCHAR, _T.VAR_STRING, _T.VARCHAR_COMPRESSED})
_BLOB: Final = frozenset({_T.BLOB, _T.TINY_BLOB, _T.MEDIUM_BLOB, _T.LONG_BLOB, _T.BLOB_COMPRESSED})
_DECIMAL: Final = frozenset({_T.NEWDECIMAL, _T.DECIMAL})
_FLOAT: Final = frozenset({_T.FLOAT, _T.DOUBLE})  # FLOAT(30) and REAL may be either
_GEOMETRY: Final = frozenset({_T.GEOMETRY})

_FITS: Final[dict[str, frozenset[ColumnType]]] = {
    **dict.fromkeys(("tinyint", "bool", "boolean", "int1"), frozenset({_T.TINY})),
    **dict.fromkeys(("smallint", "int2"), frozenset({_T.SHORT})),
    **dict.fromkeys(("mediumint", "middleint", "int3"), frozenset({_T.INT24})),
    **dict.fromkeys(("int", "integer", "int4"), frozenset({_T.LONG})),
    **dict.fromkeys(("bigint", "serial", "int8"), frozenset({_T.LONGLONG})),
    **dict.fromkeys(("decimal", "dec", "numeric", "fixed", "number"), _DECIMAL),
    **dict.fromkeys(("float", "double", "real", "float4", "float8"), _FLOAT),
    "bit": frozenset({_T.BIT}),
    "date": frozenset({_T.DATE, _T.NEWDATE}),
    "time": frozenset({_T.TIME, _T.TIME2}),
    "datetime": frozenset({_T.DATETIME, _T.DATETIME2}),
    "timestamp": frozenset({_T.TIMESTAMP, _T.TIMESTAMP2}),
    "year": frozenset({_T.YEAR}),
    **dict.fromkeys(("char", "character", "nchar", "national", "binary"), _STRING | _VARCHAR),
    **dict.fromkeys(("varchar", "varchar2", "nvarchar", "varcharacter"), _STRING | _VARCHAR),
    **dict.fromkeys(("varbinary", "raw"), _VARCHAR | _STRING),
    "long": _BLOB,
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob", "clob"), _BLOB),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), _BLOB),
    "enum": frozenset({_T.ENUM}),
    "set": frozenset({_T.SET}),
    "json": frozenset({_T.JSON}) | _BLOB,
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint"), _GEOMETRY),
    **dict.fromkeys(("multilinestring", "multipolygon"), _GEOMETRY),
    **dict.fromkeys(("geometrycollection", "geomcollection"), _GEOMETRY),
    "vector": frozenset({_T.VECTOR}) | _VARCHAR,
    **dict.fromkeys(("uuid", "inet4", "inet6"), _STRING),
}


OLD_TEMPORAL_TYPES: Final = frozenset({_T.TIME, _T.DATETIME, _T.TIMESTAMP})
"""The types whose number of fraction digits is not in the log."""


def declared_digits(declared: str) -> int:
    """The number of fraction digits that ``datetime(3)`` and similar types declare."""
    found = _DECLARED.match(declared)
    return int(found[2]) if found and found[2] and found[2].strip().isdigit() else 0


def check_declared(
    spec: ColumnSpec,
    declared: str,
    members: tuple[str, ...] | None,
    flavour: Flavour,
) -> str | None:
    """How the log contradicts the declaration, as the end of a sentence; None if it does not.

    An empty declaration contradicts nothing. A type name that no server of the flavour has is also
    a contradiction.
    """
    if not declared:
        return None
    found = _DECLARED.match(declared)
    fits = _FITS.get(found[1].lower()) if found else None
    if found is None or fits is None:
        return f"{flavour} has no type of that name"
    if spec.type not in fits:
        return f"the log says {spec.type.name}"
    numbers = [int(text) for text in re.findall(r"\d+", found[2] or "")]
    if spec.type in {_T.ENUM, _T.SET}:
        return _check_members(spec, members)
    if spec.type is _T.NEWDECIMAL:
        precision, scale = (*numbers, 10, 0)[:2] if len(numbers) != 1 else (numbers[0], 0)
        logged = divmod(spec.metadata, 256)
        return None if (precision, scale) == logged else f"the log says DECIMAL{logged}"
    if spec.type in {_T.TIME2, _T.DATETIME2, _T.TIMESTAMP2}:
        fraction = numbers[0] if numbers else 0
        return None if fraction == spec.metadata else f"the log says {spec.metadata} digits"
    if spec.type is _T.BIT:
        bits = numbers[0] if numbers else 1
        return None if bits == spec.metadata else f"the log says {spec.metadata} bits"
    return None


def _check_members(spec: ColumnSpec, members: tuple[str, ...] | None) -> str | None:
    """Storage sizes: ENUM 1 byte up to 255 names, then 2; SET 1, 2, 3, 4 or 8, a bit per name."""
    if members is None:
        return None
    if spec.type is _T.ENUM:
        size = 1 if len(members) < 256 else 2
    else:
        size = (len(members) + 7) // 8
        size = size if size <= 4 else 8
    return None if size == spec.metadata else f"the log stores it in {spec.metadata} bytes"
