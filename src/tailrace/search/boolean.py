"""Queries in the language of `tailrace.sql.fulltext`, as tantivy's."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tantivy import Occur, Query

from tailrace.errors import UsageError
from tailrace.sql.fulltext import Group, Text, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tantivy import Schema

    from tailrace.search.analysis import Analyser, Folding

_WEIGHTS: Final = {">": 2.0, "<": 0.5, "~": 0.1}
_MOST_NEAR: Final = 4
"""A query's texts of three words or more with a distance: for each of them rows are read."""


class Compiler:
    """Makes tantivy's queries over fields, which differ by what their collations fold.

    ``near(query, folding, tokens, within)`` gives a query for those rows of ``query`` that have all
    tokens within so many words, None for no row. tantivy's own phrases with a slop miss some rows
    that repeat words, if there are three tokens or more.
    """

    def __init__(
        self,
        schema: Schema,
        fields: Mapping[Folding, str],
        analyser: Analyser,
        near: Callable[[Query, Folding, Sequence[str], int], Query | None],
    ) -> None:
        self._schema = schema
        self._fields = fields
        self._analyser = analyser
        self._rows_near = near
        self._texts_near = Counter[str]()

    def compile(self, group: Group) -> Query | None:
        """None for a query that finds nothing."""
        parts: list[tuple[Occur, Query]] = []
        found: list[Query] = []
        must = False
        for prefix, item in group.items:
            for query in () if _is_empty(item) else self._item(item):
                if prefix == "-":
                    if query is not None:
                        parts.append((Occur.MustNot, query))
                    continue
                if prefix == "+":
                    if query is None:
                        return None
                    must = True
                    parts.append((Occur.Must, query))
                elif query is not None:
                    if prefix != "~":
                        found.append(query)
                    weighed = Query.boost_query(query, _WEIGHTS[prefix]) if prefix else query
                    parts.append((Occur.Should, weighed))
        if not (must or found):
            return None
        if not must:  # a row with items that count less only is not found
            parts.append((Occur.Must, Query.boost_query(_any(found), 0.0)))
        return Query.boolean_query(parts)

    def _item(self, item: Word | Text | Group) -> list[Query | None]:
        if isinstance(item, Group):
            return [self.compile(item)]
        if isinstance(item, Text):
            return [self._text(item)]
        return self._word(item)

    def _word(self, word: Word) -> list[Query | None]:
        """One for each token: a word with other characters inside has several, ½ in some fields."""
        fields = [
            (field, words)
            for folding, field in self._fields.items()
            if (words := self._analyser.words(word.text, folding))
        ]
        longest, shortest = self._analyser.longest, self._analyser.shortest
        found: list[Query | None] = []
        for number in range(max((len(words) for _, words in fields), default=0)):
            each: list[Query] = []
            skipped = True
            for field, words in fields:
                token = words[min(number, len(words) - 1)]  # where there are fewer, the last again
                if word.prefix and number >= len(words) - 1:
                    each.append(self._begin(field, token))
                elif self._analyser.counts(token):
                    each.append(self._following(field, [self._analyser.indexed(token)]))
                skipped &= len(token) > longest or (number > 0 and len(token) < shortest)
            if each or not skipped:
                found.append(_any(each) if each else None)
        return found

    def _text(self, text: Text) -> Query | None:
        each = [
            query
            for folding, field in self._fields.items()
            if (query := self._phrase(field, folding, text))
        ]
        return _any(each) if each else None

    def _phrase(self, field: str, folding: Folding, text: Text) -> Query | None:
        words = self._analyser.words(text.text, folding)
        if text.within is not None:
            return self._near(field, folding, sorted({*self._analyser.found(words)}), text.within)
        while words and not self._analyser.counts(words[0]):
            words = words[1:]
        return self._following(field, [*map(self._analyser.indexed, words)]) if words else None

    def _near(self, field: str, folding: Folding, tokens: list[str], within: int) -> Query | None:
        if not tokens or within < len(tokens):
            return None
        if len(tokens) == 1:
            return self._following(field, tokens)
        slop = within - 2
        each = [
            _any([self._following(field, [*order], slop) for order in (pair, reversed(pair))])
            for pair in pairwise(tokens)
        ]
        if len(each) == 1:
            return each[0]
        self._texts_near[field] += 1
        if self._texts_near[field] > _MOST_NEAR:
            raise UsageError(
                f"the query: more than {_MOST_NEAR} texts of three words or more have a distance"
            )
        pairs = Query.boolean_query([(Occur.Must, query) for query in each])
        rows = self._rows_near(pairs, folding, tokens, within)
        if rows is None:
            return None
        return Query.boolean_query(
            [(Occur.Must, pairs), (Occur.Must, Query.boost_query(rows, 0.0))]
        )

    def _following(self, field: str, tokens: list[str], slop: int = 0) -> Query:
        if len(tokens) == 1:
            return Query.term_query(self._schema, field, tokens[0])
        return Query.phrase_query(self._schema, field, [*tokens], slop)

    def _begin(self, field: str, word: str) -> Query:
        try:
            return Query.regex_query(self._schema, field, self._analyser.beginning(word))
        except ValueError:
            raise UsageError(
                f"the query: too many stop words begin with {word!r}: give more letters"
            ) from None


def _is_empty(item: Word | Text | Group) -> bool:
    """Whether it is brackets with nothing in them, which ask for nothing."""
    return isinstance(item, Group) and all(_is_empty(each) for _, each in item.items)


def _any(queries: Sequence[Query]) -> Query:
    if len(queries) == 1:
        return queries[0]
    return Query.boolean_query([(Occur.Should, each) for each in queries])
