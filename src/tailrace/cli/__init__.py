"""The ``tailrace`` command; each of its commands is a file of this folder, imported when run."""

from __future__ import annotations

import os
import sys
import traceback

from cyclopts import App, CycloptsError, Parameter

from tailrace.cli.lines import say, warnings_said
from tailrace.errors import MissingExtra, TailraceError
from tailrace.extras import extra_of, missing
from tailrace.printable import one_line

USAGE_ERROR = 2
INTERRUPTED = 130


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - slow, and seldom needed

    return version("tailrace")


app = App(
    name="tailrace",
    help="MySQL's and MariaDB's binary logs: what is in them, and into a lake with it.",
    version=_version,
    version_format="plaintext",
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(show_default=False),
)
app.command("tailrace.cli.log:log", name="log", help="Print what is in logs.")
app.command("tailrace.cli.stat:stat", name="stat", help="Count what is in logs.")
app.command(
    "tailrace.cli.mirror.command:mirror",
    name="mirror",
    help="Land logs in a lake: changes and current state of each table.",
)
app.command(
    "tailrace.cli.receive.command:receive",
    name="receive",
    help="Keep byte-identical copies of servers' logs.",
)
app.command(
    "tailrace.cli.verify_lake:verify",
    name="verify",
    help="Compare a lake's current tables with the server's.",
)


def main() -> None:
    """Run the command line; the process ends with its status.

    0 is done, 1 what was compared differs (or stands still, where an option asks for that), 2 an
    error, also one of ours, and 130 Ctrl-C. An error of the tree is a line on stderr, so is a
    command that is not understood; a fault of ours is a traceback. A reader that goes away
    (``| head``) and Ctrl-C end it without a word.
    """
    try:
        with warnings_said():
            status = app(
                _arguments(sys.argv[1:]),
                print_error=False,
                exit_on_error=False,
                result_action="return_value",
            )
        sys.stdout.flush()
    except (TailraceError, CycloptsError) as error:
        flush_quietly()
        from tailrace.cli.servers import without_passwords  # noqa: PLC0415 - with errors only

        say(without_passwords(one_line(_message(error)), sys.argv))
        status = USAGE_ERROR
    except ImportError as error:
        missing = _missing_extra(error)
        say(missing) if missing is not None else traceback.print_exc()
        status = USAGE_ERROR
    except BrokenPipeError:
        status = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        flush_quietly()
        status = INTERRUPTED
    except Exception:  # noqa: BLE001 - Python's own status for it is 1, which says "differs"
        flush_quietly()
        traceback.print_exc()
        status = USAGE_ERROR
    sys.exit(status if isinstance(status, int) else 0)


def _arguments(given: list[str]) -> list[str]:
    """The arguments with ``-`` behind all others, where it is not taken for an option."""
    if "-" not in given or "--" in given:
        return given
    return [*(each for each in given if each != "-"), "--", "-"]


def _message(error: Exception) -> str:
    """What an error says; a mistyped command must not fail for a command that cannot be loaded."""
    try:
        return str(error)
    except ImportError:
        return f"unknown command {' '.join(sys.argv[1:2])!r}"


def _missing_extra(error: BaseException | None) -> str | None:
    """What to install where a command needs more than a plain reader does."""
    while error is not None:
        if isinstance(error, MissingExtra):
            return str(error)
        package = (getattr(error, "name", None) or "").partition(".")[0]
        extra = extra_of(package)
        if isinstance(error, ModuleNotFoundError) and extra is not None:
            return str(missing(extra, package, "this command"))
        error = error.__cause__
    return None


def flush_quietly() -> None:
    """Write out what was printed before an error, if anybody still reads it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
