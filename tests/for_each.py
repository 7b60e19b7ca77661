"""Tests over a table: one item for all rows, where each is worth a line and not a test of its own."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest


def _shown(value: Any) -> str:
    try:
        return repr(value)[:200]
    except Exception:  # noqa: BLE001 - a row may be what has no repr
        return f"a {type(value).__name__}"


def for_each(
    names: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[..., Callable[..., None]]:
    """As ``pytest.mark.parametrize``, but one item. All rows run; each that fails is reported.

    Fixtures are made once for all rows, but ``tmp_path`` is a new folder for each.
    """
    rows = list(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        wanted = inspect.signature(test).parameters

        @functools.wraps(test)
        def all_rows(*, subtests: pytest.Subtests, **fixtures: Any) -> None:
            assert rows, "an empty table tests nothing"
            if "subtests" in wanted:
                fixtures["subtests"] = subtests
            folder = fixtures.get("tmp_path")
            for number, row in enumerate(rows):
                given = (
                    {names: row} if isinstance(names, str) else dict(zip(names, row, strict=True))
                )
                if folder is not None:
                    fixtures["tmp_path"] = folder / f"row-{number}"
                    fixtures["tmp_path"].mkdir()
                with subtests.test(", ".join(f"{name}={_shown(given[name])}" for name in given)):
                    test(**fixtures, **given)

        kept = [each for each in wanted.values() if each.name not in {names, *names, "subtests"}]
        own = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
        all_rows.__signature__ = inspect.Signature([*kept, own])  # type: ignore[attr-defined]
        return all_rows

    return decorate
