"""Chromium for the tests of pages: the machine's own, or one out of Debian's archive.

The one that is fetched runs where it was unpacked, by its own loader and on its own C library. It
starts its other processes by the path of its script, and finds its files next to its loader.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Final

from tools.servers.fetch import fetch, locked
from tools.servers.prefix import loader, root_folder

_NAME: Final = "chromium"
_SCRIPT: Final = """\
#!/bin/sh
export FONTCONFIG_SYSROOT={tree}
exec {loader} --library-path {libraries} {program} \\
  --no-zygote --browser-subprocess-path={script} "$@"
"""
OPTIONS: Final = ("--no-sandbox", "--disable-gpu", "--disable-quic")
"""What it is started with: containers have no sandbox."""


def chromium() -> Path:
    """Chromium's program, fetched if the machine has none. Raises ServersUnavailable."""
    if own := shutil.which(_NAME):
        return Path(own)
    tree = fetch(_NAME)
    folder = tree / "usr/lib/chromium"
    script = folder / "start"
    with locked(root_folder() / f".{_NAME}.lock"):
        if not script.is_file():
            libraries = loader(tree).parent
            beside = folder / "loader"
            shutil.copy(loader(tree), beside)
            made = folder / "start.new"
            text = _SCRIPT.format(
                tree=shlex.quote(str(tree)),
                loader=shlex.quote(str(beside)),
                libraries=shlex.quote(f"{libraries}:{libraries / 'pulseaudio'}"),
                program=shlex.quote(str(folder / "chromium-headless-shell")),
                script=shlex.quote(str(script)),
            )
            made.write_text(text, encoding="utf-8")
            made.chmod(0o755)
            made.rename(script)
    return script
