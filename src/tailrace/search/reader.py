"""An index that is searched."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tantivy import Occur, Query

from tailrace.errors import StorageError, UsageError
from tailrace.search.analysis import WORDS, Folding
from tailrace.search.boolean import Compiler
from tailrace.search.manifest import FILE, Manifest
from tailrace.search.shard import (
    JSON,
    IndexedTable,
    State,
    key_of,
    open_shard,
    state_in,
    strings_of,
    tantivy_errors,
)
from tailrace.sql.fulltext import Group, parse, wanted
from tailrace.storage.versions import local_copy
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import tantivy

    from tailrace.search.analysis import Analyser

MOST: int = 10_000
"""Hits of a query, with those before them."""
_MARKED = 1_000_000
"""Characters of a result's texts in which what the query finds is marked."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that was found.

    ``table`` is ``database.table``, ``row`` the row as a change record has it, ``key`` the values
    of its key (of the whole row if it has none), ``copies`` how many equal rows there are, and
    ``score`` how well it fits: BM25, which compares within a result only.
    """

    table: str
    key: tuple[Any, ...]
    row: dict[str, Any]
    score: float
    copies: int
    texts: dict[str, list[tuple[str, bool]]]
    """Each text column in pieces; True are those found, in a million characters of a result."""


@dataclass(frozen=True, slots=True)
class Hits:
    """What a query found: the best rows, how many there are (``total``), and how many by table."""

    hits: list[Hit]
    total: int
    tables: dict[str, int]


class _Shard(NamedTuple):
    folder: Path
    opened: tantivy.Index
    searcher: tantivy.Searcher
    state: State
    tables: dict[int, str]


class Index:
    """An index, as of its last commit when it was opened or `refresh` was called.

    ``place`` is its folder, or its URL in an object store: then a copy of it is searched, in this
    user's cache. It may be searched while another process writes to it. Raises StorageError if
    there is none.
    """

    def __init__(self, place: str | Path) -> None:
        self._place = place
        self._open: dict[str, tantivy.Index] = {}
        self.refresh()

    def refresh(self) -> Self:
        """Show what was committed meanwhile; if there is an error, what was shown before."""
        folder = local_copy(
            self._place, FILE, lambda head: Manifest.loads(head, str(self._place)).shards
        )
        manifest = Manifest.load(folder)
        try:
            opened = {
                name: self._open.get(name) or open_shard(folder / name, manifest.analyser)
                for name in manifest.shards
            }
            shards = [_now(each, folder / name) for name, each in opened.items()]
        except StorageError:
            if Manifest.load(folder) == manifest:
                raise
            return self.refresh()  # the versions were replaced meanwhile, and removed
        self.manifest, self._open, self._shards = manifest, opened, shards
        return self

    @property
    def states(self) -> list[State]:
        """The state of each shard: up to where in the log it goes, and its tables."""
        return [shard.state for shard in self._shards]

    @property
    def tables(self) -> list[str]:
        """The names of the tables, in order."""
        return sorted({name for shard in self._shards for name in shard.state.tables})

    def search(
        self, query: str, *, table: str | None = None, limit: int = 10, offset: int = 0
    ) -> Hits:
        """The rows that a query finds (`tailrace.sql.fulltext`), the best first.

        ``table`` is the one to search in; ``offset`` hits are left out before the first ``limit``.
        Raises UsageError for a query that cannot be read, or that is too large.
        """
        if limit < 1 or offset < 0 or limit + offset > MOST:
            raise UsageError(f"limit and offset are at most {MOST} together, and limit 1 or more")
        table = None if table is None else _written(table)
        parsed = parse(query)
        found: list[tuple[float, int, int, tantivy.DocAddress]] = []
        total, counts = 0, dict[str, int]()
        for number, shard in enumerate(self._shards):
            with tantivy_errors(shard.folder):
                compiled = self._compiled(shard, parsed, table)
                if compiled is None:
                    continue
                result = shard.searcher.search(compiled, limit + offset, count=False)
                by_table = {"by": {"terms": {"field": "table", "size": 65_000}}}
                buckets = shard.searcher.aggregate(compiled, by_table)["by"]["buckets"]
            found += [(-score, number, at, place) for at, (score, place) in enumerate(result.hits)]
            for bucket in buckets:
                name = shard.tables[int(bucket["key"])]
                counts[name] = counts.get(name, 0) + bucket["doc_count"]
                total += bucket["doc_count"]
        found.sort(key=lambda each: each[:3])
        marks = _Marks(parsed, self.manifest.analyser)
        hits = [
            _hit(self._shards[number], place, -score, marks)
            for score, number, _, place in found[offset : offset + limit]
        ]
        return Hits(hits, total, dict(sorted(counts.items())))

    def rows(self, table: str) -> Iterator[Hit]:
        """All rows of a table, in no order; for comparing an index with its source."""
        table = _written(table)
        for shard in self._shards:
            if table not in shard.state.tables:
                continue
            query = _in_table(shard, table)
            most = max(shard.searcher.num_docs, 1)
            with tantivy_errors(shard.folder):
                found = shard.searcher.search(query, most, count=False).hits
            for _, place in found:
                yield _hit(shard, place, 1.0, None)

    def _compiled(self, shard: _Shard, parsed: Group, table: str | None) -> Query | None:
        if table is not None and table not in shard.state.tables:
            return None
        fields = {
            Folding.ACCENTS if kind == JSON else Folding(kind)
            for name, each in shard.state.tables.items()
            for kind in each.columns.values()
            if table in {None, name}
        }
        if not fields:
            return None
        named = {each: str(each) for each in sorted(fields)}
        analyser = self.manifest.analyser
        near = partial(_near, shard, analyser)
        compiled = Compiler(shard.opened.schema, named, analyser, near).compile(parsed)
        if compiled is None or table is None:
            return compiled
        only = Query.boost_query(_in_table(shard, table), 0.0)
        return Query.boolean_query([(Occur.Must, compiled), (Occur.Must, only)])


def _now(index: tantivy.Index, folder: Path) -> _Shard:
    with tantivy_errors(folder):
        index.reload()
        searcher = index.searcher()
        state = state_in(index, searcher)
    tables = {table.number: name for name, table in state.tables.items()}
    return _Shard(folder, index, searcher, state, tables)


def _written(table: str) -> str:
    """A table's name as indexes have it, if it is one."""
    with suppress(UsageError):
        return str(TableName.parse(table))
    return table


