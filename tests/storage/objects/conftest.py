"""A real S3 server, and a bucket of its own for each test."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.store import S3Store

from tools.s3 import S3Server, available

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKETS = [f"bucket-{number:03}" for number in range(200)]
"""They are made before the server starts; each test takes one that none has taken."""
FREE = iter(BUCKETS)


@dataclass
class Bucket:
    """A bucket of a running server, which the environment leads to."""

    server: S3Server
    name: str
    before: Counter[str] = field(default_factory=Counter)

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    @property
    def folder(self) -> Path:
        """Its objects as files, to be looked at."""
        return self.server.bucket(self.name)

    def put(self, key: str, content: bytes | Path) -> None:
        """Put an object there, by a client that is not ours."""
        data = content.read_bytes() if isinstance(content, Path) else content
        obstore.put(self._store(), key, data, use_multipart=False)

    def remove(self, key: str) -> None:
        """Take an object away."""
        obstore.delete(self._store(), key)

    def _store(self) -> S3Store:
        return S3Store(self.name, client_options={"allow_http": True})

    def names(self, folder: str = "") -> list[str]:
        """The objects that are there, by the server's own folder."""
        place = self.folder / folder
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []

    def asked(self) -> Counter[str]:
        """The requests since it was last asked."""
        now = self.server.requests
        since = now - self.before
        self.before = now
        return since


def require(name: str, reason: str) -> None:
    """Skip or fail without that store."""
    if reason:
        text = f"needs {name}: {reason}"
        if os.environ.get("TAILRACE_REQUIRE_SERVERS") == "1":
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


def lead_to(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the environment lead to a store, and to no other."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    require("an S3 server", available())
    server = S3Server()
    for name in BUCKETS:
        server.bucket(name)
    with server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    lead_to(s3_server, monkeypatch)
    found = Bucket(s3_server, next(FREE))
    assert not found.names()
    found.asked()
    return found
