"""Text to tokens, by the rules of MySQL's full-text indexes (InnoDB's default parser).

A token is a run of letters with their marks, digits and underscores. Case and accents count as the
column's collation says. Tokens that are too short or too long, and stop words, cannot be found by
themselves, but count in phrases: they are in the index, and queries leave them out.

Source: MySQL's manual, "Fine-Tuning MySQL Full-Text Search" and "Full-Text Stopwords"; the rest was
tried on MySQL 9.7 (``tests/search/test_searched.py``).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import tantivy

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARK: Final = "·"
"""Before a token in the index that cannot be found by itself, and is too long or not all ASCII."""
STOP_WORDS: Final = frozenset(
    "a about an are as at be by com de en for from how i in is it la of on or that the this to was"  # noqa: SIM905 - a list of words
    " what when where who will with und www".split()
)
"""InnoDB's (``INFORMATION_SCHEMA.INNODB_FT_DEFAULT_STOPWORD``)."""
_MARKS: Final = "".join(
    each for each in map(chr, range(0x300, 0x20000)) if unicodedata.category(each)[0] == "M"
)
"""Marks such as the vowels of Indic scripts, which Python does not count as word characters."""
WORDS: Final = re.compile(rf"[\w{_MARKS}]+")
_ASCII_WORDS: Final = r"[^\x00-/:-@\[-^`{-\x7f]+"
"""In tantivy: runs of ASCII's word characters and of all others, of which words are made here."""
_LETTERS: Final = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l"})
"""Letters that are equal to others without accents and that Unicode does not decompose."""
_ASCII: Final = r"\x00-\x7f"
LANGUAGES: Final = (
    *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian"),
    *("italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil"),
    "turkish",
)
"""Those whose words can be reduced to their stems."""


class Folding(StrEnum):
    """What a collation counts as different."""

    NONE = "cs"
    """Case and accents: ``_bin``."""
    CASE = "as"
    """Accents: ``_as_`` and ``_cs``, since MySQL's indexes have small letters."""
    ACCENTS = "ai"
    """Neither: all other collations."""

    @classmethod
    def of(cls, collation: str) -> Self:
        """That of a collation, by its name."""
        if collation.endswith("_bin") or collation == "binary":
            return cls("cs")
        accents = "_as_" in collation or (collation.endswith("_cs") and "_ai_" not in collation)
        return cls("as" if accents else "ai")

    def fold(self, text: str) -> str:
        """The text with one form for all that the collation counts as equal."""
        if self is Folding.NONE:
            return text
        if text.isascii():
            return text.lower()
        if self is Folding.CASE:
            return unicodedata.normalize("NFC", text).casefold()
        letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
        return "".join(each for each in letters if not unicodedata.combining(each)).translate(
            _LETTERS
        )


@dataclass(frozen=True)
class Analyser:
    """How text becomes tokens: the same for rows and for queries.

    ``shortest`` and ``longest`` are in characters (``innodb_ft_min_token_size``,
    ``innodb_ft_max_token_size``). ``stop_words`` may have capitals and accents, which count where a
    collation tells them apart. With a ``language``, words are reduced to their stems. Raises
    UsageError for an unknown language, and if ``shortest`` is below 1 or above ``longest``.
    """

    language: str | None = None
    shortest: int = 3
    longest: int = 84
    stop_words: frozenset[str] = STOP_WORDS

    def __post_init__(self) -> None:
        if self.language is not None and self.language not in LANGUAGES:
            raise UsageError(f"the language {self.language!r} is none of {', '.join(LANGUAGES)}")
        if not 1 <= self.shortest <= self.longest:
            raise UsageError(
                f"no word has {self.shortest} characters or more, and {self.longest} or less"
            )
        folded = {folding.fold(each) for each in self.stop_words for folding in Folding}
        object.__setattr__(self, "stop_words", frozenset(folded))

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        """From what `dump` gave."""
        return cls(**{**saved, "stop_words": frozenset(saved["stop_words"])})

    def dump(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "stop_words": sorted(self.stop_words)}

    def words(self, text: str, folding: Folding) -> list[str]:
        """The tokens of a text, folded."""
        return WORDS.findall(folding.fold(text))

    def found(self, words: list[str]) -> list[str]:
        """Those of some tokens that can be found by themselves, as the index has them."""
        return [self.indexed(each) for each in words if self.counts(each)]

    def counts(self, word: str) -> bool:
        """Whether a token can be found by itself."""
        return self.shortest <= len(word) <= self.longest and word not in self.stop_words

    def indexed(self, word: str) -> str:
        """A token as the index has it: its stem, if there is a language."""
        word = self._marked(word)
        return self.analyzer.analyze(word)[0] if self.language else word

    def _marked(self, word: str) -> str:
        found = len(word) <= self.longest and (word.isascii() or self.counts(word))
        return word if found else _MARK + word

    def index_text(self, text: str, folding: Folding) -> str:
        """A text as `analyzer` takes it."""
        text = folding.fold(text)
        if text.isascii():
            at, size = 0, self.longest + 1
            while at + size <= len(text) and (space := text.rfind(" ", at, at + size)) >= 0:
                at = space + 1
            if at + size > len(text):  # no token is too long
                return text
        return " ".join(map(self._marked, WORDS.findall(text)))

    def beginning(self, prefix: str) -> str:
        """A regular expression of the tokens that begin so and can be found by themselves.

        tantivy's have few states and no look-ahead. So each place where a token may depart from the
        stop words is an alternative, by the number of characters that it has to have after it.
        """
        if not prefix.isascii():
            return f"{prefix}.*"
        size, least = len(prefix), max(self.shortest - len(prefix), 0)
        stop = {
            each[size:]
            for each in self.stop_words
            if each.startswith(prefix) and each.isascii() and WORDS.fullmatch(each)
        }
        places = {each[:end] for each in stop for end in range(len(each) + 1)} | {""}
        ends: dict[int, list[str]] = {}
        for place in sorted(places):
            following = sorted({each[-1] for each in places if each and each[:-1] == place})
            other = f"&&[^{''.join(following)}]" if following else ""
            left = max(least - len(place) - 1, 0)
            ends.setdefault(left, []).append(f"{place}[{_ASCII}{other}]")
        found = [f"({'|'.join(each)})[{_ASCII}]{{{left},}}" for left, each in ends.items()]
        found += [place for place in sorted(places - stop) if len(place) >= least]
        return f"{prefix}({'|'.join(found)}|.*[^{_ASCII}].*)"

    @cached_property
    def analyzer(self) -> tantivy.TextAnalyzer:
        """Makes tokens of what `index_text` gives."""
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex(_ASCII_WORDS))
        if self.language:
            builder = builder.filter(tantivy.Filter.stemmer(self.language))
        return builder.build()
