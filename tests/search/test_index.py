"""The full-text indexer of WL#3283 ("Full text search engine indexer reference implementation")."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import pytest

import tailrace
from tailrace.errors import LogPurged, LogReset, SchemaError, StorageError, UsageError
from tailrace.log.changes import Change, Ended, Logged
from tailrace.log.rows import items
from tailrace.search import Analyser, Index, Manifest, index, reader, shard
from tailrace.search.shard import JSON, IndexedTable, State, open_shard
from tailrace.sql.fulltext import parse
from tests.cases import each_case
from tests.recorded import ROOT
from tests.writing import made

SHOP = str(ROOT / "examples" / "shop" / "mysql")
EXPECTED = json.loads((ROOT / "examples" / "shop" / "expected.json").read_text(encoding="utf-8"))
SEARCH = ROOT / "src" / "tailrace" / "search"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop") / "index"
    index(SHOP, folder, tables="shop.*")
    return Index(folder)


@pytest.fixture(scope="module")
def folded(tmp_path_factory):
    """A table with a column in which accents and case count, and one in which they do not."""
    work = tmp_path_factory.mktemp("folded")
    table = tailrace.Table.parse(
        "create table t.a (id int primary key,"
        " strict varchar(99) character set utf8mb4 collate utf8mb4_bin,"
        " free varchar(99) character set utf8mb4 collate utf8mb4_0900_ai_ci)"
    )
    with made.log(work / "binlog.000001", "mysql") as log, log.transaction() as transaction:
        rows = [("¼kilo Salz", ""), ("", "1/4kilo"), ("salz№pfeffer", ""), ("apple", "banana")]
        transaction.insert(
            table, [{"id": at, "strict": a, "free": b} for at, (a, b) in enumerate(rows, 1)]
        )
    index(work / "binlog.000001", work / "index")
    return Index(work / "index")


def expected(table, *columns):
    """Rows of a table as its server's SELECT gave them at the end of the logs."""
    found = EXPECTED["mysql"]["tables"][table]
    places = [found["columns"].index(each) for each in columns]
    return Counter(tuple(row[place] for place in places) for row in found["rows"])


TABLES = {
    "shop.reviews": ("id", "body"),
    "shop.products": ("id", "sku", "title"),
    "shop.customers": ("id", "name", "email", "country"),
    "shop.orders": ("id", "note"),
    "shop.order_items": ("order_id", "line"),
}


def test_logs_give_the_rows_that_select_gives(shop):
    """Updates, deletes and changed keys follow."""
    for table, columns in TABLES.items():
        rows = Counter(
            tuple(None if hit.row[each] is None else str(hit.row[each]) for each in columns)
            for hit in shop.rows(table)
        )
        assert rows == expected(table, *columns), table


def test_every_word_of_a_review_finds_it(shop):
    for hit in list(shop.rows("shop.reviews"))[::20]:
        for word in re.findall(r"\w{3,}", hit.row["body"]):
            if not Analyser().counts(word.lower()):
                continue
            found = shop.search(word, table="shop.reviews", limit=1000)
            assert hit.key in {each.key for each in found.hits}, word


def test_strings_of_json_are_found_and_names_of_members_are_not(shop):
    product = next(hit for hit in shop.rows("shop.products") if hit.row["attributes"])
    texts = [each for each in product.row["attributes"].values() if isinstance(each, str)]
    found = shop.search(f"+{texts[0]}", table="shop.products", limit=1000).hits
    assert product.key in {hit.key for hit in found}
    assert not shop.search("helpful", table="shop.reviews").hits  # a name in `details`


def test_hits_have_scores_counts_and_marks(shop):
    found = shop.search("+would* +again", limit=3)
    assert found.total == found.tables["shop.reviews"] > 3
    assert [hit.score for hit in found.hits] == sorted((h.score for h in found.hits), reverse=True)
    pieces = found.hits[0].texts["body"]
    assert "".join(text for text, _ in pieces) == found.hits[0].row["body"]
    assert {text.lower() for text, marked in pieces if marked} == {"would", "again"}
    second = shop.search("+would* +again", limit=1, offset=1)
    assert second.hits[0].key == found.hits[1].key


