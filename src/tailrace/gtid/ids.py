"""The ids of transactions: MySQL's `Gtid` and MariaDB's `MariadbGtid` (facts sheet 4.5, 2.8)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, Self

from tailrace.arguments import check_type
from tailrace.constants import Flavour
from tailrace.errors import GtidError

GNO_END: Final = (1 << 63) - 1
"""One more than the largest transaction number."""
_UUID: Final = re.compile(
    r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.ASCII
)
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.ASCII)


def format_uuid(raw: bytes) -> str:
    """16 bytes as ``896e7882-18fe-11ef-ab88-22222d34d411``."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_uuid(text: str) -> str:
    """A UUID in any form that the server takes (case, braces, no hyphens), like `format_uuid`'s."""
    check_type("a UUID", text, "str")
    bare = text.strip().lower()
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1]
    if not _UUID.fullmatch(bare):
        raise GtidError(f"not a UUID: {text[:60]!r}")
    return format_uuid(bytes.fromhex(bare.replace("-", "")))


def parse_tag(text: str) -> str:
    """A tag, in lower case. Raises GtidError."""
    tag = text.strip().lower()
    if not _TAG.fullmatch(tag):
        raise GtidError(
            f"not a tag: {text[:60]!r} (at most 32 letters, digits and _, no digit first)"
        )
    return tag


def decode_tag(raw: bytes) -> str:
    """A tag in the form of logs and binary sets: plain, or empty. Raises GtidError."""
    tag = raw.decode("latin-1")
    if tag and not _TAG.fullmatch(tag):
        raise GtidError(f"not a tag: {raw!r} (at most 32 of a to z, digits and _, no digit first)")
    return tag


@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """MySQL's id of a transaction: the source's UUID, a tag (or ""), a number from 1 on."""

    uuid: str
    tag: str
    gno: int
    flavour: ClassVar[Literal[Flavour.MYSQL]] = Flavour.MYSQL

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``uuid:5`` or ``uuid:tag:5``. Raises GtidError."""
        check_type("text", text, "str")
        parts = text.split(":")
        if len(parts) not in {2, 3}:
            raise GtidError(f"not a GTID: {text[:120]!r} (a GTID looks like uuid:5 or uuid:tag:5)")
        tag = parse_tag(parts[1]) if len(parts) == 3 else ""
        number = parts[-1].strip()
        if not (number.isascii() and number.isdigit() and len(number) <= 40):
            raise GtidError(f"not a GTID: {text[:120]!r} (its transaction number is not a number)")
        gno = int(number)
        if not 1 <= gno < GNO_END:
            raise GtidError(f"a GTID's number lies between 1 and {GNO_END - 1}, not {gno}")
        return cls(parse_uuid(parts[0]), tag, gno)

    @property
    def following(self) -> Self:
        """The next GTID of the same source."""
        return replace(self, gno=self.gno + 1)

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}:{self.gno}" if self.tag else f"{self.uuid}:{self.gno}"


@dataclass(frozen=True, slots=True, order=True)
class MariadbGtid:
    """MariaDB's id of a transaction: replication domain, server, sequence number in the domain."""

    domain_id: int
    server_id: int
    seq_no: int
    flavour: ClassVar[Literal[Flavour.MARIADB]] = Flavour.MARIADB

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``0-1-100``. Raises GtidError."""
        check_type("text", text, "str")
        parts = text.strip().split("-")
        if len(parts) != 3 or not all(
            part.isascii() and part.isdigit() and len(part) <= 20 for part in parts
        ):
            raise GtidError(f"not a GTID: {text[:120]!r} (a GTID of MariaDB looks like 0-1-100)")
        domain, server, seq = map(int, parts)
        if domain >= 1 << 32 or server >= 1 << 32 or seq >= 1 << 64:
            raise GtidError(f"a number of the GTID {text[:120]!r} is too large")
        return cls(domain, server, seq)

    @property
    def following(self) -> Self:
        """The next GTID of the same server and domain."""
        return replace(self, seq_no=self.seq_no + 1)

    def __str__(self) -> str:
        return f"{self.domain_id}-{self.server_id}-{self.seq_no}"


AnyGtid = Gtid | MariadbGtid
"""A transaction's id, of either flavour."""


def parse_gtid(text: str) -> AnyGtid:
    """A GTID of either flavour: ``uuid:5``, ``uuid:tag:5`` or ``0-1-100``. Raises GtidError."""
    return Gtid.parse(text) if ":" in text else MariadbGtid.parse(text)
