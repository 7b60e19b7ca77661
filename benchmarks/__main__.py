"""``./run python -m benchmarks NAME``: see `NAMES`; ``--quick`` takes fewer rounds.

Some take more options: ``--help`` behind the name tells them.
"""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = (
    "against",
    "apply",
    "cli",
    "decode",
    "encode",
    "encrypted",
    "generators",
    "handlers",
    "latency",
    "live",
    "materialise",
    "memory",
    "mirror",
    "objects",
    "pipeline",
    "search",
    "semisync",
    "semisync_source",
    "serve",
    "source",
    "streams",
)


def main() -> int:
    """Run the benchmark that the first argument names."""
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print(f"usage: python -m benchmarks {'|'.join(NAMES)} [--quick]", file=sys.stderr)
        return 2
    module = import_module(f"benchmarks.{sys.argv[1]}")
    if hasattr(module, "command"):
        return int(module.command(sys.argv[2:]))
    module.run(quick="--quick" in sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
