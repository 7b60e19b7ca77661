"""The recorded logs, replayed from record batches: the rows that SELECT gave when they were made."""

from __future__ import annotations

import json

import pytest

from tailrace.storage import find
from tests.recorded import folders
from tools.campaign.replay import UNKNOWN, Replayed
from tools.campaign.selected import Declared, canonical
from tools.campaign.witnesses import arrow_changes

NOT_HERE = ("rows-by-ddl", "displayed", "unreadable", "unknown-documents")
MARIADB_LEAVES_OUT = {
    # Columns that a REPLACE resets are not in the after image where the image is not FULL.
    "corpus.keyed": ("-minimal-", "-noblob-"),
}
GENERATED = {"corpus.computed": frozenset({"s", "v"})}
"""Since 11.8 MariaDB's update images leave them out."""


@pytest.mark.slow
def test_rows_are_those_of_select(subtests):
    compared = 0
    for folder in folders(*NOT_HERE):
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        if expected["rows_complete"]:
            compared += 1
            with subtests.test(folder.name):
                compare(folder, expected)
    assert compared > 190


def compare(folder, expected):
    columns = {
        name: {
            column: Declared(column, kind, column in table["binary"])
            for column, kind in zip(table["columns"], table["types"], strict=True)
        }
        for name, table in expected["tables"].items()
    }
    replayed = {
        name: Replayed(name, dict.fromkeys(each, UNKNOWN), GENERATED.get(name, frozenset()))
        for name, each in columns.items()
    }
    (series,) = find(folder)
    for name, operation, before, after in arrow_changes(series, None, columns):
        if name in replayed:  # else it was dropped
            replayed[name].take(
                operation, short(columns[name], before), short(columns[name], after)
            )
    for name, table in expected["tables"].items():
        mariadb = "MariaDB" in expected["server"]
        if mariadb and any(word in folder.name for word in MARIADB_LEAVES_OUT.get(name, ())):
            continue
        rows = [
            {
                column.name: canonical(column, text)
                for column, text in zip(columns[name].values(), row, strict=True)
            }
            for row in table["rows"]
        ]
        replayed[name].compare([short(columns[name], row) for row in rows])


def short(columns, row):
    """A row whose FLOATs have the six digits that SELECT shows of them."""
    if row is None:
        return None
    return {
        name: f"{float(text):.6g}"
        if text is not None and name in columns and columns[name].base == "float"
        else text
        for name, text in row.items()
    }
