"""The URL of an object, or of a folder of objects. It holds no credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tailrace.errors import StorageError, UsageError

SCHEMES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss", "memory")
"""The schemes of URLs that name objects; all are followed by ``://``."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)", re.DOTALL)
_OF_ACCOUNT: Final = frozenset({"abfs", "abfss"})
"""Schemes whose place may be ``container@account``."""


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """A URL in its parts: ``s3://bucket/logs/binlog.000001`` has the key ``logs/binlog.000001``.

    Keys are taken literally: nothing in them is decoded.
    """

    scheme: str
    bucket: str
    key: str

    @classmethod
    def parse(cls, url: str) -> ObjectUrl:
        """The parts of a URL.

        Raises StorageError for another scheme; UsageError, which does not quote the URL, if it
        holds credentials or what may be credentials.
        """
        match = _URL.fullmatch(url)
        if match is None:
            raise UsageError("an object is named by a URL: s3://bucket/folder/binlog.000001")
        scheme, bucket, key = match[1].lower(), match[2], match[3]
        if scheme not in SCHEMES:
            raise StorageError(
                f"{scheme}:// is not the URL of an object store; those begin with"
                f" {', '.join(f'{known}://' for known in SCHEMES)}"
            )
        if "@" in bucket and (scheme not in _OF_ACCOUNT or ":" in bucket):
            raise UsageError(
                f"a {scheme}:// URL holds no user and no password: credentials come from the"
                " environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for example)"
            )
        if "?" in bucket or "?" in key or "#" in bucket:
            raise UsageError(
                f"a {scheme}:// URL of a log has no ?query: signatures and tokens do not belong"
                " there, credentials come from the environment"
            )
        if not bucket:
            raise UsageError(f"a {scheme}:// URL names a bucket: {scheme}://bucket/folder")
        return cls(scheme, bucket, key.strip("/"))

    @property
    def root(self) -> str:
        """The bucket's URL."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def name(self) -> str:
        """The last part of the key, or the bucket's name."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def parent(self) -> ObjectUrl:
        """Its folder."""
        return ObjectUrl(self.scheme, self.bucket, self.key.rpartition("/")[0])

    def __truediv__(self, name: str) -> ObjectUrl:
        key = f"{self.key}/{name}" if self.key else name
        return ObjectUrl(self.scheme, self.bucket, key)

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root


def names_object(source: object) -> bool:
    """Whether a text is a URL of one of the schemes."""
    scheme, colon, _ = str(source).partition("://")
    return bool(colon) and scheme.lower() in SCHEMES
