"""One test over a table of cases, in place of an item for each of them."""

from __future__ import annotations

import functools
import inspect
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest


def each_case(names: str | tuple[str, ...], table: Iterable[Any], ids: Any = None) -> Any:
    """As ``pytest.mark.parametrize``, but all cases are one item, and a failure names its case.

    Thousands of cheap items cost more than what they test. Each case has a ``tmp_path`` and a
    ``monkeypatch`` of its own; other fixtures are shared by all cases.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [(case,) if len(keys) == 1 else tuple(case) for case in table]
    labels = None if ids is None or callable(ids) else [str(each) for each in ids]

    def label(number: int, case: tuple[Any, ...]) -> str:
        if labels is not None:
            return labels[number]
        return ", ".join(str(ids(each)) if ids else _shown(each) for each in case)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        assert cases, f"{test.__name__} has no cases"

        @functools.wraps(test, updated=())  # hypothesis marks its tests in their `__dict__`
        def run(*args: Any, **fixtures: Any) -> None:
            for number, case in enumerate(cases):
                with ExitStack() as stack:
                    own = _own(fixtures, str(number), stack)
                    try:
                        test(*args, **own, **dict(zip(keys, case, strict=True)))
                    except BaseException as error:
                        error.add_note(f"case {number} of {names}: {label(number, case)}")
                        raise

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        run.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
        return run

    return decorate


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.200}"
    except Exception:  # noqa: BLE001 - a case may be what has no repr
        return f"a {type(value).__name__}"


def _own(fixtures: dict[str, Any], name: str, stack: ExitStack) -> dict[str, Any]:
    """The fixtures, with those that a case has for itself."""
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / name  # short: a socket's path has 107 characters
        own["tmp_path"].mkdir()
    if "monkeypatch" in own:
        monkeypatch: pytest.MonkeyPatch = own["monkeypatch"]
        own["monkeypatch"] = stack.enter_context(monkeypatch.context())
    return own
