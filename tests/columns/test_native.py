"""Kernels as object files: made once, found again, and told apart by what they were made from."""

from __future__ import annotations

import pytest

from tailrace.columns import native


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and nothing loaded."""
    monkeypatch.setenv("TAILRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    return tmp_path


def test_a_kernel_is_compiled_once(cache, monkeypatch):
    first = native.kernel("scan_events")
    (path,) = cache.glob("scan_events-*.o")
    monkeypatch.setattr(native, "_compile", lambda _name: pytest.fail("compiled again"))
    assert native.kernel("scan_events") is first
    monkeypatch.setattr(native, "_loaded", {})
    native.kernel("scan_events")
    assert path.stat().st_size > 1000


def test_changed_sources_make_another_file(cache, monkeypatch):
    before = native._object_path("scan_events")
    native._fingerprint.cache_clear()
    monkeypatch.setattr(native, "_sources", lambda _module: [b"something else"])
    assert native._object_path("scan_events") != before
    native._fingerprint.cache_clear()


@pytest.mark.parametrize("cut", [0, 10, 100, 1000])
def test_a_damaged_file_is_made_anew(cache, monkeypatch, cut):
    native.kernel("scan_events")
    path = native._object_path("scan_events")
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    monkeypatch.setattr(native, "_loaded", {})
    assert callable(native.kernel("scan_events"))
    assert native._kept(path) is not None


def test_a_cache_that_cannot_be_written_is_fine(cache, monkeypatch):
    monkeypatch.setenv("TAILRACE_CACHE", "/proc/nowhere")
    assert callable(native.kernel("scan_events"))
