"""`tailrace stat`."""

import gzip
import json
import re
from collections import Counter

import tailrace
from tests.cases import each_case

WORDS = {"INSERT INTO": "inserts", "UPDATE": "updates", "DELETE FROM": "deletes"}


def counted(ran):
    (line,) = ran.lines
    return json.loads(line)


@each_case("case", ["image-minimal-full", "payload-full", "compressed-full-full", "several-tables"])
def test_counts_are_mysqlbinlogs(run, corpus, case):
    for folder in corpus.glob(f"*.{case}"):
        text = gzip.decompress((folder / "mysqlbinlog.txt.gz").read_bytes()).decode(
            "utf-8", "replace"
        )
        told = Counter(
            re.findall(r"^### (INSERT INTO|UPDATE|DELETE FROM) `(.*)`\.`(.*)`$", text, re.MULTILINE)
        )
        ran = run("stat", folder, "--as", "json")
        assert ran.status == 0
        found = counted(ran)
        rows = {
            (word, *table.split(".")): counts[name]
            for table, counts in found["tables"].items()
            for word, name in WORDS.items()
            if counts[name]
        }
        assert rows == dict(told)
        at = len(re.findall(r"^# at \d+$", text, re.MULTILINE))
        outer = sum(counts["events"] for counts in found["events"].values() if counts["bytes"])
        assert outer == at or case == "payload-full"
        sizes = sum(path.stat().st_size for path in folder.glob("*.0*"))
        assert found["bytes"] == sizes
        assert (
            sum(counts["bytes"] for counts in found["events"].values())
            == sizes - 4 * found["files"]
        )


def test_largest_transactions(run, shop):
    found = counted(run("stat", shop / "mysql", "--as", "json"))
    largest = found["largest_transactions"]
    assert len(largest) == 10
    assert [each["bytes"] for each in largest] == sorted(
        (each["bytes"] for each in largest), reverse=True
    )
    records = run("log", shop / "mysql", "--as", "json").lines
    by_gtid = Counter(json.loads(line)["_gtid"] for line in records)
    assert all(each["rows"] == by_gtid[each["gtid"]] for each in largest)
    assert found["transactions"] == 1168


def test_changes_over_time_are_those_of_the_records(run, shop):
    found = counted(run("stat", shop / "mysql", "--as", "json"))["timeline"]
    expected = Counter()
    for line in run("log", shop / "mysql", "--as", "json").lines:
        record = json.loads(line)
        second = record["_ts"] // 1_000_000
        start = second // found["seconds"] * found["seconds"]
        expected[f"{record['_db']}.{record['_table']}", start] += 1
    seen = {
        (table, each["start"]): each["changes"]
        for table, intervals in found["tables"].items()
        for each in intervals
    }
    assert seen == dict(expected)
    assert len({start for _, start in seen}) > 1


def test_bytes_over_time_and_sizes_are_all_of_them(run, shop):
    found = counted(run("stat", shop / "mysql", "--as", "json"))
    for table, counts in found["tables"].items():
        assert counts["bytes"] == sum(each["bytes"] for each in found["timeline"]["tables"][table])
    sizes = found["transaction_sizes"]
    for what in ("bytes", "rows"):
        assert sum(sizes[what].values()) == found["transactions"]
    by_gtid = Counter()
    for line in run("log", shop / "mysql", "--as", "json").lines:
        by_gtid[json.loads(line)["_gtid"]] += 1
    assert sizes["rows"]["1"] == sum(rows == 1 for rows in by_gtid.values())
    assert sizes["rows"]["2-3"] == sum(rows in {2, 3} for rows in by_gtid.values())


DEFINES = r"(?:/\* leading \*/ )?(?:CREATE|ALTER|DROP|RENAME|TRUNCATE|GRANT)\b"


@each_case("server", ["mysql-9.7", "mariadb-11.8", "mariadb-10.11"])
@each_case("case", ["several-tables", "ddl"])
def test_definitions_are_mysqlbinlogs(run, corpus, server, case):
    folder = corpus / f"{server}.{case}"
    found = counted(run("stat", folder, "--as", "json"))
    text = gzip.decompress((folder / "mysqlbinlog.txt.gz").read_bytes()).decode("utf-8", "replace")
    told = re.findall(rf"^({DEFINES}(?! (?:OR REPLACE )?TEMPORARY).*)$", text, re.MULTILINE)
    assert [each["statement"].split("\n")[0][:60] for each in found["definitions"]] == [
        each[:60] for each in told
    ]
    marked = found["timeline"]["definitions"]
    assert sum(each["statements"] for each in marked) == len(told) > 5


def test_a_two_phase_alter_defines_once_and_not_where_it_was_rolled_back(run, corpus):
    folder = corpus / "mariadb-11.8.two-phase-alter"
    found = counted(run("stat", folder, "--as", "json"))["definitions"]
    text = gzip.decompress((folder / "mysqlbinlog.txt.gz").read_bytes()).decode()
    told = re.findall(r"ddl COMMIT ALTER(?:.*\n)*?### (ALTER .*)", text)
    assert [each["statement"] for each in found if each["statement"].startswith("ALTER")] == told


def test_what_is_not_counted_is_said(run, corpus):
    found = counted(run("stat", corpus / "mysql-9.7.xa", "--as", "json"))
    assert found["rolled_back"] == 1
    ran = run("stat", corpus / "mysql-9.7.statement-format")
    assert "changes logged as statements: their rows are not counted" in ran.out


def test_text(run, shop):
    ran = run("stat", shop)
    assert ran.status == 0
    assert re.search(r"^  shop\.order_items +1,539 +3 +46 +54\.2 kB$", ran.out, re.MULTILINE)
    assert re.search(
        r"^mysql: 4 files, .*, 1,168 transactions, 20\S+ \S+ to 20\S+ \S+ UTC$",
        ran.out,
        re.MULTILINE,
    )


def test_names_are_not_escaped_in_json(run, tmp_path):
    table = tailrace.Table.parse("CREATE TABLE d.größe (id INT)", flavour="mysql")
    path = tmp_path / "log.000001"
    with tailrace.create(path, flavour="mysql", server_id=1) as log, log.transaction() as change:
        change.insert(table, [(1,)])
    assert "d.größe" in run("stat", path, "--as", "json").out


def test_a_part(run, shop):
    found = counted(
        run(
            "stat", shop / "mysql", "--as", "json", "--start", "binlog.000004", "--tables", "orders"
        )
    )
    assert found["files"] == 1
    assert set(found["tables"]) == {"shop.orders"}
