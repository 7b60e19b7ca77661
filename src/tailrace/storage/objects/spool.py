"""The folder for files on this machine until they are complete and in their object store."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tailrace.storage.objects.url import ObjectUrl

SPOOL: Final = "TAILRACE_SPOOL"
"""The environment variable with the folder; the default is ``~/.local/state/tailrace/spool``."""

_PLACES: Final = (
    *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    *("AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ACCOUNT_NAME"),
)
"""The settings that distinguish buckets of the same name."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


def spool_folder(url: ObjectUrl) -> Path:
    """The spool folder for an object store's folder: the same each time."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    root = Path(os.environ.get(SPOOL) or Path(state) / "tailrace/spool")
    place = "\n".join([str(url), *(os.environ.get(name, "") for name in _PLACES)])
    plain = _ODD.sub("-", f"{url.scheme}-{url.bucket}-{url.key}")[:60].rstrip("-")
    return root / f"{plain}-{sha256(place.encode()).hexdigest()[:12]}"
