"""What a run has made, which is to be committed to a lake."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.spark.lake.asides import Asides

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.manifest.lake_options import LakeOptions
    from tailrace.spark.manifest.manifest import Manifest, SourceState
    from tailrace.spark.manifest.status import Status
    from tailrace.spark.state.built import Built
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.source_changes import SourceTable


@dataclass(frozen=True)
class Made:
    """What a run has made: changelog files and current states by table, and the sources' ends.

    ``asides`` are the tables that are set aside, to which others may come that cannot be put into
    the lake. Tables in ``anew`` lose what they had.
    """

    files: Mapping[str, Sequence[ChangeFile]]
    built: Mapping[str, Built]
    sources: Mapping[str, SourceState]
    options: LakeOptions
    histories: Mapping[str, Built] = field(default_factory=dict)
    origins: Mapping[str, SourceTable] = field(default_factory=dict)
    """The tables in ``built`` or ``histories`` that statements gave their names."""
    asides: Asides | None = None
    anew: frozenset[str] = frozenset()
    incomplete: Mapping[str, Status | None] = field(default_factory=dict)
    """The tables that are incomplete from now on, and with None those that are so no more."""
    points: Mapping[str, Mapping[str, SourceState]] = field(default_factory=dict)
    """Where tables may stand still from now on, besides their sources' ends."""
    touched: frozenset[str] | None = None
    """The tables that the batch is about: others stay as they are (None: it is about all)."""

    written: frozenset[Path] = frozenset()
    """All changelog files that tasks wrote, those that come into no table too."""

    def touches(self, key: str) -> bool:
        """Whether the batch is about a table."""
        return self.touched is None or key in self.touched

    def asides_of(self, before: Manifest) -> Asides:
        """The tables that are set aside; by default those of the version before."""
        return Asides(before, self.options.keep) if self.asides is None else self.asides
