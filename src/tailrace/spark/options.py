"""What a run of `mirror` is asked for, and whether a lake can be gone on with so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from tailrace.errors import PipelineError, UsageError
from tailrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.selection import TableFilter
    from tailrace.spark.lake.manifest import Manifest

KEEP: Final = ("changelog", "current", "history")
FORMATS: Final = ("parquet", "delta", "iceberg")
DEFAULT_KEEP: Final = ("changelog", "current")
UPDATE_MODES: Final = ("merge-on-read", "copy-on-write")


@dataclass(frozen=True)
class Options:
    """What `mirror` was asked for; ``keys`` are those given for tables by name, in order.

    Without an ``update_mode`` it is the lake's, or of a new one its format's (`check_lake`).
    """

    tables: TableFilter
    keep: tuple[str, ...]
    statements: Literal["error", "skip"] = "error"
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shards: bool = False
    update_mode: str | None = None

    @classmethod
    def of(
        cls,
        tables: TableFilter,
        keep: Sequence[str],
        statements: Literal["error", "skip"],
        keys: Mapping[str, Sequence[str]] | None,
        *,
        shards: bool,
        update_mode: str | None = None,
        format: str = "parquet",  # noqa: A002 - as `mirror` calls it
    ) -> Options:
        """Checked; raises UsageError."""
        if unknown := [each for each in keep if each not in KEEP]:
            known = f"{', '.join(KEEP[:-1])} and {KEEP[-1]}"
            raise UsageError(f"a lake keeps {known}, and no {unknown[0]!r}")
        if not keep:
            raise UsageError(f"give what the lake is to keep: {', '.join(KEEP)}")
        given = sorted((keys or {}).items())
        for name, columns in given:
            if "." not in name or not columns or not all(columns):
                raise UsageError(
                    f"a key is given as database.table=column,column, and not as "
                    f"{name}={','.join(columns)}"
                )
        if given and not {"current", "history"} & set(keep):
            raise UsageError("a key is for current and history: a changelog needs none")
        return cls(
            tables,
            tuple(each for each in KEEP if each in keep),
            statements,
            tuple((name, tuple(columns)) for name, columns in given),
            shards,
            _checked(update_mode, format),
        )


def _checked(mode: str | None, format: str) -> str | None:  # noqa: A002 - as `mirror` calls it
    """An update mode that a lake of the format may have; raises UsageError."""
    if mode is not None and mode not in UPDATE_MODES:
        raise UsageError(f"an update mode is {' or '.join(UPDATE_MODES)}, and not {mode!r}")
    if mode == "merge-on-read" and format == "parquet":
        raise UsageError(
            "merge-on-read is for delta and iceberg: a folder of Parquet files cannot say that a "
            "row does not count"
        )
    return mode


def check_format(name: str) -> None:
    """Raises UsageError for a format that no lake has."""
    if name not in FORMATS:
        raise UsageError(f"a lake is written as {', '.join(FORMATS)}, and not as {name!r}")


def check_lake(
    label: str,
    manifest: Manifest,
    options: Options,
    format: str = "parquet",  # noqa: A002 - as `mirror` calls it
) -> Options:
    """A lake goes on as it was created: what was left out before cannot be read any more.

    The options, with the update mode of this lake. Raises `PipelineError`.
    """
    if not manifest.version:
        usual = "copy-on-write" if format == "parquet" else "merge-on-read"
        return replace(options, update_mode=options.update_mode or usual)
    if manifest.keep != options.keep:
        raise PipelineError(
            f"{label} was created with --keep {','.join(manifest.keep)}: give that again, or a "
            "new folder"
        )
    if (begun := manifest.mirrored) != options.tables:
        given = [] if begun.only is None else [f"--tables {printable(','.join(begun.only))}"]
        given += [f"--exclude {printable(','.join(begun.exclude))}"] if begun.exclude else []
        raise PipelineError(
            f"{label} was created with {' '.join(given) or 'all tables'}: give the same again, or "
            "a new folder"
        )
    if manifest.shards != options.shards:
        how = "with" if manifest.shards else "without"
        raise PipelineError(
            f"{label} was created {how} --shards: so it goes on, or create a new one"
        )
    if dict(manifest.keys) != dict(options.keys):
        known = "; ".join(f"{name}={','.join(key)}" for name, key in manifest.keys) or "none"
        raise PipelineError(
            f"{label} was created with these keys: {printable(known)}: give the same again, or "
            "a new folder"
        )
    if options.update_mode not in {None, manifest.update_mode}:
        raise PipelineError(
            f"{label} was created with --update-mode {manifest.update_mode}: give that again, or a "
            "new folder"
        )
    return replace(options, update_mode=manifest.update_mode)
