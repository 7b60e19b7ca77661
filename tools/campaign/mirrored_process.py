"""``tailrace mirror --follow`` as a process of its own, and ways to end it."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.manifest import Manifest
from tools.campaign.mirrored_lake import LakeReader
from tools.campaign.process import TAILRACE, Process

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from tools.servers import Server

PLACES: Final = {"start": 2, "batch": 3, "commit": 3, "prepared": 2}
"""Where a mirror is killed, and how often.

``start``: as it starts. ``batch``: some time after a batch of its own. ``commit``: as tasks begin
to write files of a batch, or a commit begins. ``prepared``: as a commit is prepared, and tables
take their steps (of a Parquet lake, which has no such step, as a version is placed).
"""
_REFUSED: Final = re.compile(
    r"^(?:tailrace: )?(\S+): (?:no current state: |set aside since )", re.MULTILINE
)


class Mirror(Process):
    """A mirror of a server into ``folder / "lake"``, started again and again."""

    def __init__(
        self,
        server: Server,
        format: str,  # noqa: A002 - what the command calls it
        folder: Path,
        *,
        keep: Sequence[str],
        trigger: str = "500ms",
    ) -> None:
        self.url = f"mysql://root@{server.host}:{server.port}/?ssl_mode=DISABLED"
        self.lake = folder / "lake"
        self.reader = LakeReader(self.lake, format)
        command = [
            *(*TAILRACE, "mirror", self.url, "--into", str(self.lake), "--format", format),
            *("--follow", "--trigger", trigger, "--statements", "skip", "--cores", "2"),
            *("--keep", ",".join(keep)),
        ]
        super().__init__(folder / "output", command)

    @property
    def pid(self) -> int:
        """The process, which is the first of its group."""
        return self.running.pid

    def version(self) -> int:
        """Which version is committed; 0 before the first."""
        return self.manifest().version

    def manifest(self) -> Manifest:
        """What is committed."""
        if not LakeView.is_there(self.lake):
            return Manifest()
        return LakeView.open(self.lake).manifest

    def refused(self) -> set[str]:
        """The tables that it ever said had no state."""
        return set(_REFUSED.findall(self.said()))

    def start_and_kill(self, rng: random.Random) -> str:
        """Start one and kill it with all of its group; which of `PLACES` that was."""
        before = self.version()
        if not self.runs:
            self.start()
        place = rng.choices(list(PLACES), list(PLACES.values()))[0]
        if place == "start":
            time.sleep(rng.uniform(0, 3))
            _ = self.running
        else:
            self.wait(lambda: self.version() != before, "has committed nothing")
        if place == "batch":
            time.sleep(rng.expovariate(1 / 0.5))
        elif place in {"commit", "prepared"}:
            self._wait_for_a_commit(prepared=place == "prepared")
            time.sleep(rng.choice([0, rng.uniform(0, 0.02), rng.uniform(0, 0.2)]))
        _ = self.running
        self.kill()
        return place

    def _wait_for_a_commit(self, *, prepared: bool) -> None:
        inner = self.lake / "_tailrace"
        folders = ("journal",) if prepared else ("journal", "versions", ".")
        there = _names(inner, folders)
        self.wait(lambda: _names(inner, folders) - there, "has begun no commit", 0.001)

    def kill(self) -> int | None:
        """Kill what runs, and its group: a crash leaves nothing of it."""
        if self.runs:
            os.killpg(self.running.pid, signal.SIGKILL)
        return super().kill()


def _names(inner: Path, folders: Sequence[str]) -> set[str]:
    """What a commit makes new files of, below these folders."""
    found: set[str] = set()
    for folder in folders:
        with suppress(FileNotFoundError):
            found |= {f"{folder}/{path.name}" for path in (inner / folder).iterdir()}
    return found
