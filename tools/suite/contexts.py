"""A pytest plugin: records coverage by test function, also in the processes that tests start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Switch coverage's context; a process that the test starts reads it from the environment."""
    from coverage import Coverage  # noqa: PLC0415 - only in an environment that has it

    function = item.nodeid.partition("[")[0]
    coverage = Coverage.current()
    if coverage is not None and os.environ.get("TAILRACE_TEST") != function:
        os.environ["TAILRACE_TEST"] = function
        coverage.switch_context(function)
    return (yield)
