"""Kernels as object files: made once, found again, and told apart by what they were made from."""

import os

import llvmlite.binding as llvm
import pytest

from tailrace.cache import _trusted, own_cache, trusted_cache
from tailrace.columns import native
from tailrace.trust import who_else, who_else_wrote


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and nothing loaded."""
    monkeypatch.setenv("TAILRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    return tmp_path


@pytest.mark.slow
def test_a_kernel_is_compiled_once(cache, monkeypatch):
    first = native.kernel("scan_events")
    (path,) = cache.glob("scan_events-*.o")
    monkeypatch.setattr(native, "_compile", lambda _name: pytest.fail("compiled again"))
    assert native.kernel("scan_events") is first
    monkeypatch.setattr(native, "_loaded", {})
    native.kernel("scan_events")
    assert path.stat().st_size > 1000


def test_changed_sources_make_another_file(cache, monkeypatch):
    before = native._object_name("scan_events")
    native._fingerprint.cache_clear()
    monkeypatch.setattr(native, "_sources", lambda _module: [b"something else"])
    assert native._object_name("scan_events") != before
    native._fingerprint.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("cut", [0, 10, 100, 1000])
def test_a_damaged_file_is_made_anew(cache, monkeypatch, cut):
    native.kernel("scan_events")
    path = cache / native._object_name("scan_events")
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    monkeypatch.setattr(native, "_loaded", {})
    assert callable(native.kernel("scan_events"))
    assert native._kept("scan_events") is not None


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_fine(cache, monkeypatch):
    monkeypatch.setenv("TAILRACE_CACHE", "/proc/nowhere")
    assert callable(native.kernel("scan_events"))


ROOT = os.geteuid() == 0
STRANGER = 12345


def _by_mode(path):
    path.chmod(path.stat().st_mode | 0o020)


def _by_everybody(path):
    path.chmod(path.stat().st_mode | 0o002)


def _by_sticky(path):
    path.chmod(0o1777)


def _by_owner(path):
    os.chown(path, STRANGER, -1)


WAYS = [
    _by_mode,
    _by_everybody,
    _by_sticky,
    pytest.param(
        _by_owner, marks=pytest.mark.skipif(not ROOT, reason="only root gives files away")
    ),
]


@pytest.fixture
def nested(tmp_path, monkeypatch):
    """A cache folder two below the test's, with a kernel in it that gives a wrong answer."""
    folder = tmp_path / "a" / "cache"
    monkeypatch.setenv("TAILRACE_CACHE", str(folder))
    monkeypatch.setattr(native, "_loaded", {})
    native.kernel("hash_bytes")
    native.kernel("unframe")
    (good,) = folder.glob("hash_bytes-*.o")
    _trusted.cache_clear()
    monkeypatch.setattr(native, "_loaded", {})
    yield folder, good
    _trusted.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("opens", WAYS)
@pytest.mark.parametrize("which", ["the file", "its folder", "the folder above"])
def test_what_others_may_write_is_not_loaded(nested, monkeypatch, opens, which, caplog):
    """A planted object file would be run; it is compiled instead, and nothing is written there."""
    folder, good = nested
    place = {"the file": good, "its folder": folder, "the folder above": folder.parent}[which]
    opens(place)
    if which == "the folder above" and opens is _by_sticky:
        assert trusted_cache() == folder, "nobody may take away there what is ours"
        return
    before = {path: path.read_bytes() for path in folder.iterdir()}
    compiled = []
    monkeypatch.setattr(
        native, "_compile", lambda name, make=native._compile: compiled.append(name) or make(name)
    )
    native.kernel("hash_bytes")
    native.kernel("unframe")
    if which == "the file":
        assert compiled == ["hash_bytes"]
        assert who_else(good) is None, "it was made anew"
    else:
        assert compiled == ["hash_bytes", "unframe"]
        assert {path: path.read_bytes() for path in folder.iterdir()} == before
        (record,) = (each for each in caplog.records if each.name == "tailrace.cache")
        assert str(place) in record.getMessage()
        assert "TAILRACE_CACHE" in record.getMessage()
        own = own_cache("java")
        assert folder not in own.parents
        assert who_else(own) is None


@pytest.mark.slow
def test_a_link_in_the_way_does_not_hide_where_it_is(nested, tmp_path, monkeypatch):
    folder, _ = nested
    (tmp_path / "link").symlink_to(folder.parent)
    monkeypatch.setenv("TAILRACE_CACHE", str(tmp_path / "link" / "cache"))
    assert trusted_cache() == folder
    _trusted.cache_clear()
    folder.parent.chmod(0o777)
    assert trusted_cache() is None


def test_a_new_cache_is_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TAILRACE_CACHE", str(tmp_path / "x" / "y"))
    before = os.umask(0)
    try:
        found = trusted_cache("part")
    finally:
        os.umask(before)
    assert found == tmp_path / "x" / "y" / "part"
    assert [each.stat().st_mode & 0o777 for each in (found, *found.parents[:2])] == [0o700] * 3


def test_who_else(tmp_path):
    path = tmp_path / "file"
    path.touch(0o600)
    assert who_else(path) is None
    path.chmod(0o666)
    assert who_else(path) == f"{path} may be written by other users (mode 0666)"
    with path.open() as file:
        assert who_else_wrote(file.fileno()) == "the file may be written by other users (mode 0666)"
    with pytest.raises(FileNotFoundError):
        who_else(tmp_path / "none")


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_a_strangers_folder_in_a_sticky_one(tmp_path):
    (tmp_path / "theirs" / "ours").mkdir(parents=True)
    tmp_path.chmod(0o1777)
    os.chown(tmp_path / "theirs", STRANGER, -1)
    found = who_else(tmp_path / "theirs" / "ours")
    assert found == f"{tmp_path / 'theirs'} belongs to another user (uid {STRANGER})"


def test_numbas_private_parts():
    """What `native._compile` takes of Numba that is not public; pyproject bounds its versions.

    Where this fails with a new Numba: see that a kernel still is a function that takes where to
    put its result and its exception, then its arguments, and returns 0 where all is well.
    """
    from numba import types  # noqa: PLC0415 - nobody else needs it
    from numba.core import config  # noqa: PLC0415
    from numba.core.dispatcher import Dispatcher  # noqa: PLC0415

    from tailrace.columns.kernels.memory import helper  # noqa: PLC0415

    assert {"LOOP_VECTORIZE", "SLP_VECTORIZE"} <= vars(config).keys()
    function = helper(lambda a, b: a + b)
    assert isinstance(function, Dispatcher)
    (compiled,) = function.overloads.values()
    assert compiled.signature == types.int64(types.int64, types.int64)
    code = compiled.library
    made = llvm.parse_assembly(str(code._final_module)).get_function(compiled.fndesc.mangled_name)
    assert f" i32 @{made.name}(" in str(made)
    assert [str(each.type) for each in made.arguments] == ["ptr", "ptr", "i64", "i64"]
    assert callable(code._codegen._tm.emit_object)
