"""Whether what lies in a folder is ours: what is run as code is taken from nowhere else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def who_else(path: str | Path) -> str | None:
    """Who else may write to a file or folder, or put another in its place; None where nobody may.

    Nobody else is when it, and every folder above it, belongs to this process's user or to root,
    and neither its group nor others may write to it. Above a file or folder that is safe itself, a
    folder that others may write to is accepted if it is sticky, as ``/tmp`` is: nobody else may
    rename or remove there what is not theirs. ``path`` is resolved first: symbolic links on the way
    do not count. Raises OSError where it is not there.
    """
    real = Path(os.path.realpath(path, strict=True))
    for number, each in enumerate((real, *real.parents)):
        found = each.lstat()
        sticky = number > 0 and found.st_mode & stat.S_ISVTX
        if (reason := _who_else(found)) is not None and not (sticky and _is_ours(found)):
            return f"{each} {reason}"
    return None


def who_else_wrote(descriptor: int) -> str | None:
    """As `who_else`, of an open file by itself, whatever lies at its path by now."""
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
