"""`tailrace stat --html`: the page as a browser gets it."""

import base64
import datetime as dt
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

import tailrace
from tailrace.cli.stat import stat as statistics_of
from tailrace.log.statistics import Statistics
from tailrace.report import page
from tests.recorded import ROOT
from tests.writing import made

SHOP = ROOT / "examples" / "shop" / "mysql"
HOSTILE = [
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' style='position:fixed' onload='alert(1)",
    "&lt;b&gt; {{ 7*7 }} {% raw %}",
    "datum.x + '\\u202e'",
    "]]></svg><a href=javascript:1>",
    "zero\u200bwidth \u202e right",
]
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "a", "main", "section", "header", "nav"),
    *("h1", "h2", "p", "dl", "div", "dt", "dd", "ul", "li", "span", "details", "summary"),
    *("figure", "figcaption", "table", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "path", "text", "line"),
}
VOID = {"meta"}


class Read(HTMLParser):
    """The page's tags in order, attributes and text; each tag is closed in its turn."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag, name):
        return [
            value for each, attribute, value in self.attributes if (each, attribute) == (tag, name)
        ]


@pytest.fixture(scope="module")
def shop_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert statistics_of(str(SHOP), html=path) == 0
    return path.read_text(encoding="utf-8")


def check_safe(text):
    """Nothing is loaded, run or sent, and the policy would not let it."""
    read = Read(text)
    assert set(read.tags) <= TAGS
    names = {attribute for _, attribute, _ in read.attributes}
    assert not [name for name in names if name.startswith("on") or name in {"style", "src"}]
    assert all(link.startswith("#") for link in read.all("a", "href"))
    assert set(re.findall(r"\w+://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"url\(|@import", text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    assert policy in read.all("meta", "content")
    return read


def test_the_page_is_complete_in_itself(shop_page):
    read = check_safe(shop_page)
    assert len(shop_page) < 2_000_000
    assert read.all("meta", "name") == ["viewport", "color-scheme", "referrer"]
    assert "prefers-color-scheme: dark" in shop_page


def test_each_plot_has_a_text_and_a_table(shop_page):
    read = Read(shop_page)
    figures = re.findall(r"<figure.*?</figure>", shop_page, re.DOTALL)
    assert len(figures) == 6
    for figure in figures:
        labels = re.findall(r'<svg [^>]*role="img"[^>]* aria-label="([^"]{40,})"', figure)
        assert len(labels) == 2  # one for wide screens, one for narrow ones
        assert figure.count("<table>") == 1
        assert figure.count('<th scope="row">') >= 1
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = [value for _, name, value in read.attributes if name == "aria-labelledby"]
    assert set(named) <= set(ids)


def test_its_numbers_are_those_of_the_command(run, shop_page):
    found = json.loads(run("stat", "--as", "json", SHOP).out)
    times = [dt.datetime.fromtimestamp(found[each], dt.UTC) for each in ("first", "last")]
    assert all(f"{each:%Y-%m-%d %H:%M:%S}" in shop_page for each in times)
    for name, counts in found["tables"].items():
        cells = [f"{counts[each]:,}" for each in ("inserts", "updates", "deletes")]
        assert (
            f'<th scope="row">{name}</th>'
            + "".join(f'<td class="number">{cell}</td>' for cell in cells)
            in shop_page
        )
    for each in found["largest_transactions"]:
        assert f'<td data-label="Position">{each["position"]}</td>' in shop_page
        assert f'<td data-label="GTID">{each["gtid"]}</td>' in shop_page
    for each in found["definitions"]:
        assert f'<td data-label="Position">{each["position"]}</td>' in shop_page
    (over_time,) = re.findall(r"<h2[^>]*>Changes over time<.*?</details>", shop_page, re.DOTALL)
    numbers = re.findall(r'<td class="number">([\d,]+)</td>', over_time)
    changes = sum(
        counts[each]
        for counts in found["tables"].values()
        for each in ("inserts", "updates", "deletes")
    )
    assert sum(int(number.replace(",", "")) for number in numbers) == changes
    assert "Definitions (DDL) are marked" in over_time


def hostile_log(path):
    with made.log(path, "mysql") as log:
        for name in HOSTILE:
            quoted = name.replace("`", "``")
            table = tailrace.Table.parse(f"create table `a<b>`.`{quoted}` (id int primary key)")
            with log.transaction() as transaction:
                transaction.query(f"create table `{quoted}` (id int primary key)", "a<b>")
            with log.transaction() as transaction:
                transaction.insert(table, [{"id": 1}])
    return path


def test_hostile_names_stay_text(run, tmp_path):
    log, html = hostile_log(tmp_path / "<i>.000001"), tmp_path / "report.html"
    done = run("stat", "--html", html, log)
    assert (done.status, done.out) == (0, "")
    text = html.read_text(encoding="utf-8")
    read = check_safe(text)
    said = "".join(read.texts)
    assert "`a<b>`.`</title><script>alert(1)</script>" in said
    assert "&lt;b&gt; {{ 7*7 }} {% raw %}" in said
    assert "zero\\u200bwidth \\u202e right" in said
    assert "\u202e" not in text
    drawn = "".join(re.findall(r"<svg .*?</svg>", text, re.DOTALL))
    assert "`a&lt;b&gt;`.`&lt;/title&gt;" in drawn


def test_a_log_of_many_tables_and_any_time():
    found = Statistics()
    for number in range(40):
        found.add_table(f"db.t{number}", {"insert": 1, "bytes": 40})
        found.timeline.add(f"db.t{number}", 1 << (number + 20), 1, 40)
    text = page([("log", found)])
    read = check_safe(text)
    assert "other tables" in read.texts
    assert "NaN" not in text
    assert "The first 15 of 40 tables." in read.texts
    assert len(text) < 2_000_000


def test_an_empty_log_and_several(run, tmp_path):
    with made.log(tmp_path / "other.000001", "mariadb"):
        pass
    html = tmp_path / "report.html"
    assert run("stat", "--html", html, tmp_path / "other.000001", SHOP).status == 0
    text = html.read_text(encoding="utf-8")
    read = check_safe(text)
    assert read.all("a", "href") == ["#main", "#log-1", "#log-2"]
    assert text.count("<h1") == 2
    assert text.count("Changes over time</h2>") == 1  # the other has none


def test_a_page_that_cannot_be_written(run, tmp_path):
    done = run("stat", "--html", tmp_path, SHOP)
    assert done.status == 2
    assert "Is a directory" in done.err
