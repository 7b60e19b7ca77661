"""docs/ and README say things in the words of the field, and not in a dialect of this project.

The table is the one of the design: a phrase that is not used, and what is said instead. Where a
phrase has a technical meaning as well, `ALLOWED` has the words around it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.recorded import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    ]
)
INSTEAD = {
    r"(taken|takes?|took|taking) (\w+ )?back": "rolled back",
    r"undone": "rolled back",
    r"undecided|not decided": "in-doubt",
    r"refuse[sd]?|refusing|refusal": "unsupported, rejected",
    r"hidden rows|rows that do not count": "deleted rows, a deletion vector",
    r"files that are there": "live files",
    r"is known of (the )?(tables|log)": "the schema history",
    r"(go|goes|going|went|gone) on( with| behind| there)?": "resume, continue",
    r"(put|puts|putting) (\w+ )?together": "compact, combine",
    r"anew": "rewritten, recreated, again",
    r"beside": "next to, separately",
    r"so often": "every, at most once per",
    r"nobody tells|when nothing is said|(is|are|was) not told": "unknown, default",
    r"not the name it will have": "a provisional name",
    r"(not (to )?be|cannot be|could not be) found out": "could not be determined",
    r"(its|their) names? (is|are) said|names? is said": "the error names it",
    r"begun": "created, started",
    r"behind": "after, past",
    r"that is there": "existing",
    r"upon": "on",
    r"to and fro": "back and forth",
    r"in silence": "silently",
}
ALLOWED = {
    "behind": [
        r"(seconds|bytes|how far|far|is|are|was|lags|stay) (it is )?behind",
        r"behind (it|the server|the source|its server|a proxy)",
    ],
    "undone": [r"cannot be undone"],
}
_CODE = re.compile(r"^```.*?^```|``[^`]+``|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """The page without code and link targets, with as many lines."""
    return _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)


def dialect(text: str) -> list[tuple[int, str, str]]:
    """The phrases in a text: line, the words, what is said instead."""
    found = []
    for phrase, instead in INSTEAD.items():
        gaps = phrase.replace(" ", r"\s+")
        for match in re.finditer(rf"\b({gaps})\b", text, re.IGNORECASE):
            around = text[max(0, match.start() - 40) : match.end() + 40]
            allowed = ALLOWED.get(match[0].lower(), [])
            if not any(
                re.search(rf"\b{words}\b".replace(" ", r"\s+"), around, re.IGNORECASE)
                for words in allowed
            ):
                found.append((text.count("\n", 0, match.start()) + 1, match[0], instead))
    return sorted(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_say_it_in_plain_words(page: Path) -> None:
    assert not dialect(prose(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Killed at any moment and\ngone on with.", ["gone on with"]),
        ("Where a table is made anew, its history goes on.", ["anew", "goes on"]),
        ("Without the key its name is said.", ["its name is said"]),
        ("What a lake was begun with, it stays with.", ["begun"]),
        ("If a table is recreated, its history continues.", []),
        ("`git log --undone` is code.", []),
    ],
)
def test_what_is_found(text: str, words: list[str]) -> None:
    assert sorted(found for _, found, _ in dialect(prose(text))) == words
