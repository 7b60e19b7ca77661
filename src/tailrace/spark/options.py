"""What a run of `mirror` is asked for, and whether a lake can be continued with these options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from tailrace.errors import PipelineError, UsageError
from tailrace.printable import printable
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.spark.manifest.manifest import Manifest
    from tailrace.table_filter import TableFilter

KEEP: Final = ("changelog", "current", "history")
FORMATS: Final = ("parquet", "delta", "iceberg")
DEFAULT_KEEP: Final = ("changelog", "current")
UPDATE_MODES: Final = ("merge-on-read", "copy-on-write")
CASCADES: Final = ("name", "apply")


@dataclass(frozen=True)
class Options:
    """What `mirror` was asked for; ``keys`` are those given for tables by name, in order.

    What was not said is empty or None until `check_lake` has the lake's, or of a new one the
    defaults.
    """

    tables: TableFilter
    keep: tuple[str, ...] = ()
    statements: Literal["error", "skip"] = "error"
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shards: bool | None = None
    update_mode: str | None = None
    cascades: str | None = None

    @classmethod
    def of(
        cls,
        tables: TableFilter,
        keep: str | Sequence[str] | None,
        statements: Literal["error", "skip"],
        keys: Mapping[str, str | Sequence[str]] | None,
        *,
        shards: bool | None,
        update_mode: str | None = None,
        cascades: str | None = None,
        format: str | None = "parquet",  # noqa: A002 - as `mirror` calls it
    ) -> Options:
        """Checked; a text in place of several is one. Raises UsageError."""
        keep = [keep] if isinstance(keep, str) else keep
        if unknown := [each for each in keep or () if each not in KEEP]:
            known = f"{', '.join(KEEP[:-1])} and {KEEP[-1]}"
            raise UsageError(f"a lake keeps {known}, and no {unknown[0]!r}")
        if keep is not None and not keep:
            raise UsageError(f"give what the lake is to keep: {', '.join(KEEP)}")
        given = sorted(
            (name, [key] if isinstance(key, str) else key) for name, key in (keys or {}).items()
        )
        for name, columns in given:
            if "." not in name or not columns or not all(columns):
                raise UsageError(
                    f"a key is given as database.table=column,column, and not as "
                    f"{name}={','.join(columns)}"
                )
        if given and not {"current", "history"} & set(keep or DEFAULT_KEEP):
            raise UsageError("a key is for current and history: a changelog needs none")
        if update_mode is not None and update_mode not in UPDATE_MODES:
            known = " or ".join(UPDATE_MODES)
            raise UsageError(f"an update mode is {known}, and not {update_mode!r}")
        if update_mode == "merge-on-read" and format == "parquet":
            raise UsageError(
                "merge-on-read is for delta and iceberg: a folder of Parquet files cannot say that "
                "a row does not count"
            )
        if cascades is not None and cascades not in CASCADES:
            known = " or ".join(CASCADES)
            raise UsageError(f"cascades is {known}, and not {cascades!r}")
        if cascades == "apply" and "current" not in (keep or DEFAULT_KEEP):
            raise UsageError(
                "what foreign keys do is carried out upon the rows that there are: keep current too"
            )
        return cls(
            tables,
            tuple(each for each in KEEP if each in (keep or ())),
            statements,
            tuple((str(TableName.parse(name)), tuple(columns)) for name, columns in given),
            shards,
            update_mode,
            cascades,
        )


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
    """A lake continues as it was created: what was left out before cannot be read any more.

    The options of this lake, all of them. Raises `PipelineError` where one was said that is not the
    lake's.
    """
    if not manifest.version:
        usual = "copy-on-write" if format == "parquet" else "merge-on-read"
        return replace(
            options,
            keep=options.keep or DEFAULT_KEEP,
            shards=bool(options.shards),
            update_mode=options.update_mode or usual,
            cascades=options.cascades or CASCADES[0],
        )
    begun = manifest.mirrored
    known = _as_said(begun, manifest)
    asked = _as_said(options.tables, options)
    for name, said in asked.items():
        if said is not None and said != known[name]:
            was = f"with {_phrase(name, known[name])}" if known[name] else f"without {name}"
            raise PipelineError(
                f"{label} was created {was}, and {_phrase(name, said)} is given: leave that out, "
                "or give a new folder"
            )
    return replace(
        options,
        tables=begun,
        keep=manifest.keep,
        keys=manifest.keys,
        shards=manifest.shards,
        update_mode=manifest.update_mode,
        cascades=manifest.cascades,
    )


def _as_said(tables: TableFilter, of: Options | Manifest) -> dict[str, str | bool | None]:
    """Options as the command line has them, in one order; None for what is not said."""
    return {
        "--keep": ",".join(of.keep) or None,
        "--tables": None if tables.only is None else ",".join(sorted(tables.only)),
        "--exclude": ",".join(sorted(tables.exclude)) or None,
        "--shards": of.shards,
        "--keys": "; ".join(sorted(f"{name}={','.join(key)}" for name, key in of.keys)) or None,
        "--update-mode": of.update_mode,
        "--cascades": of.cascades,
    }


def _phrase(name: str, said: str | bool | None) -> str:
    if isinstance(said, bool):
        return name if said else f"no {name}"
    return f"{name} {printable(said or 'none')}"