def _in_table(shard: _Shard, table: str) -> Query:
    return Query.term_query(shard.opened.schema, "table", shard.state.tables[table].number)


def _near(
    shard: _Shard,
    analyser: Analyser,
    query: Query,
    folding: Folding,
    tokens: Sequence[str],
    within: int,
) -> Query | None:
    """Finds those of a query's rows in which tokens are within so many words; None for no row."""
    most = max(shard.searcher.num_docs, 1)
    keys = []
    for _, place in shard.searcher.search(query, most, count=False).hits:
        _, _, known, row = _stored(shard, place)
        words: list[str] = []
        for _, kind, texts in _texts(known, row):
            for text in texts if kind is folding else ():
                words += ["", *map(analyser.indexed, analyser.words(text, folding))]
        if _are_within(words, tokens, within):
            keys.append(key_of(known, row))
    return Query.term_set_query(shard.opened.schema, "key", keys) if keys else None


def _are_within(words: Sequence[str], tokens: Sequence[str], within: int) -> bool:
    last = dict.fromkeys(tokens, -within)
    for at, word in enumerate(words):
        if word in last:
            last[word] = at
            if at - min(last.values()) < within:
                return True
    return False


class _Marks:
    """Which words of a result's texts a query finds."""

    def __init__(self, query: Group, analyser: Analyser) -> None:
        self._analyser = analyser
        self._wanted = [*wanted(query)]
        self._finds = cache(self._finding)
        self._left = _MARKED

    def pieces(self, text: str, folding: Folding) -> list[tuple[str, bool]]:
        """The text in pieces, and whether each is found."""
        finds, pieces, at = self._finds(folding), list[tuple[str, bool]](), 0
        for word in WORDS.finditer(text, 0, self._left):
            if finds(word[0]):
                pieces += [(text[at : word.start()], False), (word[0], True)]
                at = word.end()
        self._left -= min(len(text), self._left)
        return [each for each in (*pieces, (text[at:], False)) if each[0]]

    def _finding(self, folding: Folding) -> Callable[[str], bool]:
        """Says whether a word is found; kept by word, since texts repeat them."""
        found, begins = set[str](), list[str]()
        for each, prefix in self._wanted:
            words = self._analyser.words(each, folding)
            if prefix and words:
                begins.append(words.pop())
            found.update(self._analyser.found(words))

        @cache
        def finds(text: str) -> bool:
            tokens = self._analyser.found(self._analyser.words(text, folding))
            return any(each in found or each.startswith(tuple(begins)) for each in tokens)

        return finds


def _stored(
    shard: _Shard, place: tantivy.DocAddress
) -> tuple[tantivy.Document, str, IndexedTable, dict[str, Any]]:
    """A document, the table that its row is of, and the row."""
    with tantivy_errors(shard.folder):
        document = shard.searcher.doc(place)
    name = shard.tables[document["table"][0]]
    row = json.loads(bytes(document["row"][0]).decode("utf-8", "surrogatepass"))
    return document, name, shard.state.tables[name], row


def _texts(known: IndexedTable, row: dict[str, Any]) -> Iterator[tuple[str, Folding, list[str]]]:
    """The text columns of a row that are not NULL."""
    for column, kind in known.columns.items():
        if (value := row.get(column)) is not None:
            if kind == JSON:
                yield column, Folding.ACCENTS, [*strings_of(value)]
            else:
                yield column, Folding(kind), [str(value)]


def _hit(shard: _Shard, place: tantivy.DocAddress, score: float, marks: _Marks | None) -> Hit:
    document, name, known, row = _stored(shard, place)
    texts = dict[str, list[tuple[str, bool]]]()
    if marks is not None:
        for column, folding, parts in _texts(known, row):
            texts[column] = marks.pieces(" · ".join(parts), folding)
    key = tuple(row.get(each) for each in known.key) if known.key else tuple(row.values())
    return Hit(name, key, row, score, document.get_first("copies") or 1, texts)
