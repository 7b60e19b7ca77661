"""Every value of the corpus, decoded on the object path, is what the server's SELECT gave."""

import pytest

from tests.cases import each_case
from tests.values.replay import cases, changes, same

DISPLAYED = ("zerofill", "float(", "double(")
"""Types whose SELECT is laid out as only the CREATE TABLE knows: their numbers are compared."""

INSERT_ONLY = [
    case for case in cases() if case.expected["insert_only"] and case.expected["rows_complete"]
]


@each_case("case", INSERT_ONLY, ids=lambda case: case.folder.name)
def test_inserted_rows_are_what_select_gives(case):
    left = {
        name: {row[0]: row for row in table["rows"]}
        for name, table in case.expected["tables"].items()
    }
    for schema, row in changes(case.folder):
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
            assert same(column, value, text, column_name in table.get("binary", ())), (
                f"{name}.{column_name} of {selected[0]}: {value!r}, SELECT gave {text!r}"
            )
    assert not any(left.values())
