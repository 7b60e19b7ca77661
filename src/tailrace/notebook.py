"""How objects show themselves in notebooks (``_repr_html_``): small tables of text.

What stands in them may come from a log: each text is made printable, cut, and escaped.
"""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final

from tailrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST: Final = 500
"""The most characters of a text that are shown."""
MOST_ROWS: Final = 20
"""The most rows of a table that are shown."""


def text(value: object) -> str:
    """A value as HTML: a text as it is, another object's repr; cut, with the number left out."""
    shown = value if isinstance(value, str) else repr(value)
    left = len(shown) - LONGEST
    note = f"… {left:,} characters more" if left > 0 else ""
    return escape(printable(shown[:LONGEST], keep="\n") + note)


def pairs(title: str, shown: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
    rows = "".join(f"<tr><th>{text(name)}</th>{_cell(value)}</tr>" for name, value in shown)
    return f"<table><caption>{text(title)}</caption><tbody>{rows}</tbody></table>"


def table(
    title: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    total: int | None = None,
    most: int = MOST_ROWS,
) -> str:
    """A table with headers, of at most so many rows. ``total`` is their number, for the note."""
    found = list(islice(rows, most + 1))
    head = "".join(f"<th>{text(header)}</th>" for header in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in found[:most])
    note = ""
    if len(found) > most:
        note = "and more" if total is None else f"and {total - most:,} more"
        note = f"<p>… {note}</p>"
    return (
        f"<table><caption>{text(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{note}"
    )


def _cell(value: object) -> str:
    return f'<td style="text-align: left">{text(value)}</td>'
