"""What objects show in a notebook (``_repr_html_``)."""

import json
from html.parser import HTMLParser

import tailrace
from tailrace import notebook
from tailrace.events import RowsEvent
from tailrace.log import Reader, Statistics
from tailrace.storage import find
from tailrace.transaction import TransactionAssembler
from tailrace.values.row import RowSet
from tests.cases import each_case
from tests.recorded import ROOT, folders
from tests.writing import made
from tools.servers import ONE_OF_EACH

SHOP = ROOT / "examples" / "shop" / "mysql"
HOSTILE = '</table><script>alert(1)</script>\u202e\x1b[31m\udcff"'
SHOWN = '</table><script>alert(1)</script>\\u202e\\x1b[31m\\udcff"'
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


class Cells(HTMLParser):
    """The cells of a notebook's HTML, row by row, its captions and notes."""

    def __init__(self, shown):
        super().__init__()
        self.rows, self.captions, self.notes, self.open = [], [], [], []
        self.feed(shown)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        assert dict(attrs) in ({}, {"style": "text-align: left"})
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        for name, texts in (("caption", self.captions), ("p", self.notes)):
            if tag == name:
                texts.append("")
        if tag in {"th", "td"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in {"th", "td"}:
            self.rows[-1][-1] += data
        else:
            (self.captions if self.open[-1] == "caption" else self.notes)[-1] += data


def shown(value):
    text = value._repr_html_()
    text.encode()  # no lone surrogates
    assert all(each.isprintable() for each in text.replace("\n", ""))
    return Cells(text)


def transactions(path):
    assembler = TransactionAssembler()
    found = [assembler.feed(event) for event in tailrace.open(path)]
    return [each for each in found if each is not None]


@each_case("folder", [each for each in folders("encrypted") if each.name.startswith(ONE_OF_EACH)])
def test_every_kind_of_recorded_event_shows_itself(folder):
    shown_kinds = set()
    for event in tailrace.open(folder):
        of_table = isinstance(event, RowsEvent) and not event.is_dummy
        name = str(event.table_map.full_name) if of_table else None
        if (event.name, name) in shown_kinds:
            continue
        shown_kinds.add((event.name, name))
        cells = shown(event)
        assert cells.captions == [f"{event.name} {event.file}:{event.offset}"]
        names = [row[0] for row in cells.rows]
        assert names[:3] == ["timestamp", "server_id", "length"]
        assert set(event.FIELDS) <= set(names) or "error" in names
        if of_table:
            assert [name] == [
                row[1].replace("\\\\", "\\") for row in cells.rows if row[0] == "table"
            ]


def test_a_transaction():
    found = transactions(SHOP)[40]
    cells = shown(found)
    assert str(found.gtid) in cells.captions[0]
    assert str(found.end) in cells.captions[0]
    assert [row[1] for row in cells.rows[1:]] == [event.name for event in found.events]
    assert "shop.orders" in [row[2] for row in cells.rows]


def test_rows_are_those_of_the_records(capsys):
    event = next(
        each
        for each in tailrace.open(SHOP)
        if each.name == "WRITE_ROWS" and "orders" in repr(each.table_map)
    )
    rows = RowSet(event, event.table_map)
    cells = shown(rows)
    assert len(cells.rows) == 1 + min(len(rows), notebook.MOST_ROWS)
    first = next(iter(rows))
    assert cells.rows[1][0] == str(first.values[0])
    one = shown(first)
    assert one.captions == [f"insert {rows.schema.database}.{rows.schema.table}"]
    assert [row[0] for row in one.rows[1:]] == [column.name for column in rows.schema.columns]
    assert one.rows[0] == ["column", "after"]


def test_committed_rows_and_transactions():
    row = next(iter(tailrace.rows(SHOP, tables="shop.orders")))
    cells = shown(row)
    assert cells.captions == ["Committed row", "insert shop.orders"]
    assert ["position", str(row.position)] in cells.rows
    assert ["gtid", row.gtid] in cells.rows
    assert [name for name, *_ in cells.rows[5:]] == list(row.values)
    found = list(tailrace.transactions(SHOP))
    largest = max(found, key=lambda each: len(each.rows))
    cells = shown(largest)
    assert largest.gtid in cells.captions[0]
    assert len(cells.rows) == 1 + notebook.MOST_ROWS
    assert cells.notes == [f"… and {len(largest.rows) - notebook.MOST_ROWS:,} more"]
    defined = next(each for each in found if each.statements)
    assert shown(defined).rows[-1] == defined.statements[-1:]


def hostile_log(path):
    table = tailrace.Table.parse(
        f"create table `a`.`{HOSTILE[:-7]}` (id int primary key, `{HOSTILE[:20]}` text)",
    )
    with made.log(path, "mysql") as log:
        with log.transaction() as transaction:
            transaction.insert(table, [(number, "x" * 230) for number in range(30)])
        with log.transaction() as transaction:
            transaction.update(table, [(1, "old")], [(1, "<b>new")])
    return path


def test_hostile_names_and_long_values(tmp_path):
    path = hostile_log(tmp_path / "binlog.000001")
    inserted, updated = (
        RowSet(event, event.table_map)
        for event in tailrace.open(path)
        if isinstance(event, RowsEvent)
    )
    cells = shown(inserted)
    assert cells.captions[0].startswith("insert `a`.`</table><script>alert(1)</script>\\u202e`")
    assert cells.rows[0] == ["id", HOSTILE[:20]]
    assert len(cells.rows) == 1 + notebook.MOST_ROWS
    assert cells.notes == ["… and 10 more"]
    assert "… 30 characters more" in cells.rows[1][1]
    assert shown(updated).rows[1] == ["1", "'old' → '<b>new'"]
    assert shown(next(iter(updated))).rows[2] == [HOSTILE[:20], "'old'", "'<b>new'"]
    assert shown(inserted.schema).rows[1] == ["id", "LONG", "", "no", "1"]
    for each in transactions(path):
        shown(each)
    for event in tailrace.open(path):
        shown(event)
    for row in tailrace.rows(path):
        shown(row)
    for each in tailrace.transactions(path):
        shown(each)


def test_a_table():
    table = tailrace.Table.parse(
        "create table shop.t (id int unsigned, name varchar(9) character set latin1 not null,"
        " primary key (name, id))"
    )
    cells = shown(table)
    assert cells.captions == ["shop.t"]
    assert cells.rows[1:] == [
        ["id", "LONG unsigned", "", "no", "2"],
        ["name", "VARCHAR", "latin1", "no", "1"],
    ]


def test_statistics():
    found = Statistics()
    found.read(Reader(find(SHOP)[0]))
    cells = shown(found)
    assert cells.captions == ["Statistics", "Tables, the largest first", "Largest transactions"]
    expected = json.loads((ROOT / "examples" / "shop" / "expected.json").read_text())
    names = {row[0] for row in cells.rows}
    assert {"first", "last", *expected["mysql"]["tables"]} <= names
    assert not {"first", "last"} & {row[0] for row in shown(Statistics()).rows}
    assert ["transactions", "1168"] in cells.rows
    found.rolled_back = 3
    assert ["note", "3 rows events rolled back, not counted"] in shown(found).rows


def test_text_is_escaped_and_cut():
    assert Cells(notebook.pairs(HOSTILE, [(HOSTILE, HOSTILE)])).rows == [[SHOWN, SHOWN]]
    assert notebook.text("x" * 501) == "x" * 500 + "… 1 characters more"
    assert notebook.text(b"<\x00>") == "b&#x27;&lt;\\x00&gt;&#x27;"
