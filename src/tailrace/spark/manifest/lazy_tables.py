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
        self._fresh: dict[str, TableState] = {}
        self.with_status = sorted(with_status)
        """The keys of the tables that have a status."""

    def __getitem__(self, key: str) -> TableState:
        found = self._fresh.get(key) or self._parsed.get(key)
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

    def updated(self, tables: Mapping[str, TableState]) -> LazyTables:
        """The same with other states of some tables, which may be new."""
        keys = self._known if tables.keys() <= self._known else self._known | tables.keys()
        rest = [key for key in self.with_status if key not in tables]
        with_status = [*rest, *(key for key, state in tables.items() if state.states)]
        found = LazyTables((), with_status, self._parse)
        found._known, found._keys = keys, self._keys if keys is self._known else sorted(keys)
        found._parsed, found._fresh = self._parsed, {**self._fresh, **tables}
        return found

    def altered(self, before: Mapping[str, TableState]) -> Collection[str]:
        """The keys of the tables that may not be as they were ``before``."""
        if not isinstance(before, LazyTables):
            return {*before, *self}
        parsed, known = before._parsed, before._fresh  # noqa: SLF001 - of its own class
        if parsed is not self._parsed:
            return {*before, *self}
        return [key for key, state in self._fresh.items() if known.get(key) is not state]


def lazy(tables: Mapping[str, TableState]) -> LazyTables:
    """Tables that may all be parsed already."""
    if isinstance(tables, LazyTables):
        return tables
    asides = [key for key, state in tables.items() if state.states]
    return LazyTables(tables, asides, tables.__getitem__)
