"""``./run python -m benchmarks NAME``: decode, memory, mirror or source."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("decode", "memory", "mirror", "source")


def main() -> int:
    """Run the benchmark that the first argument names."""
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print(f"usage: python -m benchmarks {'|'.join(NAMES)} [--quick]", file=sys.stderr)
        return 2
    run = import_module(f"benchmarks.{sys.argv[1]}").run
    run(quick="--quick" in sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
