"""The collation ids of MySQL up to 9.7 and MariaDB up to 11.8, as the servers list them.

An id means the same character set in both flavours; a few names have another id in the other
flavour.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import SchemaError

if TYPE_CHECKING:
    from tailrace.constants import Flavour

BINARY: Final = 63
"""The collation of binary strings."""


@cache
def _data() -> dict[str, Any]:
    text = files("tailrace.values").joinpath("data", "collations.json").read_text("ascii")
    data: dict[str, Any] = json.loads(text)
    return data


@cache
def charset_of(collation: int) -> str:
    """The character set of a collation id; `SchemaError` if no server has the id."""
    for charset, ranges in _data()["charsets"].items():
        for first, last in ranges:
            if first <= collation <= last:
                return str(charset)
    raise SchemaError(
        f"collation {collation} is unknown in MySQL up to 9.7 and MariaDB up to 11.8; "
        "declare the column with a known character set in a schema"
    )


def collation_id(name: str, flavour: Flavour) -> int | None:
    """The id of a collation by its case-insensitive name; None if the flavour does not have it.

    ``utf8_`` means ``utf8mb3_``, as both servers' aliases do.
    """
    folded = name.lower()
    names = _data()["names"][flavour]
    if folded.startswith("utf8_"):
        folded = f"utf8mb3_{folded[5:]}"
    number = names.get(folded)
    return None if number is None else int(number)


def collation_name(collation: int, flavour: Flavour) -> str:
    """The name of a collation id; `SchemaError` if no server of the flavour has the id."""
    for name, number in _data()["names"][flavour].items():
        if number == collation:
            return str(name)
    raise SchemaError(f"collation {collation} is of no known {flavour} server")


def default_collation(charset: str, flavour: Flavour) -> int | None:
    """The id of a character set's default collation (MySQL 9.7's, MariaDB 11.8's)."""
    folded = charset.lower()
    name = _data()["defaults"][flavour].get("utf8mb3" if folded == "utf8" else folded)
    return None if name is None else collation_id(name, flavour)


_LONGEST_CHARACTER: Final = {
    **dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"), 4),
    **dict.fromkeys(("utf8mb3", "ujis", "eucjpms"), 3),
    **dict.fromkeys(("big5", "sjis", "cp932", "gbk", "gb2312", "euckr", "ucs2"), 2),
}


def longest_character(collation: int) -> int:
    """Maximum bytes of a character in this collation's character set."""
    return _LONGEST_CHARACTER.get(charset_of(collation), 1)
