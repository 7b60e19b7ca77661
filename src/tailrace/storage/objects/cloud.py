"""Cloud stores and others with their protocols: S3, Google's and Azure's, by obstore."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

import obstore
from obstore import exceptions
from obstore.store import from_url

from tailrace.errors import StorageError
from tailrace.storage.objects.bucket import (
    PART,
    Listing,
    NoSuchObject,
    ObjectExists,
    without_secrets,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.storage.objects.url import ObjectUrl

_PARTS_AT_ONCE: Final = 3
_ENDPOINTS: Final = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "gs": (),
}
_KINDS: Final = {"s3a": "s3", "abfs": "az", "abfss": "az"}
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
        names = _ENDPOINTS[_KINDS.get(url.scheme, url.scheme)]
        endpoint = next((value for name in names if (value := os.environ.get(name))), "")
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

    def path(self, key: str) -> str:
        """An object's URL."""
        return f"{self._url.root}/{key}".rstrip("/")

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
        objects = {
            each["path"].rpartition("/")[2]: each["size"]
            for each in found["objects"]
            if each["path"] != folder  # an empty object of the folder's name, which some tools make
        }
        folders = [path.strip("/").rpartition("/")[2] for path in found["common_prefixes"]]
        return Listing(objects, folders)

    def put(self, key: str, content: bytes, *, new: bool = False) -> None:
        """One request."""
        mode: Literal["create", "overwrite"] = "create" if new else "overwrite"
        with self._told(key):
            obstore.put(self._store, key, content, use_multipart=False, mode=mode)

    def upload(self, key: str, size: int, pieces: Iterable[bytes | memoryview]) -> None:
        """One conditional request, or a multipart upload if it is larger than a part."""
        if size <= PART:
            self.put(key, b"".join(pieces), new=True)
            return
        with self._told(key):
            if self.size(key) is not None:
                raise exceptions.AlreadyExistsError
            output = obstore.open_writer(
                self._store, key, buffer_size=PART, max_concurrency=_PARTS_AT_ONCE
            )
            for piece in pieces:
                output.write(piece)
            output.close()  # without this, nothing is visible

    def remove(self, *keys: str) -> None:
        """One request, for several the store's request for many."""
        with self._told(keys[0]):
            try:
                obstore.delete(self._store, keys[0] if len(keys) == 1 else keys)
            except FileNotFoundError:
                return

    @contextmanager
    def _told(self, key: str) -> Iterator[None]:
        """Raise the store's errors as StorageError, without the library's errors in its chain."""
        place = self.path(key)
        kind = StorageError
        try:
            yield
        except StorageError:  # from the pieces of an upload
            raise
        except exceptions.AlreadyExistsError:
            kind, message = ObjectExists, f"{place}: File exists"
        except FileNotFoundError:
            kind, message = NoSuchObject, f"{place}: no such object"
        except (exceptions.BaseError, OSError, ValueError) as error:
            said = str(error)
            message = f"{place}: {without_secrets(said)}"
            if "NoSuchBucket" in said:
                message = f"{place}: there is no such bucket"
            if isinstance(error, _REFUSED) or any(status in said for status in _STATUSES):
                variables = _VARIABLES.get(self._url.scheme, _AZURE)
                message = (
                    f"{place}: the store refuses access; credentials are those of the environment"
                    f" ({variables}). It says: {without_secrets(said)}"
                )
        else:
            return
        raise kind(message) from None