def test_only_so_much_of_a_result_is_marked(shop, monkeypatch):
    """Rows may be long: without a limit, a few of them would make every search slow."""
    monkeypatch.setattr(reader, "_MARKED", 200)
    read = 0
    for hit in shop.search("would again", table="shop.reviews", limit=50).hits:
        for column, pieces in hit.texts.items():
            text = "".join(piece for piece, _ in pieces)
            assert column != "body" or text == hit.row[column]
            marked = any(found for _, found in pieces)
            assert not (marked and read >= 200)
            assert marked or column != "body" or read + len(text) > 200
            read += len(text)
    assert read > 1000


def test_a_search_in_one_table_finds_rows_of_it_only(shop):
    everywhere = shop.search("a*", limit=1000)
    assert len(everywhere.tables) > 2
    there = shop.search("a*", table="shop.products", limit=1000)
    assert there.tables == {"shop.products": everywhere.tables["shop.products"]}
    assert not shop.search("a*", table="shop.nothing").hits


def test_the_index_continues_where_it_is(tmp_path):
    whole = index(SHOP, tmp_path / "whole", tables="shop.reviews")
    first = index(SHOP, tmp_path / "parts", tables="shop.reviews", until="binlog.000003")
    second = index(SHOP, tmp_path / "parts", tables="shop.reviews")
    assert first.rows
    assert second.rows
    assert first.rows + second.rows == whole.rows
    rows = [
        sorted(
            (hit.key, json.dumps(hit.row)) for hit in Index(tmp_path / name).rows("shop.reviews")
        )
        for name in ("whole", "parts")
    ]
    assert rows[0] == rows[1]
    assert index(SHOP, tmp_path / "parts", tables="shop.reviews").rows == 0


def test_another_analyser_or_other_tables_than_the_index_has_are_errors(tmp_path):
    index(SHOP, tmp_path / "index", tables="shop.reviews")
    with pytest.raises(UsageError, match="other tables"):
        index(SHOP, tmp_path / "index", tables="shop.products")
    with pytest.raises(UsageError, match="other analyser"):
        index(SHOP, tmp_path / "index", tables="shop.reviews", analyser=Analyser("english"))
    with pytest.raises(UsageError, match="an index in an object store is made on Spark"):
        index(SHOP, "memory://a/index")


def test_languages_reduce_words_to_their_stems(tmp_path):
    index(SHOP, tmp_path / "index", tables="shop.reviews", analyser=Analyser("english"))
    found = Index(tmp_path / "index")
    total = found.search("would", limit=1).total
    assert found.search("recommending", limit=1).total == found.search("recommend", limit=1).total
    assert total
    with pytest.raises(UsageError, match="klingon"):
        Analyser("klingon")
    for sizes in ((0, 9), (9, 3)):
        with pytest.raises(UsageError, match="no word has"):
            Analyser(None, *sizes)


def test_stop_words_may_have_capitals_and_accents(tmp_path, run):
    words = ("--stop-words", "Would, ÁGAIN")
    indexed = run("index", SHOP, "--tables", "shop.reviews", "--into", tmp_path / "i", *words)
    assert indexed.status == 0
    found = Index(tmp_path / "i")
    assert [found.search(each).total for each in ("would", "again")] == [0, 0]
    assert found.search('"would buy"').total
    assert run("index", SHOP, "--into", "").status == 2


def test_queries_that_mysql_rejects_are_errors(shop):
    for query in ("+", "(a", "a)", '"(a', "@", "* (a)", '* "a"', "((", "~"):
        with pytest.raises(UsageError, match="syntax error"):
            shop.search(query)


