"""Real servers that take logs: of each flavour, `origin` writes some and `taker` takes any.

Both know only what these tests did: they forget their logs and GTIDs now and then, which the
servers that all tests share may not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.conftest import _require
from tools.campaign.written import server_options
from tools.servers import ONE_OF_EACH, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

ORIGIN_ID: Final = 80
TAKER_ID: Final = 90
"""No log that is written in these tests comes from this server id: it would be passed over."""


@pytest.fixture(scope="session", params=ONE_OF_EACH)
def release(request: pytest.FixtureRequest) -> str:
    """The name of a release of each flavour in turn; tools/campaign/written takes all."""
    name = str(request.param)
    _require(name)
    return name


@pytest.fixture(scope="session")
def origin(release: str) -> Iterator[Server]:
    """A server whose data others are to have."""
    with Server(release, server_options(release), server_id=ORIGIN_ID) as running:
        yield running


@pytest.fixture(scope="session")
def taker(release: str) -> Iterator[Server]:
    """A server of the same release that is given logs."""
    with Server(release, server_options(release), server_id=TAKER_ID) as running:
        yield running
