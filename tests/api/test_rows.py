"""`tailrace.rows` and `tailrace.transactions`: what was committed, and where to resume."""

import json
from collections import deque
from datetime import UTC, datetime

import pytest

import tailrace
from tailrace.errors import StatementChange, UnknownColumn
from tests.api.test_follow import taken_up_to
from tests.cases import each_case
from tests.recorded import SHOP, case_of, folders

XA = [each for each in folders() if each.name in ("mysql-9.7.xa", "mariadb-11.8.xa")]


def records(source):
    """By the column path: what rows there are, in the log's order."""
    found = []
    for batch in tailrace.changes(source, statements="skip"):
        for each in batch.to_pylist():
            stamp = each["_ts"]
            found.append(
                (int(each["_seq"]), each["_op"], each["_db"], each["_table"], each["_gtid"], stamp)
            )
    return sorted(found, key=lambda each: each[0])


@each_case("flavour", ["mysql", "mariadb"])
def test_rows_are_those_of_batches(flavour):
    found = [
        (row.sequence, row.operation, row.database, row.table, row.gtid, row.timestamp)
        for row in tailrace.rows(SHOP / flavour, statements="skip")
    ]
    assert found == records(SHOP / flavour)


def test_values_are_python_s():
    with tailrace.rows(SHOP / "mysql", tables=["shop.customers", "shop.reviews"]) as rows:
        found = list(rows)
    first = found[0]
    assert first["name"] == first.after["name"] == "Aino Andersen"
    assert first.before is None
    assert (first.server_id, str(first.logged_at)) == (100, "binlog.000001:3096")
    assert first.timestamp == datetime(2026, 11, 21, 9, 12, 36, 926968, tzinfo=UTC)
    update = next(row for row in found if row.operation == "update")
    assert update.before.keys() == update.after.keys()
    assert update.before != update.after == update.values
    delete = next(row for row in found if row.operation == "delete")
    assert (delete.table, delete.after, delete.values) == ("reviews", None, delete.before)
    with pytest.raises(UnknownColumn, match="no column 'prize'"):
        first["prize"]


@pytest.mark.slow
def test_reading_resumes_after_any_row():
    """The rest, and of the same transaction, if it is not over, the rows before it again."""
    source = SHOP / "mysql"
    everything = [*tailrace.rows(source)]
    sequences = [row.sequence for row in everything]
    for number in range(0, len(everything), 171):
        row = everything[number]
        position = json.loads(json.dumps(str(row.position)))
        rest = [each.sequence for each in tailrace.rows(source, start=position)]
        assert rest == sequences[-len(rest) :] if rest else number == len(everything) - 1
        again = number + 1 - (len(sequences) - len(rest))
        assert again >= 0
        assert all(each.gtid == row.gtid for each in everything[number + 1 - again : number + 1])
        last = number + 1 == len(everything) or everything[number + 1].gtid != row.gtid
        assert (again == 0) == last


@pytest.mark.slow
@each_case("flavour", ["mysql", "mariadb"])
def test_transactions_have_the_rows(flavour):
    source = SHOP / flavour
    found = [*tailrace.transactions(source)]
    assert [row.sequence for each in found for row in each.rows] == [
        row.sequence for row in tailrace.rows(source)
    ]
    for each in found:
        assert {row.gtid for row in each.rows} <= {each.gtid}
        assert {row.position for row in each.rows} <= {each.position}
        assert each.start < each.position
        assert each.rows or each.statements
    made = [text for each in found for text in each.statements if "CREATE TABLE" in text]
    assert len(made) >= 4
    middle = found[len(found) // 2]
    rest = [*tailrace.transactions(source, start=middle.position)]
    assert [each.gtid for each in rest] == [each.gtid for each in found[len(found) // 2 + 1 :]]


def followed(source, start=None):
    """All rows that a followed log has now, each with the position to resume from."""
    (last,) = deque(tailrace.rows(source, statements="skip"), 1)
    rows = tailrace.rows(source, start=start, follow=True, statements="skip")
    return [(row.sequence, row.position) for row in taken_up_to(last.position, rows)]


@each_case("case", XA, ids=[each.name for each in XA])
def test_no_position_is_after_rows_that_wait_for_their_xa_commit(case):
    """A followed log gives them when they are committed: who resumes must find them again."""
    everything = followed(case)
    every = {sequence for sequence, _ in everything}
    assert every
    for number in range(0, len(everything), max(1, len(everything) // 4)):
        taken = {sequence for sequence, _ in everything[: number + 1]}
        rest = {sequence for sequence, _ in followed(case, everything[number][1])}
        assert taken | rest == every


@pytest.mark.slow
def test_another_thread_closes():
    """While the iterator waits at the end of a followed log: it is over then, without an error."""
    source = SHOP / "mysql"
    assert [each for each, _ in followed(source)] == [row.sequence for row in tailrace.rows(source)]
    rows = tailrace.rows(source)
    next(rows)
    rows.close()
    rows.close()
    assert list(rows) == []


def test_statements_that_changed_rows(tmp_path):
    case = next(each for each in folders() if case_of(each) == "statement-format")
    with pytest.raises(StatementChange):
        list(tailrace.rows(case))
    rows = tailrace.rows(case, statements="skip")
    list(rows)
    assert rows.skipped_statements > 0
    batches = tailrace.changes(case, statements="skip")
    list(batches)
    assert batches.skipped_statements == rows.skipped_statements
