"""The cases of the corpus, a family a module; importing this package registers them all."""

from tools.corpus import (  # noqa: F401 - each registers its cases
    charsets,
    documents,
    images,
    mariadb,
    numbers,
    own_server,
    shapes,
    statements,
    strings,
    structure,
    times,
    transactions,
)
from tools.corpus.case import CASES, Case, Recorder

__all__ = ["CASES", "Case", "Recorder"]