def test_a_word_of_more_tokens_without_accents_is_found_in_each_column(folded):
    """Boolean mode: a symbol is no word where accents count, and one or two elsewhere; a must is
    met by the tokens of one column, however many they are.
    """
    for query in ("№", "½", "™", "+½", "-№ apple", "№*", '"½"', '"№ ½" @9'):
        folded.search(query)
    assert [hit.key for hit in folded.search("+¼kilo").hits] == [(1,)]
    assert [hit.key for hit in folded.search("+¼kil*").hits] == [(1,)]
    assert [hit.key for hit in folded.search("+4kilo").hits] == [(2,)]
    assert [hit.key for hit in folded.search("+salz№pfeffer").hits] == [(3,)]


def test_queries_are_limited(shop):
    for query in ("a " * 6000, "(" * 60 + "a" + ")" * 60):
        with pytest.raises(UsageError):
            shop.search(query)
    most = '"aaa bbb ccc ddd eee" @99' * 4 + '"eee fff" @2' * 9
    shop.search(most)
    with pytest.raises(UsageError, match="more than 4 texts of three words or more"):
        shop.search(most + '"aaa bbb ccc" @9')
    with pytest.raises(UsageError, match="limit"):
        shop.search("a", limit=20_000)
    parse("a " * 4000)


