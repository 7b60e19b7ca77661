"""How a check reports a failure."""

from __future__ import annotations


class BrokenContract(AssertionError):
    """A stream broke a rule that every stream keeps."""


def expect(holds: object, told: str) -> None:
    """Raise `BrokenContract` if something does not hold."""
    if not holds:
        raise BrokenContract(told)


def expect_bytes(found: bytes, wanted: bytes, told: str) -> None:
    """Raise `BrokenContract` with the difference if bytes differ."""
    if found == wanted:
        return
    pairs = enumerate(zip(found, wanted, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(found), len(wanted)))
    raise BrokenContract(
        f"{told}: {len(found)} bytes, {len(wanted)} expected; they differ from offset {at}:"
        f" {found[at : at + 16].hex(' ')} instead of {wanted[at : at + 16].hex(' ')}"
    )
