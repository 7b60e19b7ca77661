"""The command line with kernels and without: what it writes must be the same."""

from __future__ import annotations

import functools
import re
import sys
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tailrace.cli import app
from tailrace.columns.read import blocks
from tailrace.columns.text import readers, stretches
from tailrace.errors import TailraceError

_NEVER = 1 << 60


class Written(NamedTuple):
    status: object
    out: bytes
    err: str


def written(*arguments, least=0):
    """What a command writes, with kernels for logs of at least so many bytes."""
    out, err = BytesIO(), StringIO()
    stdout = TextIOWrapper(out, encoding="utf-8", newline="")
    with (
        patch.object(readers, "LEAST", least),
        patch.object(readers, "LEAST_UNCOMPILED", least),
        patch.object(sys, "stdout", stdout),
        patch.object(sys, "stderr", err),
    ):
        try:
            command, given = understood(*(str(each) for each in arguments if not is_path(each)))
            status = command(*map(str, filter(is_path, arguments)), *given.args, **given.kwargs)
        except TailraceError as error:
            status = repr(error)
        stdout.flush()
    return Written(status, out.getvalue(), err.getvalue())


def is_path(argument):
    return isinstance(argument, Path)


@functools.cache
def understood(*options):
    """A command and what it is given but logs: to find that takes as long as to read a small log."""
    command, given, _ = app.parse_args(list(options), print_error=False, exit_on_error=False)
    return command, given


class Counted:
    """How many stretches were read to their end, and how many rejected; and the command's status."""

    def __init__(self):
        self.taken = self.rejected = self.pieces = 0
        self.status = None


def no_minus_zero(text):
    """Decimals of zero without a minus, which random bytes may have, but no server writes."""
    return re.sub(rb"-(0(?:\.0+)?)(?![.\d])", rb"\1", text)


def same(*arguments, block=blocks.BLOCK, least=1, seen=lambda text: text):
    """Check that a command writes the same both ways; what the kernels did of it.

    ``block`` are the bytes that they read at a time, ``least`` those of a stretch; of both outputs
    what ``seen`` gives is compared.
    """
    counted = Counted()
    reading = stretches.StretchReader._stretches

    def count(self, *given):
        found = reading(self, *given)
        try:
            stretch = next(found)
            while True:
                pieces = stretch._pieces
                stretch._pieces = (noted(piece) for piece in pieces)
                yield stretch
                counted.taken += not stretch.rejected
                counted.rejected += stretch.rejected
                stretch = next(found)
        except StopIteration as end:
            return end.value

    def noted(piece):
        counted.pieces += 1
        return piece

    expected = written(*arguments, least=_NEVER)
    with (
        patch.object(stretches.StretchReader, "_stretches", count),
        patch.object(stretches, "_LEAST", least),
        patch.object(blocks, "BLOCK", block),
    ):
        found = written(*arguments)
    assert seen(found.out) == seen(expected.out)
    assert found._replace(out=b"") == expected._replace(out=b"")
    counted.status = found.status
    return counted
