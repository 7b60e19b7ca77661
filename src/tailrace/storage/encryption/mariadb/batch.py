"""Decrypts many events of MariaDB at a time: large ones in place, small ones in one batch.

A context of OpenSSL costs as much as 20 KB of AES. So the blocks of all small events are gathered,
go through AES in one call, and are put back. Both modes consist of AES on single blocks, XORed with
the block before them (CBC) or with the text (CTR). That needs numpy; without it, events are
decrypted one by one.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Protocol

from tailrace.events.walk import LENGTH_AT, LENGTH_END, frames
from tailrace.storage.encryption.ciphers import BLOCK, cbc, ctr, ecb
from tailrace.storage.encryption.mariadb.format import TEXT_AT, Mode

if TYPE_CHECKING:
    from tailrace.storage.encryption.mariadb.format import EventCipher

_LARGE: Final = 2048
"""The least size of an event for which a separate context pays off."""
_FEW: Final = 4


@functools.cache
def _numpy() -> Any:
    try:
        import numpy as np  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    return np


class BlockCipher(Protocol):
    """Decrypts runs of events in place."""

    def decrypt(self, view: memoryview, size: int, offset: int, /) -> int:
        """Decrypt the whole events in ``view[:size]``, which begins with one, at ``offset`` of the
        file. Returns the end of the last one, before an event that is not whole or is damaged.
        """


class BatchCipher:
    """The `BlockCipher` for installations without kernels."""

    def __init__(self, cipher: EventCipher) -> None:
        self._cipher = cipher
        self._np = _numpy()
        self._decrypt = ecb(cipher.key, encrypt=False)
        self._encrypt = ecb(cipher.key, encrypt=True)

    def decrypt(self, view: memoryview, size: int, offset: int, /) -> int:
        """See `BlockCipher`."""
        ends = [0, *(end for _, end in frames(view, size))]
        starts, end = ends[:-1], ends[-1]
        if self._np is None or len(starts) <= _FEW:
            for start, stop in zip(starts, [*starts[1:], end], strict=False):
                self._one(view[start:stop], offset + start)
            return end
        np = self._np
        begins = np.array(starts, np.int64)
        sizes = np.diff(begins, append=end)
        large = sizes >= _LARGE
        for at in np.flatnonzero(large).tolist():
            start = starts[at]
            decrypt_large(self._cipher, view[start : start + int(sizes[at])], offset + start)
        keep = ~large
        # Reading must not go past the last event's blocks: it is decrypted alone.
        if keep[-1]:
            keep[-1] = False
            self._one(view[starts[-1] : end], offset + starts[-1])
        if keep.any():
            self._small(view[:end], begins[keep], sizes[keep], offset)
        return end

    def _one(self, event: memoryview, offset: int) -> None:
        event[:] = self._cipher.decrypt(bytes(event), offset)

    def _small(self, view: memoryview, starts: Any, sizes: Any, offset: int) -> None:
        """Decrypt small events; the view's last event is not among them."""
        np = self._np
        words = np.ndarray((len(view) - 3,), "<u4", view, 0, (1,))
        lengths = words[starts + 9]
        words[starts + 9] = words[starts]
        texts = starts + TEXT_AT
        counts, rest = np.divmod(sizes - TEXT_AT, BLOCK)
        ivs = self._vectors(starts + offset)
        firsts = np.cumsum(counts) - counts
        places = np.repeat(texts - BLOCK * firsts, counts)
        places += np.arange(0, BLOCK * len(places), BLOCK)
        # Rows of 16 bytes, one at each byte of the view: a row's index is its offset.
        rows = np.ndarray((len(view) - BLOCK + 1,), "V16", view, 0, (1,))
        if self._cipher.mode is Mode.CTR:
            stream = self._run(self._encrypt, self._counters(ivs, counts, firsts))
            text = rows[places]
            ours = np.repeat(np.arange(len(starts)), counts)
            ours += np.arange(len(ours))  # each event's blocks are followed by one for its rest
            made = text.view("<u8") ^ stream.view("V16")[ours].view("<u8")
            masks = stream.view("V16")[np.arange(len(starts)) + firsts + counts]
        else:
            text = rows[places]
            made = self._run(self._decrypt, text).view("<u8")
            before = np.empty_like(text)
            before[1:] = text[:-1]
            before[firsts[counts > 0]] = ivs.view("V16")[counts > 0]
            made ^= before.view("<u8")
            masks = self._run(self._encrypt, ivs).view("V16")
        rows[places] = made.view("V16")
        self._rest(rows, texts + BLOCK * counts, rest, masks)
        words[starts] = words[starts + 9]
        words[starts + 9] = lengths

    def _rest(self, rows: Any, places: Any, rest: Any, masks: Any) -> None:
        """Decrypt the last partial block of each event. Every other event is done at a time, since
        a row of 16 bytes reaches into the next event (of 19 bytes at least), but not past it.
        """
        np = self._np
        kept = np.tri(BLOCK, BLOCK, -1, np.uint8) * np.uint8(255)
        masks = masks.view(np.uint8).reshape(-1, BLOCK) & kept[rest]
        masks = masks.view("<u8").reshape(-1, 2)
        for turn in (0, 1):
            there = places[turn::2]
            text = rows[there].view("<u8").reshape(-1, 2) ^ masks[turn::2]
            rows[there] = text.view("V16").reshape(-1)

    def _vectors(self, offsets: Any) -> Any:
        """The initial vectors of events at these offsets of the file, 16 bytes each."""
        np = self._np
        made = np.empty((len(offsets), BLOCK), np.uint8)
        made[:, :12] = np.frombuffer(self._cipher.nonce, np.uint8)
        made[:, 12:] = offsets.astype("<u4").view(np.uint8).reshape(-1, 4)
        return made.reshape(-1)

    def _counters(self, ivs: Any, counts: Any, firsts: Any) -> Any:
        """The counter blocks of each event: its vector counted up, big-endian, one more than it
        has whole blocks.
        """
        np = self._np
        halves = ivs.view(">u8").astype(np.uint64).reshape(-1, 2)
        number = counts + 1
        total = int(number.sum())
        step = np.arange(total) - np.repeat(firsts + np.arange(len(counts)), number)
        low = np.repeat(halves[:, 1], number)
        made = np.empty((total, 2), ">u8")
        grown = low + step.astype(np.uint64)
        made[:, 1] = grown
        made[:, 0] = np.repeat(halves[:, 0], number) + (grown < low)
        return made.reshape(-1)

    def _run(self, context: Any, blocks: Any) -> Any:
        """AES on each of these blocks."""
        np = self._np
        given = blocks.view(np.uint8)
        made = np.empty(len(given) + BLOCK, np.uint8)
        context.update_into(given.data, made.data)
        return made[: len(given)]


def decrypt_large(cipher: EventCipher, event: memoryview, offset: int) -> None:
    """Decrypt one event in place; it has two blocks at least."""
    text = event[TEXT_AT:]
    length = bytes(event[LENGTH_AT:LENGTH_END])
    event[LENGTH_AT:LENGTH_END] = event[:4]
    iv = cipher.iv(offset)
    if cipher.mode is Mode.CTR:
        ctr(cipher.key, iv).update_into(text, text)
    else:
        last = len(text) - len(text) % BLOCK - BLOCK
        # update_into needs a spare block of room, so the last whole block is done separately
        context = cbc(cipher.key, iv, encrypt=False)
        context.update_into(text[:last], text)
        text[last : last + BLOCK] = context.update(text[last : last + BLOCK])
        text[last + BLOCK :] = cipher.tail(bytes(text[last + BLOCK :]), iv)
    event[:4] = event[LENGTH_AT:LENGTH_END]
    event[LENGTH_AT:LENGTH_END] = length
