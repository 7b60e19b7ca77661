"""What columns are called in an Iceberg table, and in its files, which have no field numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.table.name_mapping import NameMapping

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

MAPPING: Final = "schema.name-mapping.default"
"""The property of a table by which columns are found in files."""
_RESERVED: Final = {
    "_file": "_log_file",
    "_pos": "_log_pos",
    **{name: f"{name}_" for name in ("_deleted", "_partition", "_row_id", "_spec_id")},
}
"""Names that Iceberg gives columns of its own, and what ours are called instead."""
BACK: Final = {new: (old,) for old, new in _RESERVED.items()}
"""What a column of such a name is called in files."""


def allowed(columns: pa.Schema) -> pa.Schema:
    """The columns, with other names for those that Iceberg keeps for itself."""
    names = [_RESERVED.get(name, name) for name in columns.names]
    return pa.schema([field.with_name(name) for field, name in zip(columns, names, strict=True)])


def mapping(schema: Schema) -> str:
    """By which names a schema's columns are found in files."""
    fields = [
        each.model_copy(update={"names": [*each.names, *BACK.get(each.names[0], ())]})
        for each in schema.name_mapping.root
    ]
    return NameMapping(fields).model_dump_json()
