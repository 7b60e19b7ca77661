"""A Python out of Debian's archive that runs where it was unpacked, on its own C library.

Its program cannot be started by itself on a machine whose C library is older. So a script stands in
its place: it starts the program by its own loader, and under the script's name, by which Python
finds the virtual environment that it belongs to. `python -m tools.servers.python` prints its path.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Final

from tools.servers.fetch import fetch, locked
from tools.servers.prefix import ServersUnavailable, loader, root_folder

if TYPE_CHECKING:
    from pathlib import Path

NEWEST: Final = "python-3.14"
"""The newest Python that there are wheels for of all packages with native code."""
_SCRIPT: Final = """\
#!/bin/sh
exec {loader} --argv0 "$0" --library-path {libraries} {program} "$@"
"""


def newest() -> Path:
    """The newest Python, fetched where it is not there yet. Raises ServersUnavailable."""
    tree = fetch(NEWEST)
    script = tree / "usr/bin" / NEWEST.replace("-", "")
    program = script.with_name(f"{script.name}.real")
    with locked(root_folder() / f".{NEWEST}.lock"):
        if not (program.is_file() and script.is_file()):
            if not program.is_file():
                script.rename(program)
            own = loader(tree)
            parts = {"loader": own, "libraries": own.parent, "program": program}
            made = script.with_name(f"{script.name}.new")
            made.write_text(
                _SCRIPT.format(**{key: shlex.quote(str(each)) for key, each in parts.items()}),
                encoding="utf-8",
            )
            made.chmod(0o755)
            made.rename(script)
    return script


if __name__ == "__main__":
    try:
        print(newest())
    except ServersUnavailable as error:
        sys.exit(f"python: {error}")
