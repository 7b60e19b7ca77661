"""Keys for encrypted logs: the servers' keyrings, Tailrace's own, and those of other packages."""

from tailrace.storage.keyring.base import Keyring
from tailrace.storage.keyring.find import find_keyring as open  # noqa: A004 - keyring.open
from tailrace.storage.keyring.own import OwnKeyring, make

__all__ = ["Keyring", "OwnKeyring", "make", "open"]
