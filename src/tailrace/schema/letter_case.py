"""Names of databases and tables on a server with ``lower_case_table_names``.

With 1 or 2 a server puts the names of a statement into lower case before it looks for them, and its
rows have them so; the text of a logged statement stays as the client wrote it. The rule is that of
``utf8mb3_general_ci``, in both flavours: each character by itself, as Unicode 3.0 has it. So ``İ``
becomes ``i``, a sigma at the end of a word is like any other one, and newer letters stay.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from tailrace.errors import UsageError
from tailrace.printable import short_repr

LowerCase = Literal[0, 1, 2] | None
"""A server's ``lower_case_table_names``; None if it is unknown."""

_NEWER: Final = frozenset(
    "ȠϘϴҊӅӉӍ" + "".join(map(chr, range(0x500, 0x510)))  # of Unicode 3.1 and 3.2
)


@lru_cache(maxsize=1 << 12)
def lowered(name: str) -> str:
    """A name of a database or a table in lower case, as the servers have it."""
    if name.isascii():
        return name.lower()
    return "".join(map(_lower, name))


def lowers(name: str) -> bool:
    """Whether a name has letters that become others in lower case."""
    return lowered(name) != name


def _lower(letter: str) -> str:
    from unicodedata import ucd_3_2_0  # noqa: PLC0415 - only for names that are not ASCII

    found = letter.lower()
    if letter == "İ":
        return "i"
    if len(found) != 1 or letter in _NEWER or found > "\uffff":
        return letter
    known = all(ucd_3_2_0.category(each) != "Cn" for each in (letter, found))
    return found if known else letter


def lowers_names(lower_case_table_names: object) -> bool | None:
    """Whether a server with this ``lower_case_table_names`` puts names into lower case.

    Raises UsageError for anything but 0, 1, 2 and None.
    """
    if lower_case_table_names not in {None, 0, 1, 2} or isinstance(lower_case_table_names, bool):
        raise UsageError(
            f"lower_case_table_names is 0, 1 or 2, and not {short_repr(lower_case_table_names)}"
        )
    return None if lower_case_table_names is None else lower_case_table_names != 0
