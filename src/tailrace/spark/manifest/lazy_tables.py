"""The tables of a lake, as its journal has them: each is parsed when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tailrace.spark.manifest.manifest import TableState


class LazyTables(Mapping[str, "TableState"]):
    """Tables by key, in the keys' order. ``parse`` raises `PipelineError` for a damaged one."""

    def __init__(
        self,
        keys: Collection[str],
        with_status: Collection[str],
        parse: Callable[[str], TableState],
    ) -> None:
        self._keys = sorted(keys)
        self._known = set(keys)
        self._parse = parse
        self._parsed: dict[str, TableState] = {}
        self.with_status = sorted(with_status)
        """The keys of the tables that have a status."""

    def __getitem__(self, key: str) -> TableState:
        found = self._parsed.get(key)
        if found is None:
            if key not in self._known:
                raise KeyError(key)
            found = self._parsed[key] = self._parse(key)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __reduce__(self) -> tuple[type, tuple[dict[str, TableState]]]:
        """It pickles as all of its tables."""
        return dict, (dict(self),)
