"""Documents, comments and docstrings use the words of the field, not a dialect of this project.

The table is the one of the design: a phrase that is not used, and what is said instead. Where a
phrase has a technical meaning as well, `ALLOWED` has the words around it.
"""

import ast
import io
import re
import tokenize

from tests.recorded import ROOT

PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    ]
)
PACKAGE = ROOT / "src" / "tailrace"
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
_ANY = re.compile(rf"\b({'|'.join(INSTEAD)})\b".replace(" ", r"\s+"), re.IGNORECASE)
_CODE = re.compile(r"^```.*?^```|``[^`]+``|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def prose(text):
    """The page without code and link targets, with as many lines."""
    return _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)


def dialect(text):
    """The phrases in a text: line, the words, what is said instead."""
    found = []
    for phrase, instead in INSTEAD.items() if _ANY.search(text) else ():
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


def docstrings(source):
    """The docstrings of modules, classes, functions and attributes, each with its first line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def comments(source):
    """The comments, those of consecutive lines as one text, each with its first line."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, text = token.start[0], token.string.lstrip("#")
            if found and found[-1][0] + len(found[-1][1]) == line:
                found[-1][1].append(text)
            else:
                found.append((line, [text]))
    for first, lines in found:
        yield first, "\n".join(lines)


def dialect_of_code(source):
    """The phrases in a Python file's docstrings and comments, as `dialect` gives them."""
    if not _ANY.search(re.sub(r"^\s*#", "", source, flags=re.MULTILINE)):
        return []
    return sorted(
        (first + line - 1, words, instead)
        for first, text in (*docstrings(source), *comments(source))
        for line, words, instead in dialect(prose(text))
    )


def test_pages_comments_and_docstrings_say_it_in_plain_words():
    files = [(page, lambda text: dialect(prose(text))) for page in PAGES]
    files += [(path, dialect_of_code) for path in sorted(PACKAGE.rglob("*.py"))]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words!r}: say {instead}"
        for path, find in files
        for line, words, instead in find(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_what_is_found():
    for text, words in [
        ("Killed at any moment and\ngone on with.", ["gone on with"]),
        ("Where a table is made anew, its history goes on.", ["anew", "goes on"]),
        ("Without the key its name is said.", ["its name is said"]),
        ("What a lake was begun with, it stays with.", ["begun"]),
        ("If a table is recreated, its history continues.", []),
        ("`git log --undone` is code.", []),
    ]:
        assert sorted(found for _, found, _ in dialect(prose(text))) == words


def test_what_is_found_in_code():
    source = '''"""A module of which
nothing is undone."""

LIMIT = 1  # the state from
# which it goes
# on
"""An attribute, made anew."""


def behind(beside: str) -> str:
    """Returns ``beside``."""
    return "what is said to users, gone on with"
'''
    found = [(line, words) for line, words, _ in dialect_of_code(source)]
    assert found == [(2, "undone"), (5, "goes\n on"), (7, "anew")]
