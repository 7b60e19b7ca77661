"""What other libraries say in their errors, on one line: some add a trace, or a line per member."""

from __future__ import annotations


def said(error: BaseException) -> str:
    """The first line of an error's text; its class where it has none."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)
