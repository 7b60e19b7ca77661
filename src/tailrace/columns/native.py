"""Kernels as machine code: Numba compiles them once per machine; later runs do without Numba.

Importing Numba and letting it read its own cache costs a fresh process half a second; loading an
object file with LLVM costs some milliseconds. So each kernel becomes an object file in the cache
folder (`tailrace.cache`). The file's name depends on what it was made from: the kernels' sources,
the versions of Numba and llvmlite, and the processor. A stale file is never loaded, since its name
differs.

Loaded code is run. So an object file is used only if nobody but this user and root may write to it,
to the cache folder or to a folder above that (`tailrace.trust`). Otherwise that is logged once, and
each process compiles for itself, in memory. A cache that root made for all users is fine.

A kernel takes ``int64`` arguments (numbers and addresses) and returns one ``int64``. It runs
without the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm

from tailrace.cache import trusted_cache
from tailrace.extras import importing
from tailrace.trust import who_else_wrote

Function = Callable[..., int]

KERNELS: dict[str, tuple[str, int]] = {
    "hash_bytes": ("plan", 2),
    "plan_events": ("plan", 1),
    "verify_events": ("crc", 3),
    "find_payloads": ("payloads", 1),
    "decode_rows": ("rows", 1),
    "scan_events": ("scan", 1),
    "json_text": ("jsonb", 1),
    "charset_text": ("charset", 1),
    "uncompressed": ("inflate", 1),
    "inflate_rows": ("inflate", 5),
    "row_json": ("row_json", 1),
    "record_json": ("row_json", 1),
    "row_text": ("row_text", 1),
    "row_sql": ("row_sql", 1),
    "transaction_lines": ("transactions", 1),
    "list_events": ("transactions", 1),
    "odd_lines": ("lines", 1),
    "gather_lines": ("lines", 1),
    "encode_rows": ("encode_rows", 1),
    "stamp_events": ("encode_rows", 1),
    "json_binary": ("json_binary", 1),
    "charset_bytes": ("charset", 1),
    "gather_events": ("decrypt", 1),
    "scatter_events": ("decrypt", 1),
    "unframe": ("unframe", 4),
    "filter_frames": ("filter_frames", 1),
}
"""Kernel name: the module below ``kernels`` that holds it, and its number of arguments."""

WRITING: Final = frozenset({"encode_rows", "stamp_events", "json_binary", "charset_bytes"})
"""The kernels that only writers need: readers do not wait for them."""

RARE: Final = frozenset({"unframe", "uncompressed", "inflate_rows", "filter_frames"})
"""Compiled when first used: needed to read from a running server, for what MariaDB deflates, and
for filters of materialised streams.
"""

PRINTING: Final = frozenset(
    {
        "record_json",
        "row_text",
        "row_sql",
        "transaction_lines",
        "list_events",
        "odd_lines",
        "gather_lines",
    }
)
"""The kernels that only the command line needs, to print rows."""

INTERPRETED: Final = frozenset(KERNELS) - WRITING - PRINTING - RARE - {"row_json"}
"""The kernels for reading logs, which Python can run itself (`tailrace.columns.interpreted`)."""

SMALL: Final = 4 << 20
"""Bytes of log that a process reads without compiling a kernel: Python takes some seconds."""

_IMPORT = re.compile(rb"^from tailrace\.columns\.([\w.]+) import (?:(\w+) as)?", re.MULTILINE)
_DIGEST = hashlib.sha256().digest_size
_lock = threading.Lock()
_loaded: dict[str, Function] = {}
_interpreted: dict[str, Function] = {}
_read = 0
_announced = False
_engine: Any = None


def kernel(name: str) -> Function:
    """The compiled kernel ``name``: from the cache, or else compiled now."""
    found = _loaded.get(name)
    if found is None:
        with _lock:
            found = _loaded.get(name) or _load(name)
            _loaded[name] = found
    return found


def reading(name: str) -> Function:
    """The kernel ``name`` of `INTERPRETED`: compiled, or interpreted while that is quicker."""
    if name in _loaded or is_worth_compiling(name):
        return kernel(name)
    found = _interpreted.get(name)
    if found is None:
        from tailrace.columns.interpreted import interpreted  # noqa: PLC0415 - seldom needed

        found = _interpreted[name] = interpreted(KERNELS[name][0], name)
    return found


def will_read(size: int) -> None:
    """Count ``size`` bytes of a log that this process is about to read."""
    global _read  # noqa: PLW0603 - of the process, as what is compiled is
    _read += size


def is_small(more: int = 0) -> bool:
    """Whether this process reads so little, with ``more`` bytes, that compiling takes longer."""
    return _read + more <= SMALL


def is_worth_compiling(name: str) -> bool:
    """Whether a kernel is compiled already, or this process has read more than a small log."""
    return not is_small() or is_compiled(name)


def compile_all(*, say: Callable[[str], None] | None = None, writing: bool = False) -> float:
    """Compile the kernels that are not cached yet; return the seconds it took.

    Those for reading files, or with ``writing`` those for writing.
    """
    start = time.perf_counter()
    wanted = [
        name for name in KERNELS if (name in WRITING) is writing and name not in RARE | PRINTING
    ]
    missing = [name for name in wanted if name not in _loaded and _kept(name) is None]
    if missing and say:
        _announce(say)
    for name in wanted:
        kernel(name)
    return time.perf_counter() - start


def is_compiled(*names: str) -> bool:
    """Whether kernels are already compiled, in this process or in the cache."""
    folder = trusted_cache()
    return all(
        name in _loaded or (folder is not None and (folder / _object_name(name)).exists())
        for name in names
    )


def _load(name: str) -> Function:
    data = _kept(name)
    if data is None:
        data = _compile(name)
        _keep(name, data)
    engine = _execution_engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    address = engine.get_function_address(_symbol(name))
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * KERNELS[name][1])
    return prototype(address)


def _compile(name: str) -> bytes:
    with importing("columns", "compiling a kernel"):
        from numba.core import config  # noqa: PLC0415 - only where nothing is cached
        from numba.core.dispatcher import Dispatcher  # noqa: PLC0415

    vars(config).update(LOOP_VECTORIZE=0, SLP_VECTORIZE=0)  # they gain nothing here, and are slow

    _announce()
    from tailrace.columns.kernels.memory import helper  # noqa: PLC0415

    module, arity = KERNELS[name]
    function = getattr(importlib.import_module(f"tailrace.columns.kernels.{module}"), name)
    if not isinstance(function, Dispatcher):
        function = helper(function)
    compiled = next(iter(function.overloads.values()))
    # Numba has no public API for code without its Python wrappers, hence its library object.
    code = compiled.library
    entry = _entry(_symbol(name), compiled.fndesc.mangled_name, arity)
    linked = llvm.parse_assembly(f"{code._final_module}\n{entry}")  # noqa: SLF001
    return bytes(code._codegen._tm.emit_object(linked))  # noqa: SLF001


def _announce(say: Callable[[str], None] | None = None) -> None:
    """Announce once per process that it compiles, which takes a while: by ``say``, or on stderr."""
    global _announced  # noqa: PLW0603 - of the process
    if not _announced:
        _announced = True
        text = "compiling kernels (once on this machine, about a minute)"
        print(f"tailrace: {text}", file=sys.stderr) if say is None else say(text)  # noqa: T201


def _entry(symbol: str, target: str, arity: int) -> str:
    """A C function around one of Numba's, which returns result and exception through pointers."""
    parameters = ", ".join(f"i64 %a{index}" for index in range(arity))
    return f"""
define i64 @{symbol}({parameters}) {{
  %result = alloca i64
  %exception = alloca ptr
  %status = call i32 @{target}(ptr %result, ptr %exception, {parameters})
  %value = load i64, ptr %result
  ret i64 %value
}}"""


