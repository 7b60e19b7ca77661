"""The process of the ``tailrace`` command, and ``python -m tailrace``."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

INTERRUPTED: Final = 130
"""The exit status that shells use after SIGINT."""
_OBJECTS: Final = 100_000
"""New objects before the garbage collector looks at the youngest generation.

Imported modules stay: with Python's 700, it would scan them a hundred times before the first row.
"""


def main() -> None:
    """Run the command line; Ctrl-C ends it with status 130, also while modules are imported."""
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    # NumPy's OpenBLAS would start a thread for each core, but no matrices are multiplied here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from tailrace.cli import main as run  # noqa: PLC0415 - it can be interrupted

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # the process ends and frees all memory: no search for cycles is needed


if __name__ == "__main__":
    main()
