"""MariaDB's encrypted logs, decrypted at the kernels' speed.

A kernel gathers the blocks of some hundred events, OpenSSL runs AES over them in one call, and a
kernel puts them back: no step needs a call for each event. `tailrace.storage.encryption` does the
same without kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tailrace.columns.frames import decrypt as f
from tailrace.columns.native import reading
from tailrace.events.walk import event_length
from tailrace.storage.encryption.ciphers import BLOCK, ecb
from tailrace.storage.encryption.mariadb.batch import decrypt_large
from tailrace.storage.encryption.mariadb.format import Mode
from tailrace.storage.encryption.mariadb.streams import MariadbInput

if TYPE_CHECKING:
    from tailrace.storage.encryption.mariadb.format import EventCipher
    from tailrace.storage.streams.base import RandomInput

_WORK: Final = 256 << 10
"""Bytes that go through AES at a time: input and output stay in the nearer caches."""
_MOST: Final = _WORK // 32


class KernelCipher:
    """Decrypts runs of events in place. See `BlockCipher` for the arguments."""

    def __init__(self, cipher: EventCipher) -> None:
        self._cipher = cipher
        self._counting = cipher.mode is Mode.CTR
        self._aes = ecb(cipher.key, encrypt=self._counting)
        self._aes_forth = ecb(cipher.key, encrypt=True)
        self._work = np.empty(_WORK + BLOCK, np.uint8)
        self._vectors = np.empty(_MOST * BLOCK, np.uint8)
        self._masks = np.empty((_MOST + 1) * BLOCK, np.uint8)
        self._sizes = np.empty(_MOST, np.int64)
        self._nonce = np.frombuffer(cipher.nonce, np.uint8).copy()
        self._frame = np.zeros(f.WORDS, np.int64)
        frame = self._frame
        frame[f.NONCE] = self._nonce.ctypes.data
        frame[f.COUNTERS] = int(self._counting)
        frame[f.WORK] = self._work.ctypes.data
        frame[f.CAPACITY] = _WORK
        frame[f.VECTORS] = self._vectors.ctypes.data
        frame[f.MASKS] = self._masks.ctypes.data
        frame[f.SIZES] = self._sizes.ctypes.data
        frame[f.MOST] = _MOST

    def decrypt(self, view: memoryview, size: int, offset: int) -> int:
        """Decrypt the whole events in ``view[:size]``; returns where the last of them ends."""
        frame = self._frame
        base = np.frombuffer(view, np.uint8).ctypes.data
        frame[f.END] = base + size
        at = 0
        while True:
            frame[f.IN] = base + at
            frame[f.OFFSET] = offset + at
            reason = reading("gather_events")(frame.ctypes.data)
            if frame[f.COUNT]:
                used, count = int(frame[f.USED]), int(frame[f.COUNT])
                self._aes.update_into(self._work.data[:used], self._work.data)
                if not self._counting:
                    vectors = self._vectors.data[: count * BLOCK]
                    self._aes_forth.update_into(vectors, self._masks.data)
                reading("scatter_events")(frame.ctypes.data)
                at = int(frame[f.AFTER]) - base
            if reason == f.DONE:
                return at
            if reason == f.LARGE:
                length = event_length(view[at : at + 19])
                decrypt_large(self._cipher, view[at : at + length], offset + at)
                at += length


def accelerated(stream: RandomInput) -> RandomInput:
    """The same stream; if it decrypts a MariaDB log, kernels decrypt it from now on."""
    if isinstance(stream, MariadbInput):
        stream.use(KernelCipher)
    return stream