def _symbol(name: str) -> str:
    return f"tailrace_{name}"


def _kept(name: str) -> bytes | None:
    """A kernel's object code in the cache; None if it is missing, damaged, or not trusted."""
    folder = trusted_cache()
    if folder is None:
        return None
    try:
        with (folder / _object_name(name)).open("rb") as file:
            if who_else_wrote(file.fileno()) is not None:
                return None
            content = file.read()
    except OSError:
        return None
    digest, data = content[:_DIGEST], content[_DIGEST:]
    return data if hashlib.sha256(data).digest() == digest else None


def _keep(name: str, data: bytes) -> None:
    """Write a cache file atomically; a folder that cannot be written to is no error."""
    folder = trusted_cache()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(hashlib.sha256(data).digest() + data)
        Path(file.name).replace(folder / _object_name(name))


def _execution_engine() -> Any:
    global _engine  # noqa: PLW0603 - one engine a process: object files stay mapped as long as it
    if _engine is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        _engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    return _engine


def _object_name(name: str) -> str:
    return f"{name}-{_fingerprint(name)}.o"


@functools.cache
def _fingerprint(name: str) -> str:
    """A name that depends on everything that a kernel's machine code depends on."""
    digest = hashlib.sha256()
    for source in _sources(KERNELS[name][0]):
        digest.update(source)
    for text in (_version("numba"), _version("llvmlite"), llvm.get_host_cpu_name()):
        digest.update(text.encode() + b"\0")
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()[:16]


@functools.cache
def _version(package: str) -> str:
    """The version of an installed package, by the name of its metadata's folder.

    `importlib.metadata` also parses the metadata, which takes longer than loading a kernel.
    """
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:
        installed = Path(spec.origin).parent.parent
        found = [each.name for each in installed.glob(f"{package}-*.dist-info")]
        if len(found) == 1:
            return found[0].removesuffix(".dist-info").removeprefix(f"{package}-")
    from importlib.metadata import version  # noqa: PLC0415 - slow, and seldom needed

    return version(package)


def _sources(module: str) -> list[bytes]:
    """The sources of a kernel's module and of all modules of this package that it imports."""
    found: dict[str, bytes] = {}
    wanted = ["frames.plan", f"kernels.{module}"]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name], imports = _source(name)
            wanted += imports
    return [found[name] for name in sorted(found)]


@functools.cache
def _source(name: str) -> tuple[bytes, tuple[str, ...]]:
    """A module's source, and the modules of this package that it imports."""
    source = _path(name).read_bytes()
    found = [(a.decode(), b.decode()) for a, b in _IMPORT.findall(source)]
    return source, tuple(f"{a}.{b}" if b and not _path(a).exists() else a for a, b in found)


def _path(module: str) -> Path:
    return Path(__file__).parent / (module.replace(".", "/") + ".py")
