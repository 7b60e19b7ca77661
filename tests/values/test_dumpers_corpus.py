"""What servers wrote, loaded and dumped again, is the same bytes. Edge values: test_server_values."""

from __future__ import annotations

from tests.cases import each_case
from tests.recorded import has
from tests.values.dumped import check, stored
from tests.values.replay import Case, cases, changes

EXCEPTIONS = {
    "json-full": 18,
    "json-min": 18,
    "enums-sets-full": 1,
    "enums-sets-min": 1,
    "byte-maps": 60,
    "json-partial-full": 50,
    "json-partial-noblob": 50,
}
"""How many values of a case are no law: no more may become so unnoticed."""


WHOLE = [case for case in cases() if not has(case.folder, "unknown-documents")]


@each_case("case", WHOLE, ids=lambda case: case.folder.name)
def test_every_value_of_the_corpus(case: Case) -> None:
    count = exceptions = 0
    for schema, row in changes(case):
        for image in (row.before, row.after):
            for column, raw in stored(image):
                count += 1
                exceptions += check(schema, column, raw)
    allowed = (most for known, most in EXCEPTIONS.items() if case.folder.name.endswith(known))
    assert exceptions <= next(allowed, 0)
    assert count or not case.expected["insert_only"] or not case.expected["rows_complete"]
