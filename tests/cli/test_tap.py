"""``tailrace tap``: a consumer on any source."""

import signal
import subprocess
import sys

import pytest

import tailrace
from tests.cases import each_case
from tests.waiting import DEADLINE

CONSUMERS = """
from tailrace.generators import RowConsumer, TransactionConsumer

class Reviews(RowConsumer):
    rows = 0
    def row_write(self, event):
        self.rows += event.table.name == "reviews"
    def close(self):
        print(f"{self.rows} reviews")

class Commits(TransactionConsumer):
    commits = 0
    def trx_commit(self, event):
        self.commits += 1
    def row_write(self, event):
        raise AssertionError
    def close(self):
        print(f"{self.commits} commits")

class Fails(TransactionConsumer):
    def trx_commit(self, event):
        if event.local_transaction_id == 3:
            raise ValueError("full")


class IsFull(RowConsumer):
    def __init__(self):
        raise OSError("full")


class CannotBeClosed(RowConsumer):
    def close(self):
        raise OSError("full")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "consumers_of_tap.py").write_text(CONSUMERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "consumers_of_tap", raising=False)
    return tmp_path


def test_a_consumer_of_the_current_folder(run, folder, shop):
    ran = run("tap", shop / "mysql", "--consumer", "consumers_of_tap:Reviews")
    assert (ran.status, ran.out) == (0, "230 reviews\n")
    with tailrace.transactions(shop / "mysql") as found:
        transactions = list(found)
        assert (
            ran.err == f"tailrace: told of what is before {found.position}; GTIDs {found.gtids}\n"
        )
    ran = run("tap", shop / "mysql", "--consumer", "consumers_of_tap:Commits")
    assert ran.out == f"{len(transactions)} commits\n"


def test_select(run, folder, shop):
    ran = run(
        "tap", shop / "mysql", "--consumer", "consumers_of_tap:Reviews", "--exclude", "*.reviews"
    )
    assert ran.out == "0 reviews\n"
    with tailrace.transactions(shop / "mysql") as found:
        starts = [each.start for each in found]
    bounds = ("--start", starts[2], "--until", starts[5])
    ran = run("tap", shop / "mysql", "--consumer", "consumers_of_tap:Commits", *bounds)
    assert ran.out == "3 commits\n"


def test_an_error_of_the_consumer_ends_it_before_its_transaction(run, folder, shop):
    ran = run("tap", shop / "mysql", "--consumer", "consumers_of_tap:Fails")
    with tailrace.transactions(shop / "mysql") as found:
        start = [each.start for each in found][2]
    assert ran.status == 2
    assert f"told of what is before {start}; GTIDs" in ran.err
    assert "the consumer consumers_of_tap.Fails failed in trx_commit" in ran.err
    assert "Traceback" not in ran.err


@each_case(
    ("name", "error"),
    [
        ("IsFull", "cannot be made without arguments: OSError: full"),
        ("CannotBeClosed", "in close: OSError: full"),
    ],
)
def test_a_consumer_that_raises(run, folder, shop, name, error):
    ran = run("tap", shop / "mysql", "--consumer", f"consumers_of_tap:{name}")
    assert ran.status == 2
    assert error in ran.err
    assert "Traceback" not in ran.err
    assert ("told of what is before" in ran.err) == (name == "CannotBeClosed")


def test_without_a_consumer_events_are_printed(run, shop):
    ran = run("tap", shop / "mysql", "--tables", "shop.reviews")
    assert ran.status == 0
    names = [line.split()[1] for line in ran.lines]
    assert names[:2] == ["trx_start", "stmt_start"]
    assert names.count("row_write") == 230
    assert names.count("trx_start") == names.count("trx_commit")
    assert "\x1b" not in ran.out
    ran = run("tap", shop / "mysql", "--tables", "shop.nothing")
    assert (ran.status, "shop.nothing" in ran.err) == (2, True)


def test_the_reader_of_its_output_goes_away(shop):
    """In the middle, or with the last bytes that it has not written yet."""
    command = f"{sys.executable} -m tailrace tap {shop / 'mysql'}"
    for table in ("reviews", "products"):
        script = f"{command} --tables '*.{table}' | head -n 1; echo ${{PIPESTATUS[0]}}"
        ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        assert ran.stdout.endswith("\n0\n"), table
        assert "failed in close" not in ran.stderr


@each_case(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_while_it_follows(begin, shop, number, status):
    process = begin("tap", "--follow", shop / "mysql")
    while "trx_commit" not in process.stdout.readline():
        pass
    process.send_signal(number)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == status, err
    assert "told of what is before" in err
