"""The command line in the process of a scenario: quick, and all that it prints is looked at."""

from __future__ import annotations

import io
import sys
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

_STATUSES: Final = (0, 1, 2)


class Said(NamedTuple):
    """What a command ended with, and what it wrote."""

    status: int
    out: str
    err: str


def said(*arguments: str | Path, escaped: bool = True) -> Said:
    """Run ``tailrace`` with these arguments here, without a terminal.

    Raises AssertionError for an exit status that no error of Tailrace's has, an error of several
    lines, and, with ``escaped``, for what a terminal would act upon in what was written. What is
    raised but SystemExit passes: a traceback, for the user.
    """
    before, sys.argv = sys.argv, ["tailrace", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    status = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.argv = before
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "backslashreplace"))
    ended_with = Said(status, *texts)
    assert status in _STATUSES, ended_with
    assert "Traceback" not in ended_with.err, ended_with.err[-2000:]
    if status == 2:
        last = ended_with.err.rstrip("\n").split("\n")[-1]
        assert last.startswith("tailrace: "), ended_with.err[-2000:]
    for text in (ended_with.err, *([ended_with.out] if escaped else [])):
        acted_on = {letter for letter in text if _is_acted_on(letter)}
        assert not acted_on, f"{' '.join(map(str, arguments))[:200]} wrote {acted_on}"
    return ended_with


def _is_acted_on(letter: str) -> bool:
    return unicodedata.category(letter) == "Cc" and letter not in "\n\t"
