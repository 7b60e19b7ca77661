"""`tailrace log --as sql`, `--as undo` and `--rewrite-db`; servers run them in tests/sql."""

import json
import re
import subprocess
import sys

from tests.cases import each_case
from tests.cli.test_errors import assert_refused

BEGAN = "START TRANSACTION;"


def rows(ran):
    return [line for line in ran.lines if re.match("(INSERT|UPDATE|DELETE) ", line)]


def test_sql_of_a_shop(run, shop):
    ran = run("log", shop / "mysql", "--as", "sql")
    assert ran.status == 0
    assert ran.lines[0].startswith("-- tailrace ")
    assert "feed it to: mysql --binary-mode" in ran.lines[1]
    assert ran.lines.count(BEGAN) == ran.lines.count("COMMIT;") > 100
    assert "@@session.sql_mode = @tailrace_sql_mode" in ran.lines[-1]
    records = run("log", shop / "mysql", "--as", "json")
    assert len(rows(ran)) == len(records.lines)
    first = json.loads(records.lines[0])
    assert any(
        line.startswith(f"-- {first['_file']}:") and f"  {first['_gtid']}  20" in line
        for line in ran.lines
    )


def test_definitions_cannot_be_taken_back(run, shop):
    whole = ("log", shop / "mysql", "--as", "undo")
    ran = run(*whole)
    assert_refused(ran, "binlog.000001 at 235 (QUERY): the statement «CREATE DATABASE shop")
    assert ran.out == ""
    skipped = run(*whole, "--statements", "skip")
    assert skipped.status == 0
    notes = [line for line in skipped.lines if line.startswith("-- left out")]
    assert f"{len(notes)} changes that were logged as statements were skipped" in skipped.err
    assert "CREATE DATABASE shop" in notes[-1]
    orders = run(*whole, "--tables", "shop.payments", "--start", "binlog.000002:4")
    assert orders.status == 0
    assert {line.split("`")[3] for line in rows(orders)} == {"payments"}


def test_an_image_that_does_not_say_what_was(run, corpus):
    case = corpus / "mysql-9.7.image-minimal-full"
    ran = run("log", case, "--as", "undo", "--statements", "skip")
    assert_refused(ran, "binlog_row_image is not FULL")
    assert re.search(
        r"binlog.000001 at \d+ \((UPDATE|DELETE)_ROWS\): corpus\.\w+: the log's", ran.err
    )
    assert run("log", case, "--as", "sql").status == 0


def test_names_must_be_known(run, corpus, tmp_path):
    """A log without names, cut behind its CREATE TABLEs."""
    case = corpus / "mariadb-11.8.image-full-minimal"
    first = json.loads(run("log", case, "--as", "json").lines[0])
    cut = tmp_path / "cut.000001"
    assert run("log", case, "--start", first["_gtid"], "--as", "raw", "--into", cut).status == 0
    ran = run("log", cut, "--as", "sql")
    assert ran.status == 2
    table = f"{first['_db']}.{first['_table']}"
    assert f"(WRITE_ROWS_V1): {table}: the names of its columns are unknown" in ran.err
    assert "--schema FILE" in ran.err
    assert not rows(ran)


def test_only_some_tables(run, shop, corpus):
    ran = run("log", shop / "mysql", "--as", "sql", "--tables", "shop.orders")
    assert {line.split("`")[3] for line in rows(ran)} == {"orders"}
    assert sum(line.startswith("CREATE TABLE") for line in ran.lines) == 1
    assert any(
        line.startswith("-- left out, not of the requested tables: CREATE TABLE shop.customers")
        for line in ran.lines
    )
    mixed = ("log", corpus / "mysql-9.7.mixed-format", "--as", "sql", "--tables", "corpus.*")
    assert_refused(run(*mixed), "leave such statements out (--statements skip")
    skipped = run(*mixed, "--statements", "skip")
    assert skipped.status == 0
    assert "changes that were logged as statements were skipped" in skipped.err


@each_case("how", ["text", "json", "sql", "undo"])
def test_rewrite_db(run, shop, how):
    """The new name stands where the old stood, but in the text of statements."""
    selected = ("log", shop / "mysql", "--start", "binlog.000004", "--as", how)
    plain = run(*selected)
    renamed = run(*selected, "--rewrite-db", "shop=laden")
    assert renamed.status == plain.status == 0
    marks = {
        "text": (" shop.", " laden."),
        "json": ('"_db":"shop"', '"_db":"laden"'),
        "sql": ("`shop`.`", "`laden`.`"),
        "undo": ("`shop`.`", "`laden`.`"),
    }
    old, new = marks[how]
    assert old in plain.out
    texts = [
        "\n".join(line for line in each.out.splitlines() if "information_schema" not in line)
        for each in (plain, renamed)
    ]
    assert texts[0].replace(old, new) == texts[1]
    if how in {"sql", "undo"}:
        assert "event_object_schema = 'laden'" in renamed.out
        assert "event_object_schema = 'shop'" not in renamed.out
    some = run(*selected, "--rewrite-db", "shop=laden", "--tables", "laden.orders")
    none = run(*selected, "--rewrite-db", "shop=laden", "--tables", "shop.orders")
    assert new in some.out
    assert new not in none.out


def test_rewrite_db_in_events(run, shop):
    ran = run("log", shop / "mysql", "--as", "json", "--events", "--rewrite-db", "shop=laden")
    events = [json.loads(line) for line in ran.lines]
    assert {each["table"].split(".")[0] for each in events if "table" in each} == {"laden"}
    assert {each["fields"]["database"] for each in events if each["event"] == "TABLE_MAP"} == {
        "laden"
    }


def test_statements_that_keep_the_old_name_are_told(run, shop):
    ran = run("log", shop / "mysql", "--as", "sql", "--rewrite-db", "shop=laden")
    noted = [line for line in ran.lines if line.startswith("-- this statement names shop")]
    assert noted
    assert f"{len(noted)} statements name a renamed database in their text" in ran.err


@each_case("how", ["json", "sql", "undo"])
def test_a_reader_that_goes_away(shop, how):
    command = f"{sys.executable} -m tailrace log {shop}/mysql --as {how} --statements skip"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[1:] == ["0", ""]
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
