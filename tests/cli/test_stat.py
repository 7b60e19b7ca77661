"""`tailrace stat`."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter

import pytest

WORDS = {"INSERT INTO": "inserts", "UPDATE": "updates", "DELETE FROM": "deletes"}


def counted(ran):
    (line,) = ran.lines
    return json.loads(line)


@pytest.mark.parametrize(
    "case", ["image-minimal-full", "payload-full", "compressed-full-full", "several-tables"]
)
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


def test_a_part(run, shop):
    found = counted(
        run("stat", shop / "mysql", "--as", "json", "--from", "binlog.000004", "--tables", "orders")
    )
    assert found["files"] == 1
    assert set(found["tables"]) == {"shop.orders"}
