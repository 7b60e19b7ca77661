"""The name of a log file, ``binlog.000001``: the only type that may become a path.

Names come from servers (ROTATE, heartbeats, SHOW BINARY LOGS), from index files and from users. A
name that could lead out of the folder in which a log is written, or that a terminal or an index
would interpret differently, is rejected before it is used.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Self

from tailrace.errors import BadLogName
from tailrace.printable import short_repr

_NUMBERED: Final = re.compile(r"(.+)\.([0-9]{1,240})", re.DOTALL)
_DIGITS: Final = 6
_LONGEST: Final = 255
"""The most bytes of a file's name in all common file systems."""
_LONGEST_LOG: Final = 240
"""The most bytes of a log's name: suffixes are added to it, like ``.new`` during writing."""
_MOST: Final = 0x7FFFFFFF
"""The servers' own limit."""


class LogName(str):
    r"""A log file's name: ``base.digits``, in one folder and of at most 240 bytes of UTF-8.

    It holds no path separator (``/`` or ``\\``), no ``..`` and no character that cannot be
    printed (controls, invisible ones), does not begin with a space, and its number is at most
    2147483647. Raises BadLogName.
    """

    __slots__ = ()

    def __new__(cls, name: str) -> Self:
        if reason := _reason(name, _LONGEST_LOG):
            raise BadLogName(f"{short_repr(name)} is not a log file name: it {reason}")
        if file_number(name) is None:
            if _NUMBERED.fullmatch(name):
                raise BadLogName(f"{short_repr(name)}: a log file's number is at most {_MOST}")
            raise BadLogName(f"{short_repr(name)} is not a log file name like binlog.000001")
        return super().__new__(cls, name)

    @classmethod
    def of(cls, base: str, number: int, digits: int = _DIGITS) -> Self:
        """The name made from its parts. Raises BadLogName."""
        return cls(f"{base}.{number:0{digits}}")

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The text as a log file's name, None if it is not one."""
        try:
            return cls(name)
        except BadLogName:
            return None

    @classmethod
    def given_by(cls, source: str, raw: bytes | str) -> Self:
        """A name that a server sent; errors call the server ``source``. Raises BadLogName."""
        try:
            return cls(raw if isinstance(raw, str) else raw.decode(errors="backslashreplace"))
        except BadLogName as error:
            raise BadLogName(
                f"{source}: a log's name that the source gave: {error}; nothing was written under"
                " it"
            ) from None

    @property
    def base(self) -> str:
        """``binlog`` of ``binlog.000001``."""
        return base_and_number(self)[0]

    @property
    def number(self) -> int:
        """1 of ``binlog.000001``."""
        return base_and_number(self)[1] or 0

    @property
    def next(self) -> Self:
        """The name of the next file. Raises BadLogName after the last number that servers use."""
        digits = len(self) - len(self.base) - 1
        return self.of(self.base, self.number + 1, digits)


@lru_cache(maxsize=1024)
def base_and_number(name: str) -> tuple[str, int | None]:
    """A file's name without its numeric suffix, and that suffix: ``("binlog", 3)``.

    The number is None if the name does not end in one after a dot, if nothing comes before that
    dot, or if it is greater than servers use, 2147483647; then the base is the whole name. What is
    named so need not be a `LogName`: a file that is read may have any name.
    """
    match = _NUMBERED.fullmatch(name)
    if match is None or int(match[2]) > _MOST:
        return name, None
    return match[1], int(match[2])


def file_number(name: str) -> int | None:
    """The numeric suffix of a file's name (``binlog.000003`` → 3), or None: `base_and_number`."""
    return base_and_number(name)[1]


def plain_name(name: str) -> str:
    """The name of any file in a folder of logs, if it is a single name and not a path.

    Raises BadLogName.
    """
    if name in {"", "."}:
        raise BadLogName(f"{short_repr(name)} is not a file name")
    if reason := _reason(name, _LONGEST):
        raise BadLogName(f"{short_repr(name)} is not a file name: it {reason}")
    return name


def _reason(name: str, longest: int) -> str:
    """Why a text is not a plain file name; empty if it is one."""
    if len(name) > longest:
        return f"has more than {longest} bytes"
    if "/" in name or "\\" in name:
        return "has a path separator"
    if ".." in name:
        return "has '..'"
    if name[:1].isspace():
        return "starts with a space"
    if not name.isprintable():
        return "has a character that cannot be printed"
    return f"has more than {longest} bytes" if len(name.encode()) > longest else ""
