"""Installs the extra that a command lacks, where `./run` started the command.

`./run tailrace` installs only the packages for reading logs. If a command fails because it lacks an
extra, this module starts it again with the extra that the error names. A command opens its sources
and its target before it prints, so the second start repeats no output.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from tailrace.cli.output import say
from tailrace.extras import extra_of

if TYPE_CHECKING:
    from tailrace.errors import MissingExtra

_RUN: Final = "TAILRACE_RUN"
"""The path of `./run`."""
_EXTRAS: Final = "TAILRACE_EXTRAS"
"""The extras that `./run` is to install, separated by spaces."""


def start_again(error: MissingExtra) -> None:
    """Start this command again with the missing extra; return if `./run` did not start it."""
    run, known = os.environ.get(_RUN), os.environ.get(_EXTRAS, "").split()
    extra = extra_of((error.name or "").partition(".")[0])
    if run is None or extra is None or extra in known or _reads_stdin():
        return
    say(f"this needs the extra {extra}: installing it, once")
    os.environ[_EXTRAS] = " ".join([*known, extra])
    os.execv(run, [run, "tailrace", *sys.argv[1:]])  # noqa: S606 - the file that started this


def _reads_stdin() -> bool:
    """Whether standard input is a source: a part of it may be read already."""
    return any(each == "-" or each.startswith("/dev/") for each in sys.argv)
