"""The folder for what is made once per machine: compiled kernels, Java's start, copies.

It is ``TAILRACE_CACHE``, else ``$XDG_CACHE_HOME/tailrace``, else ``~/.cache/tailrace``. Code that
is in it is run. So it is used only if nobody but this user and root may write to it, or to a folder
above it (`tailrace.trust`); that it is not is logged once.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from tailrace.trust import who_else

_log: Final = logging.getLogger("tailrace.cache")


def trusted_cache(part: str = "") -> Path | None:
    """The cache folder, or its subfolder of that name, created if it is missing.

    None if it cannot be created, or if other users may write to it or replace it.
    """
    folder = _trusted(cache_folder())
    return folder if folder is None or not part else _trusted(folder / part)


@functools.cache
def _trusted(folder: Path) -> Path | None:
    """The folder, resolved; checked once per process, so that it is logged only once."""
    try:
        _make(folder)
        real = folder.resolve(strict=True)
        reason = who_else(real)
    except OSError:
        return None
    if reason is None:
        return real
    _log.warning(
        "the cache %s is not used: %s. What is kept there for later runs is recompiled by each"
        " process; remove write permission for others (chmod go-w), or let TAILRACE_CACHE"
        " name a folder of your own",
        folder,
        reason,
    )
    return None


def _make(folder: Path) -> None:
    """Create a folder and its missing parents, for this user alone."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def own_cache(part: str) -> Path:
    """A folder of the cache; if the cache is not trusted, one that is deleted with this process."""
    return trusted_cache(part) or passing_cache(part)


def passing_cache(part: str) -> Path:
    """A folder that nobody else may write to, and that is deleted when this process ends."""
    folder = _passing() / part
    folder.mkdir(exist_ok=True)
    return folder


@functools.cache
def _passing() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tailrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def cache_folder() -> Path:
    """The folder for what is made once per machine, as the environment says."""
    if given := os.environ.get("TAILRACE_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache")
    return Path(base) / "tailrace"
