"""Random queries of full-text indexes, which must find what MySQL's FULLTEXT indexes find.

./run python -m tools.campaign searched --size full --seed 1

A real MySQL 9.7 has tables with random text and FULLTEXT indexes, with various collations, stop
words and token sizes. The same rows are indexed with the same options: half of them by SELECT, the
others from the log. Then random queries in boolean mode must find the same rows, and those that
MySQL rejects must be rejected.

Left out is what MySQL does not as its manual says (docs/guide/search.md): ``begin*`` next to a
phrase, and with collations that tell accents apart; phrases with a binary collation; words of
several columns that are near each other; ``+`` and ``-`` before a word with other characters
inside (``-a/b``).
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pymysql

from tailrace.errors import UsageError
from tailrace.search import Analyser, Index, index
from tools.campaign.report import Report
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT: Final = """
    apple banana cherry quick brown fox jumps over lazy dog river stone light water paper green the
    and to of with about ab x y zz a i 12 x12 5678 2024 foo_bar _under under_ cafe CAFE café Café
    naïve NAIVE über uber Äpfel apfel straße Straße résumé resume ΑΒΓ αβγ ночь НОЧЬ 日本語 テスト
    apples applet app application ban bandana Quick BROWN
"""
_WORDS: Final = _TEXT.split()
_JOINTS: Final = (" ", " ", " ", " ", " ", ", ", ". ", "-", "/", ".", "'", " - ", "\n", ": ", "&")
_ODD: Final = (
    "()",
    '""',
    "+",
    "apple)",
    "(apple",
    "*",
    "++apple",
    "@apple",
    "apple @3",
    '"apple',
    '"',
)
_MOST_FAILURES: Final = 20


@dataclass(frozen=True)
class Case:
    """A table with a FULLTEXT index, and its options."""

    collation: str
    shortest: int = 3
    stop_words: bool = True
    columns: int = 1


CASES: Final = (
    Case("utf8mb4_0900_ai_ci"),
    Case("utf8mb4_0900_as_cs"),
    Case("utf8mb4_bin"),
    Case("utf8mb4_0900_as_ci"),
    Case("utf8mb4_0900_ai_ci", columns=2),
    Case("utf8mb4_0900_ai_ci", shortest=1, stop_words=False),
    Case("utf8mb4_0900_ai_ci", shortest=2),
)


@dataclass(frozen=True)
class Size:
    """Rows and queries of each case, and the cases."""

    rows: int
    queries: int
    cases: tuple[Case, ...]


SIZES: Final = {
    "small": Size(60, 60, (CASES[0], CASES[1], CASES[4])),
    "full": Size(300, 1000, CASES),
}


@dataclass
class SearchedReport(Report):
    """What came of one case."""

    columns: ClassVar = (
        "Collation | Shortest | Stop words | Columns | Rows | Queries | found none | rejected"
    )
    case: Case
    rows: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def cells(self) -> list[object]:
        case, found = self.case, self.outcomes
        return [
            case.collation,
            case.shortest,
            "MySQL's" if case.stop_words else "none",
            case.columns,
            self.rows,
            found.total(),
            found["none"],
            found["rejected"],
        ]


def run(size: Size, seed: int) -> Iterator[SearchedReport]:
    """All cases of a size."""
    for shortest in sorted({case.shortest for case in size.cases}):
        options = ["--binlog-row-metadata=FULL", f"--innodb-ft-min-token-size={shortest}"]
        with Server("mysql-9.7", options) as server:
            server.execute("CREATE DATABASE ft")
            for number, case in enumerate(size.cases):
                if case.shortest == shortest:
                    yield _case(server, case, size, f"t{number}", random.Random(f"{seed}/{number}"))


def _case(server: Server, case: Case, size: Size, table: str, rng: random.Random) -> SearchedReport:
    report = SearchedReport(case, size.rows)
    names = [f"c{number}" for number in range(case.columns)]
    server.execute(f"SET SESSION innodb_ft_enable_stopword = {int(case.stop_words)}")
    columns = ", ".join(f"{name} TEXT COLLATE {case.collation}" for name in names)
    server.execute(
        f"CREATE TABLE ft.{table} (id INT PRIMARY KEY, {columns}, FULLTEXT({', '.join(names)}))"
    )
    analyser = Analyser(shortest=case.shortest)
    if not case.stop_words:
        analyser = Analyser(shortest=case.shortest, stop_words=frozenset())
    with tempfile.TemporaryDirectory(prefix="tailrace-searched-") as folder:
        url = f"mysql://root@127.0.0.1:{server.port}/?ssl-mode=DISABLED"
        for part in range(2):  # by SELECT, and from the log
            for number in range(part, size.rows, 2):
                values = [number, *(_text(rng) for _ in names)]
                marks = ", ".join(["%s"] * len(values))
                server.execute(f"INSERT INTO ft.{table} VALUES ({marks})", values)
            if part:
                _change(server, table, size.rows, rng)
            server.connection.commit()
            index(url, Path(folder) / "index", tables=f"ft.{table}", analyser=analyser)
        found = Index(Path(folder) / "index")
        for _ in range(size.queries):
            _ask(
                server,
                found,
                f"MATCH({', '.join(names)})",
                table,
                _asked(_query(rng), case),
                report,
            )
    return report


def _change(server: Server, table: str, rows: int, rng: random.Random) -> None:
    """Some rows are deleted, and get other text, or other keys."""
    for number in rng.sample(range(rows), rows // 8):
        server.execute(f"UPDATE ft.{table} SET c0 = %s WHERE id = %s", [_text(rng), number])
    for number in rng.sample(range(rows), rows // 20):
        server.execute(f"DELETE FROM ft.{table} WHERE id = %s", [number])


def _ask(
    server: Server, found: Index, match: str, table: str, query: str, report: SearchedReport
) -> None:
    there: Any
    try:
        rows = server.query(
            f"SELECT id FROM ft.{table} WHERE {match} AGAINST (%s IN BOOLEAN MODE)", [query]
        )
        there = sorted(row[0] for row in rows)
    except pymysql.err.MySQLError as error:
        there = "rejected" if error.args[0] == 1064 else str(error)
    here: Any
    try:
        here = sorted(hit.key[0] for hit in found.search(query, limit=10_000).hits)
    except UsageError:
        here = "rejected"
    report.outcomes["rejected" if there == "rejected" else "some" if there else "none"] += 1
    if here != there and len(report.failures) < _MOST_FAILURES:
        if isinstance(here, list) and isinstance(there, list):
            here, there = [*({*here} - {*there})], [*({*there} - {*here})]
        report.failures.append(f"{report.case}: {query!r}: MySQL {there}, Tailrace {here}")


def _text(rng: random.Random) -> str:
    words = rng.choices(_WORDS, k=rng.randint(1, 12))
    return "".join(f"{word}{rng.choice(_JOINTS)}" for word in words)


def _query(rng: random.Random, depth: int = 0) -> str:
    return " ".join(_item(rng, depth) for _ in range(rng.choice((1, 1, 2, 2, 3, 4))))


def _asked(query: str, case: Case) -> str:
    """The query without what MySQL does in its own way."""
    if "_bin" in case.collation:
        query = query.replace('"', "")
    if '"' in query or "_as_" in case.collation:
        query = query.replace("*", "")
    query = re.sub(r"[+-]+ (?=\w+[./])", "", query)
    return re.sub("@[0-9]", "", query) if case.columns > 1 else query


def _item(rng: random.Random, depth: int) -> str:
    prefix = rng.choice(("", "", "", "+", "+", "-", "~", ">", "<"))
    kind = rng.random()
    if kind < 0.55:
        word = rng.choice(_WORDS)
        return f"{prefix}{word if rng.random() < 0.8 else word[: rng.randint(1, 4)] + '*'}"
    if kind < 0.75:
        words = rng.choices(_WORDS, k=rng.randint(1, 3))
        return f'{prefix}"{" ".join(words)}"'
    if kind < 0.8:
        words = rng.choices(_WORDS, k=rng.randint(2, 3))
        return f'{prefix}"{" ".join(words)}" @{rng.randint(1, 8)}'
    if kind < 0.88:
        return f"{prefix.strip('+-')}{rng.choice(_WORDS)}{rng.choice('./')}{rng.choice(_WORDS)}"
    if kind < 0.97 and depth < 2:
        return f"{prefix}({_query(rng, depth + 1)})"
    return rng.choice(_ODD)
