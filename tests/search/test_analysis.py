"""Text to tokens for the full-text indexer of WL#3283."""

import random

import pytest
import tantivy

from tailrace.search import Analyser
from tailrace.search.analysis import Folding

WITH_W = (
    "want wants was way well went were what whatever when whence whenever where whereafter whereas"
    " whereby wherein whereupon wherever whether which while whither who whoever whole whom whose"
    " why will willing wish with within without wonder would"
)


def indexed(analyser, words):
    """An index with a document for each word."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("word", tokenizer_name="words", stored=True)
    builder.add_text_field("tokens", tokenizer_name="words")
    index = tantivy.Index(builder.build())
    index.register_tokenizer("words", analyser.analyzer)
    writer = index.writer(15 << 20, 1)
    for word in words:
        document = tantivy.Document()
        document.add_text("word", word)
        document.add_text("tokens", analyser.index_text(word, Folding.NONE))
        writer.add_document(document)
    writer.commit()
    index.reload()
    return index


STOP_WORDS = (None, "want wants w über wax wasé don't", WITH_W)


@pytest.mark.slow
def test_a_beginning_finds_all_tokens_that_can_be_found():
    """And no others: none that are too short or too long, and no stop words."""
    for shortest in (1, 3, 8):
        for stop in STOP_WORDS:
            found_by_beginnings(stop, shortest)


def found_by_beginnings(stop, shortest):
    analyser = Analyser(shortest=shortest, longest=12)
    if stop is not None:
        analyser = Analyser(shortest=shortest, longest=12, stop_words=frozenset(stop.split()))
    rng = random.Random(shortest)
    words = {*WITH_W.split(), *["über", "wasé", "wax"], *analyser.stop_words} - {"don't"}
    words |= {"".join(rng.choices("wantsboué_x", k=rng.randint(1, 15))) for _ in range(600)}
    index = indexed(analyser, words)
    searcher = index.searcher()
    prefixes = sorted({word[:size] for word in words for size in (1, 2, 3)})
    of_stop_words = [each for each in prefixes if each.startswith(("w", "ü"))]
    for prefix in {*of_stop_words, *rng.sample(prefixes, 100)}:
        query = tantivy.Query.regex_query(index.schema, "tokens", analyser.beginning(prefix))
        hits = searcher.search(query, len(words)).hits
        found = {searcher.doc(place)["word"][0] for _, place in hits}
        counted = (each for each in words if each[: len(prefix)] == prefix)
        assert found == {*filter(analyser.counts, counted)}, (stop, shortest, prefix)


def test_a_mark_does_not_end_a_word():
    """Vowels of Indic, Arabic and Hebrew scripts, and accents that are characters of their own."""
    analyser = Analyser()
    for word in ("हिन्दी", "हिंदी", "தமிழ்", "مُحَمَّد", "שָׁלוֹם", "a\u0301bc"):
        for folding in Folding:
            first, second = analyser.words(f"{word} {word}", folding)
            assert first == second, (word, folding)
            assert first in analyser.index_text(f"x {word}", folding).split(), (word, folding)
