"""The ``tailrace`` command; each of its commands is a module of this package, imported when run."""

from __future__ import annotations

import sys
import traceback
from itertools import islice
from typing import Final

from cyclopts import UNSET, App, ArgumentCollection, CycloptsError, Group, Parameter

from tailrace.cli.commands import COMMANDS, COPY, EPILOGUE, HELP, LAKE, LOOK, SEARCH
from tailrace.cli.help import HelpFormatter
from tailrace.cli.install import start_again
from tailrace.cli.output import say, say_error, standard_output, warnings_said
from tailrace.cli.standard import discard_output, flush_quietly, use_standard_streams
from tailrace.errors import MissingExtra, TailraceError
from tailrace.extras import extra_of, missing

USAGE_ERROR = 2
INTERRUPTED = 130


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - slow, and seldom needed

    return version("tailrace")


app = App(
    name="tailrace",
    help="Read MySQL's and MariaDB's binary logs, copy them, and load them into a lake.",
    usage="Usage: tailrace COMMAND [OPTIONS] SOURCE…",
    help_format="plaintext",
    help_epilogue=EPILOGUE,
    help_formatter=HelpFormatter(),
    version=_version,
    version_format="plaintext",
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(show_default=False, show_choices=False),
)
_GROUPS: Final = {
    name: Group(name, sort_key=number)
    for number, name in enumerate((LOOK, COPY, LAKE, SEARCH, HELP))
}
for _number, _each in enumerate(COMMANDS):
    app.command(
        _each.function,
        name=_each.name,
        group=_GROUPS[_each.group],
        sort_key=_number,
        help=_each.help,
        help_format="markdown",
        help_epilogue=_each.epilogue,
        usage=f"Usage: tailrace {_each.name} {_each.usage}",
    )
for _option, _text in (
    ("--help", "Show this text; after a command, its help."),
    ("--version", "Show the version."),
):
    app[_option].group = _GROUPS[HELP]
    app[_option].help = _text
    app[_option].sort_key = len(COMMANDS)


def main() -> None:
    """Run the command line; the process exits with its status.

    0 is success. 1 means that a comparison found a difference (or a table is set aside, with the
    option for that). 2 is an error, including internal ones, and 130 is Ctrl-C. Tailrace's errors
    and unknown commands are one line on stderr; an internal fault is a traceback. A closed reader
    (``| head``) and Ctrl-C end it silently. The status is the same if stderr cannot be written.
    """
    use_standard_streams()
    standard_output()  # in UTF-8, also for the help
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
        if isinstance(error, MissingExtra):
            start_again(error)
        from tailrace.cli.sources import without_passwords  # noqa: PLC0415 - with errors only

        say_error(without_passwords(_message(error), sys.argv))
        status = USAGE_ERROR
    except ImportError as error:
        missing = _missing_extra(error)
        if missing is not None:
            start_again(missing)
            say(str(missing))
        else:
            traceback.print_exc()
        status = USAGE_ERROR
    except BrokenPipeError:
        status = 0
        discard_output()
    except KeyboardInterrupt:
        flush_quietly()
        status = INTERRUPTED
    except Exception:  # noqa: BLE001 - Python's own status for it is 1, which means "differs"
        flush_quietly()
        traceback.print_exc()
        status = USAGE_ERROR
    sys.exit(status if isinstance(status, int) else 0)


def _arguments(given: list[str]) -> list[str]:
    """The arguments with ``--`` before all that are no options, if ``-`` is one of these.

    Cyclopts takes ``-`` for an option, and so it does a position in it, as in ``--start -:300``.
    """
    if "-" not in given or given[0] not in app:
        return given
    known = app[given[0]].assemble_argument_collection()
    options, others = given[:1], list[str]()
    left = iter(given[1:])
    for each in left:
        if each == "--":
            others += left
        elif each == "-" or not each.startswith("-"):
            others.append(each)
        elif "=" not in each and _takes_value(known, each):
            values = [*islice(left, 1)]
            place = values and values[0].startswith("-:")
            options += [f"{each}={values[0]}"] if place else [each, *values]
        else:
            options.append(each)
    return [*options, "--", *others]


def _takes_value(known: ArgumentCollection, option: str) -> bool:
    """Whether the argument after an option is its value."""
    try:
        argument, keys, value = known.match(option)
    except ValueError:  # there is no such option
        return False
    return value is UNSET and argument.token_count(keys)[0] > 0


def _message(error: Exception) -> str:
    """An error's message."""
    if not isinstance(error, CycloptsError):
        return str(error)
    from tailrace.cli.usage import explained  # noqa: PLC0415 - with errors only

    return explained(error)


def _missing_extra(error: BaseException | None) -> MissingExtra | None:
    """The error that names what to install if a command needs more than a plain reader does."""
    while error is not None:
        if isinstance(error, MissingExtra):
            return error
        package = (getattr(error, "name", None) or "").partition(".")[0]
        extra = extra_of(package)
        if isinstance(error, ModuleNotFoundError) and extra is not None:
            return missing(extra, package, "this command")
        error = error.__cause__
    return None
