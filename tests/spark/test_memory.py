"""What a mirror that follows gives back to the system."""

from __future__ import annotations

import ctypes

import psutil
import pytest

from tailrace.spark.memory import Tidy, give_back

CHUNK, CHUNKS = 64 << 10, 1600


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_what_was_freed_below_what_is_used_goes_back():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    places = [libc.malloc(CHUNK) for _ in range(CHUNKS)]
    for place in places:
        ctypes.memset(place, 1, CHUNK)
    last = libc.malloc(CHUNK)
    for place in places:
        libc.free(place)
    held = psutil.Process().memory_info().rss
    give_back()
    assert held - psutil.Process().memory_info().rss > CHUNK * CHUNKS * 0.8
    libc.free(last)


def test_now_and_then():
    rarely = Tidy(every=1e6)
    assert not rarely()
    always = Tidy(every=0.0)
    assert always()
    assert always()
