"""How help looks, and ``tailrace help``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tailrace.errors import UsageError
from tailrace.printable import suggestion

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


class HelpFormatter:
    """Panels of the help as a heading and two columns, without boxes."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from rich.table import Table  # noqa: PLC0415 - for help only
        from rich.text import Text  # noqa: PLC0415 - as above

        del options
        if not panel.entries:
            return
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for entry in panel.entries:
            labels = entry.display_labels_with_metavar
            if panel.format == "command":
                labels = (*entry.positive_shorts, *entry.positive_names)
            label = f"  {', '.join(labels)}"
            table.add_row(Text(label, "cyan"), entry.description or "")
        console.print()
        console.print(Text(f"{panel.title}:", "bold"))
        console.print(table)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the usage."""
        del options
        console.print(usage, markup=False, highlight=False)

    def render_description(
        self, console: Console, options: ConsoleOptions, description: Any
    ) -> None:
        """Print the description; a panel after it begins with an empty line."""
        with console.capture() as captured:
            console.print(description)
        del options
        from rich.text import Text  # noqa: PLC0415 - as above

        console.print(Text.from_ansi(captured.get().rstrip()))


def help_(
    command: Annotated[str | None, Parameter(help="A command's name; without one, all.")] = None,
    /,
) -> None:
    """Print the help of the command line, or of a command."""
    from tailrace.cli import app  # noqa: PLC0415 - it imports this module

    names = sorted(name for name in app if not name.startswith("-"))
    if command is not None and command not in names:
        close = suggestion(command, names)
        raise UsageError(f"there is no command {command!r}{close}: there are {', '.join(names)}")
    app.help_print([] if command is None else [command])
