"""An object store's error texts, without secrets."""

from __future__ import annotations

import os
import re
from typing import Final

_SECRET: Final = re.compile(r"(SECRET|TOKEN|KEY|PASSWORD|SIGNATURE|SAS|CREDENTIAL)", re.IGNORECASE)
_QUERY: Final = re.compile(r"(://[^\s?]*)\?\S+")
_TAG: Final = re.compile(r"<[^<>]*>")
_USER: Final = re.compile(r"//[^/\s@]+@")
_SHORTEST: Final = 4
_LONGEST: Final = 300


def without_secrets(text: str) -> str:
    """One line of a store's text, without credentials: those of the environment, and queries."""
    line = " ".join(_TAG.sub(" ", text.partition("\n\nDebug source")[0]).split())
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _SECRET.search(name):
            line = line.replace(value, "***")
    line = _USER.sub("//***@", _QUERY.sub(r"\1?***", line))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
