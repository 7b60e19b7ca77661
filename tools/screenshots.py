"""Screenshots of a terminal, and of the pages of `tailrace stat --html` and of searches.

    ./run --with pillow==13.0.0 python -m tools.screenshots [FOLDER]

They are for docs/guide and README. CI does not make them. The report's log is a shop's day that is
made here, so that the pictures are the same each time; the index is of examples/shop. What a
picture of the report cannot show is checked: the page is not wider than a phone, loads nothing,
reports no error, and can be used by keyboard. For the page of searches tests/search does that.
"""

from __future__ import annotations

import inspect
import io
import math
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from rich.console import Console
from rich.text import Text

import tailrace
from tailrace.search import index
from tailrace.search_page import PageServer
from tools.servers.browser import OPTIONS, chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.writing import LogWriter

GUIDE: Final = Path(__file__).resolve().parents[1] / "docs" / "guide"
_BEGIN: Final = 1_772_323_200  # 2026-03-01 00:00:00 UTC
_DAY: Final = 86_400
_TABLES: Final = {
    name: tailrace.Table.parse(
        f"create table {name} (id int primary key, at int, note varchar(200))"
    )
    for name in (
        *("shop.orders", "shop.order_items", "shop.customers", "shop.stock", "shop.payments"),
        *("audit.events", "shop.carts", "shop.coupons", "reports.daily"),
    )
}
_BUSY: Final = {
    "shop.orders": 1.0,
    "shop.order_items": 2.5,
    "shop.stock": 1.4,
    "shop.payments": 0.9,
    "audit.events": 1.2,
    "shop.carts": 0.8,
    "shop.customers": 0.2,
    "shop.coupons": 0.1,
}
_DEFINITIONS: Final = {
    0: "CREATE DATABASE IF NOT EXISTS reports",
    int(6.4 * 3600): "ALTER TABLE shop.orders ADD COLUMN note2 varchar(20)",
    int(6.6 * 3600): "CREATE INDEX by_at ON shop.orders (at)",
    int(19.5 * 3600): "CREATE TABLE shop.returns (id int primary key, order_id int)",
}


_COLUMNS: Final = 100
_LINES: Final = 14
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


class View(NamedTuple):
    """A page in a window of that width, its name, and what it said and asked for."""

    page: Page
    width: int
    name: str
    said: list[str]


class Clock:
    """The time of the next transaction."""

    def __init__(self) -> None:
        self.second = float(_BEGIN)

    def __call__(self) -> int:
        return int(self.second * 1_000_000)


def make_log(path: Path) -> None:
    """A day of a shop's changes: quiet at night, busy in the evening, and a job at three."""
    chance, clock, ids = random.Random(7), Clock(), dict.fromkeys(_TABLES, 0)
    waiting = dict(_DEFINITIONS)
    job: int | None = 3 * 3600
    with tailrace.create(
        path,
        flavour="mysql",
        server_id=1,
        server_uuid="896e7882-18fe-11ef-ab88-22222d34d411",
        sync="none",
        now=clock,
    ) as log:
        second = 0.0
        while second < _DAY:
            hour = second / 3600
            load = 0.15 + max(0.0, math.sin((hour - 6) / 18 * math.pi)) ** 2
            load += 0.8 * math.exp(-((hour - 20) ** 2))
            clock.second = _BEGIN + second
            for at in [each for each in waiting if each <= second]:
                with log.transaction() as transaction:
                    transaction.query(waiting.pop(at), "shop")
            if job is not None and second > job:
                job = None
                _insert(log, "reports.daily", 160, ids, clock)
            _order(log, chance, ids, clock)
            second += chance.expovariate(load / 25)


def _order(log: LogWriter, chance: random.Random, ids: dict[str, int], clock: Clock) -> None:
    with log.transaction() as transaction:
        for name, share in _BUSY.items():
            rows = int(share + chance.random())
            if rows and chance.random() < 0.7:
                transaction.insert(_TABLES[name], _rows(name, rows, ids, clock))
        table = _TABLES[chance.choice(list(_BUSY))]
        row = {"id": chance.randrange(1, 1000), "at": int(clock.second), "note": "gone"}
        if chance.random() < 0.5:
            transaction.update(table, [row], [{**row, "note": "changed"}])
        elif chance.random() < 0.2:
            transaction.delete(table, [row])


