"""Who writes to a folder of an object store: a claim for each writer, with a generation number.

``owner-GENERATION`` (10 digits) in the folder holds the token of the writer that took a generation.
Whoever takes a later one removes it. So a writer that stores something, and then still `owns` its
generation, has stored it before anybody took over: whoever takes over later finds it.
"""

from __future__ import annotations

from secrets import randbelow
from typing import TYPE_CHECKING, Final

from tailrace.storage.objects.bucket import NoSuchObject, ObjectExists

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.storage.objects.bucket import Objects

OWNER: Final = "owner-"
_FIRST: Final = 1 << 32
"""The highest number of a folder's first generation."""


def owner_key(folder: str, generation: int) -> str:
    """The key of the token of the writer that took a generation."""
    return f"{folder}/{OWNER}{generation:010}"


def next_generation(latest: int) -> int:
    """The generation after the latest one; without one (0) it is random, as its writer may not have
    noticed yet that the folder was removed.
    """
    return latest + 1 if latest else randbelow(_FIRST) + 1


def owns(objects: Objects, folder: str, generation: int, token: bytes) -> bool:
    """Whether a writer's generation is still its own. One request. What was stored before this
    answer is seen by whoever takes over later.
    """
    try:
        found, _ = objects.read(owner_key(folder, generation), 0, len(token) + 1)
    except NoSuchObject:
        return False
    return bytes(found) == token


def take(objects: Objects, folder: str, generation: int, token: bytes) -> bool:
    """Take a generation; False if it is another writer's."""
    try:
        objects.put(owner_key(folder, generation), token, new=True)
    except ObjectExists:  # also if the answer to this request was lost
        return owns(objects, folder, generation, token)
    return True


def release(objects: Objects, folder: str, generations: Iterable[int]) -> None:
    """End the ownership of generations."""
    if keys := [owner_key(folder, each) for each in generations]:
        objects.remove(*keys)
