"""What a lake of any format is to those who write batches into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path
    from types import TracebackType

    from tailrace.spark.lake.assemble import Made
    from tailrace.spark.manifest.manifest import Manifest
    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.failure import Failure


class LakeStore(Protocol):
    """A lake opened by the one process that writes to it; a context manager.

    Opening finishes a commit that was prepared, and removes what one left that was not.
    """

    @property
    def manifest(self) -> Manifest:
        """The committed state; after `commit` the new one."""

    @property
    def label(self) -> str:
        """What the lake is called in messages: what the user gave."""

    @property
    def staging(self) -> Path:
        """A folder for what a batch writes, shared with tasks; empty after a commit."""

    @property
    def sources(self) -> Path:
        """A folder for the logs of servers; what is in it stays."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def current_paths(self, key: str) -> tuple[str | None, ...]:
        """Where tasks find the files of a table's current state, by bucket, and then its tails."""

    def deleted(self, key: str) -> Mapping[str, DeletedRows]:
        """The deleted rows of the files of a table's current state that have any, by path."""

    def history_paths(self, key: str) -> tuple[str | None, ...]:
        """Where tasks find the files of a table's open versions, by bucket."""

    def refresh(
        self, run: Runner, retried: Collection[str] = (), keys: Collection[str] | None = None
    ) -> dict[str, Failure]:
        """Notice what others did to the lake's tables since; before a batch works on them.

        ``run`` runs jobs that read and write their rows, if that is needed. ``keys`` are those of
        the tables that the batch is about, by default all. Of tables that stand still only
        ``retried`` ones are looked at, by key. What is in `staging` stays.

        The tables, by key, that a batch cannot use as they are.
        """

    def take_rest(self, keys: Collection[str]) -> dict[str, Failure]:
        """Do what is left of batches to tables that were set aside; those that fail, by key."""

    def commit(self, made: Made) -> Manifest:
        """Make a batch seen, with the sources' ends, exactly once. Raises `PipelineError`."""

    def discard(self) -> None:
        """Drop what a batch that failed has left in `staging`."""
