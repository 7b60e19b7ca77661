"""A lake of plain Parquet files, in versions (`store`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.closing import Closing
from tailrace.errors import PipelineError
from tailrace.spark.lake.assemble import assemble
from tailrace.spark.lake.parquet.versions import Lake
from tailrace.spark.state.failure import failure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path
    from typing import Self

    from tailrace.spark.lake.assemble import Made
    from tailrace.spark.manifest.manifest import DataFile, Manifest
    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.failure import Failure


class ParquetStore(Closing):
    """A `Lake`, as those who write batches see it."""

    def __init__(self, path: Path) -> None:
        self._lake = Lake(path)

    def __enter__(self) -> Self:
        self._lake.__enter__()
        return self

    def close(self) -> None:
        """Let others write to the lake."""
        self._lake.close()

    @property
    def manifest(self) -> Manifest:
        """The committed state."""
        return self._lake.manifest

    @property
    def label(self) -> str:
        """Its path."""
        return str(self._lake.path)

    @property
    def staging(self) -> Path:
        """A folder for what a batch writes."""
        return self._lake.staging

    @property
    def sources(self) -> Path:
        """A folder for the logs of servers."""
        return self._lake.sources

    def refresh(
        self,
        run: Runner,  # noqa: ARG002 - nothing is rewritten
        retried: Collection[str] = (),  # noqa: ARG002 - as above
        keys: Collection[str] | None = None,  # noqa: ARG002 - a version has all tables
    ) -> dict[str, Failure]:
        """No one else writes to the versions of a lake; but somebody may have removed files.

        Raises `PipelineError` where the files of all tables are gone.
        """
        self._lake.check_owner()
        failed: dict[str, Failure] = {}
        for key, state in self.manifest.tables.items():
            if state.set_aside is None:
                try:
                    self._check(key)
                except (PipelineError, OSError) as error:
                    failed[key] = failure(error)
        if len(failed) > 1 and len(failed) == len(self.manifest.tables):
            reason = next(iter(failed.values())).reason
            raise PipelineError(
                f"{self.label} is damaged in all of its tables, as in one: {reason}"
            )
        return failed

    def _check(self, key: str) -> None:
        """Raises where a table's file is not there."""
        state = self.manifest.tables[key]
        parts = {
            "changelog": state.changelog,
            "current": () if state.current is None else state.current.data,
            "history": () if state.history is None else state.history.data,
        }
        folder = self._lake.folder(state.folder)
        for part, files in parts.items():
            there = {path.name for path in (folder / part).iterdir()} if files else set()
            if gone := [file.name for file in files if file.name not in there]:
                raise PipelineError(f"its file {folder / part / gone[0]} is gone: bring it back")

    def take_rest(self, keys: Collection[str]) -> dict[str, Failure]:  # noqa: ARG002 - others have
        """Nothing: a version is committed whole."""
        return {}

    def current_paths(self, key: str) -> tuple[str | None, ...]:
        """Where the files of a committed current state are."""
        current = self.manifest.tables[key].current
        return self._paths(key, "current", () if current is None else current.files)

    def deleted(self, key: str) -> Mapping[str, DeletedRows]:  # noqa: ARG002 - others have
        """None: each batch rewrites the files that it deletes rows of."""
        return {}

    def history_paths(self, key: str) -> tuple[str | None, ...]:
        """Where the files of a committed history's open versions are."""
        history = self.manifest.tables[key].history
        return self._paths(key, "history", () if history is None else history.places)

    def _paths(
        self, key: str, part: str, files: Iterable[DataFile | None]
    ) -> tuple[str | None, ...]:
        folder = self._lake.folder(self.manifest.tables[key].folder) / part
        return tuple(None if file is None else str(folder / file.name) for file in files)

    def commit(self, made: Made) -> Manifest:
        """Make a batch seen: the next version."""
        manifest, places = assemble(self._lake, made)
        self._lake.commit(manifest, places)
        return manifest

    def discard(self) -> None:
        """Drop what is in staging."""
        self._lake.discard()
