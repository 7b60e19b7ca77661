"""What the kernels decode of every recorded log they write again, byte for byte as the server did.

Where the text of a value does not tell its bytes they are as the object path writes them: decimals,
dates and wide integers within JSON documents, characters that have several codes, empty names.
"""

import pytest

from tailrace.storage import find
from tests.cases import each_case
from tests.columns.read.test_equal_paths import UNREADABLE
from tests.columns.write.encode_oracle import by_objects, encoded, prefix_of, rows_events
from tests.recorded import folders

HELD = folders(*UNREADABLE, "objects-only", shop=True)
SEVERAL_FORMS = {
    "byte-maps": "map_",
    "json-full": "opaque",
    "json-min": "opaque",
    "json-partial-full": "partial",
    "json-partial-noblob": "partial",
    "mysql": "products",
    "enums-sets-full": "enums_and_sets",
    "enums-sets-min": "enums_and_sets",
}
"""By the folder's name without the server: what such tables' names begin with."""


@pytest.mark.slow
@each_case("folder", HELD, ids=lambda path: path.name)
def test_corpus(folder):
    several = SEVERAL_FORMS.get(folder.name.split(".")[-1])
    filler = folder.name.startswith("mariadb")
    for series in find(folder):
        for event, schema, records in rows_events(series):
            found = encoded(event, schema, records, filler=filler)
            prefix = prefix_of(event)
            (data,) = (bytes(each) for each in found)
            assert data[:9] == prefix[:9]
            assert int.from_bytes(data[9:13], "little") == len(data)
            assert data[13 : len(prefix)] == prefix[13:]
            rows = data[len(prefix) :]
            if rows != event.row_data:
                assert several is not None
                assert schema.table.startswith(several)
                assert rows == by_objects(event, schema, filler=filler)
