"""A log may end anywhere: the object path, the column path and splits give the same rows."""

import pytest

import tailrace
from tests.cases import each_case
from tools.campaign import endings
from tools.campaign.verdicts import series_of


@pytest.mark.slow
def test_wherever_logs_end():
    report = endings.run(20261123, 40)
    assert not report.failures, "\n".join(report.failures)
    assert report.tried > 1000
    assert report.outcomes["accepted"] > 500
    assert report.outcomes["TruncatedEvent"] > 200


@each_case("case", ["mysql-9.7.relay-log", "mariadb-10.11.relay-log"])
def test_a_first_file_that_ends_inside_its_first_event_is_no_empty_log(case):
    """Splits of a relay log in use, whose lengths may be those of events to come, were empty."""
    bases = {name.partition(":")[0]: log for name, log in endings.bases()}
    found = [
        endings.difference(series_of(*files))
        for where, data in endings.endings(bases[case])
        if where.endswith("event 0, in use")
        for files in ((data,), (data, bases[case]))
    ]
    assert [differs for differs, _ in found if differs] == []
    assert [verdict.error for _, verdict in found].count("TruncatedEvent") > 4


@pytest.fixture(params=["mysql", "mariadb"])
def log(request, tmp_path):
    """Two transactions of eight rows."""
    path = tmp_path / "binlog.000001"
    table = tailrace.Table.parse("create table d.t (a int primary key)", flavour=request.param)
    with tailrace.create(path, flavour=request.param, server_id=7) as out:
        for start in (0, 8):
            with out.transaction() as transaction:
                transaction.insert(table, [(start + number,) for number in range(8)])
    return path.read_bytes()


def test_a_transaction_without_its_commit_has_no_rows(log):
    """Whether or not the log says that it is in use, which a foreign copy of one may not say."""
    ends = dict(endings.endings(endings.renumbered(log)))
    numbers = sorted({int(name.split(",")[0].rpartition(" ")[2]) for name in ends})
    last = next(  # the XID of the second transaction, behind which a STOP or nothing may come
        number
        for number in reversed(numbers)
        if len(endings.difference(series_of(ends[f"after event {number - 1}, closed"]))[1].rows)
        == 8
        and len(endings.difference(series_of(ends[f"after event {number}, closed"]))[1].rows) == 16
    )
    for flag in ("closed", "in use"):
        for number, rows in ((last - 1, 8), (last, 16)):
            differs, objects = endings.difference(series_of(ends[f"after event {number}, {flag}"]))
            assert differs is None
            assert len(objects.rows) == rows


@each_case("flag", ["closed", "in use"])
def test_a_group_of_one_statement_in_mariadb(flag, tmp_path):
    """Rows of a standalone group hold with the event that ends their statement."""
    path = tmp_path / "binlog.000001"
    table = tailrace.Table.parse("create table d.t (a int primary key)", flavour="mariadb")
    with tailrace.create(path, flavour="mariadb", server_id=7) as out, out.transaction() as trx:
        trx.insert(table, [(number,) for number in range(8)])
    parsed = endings.Parsed.of(path.read_bytes())
    types = [event[4] for event in parsed.events]
    group, rows = types.index(162), max(n for n, kind in enumerate(types) if kind in {23, 30})
    parsed.events[group][31] |= 1  # FL_STANDALONE
    parsed.seal(group)
    log = endings.Parsed(parsed.events[: rows + 1], parsed.tail).bytes()
    ends = dict(endings.endings(endings.renumbered(log)))
    differs, objects = endings.difference(series_of(ends[f"after event {rows}, {flag}"]))
    assert differs is None
    assert len(objects.rows) == 8
    differs, objects = endings.difference(series_of(ends[f"after event {rows - 1}, {flag}"]))
    assert differs is None
    assert not objects.rows
