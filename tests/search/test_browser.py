"""The page in a real browser, on the index of a live server."""

import os
import re
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect, sync_playwright

from tailrace.search import index
from tests.recorded import ROOT
from tests.search.served import served
from tests.waiting import DEADLINE
from tools.servers.browser import OPTIONS, chromium
from tools.servers.prefix import ServersUnavailable

HOSTILE = [
    "<img src=x onerror='window.hacked=1'>",
    "</script><script>window.hacked=1</script>",
    "</mark></dl></ol><h1>x</h1><a href=javascript:hacked=1>",
    '"><svg onload=window.hacked=1>',
    "&lt;b&gt; &amp; ${window.hacked=1} {{7*7}}",
]
ELEMENTS = (
    "a header h1 p main form label input code fieldset legend span bdi noscript ol li h2 dl dt dd"
    " mark button"
)
CONTRAST = """element => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9]+/g).map(each => {
      const part = each / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = each => getComputedStyle(each).backgroundColor;
  let behind = element;
  while (back(behind) === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const both = [getComputedStyle(element).color, back(behind)].map(light);
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}"""
"""WCAG's contrast of an element's text with what is behind it."""


@pytest.fixture(scope="module")
def browser():
    try:
        program = chromium()
    except ServersUnavailable as error:
        if os.environ.get("TAILRACE_REQUIRE_SERVERS") == "1":
            raise
        pytest.skip(f"needs Chromium: {error}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*OPTIONS])
        expect.set_options(timeout=DEADLINE * 1000)
        yield browser
        browser.close()


@contextmanager
def new_page(browser, **settings):
    with browser.new_context(**settings) as context:
        context.set_default_timeout(DEADLINE * 1000)
        yield context.new_page()


@contextmanager
def opened(browser, url, **settings):
    """The page, which must load nothing else, say nothing on its console and never be loaded again."""
    with new_page(browser, **settings) as page:
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        expect(page.locator("#lag")).not_to_be_empty()
        yield page
        pages = [each for each in asked if not each.startswith(f"{url}search?")]
        assert pages == [url, f"{url}page.css", f"{url}page.js"]
        # A bad query is answered by 400; where the machine has much else to do, one may get 503.
        assert not [each for each in said if not re.search(r"status of (400|503) ", each)]


@contextmanager
def shop(followed, browser, **settings):
    """The page of a shop's index, which follows its server."""
    followed.execute(
        "CREATE TABLE shop.products (id INT PRIMARY KEY, title TEXT)",
        "CREATE TABLE shop.reviews (id INT PRIMARY KEY, body TEXT, details JSON)",
        "INSERT INTO shop.products VALUES (1, 'A lamp for the desk'), (2, 'Kettle')",
        "INSERT INTO shop.reviews VALUES (1, 'The lamp is bright', NULL)",
    )
    followed.index()
    with followed.follow() as errors, served(followed.folder) as url:
        with opened(browser, url, **settings) as page:
            yield page
        assert not errors


def test_a_committed_row_becomes_a_hit_without_a_reload(followed, browser):
    """WL#3283: the index follows the log; so does who looks at it."""
    with shop(followed, browser) as page:
        hits, status = page.locator("#hits > li"), page.get_by_role("status")
        expect(status).to_have_text("Type to search 2 tables")
        page.get_by_role("searchbox", name="Search").type("+lamp")
        expect(status).to_have_text("2 rows found")
        expect(page).to_have_title("+lamp - tailrace search")
        expect(page.locator("#hits mark")).to_have_text(["lamp", "lamp"])
        expect(page.get_by_text("new", exact=True)).to_have_count(0)

        followed.execute("INSERT INTO shop.products VALUES (3, 'Another lamp')")
        expect(status).to_have_text("3 rows found")
        expect(hits.filter(has_text="shop.products 3")).to_contain_text("Another lamp")
        expect(page.locator("#hits .new h2")).to_have_text("shop.products 3 new")
        expect(page.locator("#lag")).to_have_text(re.compile(r"just now|(second|minute)s? ago"))

        followed.execute(
            "BEGIN",
            "INSERT INTO shop.products VALUES (4, 'A lamp that is rolled back')",
            "ROLLBACK",
            "UPDATE shop.products SET title = 'Another candle' WHERE id = 3",
            "DELETE FROM shop.reviews",
        )
        expect(status).to_have_text("1 row found")
        expect(hits).to_have_text(re.compile("shop.products 1"))
        page.get_by_role("searchbox").fill("+nothing")
        expect(status).to_have_text("No row found")
        page.get_by_role("searchbox").fill("(half")
        expect(status).to_have_text(re.compile("^Syntax error at the end of the query"))
        expect(hits).to_have_count(0)


def test_hostile_text_stays_text(followed, browser):
    """In text and JSON columns, in keys, and in the names of columns and tables."""
    with shop(followed, browser) as page:
        page.get_by_role("searchbox").type("hostile")
        expect(page.get_by_role("status")).to_have_text("No row found")
        values = ", ".join(f"({at}, %s)" for at in range(1, len(HOSTILE) + 1))
        name = "`<img src=x onerror=window.hacked=1>`"
        cursor = followed.server.connection.cursor()
        cursor.execute(f"CREATE TABLE shop.{name} ({name} VARCHAR(200) PRIMARY KEY, doc JSON)")
        texts = [f"{each} hostile {each}" for each in HOSTILE]
        cursor.execute(f"INSERT INTO shop.products VALUES {values.replace('(', '(10 + ')}", texts)
        for each in texts:
            cursor.execute(f"INSERT INTO shop.{name} VALUES (%s, JSON_ARRAY(%s))", (each, each))

        found = page.get_by_role("status")
        expect(found).to_have_text(f"{2 * len(HOSTILE)} rows found")
        shown = page.locator("#hits dd").all_inner_texts()
        assert sorted(shown) == sorted(texts * 3)
        expect(page.locator("dt", has_text="<img src=x onerror=window.hacked=1>")).to_have_count(5)
        page.get_by_role("radio", name="`shop`.`<img src=x onerror=window.hacked=1>` 5").check()
        expect(found).to_have_text(f"{len(HOSTILE)} rows found")
        elements = page.locator("body *").evaluate_all(
            "all => [...new Set(all.map(e => e.localName))]"
        )
        assert {*elements} <= {*ELEMENTS.split()}
        assert page.evaluate("window.hacked") is None
        assert page.locator("h1").count() == 1


def test_all_is_done_by_keyboard(followed, browser):
    with shop(followed, browser) as page:
        lamps = ", ".join(f"({at}, 'Lamp number {at}')" for at in range(10, 60))
        followed.execute(f"INSERT INTO shop.products VALUES {lamps}")
        keys, status = page.keyboard, page.get_by_role("status")
        focused = page.locator(":focus")
        expect(focused).to_have_id("query")  # at once
        keys.press("Shift+Tab")
        expect(focused).to_have_text("Skip to the rows")
        expect(focused).to_be_in_viewport()
        keys.press("Tab")
        keys.type("lamp")
        expect(status).to_have_text("52 rows found, the best 20 shown")
        for wanted in ("", "shop.products", "shop.reviews"):
            keys.press("Tab" if not wanted else "ArrowDown")
            expect(focused).to_have_value(wanted)
            assert (
                page.evaluate("getComputedStyle(document.activeElement.parentElement).outlineStyle")
                == "solid"
            )
        expect(status).to_have_text("1 row found")
        followed.execute("INSERT INTO shop.reviews VALUES (2, 'No lamp', NULL)")
        expect(status).to_have_text("2 rows found")
        expect(focused).to_have_value("shop.reviews")  # what came did not take the focus away
        keys.press("ArrowUp")
        expect(status).to_have_text("51 rows found, the best 20 shown")
        keys.press("Tab")
        expect(focused).to_have_text("More rows")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        keys.press("Enter")
        expect(page.locator("#hits > li")).to_have_count(40)
        expect(page.locator("#hits > li").nth(20)).to_be_focused()
        for _ in range(2):  # it asks again, and has shown the answer before it asks once more
            page.wait_for_event("request", lambda request: "/search?" in request.url)
        expect(page.locator("#hits > li").nth(20)).to_be_focused()
        assert page.url.endswith("/?q=lamp&table=shop.products")


def test_a_screen_reader_is_told_what_there_is(followed, browser):
    """Landmarks, names, states; the age of the index, which changes each second, is not announced."""
    with shop(followed, browser) as page:
        page.get_by_role("searchbox", name="Search").type("lamp")
        expect(page.get_by_role("status")).to_have_text("2 rows found")
        for role, name in (
            ("banner", None),
            ("main", None),
            ("search", "Rows"),
            ("group", "Table"),
        ):
            expect(page.get_by_role(role, name=name)).to_be_visible()
        expect(page.get_by_role("radio", name="all 2")).to_be_checked()
        expect(page.get_by_role("radio", name="shop.reviews 1")).not_to_be_checked()
        rows = page.get_by_role("list", name="Rows that were found")
        expect(rows.get_by_role("heading", level=2)).to_have_count(2)
        expect(page.get_by_role("searchbox")).to_have_accessible_description(re.compile("begin"))
        assert page.locator("#status").get_attribute("aria-live") == "polite"
        assert page.evaluate("document.documentElement.lang") == "en"
        assert (
            page.evaluate("document.getElementById('lag').closest('[aria-live], [role=status]')")
            is None
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_can_be_read_in_light_and_dark(followed, browser, scheme):
    view = {"width": 320, "height": 640}
    with shop(followed, browser, viewport=view, color_scheme=scheme, has_touch=True) as page:
        long = "lamp" + "x" * 150
        followed.execute(
            f"CREATE TABLE shop.{'t' * 60} ({'c' * 60} TEXT, id VARCHAR(200) PRIMARY KEY)",
            f"INSERT INTO shop.{'t' * 60} VALUES ('lamp {long}', '{long}')",
        )
        page.get_by_role("searchbox").type("lamp*")
        expect(page.get_by_role("status")).to_have_text("3 rows found")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 18, 17)"
        assert dark == (scheme == "dark")
        for what in ("h1", "#lag", "label", "#query", "h2", "dt", "dd", "mark", ".badge", ".count"):
            for each in page.locator(what).all():
                assert each.evaluate(CONTRAST) >= 4.5, what
        for what in ("#query", ".table"):
            for each in page.locator(what).all():
                assert each.bounding_box()["height"] >= 36


def test_a_server_that_is_gone_is_said(browser, tmp_path):
    """And the page goes on when it is back."""
    index(ROOT / "examples" / "shop" / "mysql", tmp_path / "index", tables="shop.reviews")
    with new_page(browser) as page:
        with served(tmp_path / "index") as url:
            page.goto(url)
            page.get_by_role("searchbox").type("again")
            expect(page.get_by_role("status")).to_have_text("34 rows found, the best 20 shown")
        expect(page.get_by_role("status")).to_have_text(re.compile("does not answer"))
        with served(tmp_path / "index", listen=url.removeprefix("http://").rstrip("/")):
            expect(page.get_by_role("status")).to_have_text("34 rows found, the best 20 shown")
