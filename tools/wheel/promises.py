"""What each extra promises, as a check: it raises Failed if the wheel does not keep it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tools.wheel.installed import ROOT, Failed, Installed, check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SHOP: Final = ROOT / "examples" / "shop"
_LOG: Final = _SHOP / "mysql"
_EXPECTED: Final = json.loads((_SHOP / "expected.json").read_text(encoding="utf-8"))
_ENCRYPTED: Final = ROOT / "tests" / "corpus" / "mysql-9.7.encrypted"


def nothing(installed: Installed) -> None:
    """No extra: logs in files are read, and what is missing is named with its extra."""
    check("shop.orders" in installed.tailrace("log", _LOG), True, "rows in `tailrace log`")
    _check_stat(installed.tailrace("stat", "--as", "json", _LOG))
    installed.evaluate(
        "import tailrace; assert tailrace.__version__; help(tailrace)\n"
        "from importlib.metadata import metadata\n"
        "assert metadata('tailrace').get_all('Project-URL')"
    )
    try:
        installed.tailrace("stat", "--html", "page.html", _LOG)
    except Failed as error:
        check(".whl[report]'" in str(error), True, f"the wheel in the hint of {error}")
    else:
        raise Failed("stat --html does without its extra")


def columns(installed: Installed) -> None:
    """Rows as Arrow."""
    code = (
        f"import tailrace\nprint(sum(batch.num_rows for batch in tailrace.changes({str(_LOG)!r})))"
    )
    expected = len(installed.tailrace("log", "--as", "json", _LOG).splitlines())
    check(int(installed.evaluate(code)), expected, "rows of tailrace.changes")


def live(installed: Installed, url: str) -> None:
    """A running server's log."""
    lines = installed.tailrace("log", "--as", "json", "--tables", "wheel.t", url).splitlines()
    check(
        [json.loads(line)["after"] for line in lines], [{"id": 1, "note": "ä"}], "rows of a server"
    )


def encryption(installed: Installed) -> None:
    """An encrypted log."""
    keyring = _ENCRYPTED / "keyring"
    text = installed.tailrace("stat", "--as", "json", "--keyring", keyring, _ENCRYPTED)
    check(json.loads(text)["transactions"] > 1, True, "transactions of an encrypted log")


def objects(installed: Installed, variables: Mapping[str, str]) -> None:
    """A log in an S3 store."""
    _check_stat(installed.tailrace("stat", "--as", "json", "s3://logs/", **variables))


def apply(installed: Installed) -> None:
    """The rows of a log in SQLite, but those of the table that is altered."""
    to = ("--to", "sqlite:///applied.db", "--exclude", "shop.products")
    installed.tailrace("apply", _LOG, *to)
    with closing(sqlite3.connect(installed.work / "applied.db")) as connection:
        (count,) = connection.execute('SELECT COUNT(*) FROM "shop.customers"').fetchone()
    check(count > 0, True, "customers in SQLite")


def report(installed: Installed) -> None:
    """The page with plots."""
    installed.tailrace("stat", "--html", "page.html", _LOG)
    page = (installed.work / "page.html").read_text(encoding="utf-8")
    check((page.count("<figure"), page.count("<svg")), (6, 12), "figures and drawings")


def search(installed: Installed) -> None:
    """An index of a log, which is searched, and the files of its page."""
    installed.tailrace("index", _LOG, "--tables", "shop.reviews", "--into", "found")
    check("34 rows found" in installed.tailrace("search", "found", "again"), True, "a query")
    installed.evaluate(
        "from tailrace.search_page import PageServer\nPageServer('found', '127.0.0.1:0')"
    )


def spark(installed: Installed) -> None:
    """A mirror in Parquet."""
    _check_mirror(
        installed,
        "parquet",
        "import pyarrow.dataset\n"
        "def count(name): return pyarrow.dataset.dataset(f'lake/{name}/current').count_rows()",
    )


def delta(installed: Installed) -> None:
    """A mirror in Delta."""
    _check_mirror(
        installed,
        "delta",
        "from deltalake import DeltaTable, QueryBuilder\n"
        "def count(name):\n"
        "    builder = QueryBuilder().register('t', DeltaTable(f'lake/{name}'))\n"
        "    return builder.execute('select count(*) as n from t').read_all()['n'][0].as_py()",
    )
    _check_in_spark(installed, "delta", f"delta.`{installed.work}/lake/shop.orders`")


def iceberg(installed: Installed) -> None:
    """A mirror in Iceberg."""
    _check_mirror(
        installed,
        "iceberg",
        "from pyiceberg.catalog.sql import SqlCatalog\n"
        "catalog = SqlCatalog('lake', uri='sqlite:///lake/catalog.db')\n"
        "def count(name): return catalog.load_table(name).scan().to_arrow().num_rows",
    )
    _check_in_spark(installed, "iceberg", "lake.shop.orders")


PROMISES: Final[Mapping[str, Callable[..., None]]] = {
    "": nothing,
    "apply": apply,
    "columns": columns,
    "delta": delta,
    "encryption": encryption,
    "iceberg": iceberg,
    "live": live,
    "objects": objects,
    "report": report,
    "search": search,
    "spark": spark,
}
"""By extra; without one, the wheel alone."""


def _check_stat(text: str) -> None:
    check(json.loads(text)["transactions"], 1168, "transactions of `tailrace stat`")


def _check_mirror(installed: Installed, form: str, count: str) -> None:
    """Compare the lake with what the recorded servers' SELECT said."""
    installed.tailrace("mirror", _LOG, "--into", "lake", "--format", form)
    expected = {name: len(table["rows"]) for name, table in _EXPECTED["mysql"]["tables"].items()}
    code = f"{count}\nimport json\nprint(json.dumps({{n: count(n) for n in {list(expected)!r}}}))"
    check(json.loads(installed.evaluate(code)), expected, f"rows in a lake of {form}")


def _check_in_spark(installed: Installed, form: str, table: str) -> None:
    """Compare what Spark reads in the lake, by the format's jars, with the recorded SELECT."""
    orders = _EXPECTED["mysql"]["tables"]["shop.orders"]
    places = [orders["columns"].index(column) for column in ("id", "status", "total")]
    query = f"SELECT STRING(id), status, STRING(total) FROM {table} AS orders ORDER BY orders.id"
    code = (
        "import json, tailrace.spark\n"
        f"conf = tailrace.spark.settings({form!r}, 'lake')\n"
        "conf['spark.databricks.delta.snapshotPartitions'] = '2'\n"  # of 50: the table is small
        "spark = tailrace.spark.session(2, conf=conf)\n"
        f"print(json.dumps([*map(list, spark.sql({query!r}).collect())]))"
    )
    expected = [[row[place] for place in places] for row in orders["rows"]]
    check(json.loads(installed.evaluate(code)), expected, f"orders of {form} in Spark")
    found = json.loads(installed.tailrace("doctor", "--as", "json"))["extras"][form]
    check((found["installed"], found["wrong"]), (True, {}), f"what doctor says of {form}")
