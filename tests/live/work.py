"""Something to read for tests: cases of the corpus, run anew on a server, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.corpus import CASES, Recorder
from tools.corpus.case import DATABASE

if TYPE_CHECKING:
    from tools.servers import Server

UNREADABLE = ("partial-minimal",)
"""Cases whose rows cannot be decoded, from files neither."""


def run_cases(server: Server, wanted: tuple[str, ...]) -> list[str]:
    """Run the cases whose names contain one of the words; their names.

    Each begins with a log of its own. Global variables are as before, in the end.
    """
    ran = []
    for case in CASES:
        if case.script is None or server.name not in case.servers:
            continue
        if any(word in case.name for word in UNREADABLE):
            continue
        if not any(word in case.name for word in wanted):
            continue
        for variable, value in case.settings.items():
            server.execute(f"SET GLOBAL {variable} = %s", (value,))
        server.rotate()
        recorder = Recorder(server)
        try:
            case.script(recorder)
        finally:
            recorder.connection.close()
            for variable in case.settings:
                server.execute(f"SET GLOBAL {variable} = DEFAULT")
            server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        ran.append(case.name)
    server.rotate()
    return ran
