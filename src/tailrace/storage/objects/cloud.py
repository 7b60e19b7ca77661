"""Cloud stores and others with their protocols: S3, Google's and Azure's, by obstore."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import obstore
from obstore import exceptions
from obstore.store import from_url

from tailrace.errors import StorageError
from tailrace.storage.objects.bucket import PART, Listing, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.storage.objects.url import ObjectUrl

_PARTS_AT_ONCE: Final = 3
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_VARIABLES: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "s3a": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}
_REFUSED: Final = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
_STATUSES: Final = ("403 Forbidden", "401 Unauthorized")
"""What the errors say when a listing is denied."""
_AZURE: Final = "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"


class CloudStore:
    """A bucket, reached with the environment's credentials."""

    def __init__(self, url: ObjectUrl) -> None:
        self._url = url
        endpoint = next((value for name in _ENDPOINTS if (value := os.environ.get(name))), "")
        try:
            self._store = from_url(
                url.root,
                client_options={
                    "allow_http": endpoint.lower().startswith("http://"),
                    "connect_timeout": "10s",
                    "timeout": "120s",
                },
                retry_config={"max_retries": 6, "retry_timeout": timedelta(seconds=60)},
            )
        except Exception as error:  # noqa: BLE001 - whatever the library raises
            raise StorageError(f"{url.root}: {without_secrets(str(error))}") from None

    def size(self, key: str) -> int | None:
        """An object's bytes; None where there is none."""
        with self._told(key):
            try:
                return obstore.head(self._store, key)["size"]
            except FileNotFoundError:
                return None

    def read(self, key: str, offset: int, count: int) -> tuple[memoryview, int]:
        """A ranged request."""
        with self._told(key):
            try:
                found = obstore.get(self._store, key, options={"range": (offset, offset + count)})
                return memoryview(found.bytes()), found.meta["size"]
            except (exceptions.GenericError, ValueError):
                # for a range after the end and other errors; for one beyond 64 bits
                size = obstore.head(self._store, key)["size"]
                if offset < size:
                    raise
                return memoryview(b""), size

    def list(self, folder: str) -> Listing:
        """A listing with the delimiter ``/``."""
        with self._told(folder):
            found = obstore.list_with_delimiter(self._store, folder or None)
        objects = {each["path"].rpartition("/")[2]: each["size"] for each in found["objects"]}
        folders = [path.strip("/").rpartition("/")[2] for path in found["common_prefixes"]]
        return Listing(objects, folders)

    def put(self, key: str, content: bytes) -> None:
        """One request."""
        with self._told(key):
            obstore.put(self._store, key, content, use_multipart=False)

    def upload(self, key: str, path: Path) -> None:
        """One conditional request, or a multipart upload if the file is larger than a part."""
        with self._told(key):
            if path.stat().st_size <= PART:
                obstore.put(self._store, key, path.read_bytes(), mode="create")
                return
            if self.size(key) is not None:
                raise exceptions.AlreadyExistsError
            obstore.put(
                self._store,
                key,
                path,
                use_multipart=True,
                chunk_size=PART,
                max_concurrency=_PARTS_AT_ONCE,
            )

    def remove(self, key: str) -> None:
        """One request."""
        with self._told(key):
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError:
                return

    @contextmanager
    def _told(self, key: str) -> Iterator[None]:
        """Raise the store's errors as StorageError, without the library's errors in its chain."""
        place = f"{self._url.root}/{key}".rstrip("/")
        try:
            yield
        except exceptions.AlreadyExistsError:
            message = f"{place}: File exists"
        except FileNotFoundError:
            message = f"{place}: no such object"
        except (exceptions.BaseError, OSError, ValueError) as error:
            said = str(error)
            message = f"{place}: {without_secrets(said)}"
            if isinstance(error, _REFUSED) or any(status in said for status in _STATUSES):
                variables = _VARIABLES.get(self._url.scheme, _AZURE)
                message = (
                    f"{place}: the store refuses access; credentials are those of the environment"
                    f" ({variables}). It says: {without_secrets(said)}"
                )
        else:
            return
        raise StorageError(message) from None
