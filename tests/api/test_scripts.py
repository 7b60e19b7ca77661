"""`tailrace.redo` and `tailrace.undo` give what the command prints."""

import sys

import pytest

import tailrace
from tailrace.cli import main
from tailrace.columns.text import readers
from tailrace.errors import StorageError, UndoError, UsageError
from tests.cases import each_case
from tests.recorded import SHOP

LATE = "binlog.000003:4"


@pytest.fixture
def printed(monkeypatch, capfdbinary):
    """What ``tailrace log`` prints."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tailrace", "log", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capfdbinary.readouterr().out

    return run


@each_case("how", ["sql", "undo"])
@each_case("flavour", ["mysql", "mariadb"])
def test_a_script_is_the_command_s(how, flavour, tmp_path, printed):
    make = tailrace.redo if how == "sql" else tailrace.undo
    source = SHOP / flavour
    expected = printed("--as", how, "--start", LATE, "--tables", "shop.*", source)
    saved = tmp_path / "script.sql"
    with make(source, start=LATE, tables="shop.*") as script:
        script.save(saved)
    assert saved.read_bytes() == expected
    with make(source, start=LATE, tables="shop.*") as script:
        assert "".join(f"{line}\n" for line in script).encode() == expected


@each_case("odd", ["\u2028", "\x85", "\x0b"])
def test_a_line_of_kernels_ends_where_the_statement_ends(odd, tmp_path, monkeypatch):
    """A name may have characters that `str.splitlines` takes for the end of a line."""
    table = tailrace.Table("shop.t", {"id": "INT PRIMARY KEY", f"a{odd}b": "TEXT"})
    with (
        tailrace.create(tmp_path / "binlog.000001", flavour="mysql", server_id=1) as log,
        log.transaction() as transaction,
    ):
        transaction.insert(table, [(number, "x" * 500) for number in range(3000)])
    assert (tmp_path / "binlog.000001").stat().st_size > readers.LEAST
    monkeypatch.setattr(readers, "LEAST_UNCOMPILED", 0)
    by_kernels = list(tailrace.redo(tmp_path))
    assert sum(f"`a{odd}b`" in line for line in by_kernels) == 3000
    monkeypatch.setattr(readers, "LEAST", 1 << 40)
    assert by_kernels == list(tailrace.redo(tmp_path))


def test_a_script_that_cannot_be_saved(tmp_path):
    with pytest.raises(StorageError, match="missing"):
        tailrace.redo(SHOP / "mysql").save(tmp_path / "missing" / "script.sql")


def test_a_file_is_replaced_by_a_whole_script_only(tmp_path):
    """An error left it empty, and lines that were taken before were missing, without a word."""
    saved = tmp_path / "script.sql"
    saved.write_text("kept")
    with pytest.raises(UndoError):
        tailrace.undo(SHOP / "mysql").save(saved)
    script = tailrace.undo(SHOP / "mysql", start=LATE)
    next(script)
    with pytest.raises(UsageError, match="lines of this script were taken"):
        script.save(saved)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("script.sql", "kept")
    ]
    with pytest.raises(StorageError, match="Is a directory"):
        tailrace.undo(SHOP / "mysql", start=LATE).save(tmp_path)


def test_a_part_is_undone():
    """An end leaves later changes as they are."""
    script = tailrace.undo(SHOP / "mysql", start="binlog.000004:4", until="binlog.000004:4")
    assert not [line for line in script if line.startswith(("INSERT", "DELETE", "UPDATE"))]


def test_arguments_are_checked_in_the_call():
    with pytest.raises(UsageError, match="a script is of one log"):
        tailrace.undo(SHOP)
    with pytest.raises(UsageError, match=r"rows_per_insert is .* not 0"):
        tailrace.redo(SHOP / "mysql", rows_per_insert=0)


def test_stat_counts_all_logs_of_a_source():
    one, other = (tailrace.stat(SHOP / flavour) for flavour in ("mysql", "mariadb"))
    both = tailrace.stat(SHOP)
    assert both.transactions == one.transactions + other.transactions
    assert both.tables == one.tables | other.tables
    until = tailrace.stat(SHOP / "mysql", until="binlog.000002:60823", tables="shop.orders")
    assert 0 < until.tables["shop.orders"].insert < one.tables["shop.orders"].insert
    assert [*until.tables] == ["shop.orders"]


@each_case("make", [tailrace.redo, tailrace.undo])
def test_commands_are_the_script_s_statements(make):
    options = {"start": LATE, "tables": "shop.*"}
    changing = ("INSERT", "UPDATE", "DELETE")
    lines = [line for line in make(SHOP / "mysql", **options) if line.startswith(changing)]
    commands = [each.decode() for each in make(SHOP / "mysql", **options).commands()]
    assert [f"{each};" for each in commands if each.startswith(changing)] == lines
    script = make(SHOP / "mysql", **options)
    next(script)
    with pytest.raises(UsageError, match="lines of this script were taken"):
        script.commands()
