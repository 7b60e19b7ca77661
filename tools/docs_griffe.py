"""A Griffe extension for the documentation site: examples in docstrings are shown as code.

An example (``>>> ...``) stands in a docstring as a paragraph, as doctest takes it. Markdown would
run its lines together.
"""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_EXAMPLE: Final = re.compile(r"(?m)^>>> (?:.+\n?)+")


class Examples(griffe.Extension):
    """Puts a fence around each example."""

    def on_object(self, *, obj: griffe.Object, **_given: Any) -> None:
        """Change an object's docstring, when all of the object is known."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match[str]) -> str:
    return f"```pycon\n{example[0].rstrip()}\n```\n"
