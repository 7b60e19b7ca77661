"""The reference has each public name, and says what it is in plain words."""

import inspect
import pydoc
import re

import tailrace
from tests.docs.test_words import dialect, prose
from tests.recorded import ROOT


def test_each_name_of_tailrace_is_in_the_reference():
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^(?:::: |`)tailrace\.(\w+)(?=$|`)", page, re.MULTILINE))
    assert shown == set(tailrace.__all__)


def documented():
    """The docstrings that the reference shows, by name."""
    found = {}
    for page in (ROOT / "docs/reference").glob("*.md"):
        for name in re.findall(
            r"^::: (tailrace[\w.]*)$", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            shown = pydoc.locate(name)
            for each, value in [(name, shown), *public(name, shown)]:
                found[each] = inspect.getdoc(value) or ""
    return found


def public(name, owner):
    """The public members of a module or class that have docstrings of their own."""
    if inspect.ismodule(owner):
        names = getattr(owner, "__all__", None) or [
            each
            for each, value in vars(owner).items()
            if getattr(value, "__module__", None) == owner.__name__
        ]
        members = [(f"{name}.{each}", getattr(owner, each)) for each in names if each[0] != "_"]
        return members + [more for each, value in members for more in public(each, value)]
    if inspect.isclass(owner) and owner.__module__.startswith("tailrace"):
        return [
            (f"{name}.{each}", value)
            for each, value in vars(owner).items()
            if each[0] != "_" and (inspect.isroutine(value) or isinstance(value, property))
        ]
    return []


def test_the_reference_is_in_plain_words():
    docstrings = documented()
    assert len(docstrings) > 400
    found = {name: dialect(prose(text)) for name, text in docstrings.items()}
    assert not {name: phrases for name, phrases in found.items() if phrases}