def test_a_file_that_is_cut_short_is_an_error(tmp_path):
    """Also where tantivy panics; an answer without it is one that does not need the file.

    A thread of tantivy's may still have the file in memory: another file takes its place.
    """
    index(SHOP, tmp_path / "index", tables="shop.reviews")
    expected = Index(tmp_path / "index").search("+would again*").total
    files = [*(tmp_path / "index" / "shards" / "0").iterdir()]
    errors = []
    cut = product((each for each in files if each.suffix != ".lock"), (0, 8, 40, -20))

    def replace(file, content):
        (tmp_path / "new").write_bytes(content)
        (tmp_path / "new").replace(file)

    for file, size in cut:
        whole = file.read_bytes()
        replace(file, whole[:size])
        try:
            assert Index(tmp_path / "index").search("+would again*").total == expected
        except StorageError as error:
            errors.append(str(error))
        replace(file, whole)
    assert len(errors) >= 4 * (len(files) // 2)
    assert all(str(tmp_path / "index" / "shards" / "0") in each for each in errors)


@pytest.fixture
def two_shards(tmp_path, shop):
    """Twice the same shard, as two."""
    index(SHOP, tmp_path / "index", tables="shop.*")
    for name in ("1", "2"):
        shutil.copytree(tmp_path / "index" / "shards" / "0", tmp_path / "index" / "shards" / name)
    Manifest(("shop.*",), shards=("shards/0", "shards/1")).save(tmp_path / "index")
    return tmp_path / "index"


def test_readers_never_see_some_of_the_shards_only(two_shards, shop):
    """If a shard cannot be read, the index stays as it was."""
    found = Index(two_shards)
    total = 2 * shop.search("would*").total
    assert found.search("would*").total == total
    (two_shards / "shards" / "1" / "meta.json").write_text("{}")
    for _ in range(2):
        with pytest.raises(StorageError):
            found.refresh()
        assert (found.search("would*").total, len(found.states)) == (total, 2)


def test_a_reader_that_was_slower_than_a_batch_sees_the_next(two_shards, shop, monkeypatch):
    """Shards are replaced and removed between the manifest and their opening."""

    def late(folder, analyser):
        if (two_shards / "shards" / "1").exists():
            Manifest(("shop.*",), shards=("shards/2",)).save(two_shards)
            for name in ("0", "1"):
                shutil.rmtree(two_shards / "shards" / name)
        return open_shard(folder, analyser)

    monkeypatch.setattr(reader, "open_shard", late)
    found = Index(two_shards)
    assert found.manifest.shards == ("shards/2",)
    assert found.search("would*").total == shop.search("would*").total


def test_a_manifest_of_version_1_can_be_read():
    """Law 11: what is written by one release is read by the next."""
    text = (Path(__file__).parent / "index-v1.json").read_text(encoding="utf-8")
    found = Manifest.loads(text, "golden")
    assert found == Manifest(
        ("shop.products", "shop.reviews"),
        ("shop.old_*",),
        Analyser("english", 2, 40, frozenset({"the", "of"})),
        ("shards/0", "shards/1"),
    )
    assert json.loads(found.dumps()) == json.loads(text)
    for damaged in ("{", '{"version": 2}', '{"version": 1}', "[]"):
        with pytest.raises(StorageError):
            Manifest.loads(damaged, "golden")


def test_a_log_without_names_of_columns_is_an_error(tmp_path):
    with pytest.raises(SchemaError, match="names of its columns"):
        index(f"{SHOP}/binlog.000002", tmp_path / "index")


CREATE = "CREATE TABLE d.t (id INT PRIMARY KEY, b TEXT)"


@each_case(
    ("statements", "found"),
    [
        (["ALTER TABLE d.t ADD c FROB"], "d.t: a statement is not understood"),
        (["ALTER TABLE `half"], "d.t: a statement is not understood"),
        (["CREATE TABLE d.t (id FROB)"], 0),
        (["ALTER TABLE d.t MODIFY b BLOB"], "d.t: rows came or went with a statement"),
        (["ALTER TABLE d.t CONVERT TO CHARSET utf16"], "d.t: rows came or went"),
        (["ALTER TABLE d.t ADD c INT DEFAULT (id), RENAME d.u"], "d.u: rows came or went"),
        ([CREATE, "ALTER TABLE d.t ADD c TEXT"], 2),
    ],
)
def test_rows_after_a_statement_are_known_or_an_error(tmp_path, monkeypatch, statements, found):
    monkeypatch.setattr(shard, "_CACHED", 0)
    *before, statement = statements
    with made.log(tmp_path / "binlog.000001", "mysql") as log, log.transaction() as transaction:
        for create in before:
            transaction.query(create, "d")
        transaction.insert(tailrace.Table.parse(CREATE), [(1, "word")])
        transaction.query(statement, "d")
        if before:
            columns = CREATE.replace("TEXT", "TEXT, c TEXT")
            transaction.insert(tailrace.Table.parse(columns), [(2, "", "word")])
    with pytest.raises(SchemaError, match=found) if isinstance(found, str) else nullcontext():
        index(tmp_path / "binlog.000001", tmp_path / "index")
        assert Index(tmp_path / "index").search("word").total == found


def test_it_uses_public_names_only_and_stays_small():
    """The package is the example of how one builds on Tailrace; the page, of what on the index."""
    lines = 0
    of_search = set()
    for path in [*SEARCH.glob("**/*.py"), *SEARCH.with_name("search_page").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        lines += sum(map(bool, text.splitlines())) if SEARCH in path.parents else 0
        for node in ast.walk(ast.parse(text)):
            parts = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tailrace"):
                parts = [*node.module.split("."), *(each.name for each in node.names)]
                if SEARCH not in path.parents and parts[1] == "search":
                    of_search |= {f"{node.module}.{each.name}" for each in node.names}
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls"}:
                parts = [node.attr.removeprefix("__")]
            assert not [each for each in parts if each.startswith("_")], path
    assert 500 < lines < 2000
    assert of_search == {"tailrace.search.Hit", "tailrace.search.Index"}


def test_the_commands(run, tmp_path):
    """One command to an index, one to a hit, as the README has them."""
    into = str(tmp_path / "found")
    indexed = run("index", SHOP, "--tables", "shop.products,shop.reviews", "--into", into)
    assert indexed.status == 0
    assert [
        line for line in indexed.err.splitlines() if "up to binlog.0" not in line
    ] == []  # progress
    assert indexed.out == "496 rows indexed in 1,168 transactions; up to binlog.000004:51043\n"
    found = run("search", into, "+would* +again", "--limit", "1")
    assert found.status == 0
    assert re.match(r"shop\.reviews \d+  \d\.\d\d\n  body: .*would.*again.*\n", found.out)
    as_json = run("search", into, "+would* +again", "--json", "--table", "shop.reviews")
    rows = [json.loads(line) for line in as_json.out.splitlines()]
    assert len(rows) == 10
    assert rows[0].keys() == {"table", "key", "score", "row"}
    assert run("search", into, "zzzz").status == 1
    wrong = run("search", into, "+(")
    assert (wrong.status, wrong.out, wrong.err.count("\n")) == (2, "", 1)
    assert run("search", str(tmp_path), "x").status == 2


@pytest.mark.slow
def test_the_example_by_content_handlers_makes_the_same_index(tmp_path, shop):
    """The reference application as the worklog drew it, in one file."""
    line = [sys.executable, str(ROOT / "examples/fulltext_index.py"), SHOP, str(tmp_path), "shop.*"]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = Index(tmp_path)
    for table in shop.tables:
        rows = [sorted(json.dumps(hit.row) for hit in each.rows(table)) for each in (found, shop)]
        assert rows[0] == rows[1]
    assert found.search("again").total == shop.search("again").total


def test_the_api_of_a_stream_of_items():
    """`items` gives what `rows` gives, and the statements and ends among it."""
    with items(SHOP, tables="shop.*") as found:
        given = list(found)
    rows = sum(len(item.rows()) for item, _, _ in given if isinstance(item, Change))
    assert rows == sum(1 for _ in tailrace.rows(SHOP))
    assert sum(isinstance(item, Ended) for item, _, _ in given) == 1168
    assert sum(isinstance(item, Logged) for item, _, _ in given) == 8
    assert all((resume is not None) == isinstance(item, Ended) for item, _, resume in given)


def test_a_shards_state_of_version_1_can_be_read():
    text = (Path(__file__).parent / "shard-v1.json").read_bytes()
    found = State.loads(text)
    assert (str(found.position), str(found.read)) == ("binlog.000007:4711", "binlog.000007:5000")
    assert (found.time, found.next, found.mark) == (1732600000000000, 4, "0f1e2d3c4b5a6978")
    assert found.tables == {
        "shop.reviews": IndexedTable(
            1, ["id"], {"title": "ai", "body": "as", "tags": JSON}, "binlog.000006:157"
        ),
        "shop.notes": IndexedTable(3, [], {"text": "cs"}, "binlog.000007:300", True),
    }
    assert json.loads(found.dumps()) == json.loads(text)
    with pytest.raises(StorageError, match="a shard has format 2"):
        State.loads(text.replace(b'"version": 1', b'"version": 2'))
    with pytest.raises(StorageError, match=r"'shop\.no\.tes' may be two tables"):
        State.loads(text.replace(b"shop.notes", b"shop.no.tes"))


def test_logs_that_were_purged_or_replaced(tmp_path):
    logs = shutil.copytree(SHOP, tmp_path / "logs")
    (logs / "binlog.index").unlink(missing_ok=True)
    first, second, *_ = sorted(logs.glob("binlog.0*"))
    into = tmp_path / "index"
    index(first, into, tables="shop.customers")
    content = first.read_bytes()
    first.write_bytes(content[: Index(into).states[0].position.offset - 1])
    with pytest.raises(LogReset, match=r"it was read up to .*build the index again"):
        index(logs, into, tables="shop.customers")
    first.unlink()
    with pytest.raises(LogPurged, match=f"{first.name} is gone.* begin with {second.name}"):
        index(logs, into, tables="shop.customers")
    first.write_bytes(content)
    index(logs, into, tables="shop.customers")