def _insert(log: LogWriter, name: str, rows: int, ids: dict[str, int], clock: Clock) -> None:
    with log.transaction() as transaction:
        transaction.insert(_TABLES[name], _rows(name, rows, ids, clock))


def _rows(name: str, rows: int, ids: dict[str, int], clock: Clock) -> Iterator[dict[str, Any]]:
    for _ in range(rows):
        ids[name] += 1
        number = ids[name]
        yield {"id": number, "at": int(clock.second), "note": "x" * (number * 7 % 120)}


def check(page: Any, width: int) -> None:
    """What a picture does not show."""
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width, f"the page is {wide} pixels wide in a window of {width}"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('details').open")
    page.keyboard.press("Enter")
    page.evaluate("document.activeElement.blur()")
    names = page.locator("svg:visible").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label'))"
    )
    assert names
    assert all(names)


def _views(browser: Browser, url: str, sizes: dict[str, tuple[int, int]]) -> Iterator[View]:
    """The page at each size, light and dark, with what names its picture."""
    for name, (width, height) in sizes.items():
        for scheme in SCHEMES:
            with browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme
            ) as context:
                page = context.new_page()
                said: list[str] = []
                _listen(page, said)
                page.goto(url)
                yield View(page, width, f"{name}-{scheme}.png", said)


def _listen(page: Page, said: list[str]) -> None:
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: said.append(request.url))


def _save(page: Page, path: Path) -> None:
    page.screenshot(path=path)
    Image.open(path).quantize(96).save(path, optimize=True)
    print(path, f"{path.stat().st_size:,} bytes")


def terminal(target: Path) -> None:
    """The picture of `tailrace log` in a terminal: its first lines, with its colours."""
    command = "tailrace log --tables shop.orders --start binlog.000004 examples/shop/mysql"
    shown = subprocess.run(
        ["script", "-qec", f"stty cols {_COLUMNS}; {command}", "/dev/null"],
        check=True,
        cwd=GUIDE.parents[1],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    ).stdout.replace("\r", "")
    console = Console(width=_COLUMNS, record=True, file=io.StringIO())
    console.print(f"$ {command}", style="bold", highlight=False)
    for line in shown.splitlines()[:_LINES]:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop")
    # The fonts that rich's own format loads from elsewhere are left out.
    format_ = inspect.signature(console.export_svg).parameters["code_format"].default
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", format_, flags=re.DOTALL)
    path = target / "terminal.svg"
    path.write_text(
        console.export_svg(title="tailrace", code_format=plain, unique_id="t"), encoding="utf-8"
    )
    print(path, f"{path.stat().st_size:,} bytes")


def report(browser: Browser, work: Path, target: Path) -> None:
    """The pictures of a report."""
    log, html = work / "binlog.000001", work / "report.html"
    make_log(log)
    subprocess.run(
        [sys.executable, "-m", "tailrace", "stat", "--html", str(html), log.name],
        check=True,
        cwd=work,
    )
    print(f"{html.stat().st_size:,} bytes of HTML from {log.stat().st_size:,} of log")
    for view in _views(browser, html.as_uri(), {"phone": (360, 1280), "desktop": (1140, 1240)}):
        check(view.page, view.width)
        assert view.said == [html.as_uri()], view.said
        _save(view.page, target / f"report-{view.name}")
    top = Image.open(target / "report-desktop-light.png").crop((0, 0, 1140, 600))
    top.save(target / "report-top.png", optimize=True)


def search(browser: Browser, work: Path, target: Path) -> None:
    """The pictures of the page that searches an index."""
    index(GUIDE.parents[1] / "examples" / "shop" / "mysql", work / "index")
    server = PageServer(work / "index", "127.0.0.1:0")
    thread = Thread(target=server.run)
    thread.start()
    try:
        sizes = {"phone": (360, 700), "desktop": (860, 640)}
        for view in _views(browser, server.url, sizes):
            view.page.get_by_label("Search").fill('gift* lamp* "two days"')
            expect(view.page.get_by_role("status")).to_contain_text("rows found")
            _save(view.page, target / f"search-{view.name}")
    finally:
        server.stop()
        thread.join()


def main() -> None:
    """Make the pictures in a folder (docs/guide)."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GUIDE
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*OPTIONS])
        terminal(target)
        report(browser, Path(work), target)
        search(browser, Path(work), target)
        browser.close()


if __name__ == "__main__":
    main()
