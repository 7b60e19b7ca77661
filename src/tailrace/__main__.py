"""The process of the ``tailrace`` command, and ``python -m tailrace``."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

INTERRUPTED: Final = 130
"""As a shell has it for what SIGINT ended."""
_OBJECTS: Final = 100_000
"""Objects that are made before the collector of cycles looks at the young ones.

What is imported stays: with Python's 700 it is looked through a hundred times before the first row.
"""


def main() -> None:
    """Run the command line; Ctrl-C ends it with status 130, also while it is imported."""
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    # NumPy's OpenBLAS starts a thread for each core, and we multiply no matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from tailrace.cli import main as run  # noqa: PLC0415 - it can be interrupted

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # the memory goes with the process: what is left is not searched for cycles


if __name__ == "__main__":
    main()
