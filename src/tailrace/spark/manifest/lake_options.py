"""What a lake is created with. It stays so: what was left out before cannot be read any more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict

from tailrace.arguments import check_choice, check_type
from tailrace.errors import PipelineError, UsageError
from tailrace.printable import printable
from tailrace.schema.letter_case import lowered
from tailrace.table_filter import TableFilter
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEEP: Final = ("changelog", "current", "history")
FORMATS: Final = ("parquet", "delta", "iceberg")
UPDATE_MODES: Final = ("merge-on-read", "copy-on-write")
CASCADES: Final = ("name", "apply")


class LakeKeywords(TypedDict, total=False):
    """`LakeOptions` as the keyword arguments of `tailrace.spark.mirror`; None: not given."""

    tables: str | Sequence[str] | None
    exclude: str | Sequence[str] | None
    keep: str | Sequence[str] | None
    format: str | None
    keys: Mapping[str, str | Sequence[str]] | None
    shards: bool | None
    update_mode: Literal["merge-on-read", "copy-on-write"] | None
    cascades: Literal["name", "apply"] | None


@dataclass(frozen=True)
class LakeOptions:
    """What a lake is created with; ``keys`` are those given for tables by name, in order.

    Raises UsageError for values that no lake is created with.
    """

    tables: TableFilter = field(default_factory=TableFilter)
    keep: tuple[str, ...] = ("changelog", "current")
    format: str = "parquet"
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shards: bool = False
    update_mode: str = "copy-on-write"
    cascades: str = "name"

    def __post_init__(self) -> None:
        if not self.keep:
            raise UsageError(f"give what the lake is to keep: {', '.join(KEEP)}")
        for each in self.keep:
            check_choice("keep", each, KEEP)
        check_choice("format", self.format, FORMATS)
        check_choice("update_mode", self.update_mode, UPDATE_MODES)
        check_choice("cascades", self.cascades, CASCADES)
        check_type("shards", self.shards, "bool")
        if self.keys and self.keep == ("changelog",):
            raise UsageError("a key is for current and history: a changelog needs none")
        if self.update_mode == "merge-on-read" and self.format == "parquet":
            raise UsageError(
                "merge-on-read is for delta and iceberg: Parquet files cannot mark rows as deleted"
            )
        if self.cascades == "apply" and "current" not in self.keep:
            raise UsageError("cascades apply needs the current state: add current to keep")

    @property
    def lists_files(self) -> bool:
        """Whether the manifest lists all files: those of Delta and Iceberg have logs for that."""
        return self.format == "parquet"

    @classmethod
    def of(cls, words: LakeKeywords) -> Self:
        """The options of a new lake; one text is a list of one. Raises UsageError, TypeError."""
        if strange := words.keys() - LakeKeywords.__annotations__.keys():
            raise TypeError(f"mirror() got an unexpected keyword argument {min(strange)!r}")
        given: dict[str, Any] = {name: each for name, each in words.items() if each is not None}
        tables = TableFilter.of(given.pop("tables", None), given.pop("exclude", None))
        if (keep := given.get("keep")) is not None:
            given["keep"] = (keep,) if isinstance(keep, str) else tuple(sorted({*keep}))
        if given.get("format", "parquet") != "parquet":
            given.setdefault("update_mode", "merge-on-read")
        keys = tuple(_key(name, each) for name, each in sorted(given.pop("keys", {}).items()))
        return cls(tables, keys=keys, **given)

    def key(self, source: str, name: str) -> str:
        """What a lake calls a source's table."""
        return f"{source}/{name}" if self.shards else name

    def name(self, key: str, source: str) -> str:
        """What a source calls its table."""
        return key.removeprefix(f"{source}/") if self.shards else key

    def lowered(self) -> Self:
        """A copy for sources that put names into lower case (``lower_case_table_names``)."""
        keys = tuple((lowered(name), columns) for name, columns in self.keys)
        return replace(self, tables=self.tables.lowered(), keys=keys)

    def check(self, label: str, asked: LakeOptions, words: LakeKeywords) -> None:
        """Raise `PipelineError` if one of the ``words`` is not what this lake was created with."""
        known = _texts(self)
        given = {name for name, each in words.items() if each is not None}
        if isinstance(words.get("tables"), TableFilter):
            given.add("exclude")  # a filter has its own
        for name, said in _texts(asked).items():
            if name in given and said not in {None, known[name]}:
                option = f"--{name.replace('_', '-')}"
                was = f"with {_phrase(option, known[name])}" if known[name] else f"without {option}"
                raise PipelineError(
                    f"{label} was created {was}, and {_phrase(option, said)} is given: leave that "
                    "out, or give a new folder"
                )


def _key(name: str, given: str | Sequence[str]) -> tuple[str, tuple[str, ...]]:
    columns = (given,) if isinstance(given, str) else tuple(given)
    if "." not in name or not columns or not all(columns):
        raise UsageError(
            f"a key is given as database.table=column,column, and not as {name}={','.join(columns)}"
        )
    return str(TableName.parse(name)), columns


def _texts(options: LakeOptions) -> dict[str, str | bool | None]:
    """Options by name, as the command line has them; None for patterns or keys without any."""
    only, exclude, keys = options.tables.only, options.tables.exclude, options.keys
    return {
        **vars(options),
        "keep": ",".join(options.keep),
        "tables": None if only is None else ",".join(sorted(only)),
        "exclude": ",".join(sorted(exclude)) or None,
        "keys": "; ".join(sorted(f"{name}={','.join(key)}" for name, key in keys)) or None,
    }


def _phrase(option: str, said: str | bool | None) -> str:
    if isinstance(said, bool):
        return option if said else f"no {option}"
    return f"{option} {printable(said or 'none')}"
