"""Whether a file in a folder is ours: code is loaded only from files that nobody else can write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def who_else(path: str | Path) -> str | None:
    """Who else may write to a file or folder, or replace it; None if nobody else may.

    Nobody else may if it, and every folder above it, belongs to this process's user or to root, and
    neither its group nor others may write to it. Above a file or folder that is safe itself, a
    folder that others may write to is accepted if it is sticky, as ``/tmp`` is: others cannot
    rename or remove there what is not theirs. ``path`` is resolved first: symbolic links on the way
    do not count. Raises OSError if it does not exist.
    """
    real = Path(os.path.realpath(path, strict=True))
    for number, each in enumerate((real, *real.parents)):
        found = each.lstat()
        sticky = number > 0 and found.st_mode & stat.S_ISVTX
        if (reason := _who_else(found)) is not None and not (sticky and _is_ours(found)):
            return f"{each} {reason}"
    return None


def who_else_wrote(descriptor: int) -> str | None:
    """Like `who_else`, for an open file itself, whatever is at its path now."""
    reason = _who_else(os.fstat(descriptor))
    return None if reason is None else f"the file {reason}"


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid in {os.geteuid(), 0}


def _who_else(found: os.stat_result) -> str | None:
    if not _is_ours(found):
        return f"belongs to another user (uid {found.st_uid})"
    if found.st_mode & _OTHERS:
        return f"may be written by other users (mode {stat.S_IMODE(found.st_mode):04o})"
    return None
