"""Every value of the corpus, decoded on the object path, is what the server's SELECT gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tailrace.constants import Flavour
from tailrace.values.json_diff import JsonDiffs
from tests.cases import each_case
from tests.recorded import has
from tests.values.replay import Case, cases, changes, same

if TYPE_CHECKING:
    from tailrace.values.image import Image
    from tailrace.values.row import Row
    from tailrace.values.schema import TableSchema

DISPLAYED = ("zerofill", "float(", "double(")
"""Types whose SELECT is laid out as only the CREATE TABLE knows: their numbers are compared."""

INSERT_ONLY = [
    case for case in cases() if case.expected["insert_only"] and case.expected["rows_complete"]
]
MARIADB_LEAVES_OUT = {
    # Columns that a REPLACE resets are not in the after image where the image is not FULL.
    "corpus.keyed": ("-minimal-", "-noblob-"),
    # Generated columns are not in an update's image since 11.8.
    "corpus.computed": ("generated",),
}
CHANGED = [
    case
    for case in cases()
    if case.expected["rows_complete"]
    and not case.expected["insert_only"]
    and not has(case.folder, "rows-by-ddl", "rolled-back")
]


@each_case("case", INSERT_ONLY, ids=lambda case: case.folder.name)
def test_inserted_rows_are_what_select_gives(case: Case) -> None:
    left = {
        name: {row[0]: row for row in table["rows"]}
        for name, table in case.expected["tables"].items()
    }
    for schema, row in changes(case):
        name = f"{schema.database}.{schema.table}"
        table = case.expected["tables"][name]
        assert row.after is not None
        values = row.after.as_dict()
        selected = left[name].pop(str(values[table["columns"][0]]))
        for column_name, declared, text in zip(
            table["columns"], table["types"], selected, strict=True
        ):
            column = schema.columns[schema.index_of(column_name)]
            value = values[column_name]
            if text is not None and any(word in declared for word in DISPLAYED):
                assert float(text) == pytest.approx(float(value), rel=1e-4)
                continue
            assert same(column, value, text, column_name in table["binary"]), (
                f"{name}.{column_name} of {selected[0]}: {value!r}, SELECT gave {text!r}"
            )
    assert not any(left.values())


class Replayed:
    """A table's rows, changed row by row; what no image said of a row stays ABSENT."""

    def __init__(self, key: list[str]) -> None:
        self.key = key
        self.rows: list[dict[str, Any]] = []

    def take(self, row: Row) -> None:
        if row.before is None:
            self.rows.append(row.after.as_dict())
            return
        at = next(index for index, known in enumerate(self.rows) if self._is(known, row.before))
        old = self.rows.pop(at)
        if row.after is not None:
            new = {
                name: value.apply(old[name]) if isinstance(value, JsonDiffs) else value
                for name, value in row.after.as_dict().items()
            }
            self.rows.insert(at, old | new)

    def _is(self, known: dict[str, Any], before: Image) -> bool:
        names = [name for name in self.key or known if name in before]
        return all(known[name] == before.as_dict()[name] for name in names)


@pytest.mark.slow
@each_case("case", CHANGED, ids=lambda case: case.folder.name)
def test_replayed_changes_are_what_select_gives(case: Case) -> None:
    tables: dict[str, Replayed] = {}
    schemas: dict[str, TableSchema] = {}
    for schema, row in changes(case):
        name = f"{schema.database}.{schema.table}"
        key = case.expected["tables"].get(name, {"key": []})["key"]
        schemas[name] = schema
        tables.setdefault(name, Replayed(key)).take(row)
    for name, table in case.expected["tables"].items():
        left_out = MARIADB_LEAVES_OUT.get(name, ()) if case.flavour is Flavour.MARIADB else ()
        if name not in tables or any(word in case.folder.name for word in left_out):
            continue
        assert len(tables[name].rows) == table["count"]
        for selected in table["rows"]:
            texts = dict(zip(table["columns"], selected, strict=True))
            assert any(
                _fits(schemas[name], row, texts, table["binary"]) for row in tables[name].rows
            ), texts


def _fits(
    schema: TableSchema, row: dict[str, Any], texts: dict[str, str | None], binary: list[str]
) -> bool:
    return all(
        same(schema.columns[schema.index_of(name)], row[name], text, name in binary)
        for name, text in texts.items()
        if name in row
    )
