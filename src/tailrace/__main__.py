"""The process of the ``tailrace`` command, and ``python -m tailrace``."""

from __future__ import annotations

import sys
from typing import Final

INTERRUPTED: Final = 130
"""As a shell has it for what SIGINT ended."""


def main() -> None:
    """Run the command line; Ctrl-C ends it with status 130, also while it is imported."""
    try:
        from tailrace.cli import main as run  # noqa: PLC0415 - it can be interrupted

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
