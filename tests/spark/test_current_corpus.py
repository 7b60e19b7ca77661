"""Current states out of recorded logs, against what the servers' own SELECT said at the end."""

from tailrace.errors import TailraceError
from tailrace.table_name import TableName
from tests.recorded import case_of, folders, has
from tests.spark.replay import current_states, differences, rows_of
from tools.expected import load_expected

NEWER = {case_of(each) for each in folders() if each.name.startswith("mariadb-11.8")}
CASES = [
    each
    for each in folders()
    if not each.name.startswith("mariadb-10.11") or case_of(each) not in NEWER
]
"""What is above the log does not see which release wrote it: of a case of both, the newer's."""


# Where there can be no current state, and why; the words are of the reason that is given.
REFUSED = {
    "keyless": "primary key",
    "near": "primary key",
    "uniquely": "primary key",
    "commented": "primary key",
    "renamed": "primary key",
    "selected_old": "primary key",
    "parts": "PARTITION",
}


def wrong_in(case, folder):
    """Each table of a case that is not what SELECT gave, and how it differs."""
    expected = load_expected(case)
    if not expected["rows_complete"]:
        return  # the log does not hold all of the tables' changes
    try:
        states = current_states(case, folder)
    except TailraceError:
        if not has(case, "unreadable", "unknown-documents"):
            raise
        return
    for name, table in expected["tables"].items():
        built = states.get(str(TableName(*name.split(".", 1))))
        if built is None:
            found = table["rows"] and f"none of {len(table['rows'])} rows"
        elif reason := built.rows.refused:
            known = REFUSED.get(name.partition(".")[2])
            allowed = has(case, "not-full") and "inserts left columns" in reason
            found = None if (known and known in reason) or (allowed and not known) else reason
        elif built.rows.unseen:
            found = f"{built.rows.unseen} rows were unseen"
        elif built.rows.unlogged:  # MariaDB 11 leaves generated columns out of updates
            found = built.rows.unlogged != ("s", "v") and built.rows.unlogged
        else:
            found = differences(rows_of(built), table)
        if found:
            yield case.name, name, found


def test_current_states_are_what_select_gave(tmp_path):
    assert len(CASES) > 150
    wrong = [each for case in CASES for each in wrong_in(case, tmp_path / case.name)]
    assert wrong == []
