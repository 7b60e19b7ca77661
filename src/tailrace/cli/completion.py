"""``tailrace completion``: a script for a shell."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from tailrace.cli.output import standard_output


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"],
        Parameter(help="The shell: ``bash``, ``zsh`` or ``fish``."),
    ],
    /,
) -> None:
    """Print a script that lets a shell complete commands, options and files."""
    from tailrace.cli import app  # noqa: PLC0415 - it imports this module

    standard_output().write(app.generate_completion(shell=shell))
