"""How a check says that it failed."""

from __future__ import annotations


class BrokenContract(AssertionError):
    """A stream did not do what every stream does."""


def expect(holds: object, told: str) -> None:
    """Raise `BrokenContract` where something does not hold."""
    if not holds:
        raise BrokenContract(told)


def expect_bytes(found: bytes, wanted: bytes, told: str) -> None:
    """Raise `BrokenContract` that says where bytes differ."""
    if found == wanted:
        return
    pairs = enumerate(zip(found, wanted, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(found), len(wanted)))
    raise BrokenContract(
        f"{told}: {len(found)} bytes, and {len(wanted)} are right; they differ from {at} on:"
        f" {found[at : at + 16].hex(' ')} for {wanted[at : at + 16].hex(' ')}"
    )
