"""The ``tailrace`` command; each of its commands is a file of this folder, imported when run."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version

from cyclopts import App, CycloptsError

from tailrace.errors import TailraceError

USAGE_ERROR = 2
INTERRUPTED = 130

app = App(
    name="tailrace",
    help="MySQL's and MariaDB's binary logs: what is in them, and into a lake with it.",
    version=lambda: version("tailrace"),
    suppress_keyboard_interrupt=False,
)
app.command("tailrace.cli.log:log", name="log", help="Print what is in logs.")
app.command("tailrace.cli.stat:stat", name="stat", help="Count what is in logs.")
app.command(
    "tailrace.cli.mirror:mirror",
    name="mirror",
    help="Land logs in a lake: changes and current state of each table.",
)


def main() -> None:
    """Run the command line; the process ends with its status.

    An error of the tree is a line on stderr and status 2, so is a command that is not understood.
    A reader that goes away (``| head``) and Ctrl-C end it without a word.
    """
    try:
        status = app(
            sys.argv[1:], print_error=False, exit_on_error=False, result_action="return_value"
        )
        sys.stdout.flush()
    except (TailraceError, CycloptsError) as error:
        flush_quietly()
        line = " ".join(str(error).split())
        print(f"tailrace: {line}", file=sys.stderr)  # noqa: T201 - the command line's own voice
        status = USAGE_ERROR
    except BrokenPipeError:
        status = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        flush_quietly()
        status = INTERRUPTED
    sys.exit(status if isinstance(status, int) else 0)


def flush_quietly() -> None:
    """Write out what was printed before an error, if anybody still reads it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
