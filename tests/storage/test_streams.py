"""The contract, over every stream alone and in stacks."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import UsageError
from tailrace.storage.local import LocalFolder
from tailrace.storage.pipe import StandardInput
from tailrace.storage.streams import file as file_module
from tailrace.storage.streams.buffer import BufferRandomOutput
from tailrace.storage.streams.file import FileInput, TemporaryOutput
from tailrace.storage.streams.layer import Layer, layer, stacked
from tailrace.storage.streams.memory import MemoryInput, MemoryOutput
from tailrace.testing import (
    CHECKS,
    FaultyInput,
    FaultyOutput,
    check_read_faults,
    check_reading,
    check_write_faults,
    check_writing,
)
from tests.cases import each_case
from tests.storage.layers import (
    LAYERS,
    SMALL_BUFFER,
    SMALL_PIECES,
    OnDisk,
    RefusingSystem,
    closes,
    content,
    senseless,
)

PLAIN = stacked([])


@pytest.mark.slow
@each_case("check", CHECKS, ids=lambda check: check.__name__)
@each_case("stream", [PLAIN, *LAYERS], ids=lambda stream: stream.name)
def test_each_stream_alone(stream, check):
    for seed in range(2 if stream is SMALL_PIECES else 3):
        check(stream, seed=seed)


STACKS = st.lists(st.sampled_from(LAYERS), min_size=2, max_size=3)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(stack=STACKS, seed=st.integers(0, 1 << 16), check=st.sampled_from(CHECKS))
def test_stacks(stack, seed, check):
    """Of two and three: the contract holds, or the stack is refused because it makes no sense."""
    if senseless(stack):
        with pytest.raises(UsageError, match=r"(ReadAhead|KeystreamInput) needs a RandomInput"):
            stacked(stack).input(FaultyInput(b""))
    else:
        check(stacked(stack), seed=seed)


@each_case("kind", ["file", "standard", "memory", "temporary"])
@each_case("check", [check_reading, check_read_faults])
def test_inputs_at_the_bottom(tmp_path, kind, check):
    def path(source):
        (tmp_path / "file").write_bytes(content(source))
        return tmp_path / "file"

    def bottom(source):
        match kind:
            case "file":
                return closes(FileInput(path(source)), source)
            case "standard":
                return closes(StandardInput(os.open(path(source), os.O_RDONLY)), source)
            case "memory":
                return closes(MemoryInput(content(source)), source)
        output = TemporaryOutput()
        output.write(content(source))
        stream = output.input()
        end = stream.close

        def closed_by_its_file():
            stream.close = end
            output.close()
            source.close()

        stream.close = closed_by_its_file
        return stream

    for seed in range(2):
        check(Layer(kind, bottom), seed=seed)
        check(stacked([Layer(kind, bottom), SMALL_BUFFER]), seed=seed)
        check(stacked([Layer(kind, bottom), "counting", "zstd"]), seed=seed)


@each_case("above", [[], [SMALL_BUFFER], ["counting", "zstd"]], ids=["alone", "buffer", "zstd"])
@each_case("check", [check_writing, check_write_faults])
def test_files_at_the_bottom(tmp_path, monkeypatch, above, check):
    """The operating system refuses, and takes parts: disk full, I/O error, in every call."""
    made = 0

    def file(faults, share):
        nonlocal made
        made += 1
        monkeypatch.setattr(file_module, "os", os)
        output = LocalFolder(tmp_path).create(str(made), b"")
        monkeypatch.setattr(file_module, "os", RefusingSystem(faults, share))
        return OnDisk(output, (tmp_path / str(made)).read_bytes, faults)

    def temporary(faults, share):
        output = TemporaryOutput()
        monkeypatch.setattr(file_module, "os", RefusingSystem(faults, share))
        return OnDisk(output, lambda: whole(output), faults)

    def whole(output):
        stream = output.input()
        return stream.read(stream.size() + 1)

    for store in (file, temporary):
        check(stacked(above), seed=1, store=store)


@each_case("check", [check_writing, check_write_faults])
def test_memory_at_the_bottom(check):
    def memory(faults, _):
        output = MemoryOutput()
        return OnDisk(output, lambda: bytes(output.data), faults)

    for seed in range(5):
        check(PLAIN, seed=seed, store=memory)


def test_orders_that_make_no_sense():
    forward = layer("zstd").output(FaultyOutput())
    with pytest.raises(UsageError, match=r"BufferRandomOutput needs a RandomOutput below it"):
        BufferRandomOutput(forward)
    with pytest.raises(UsageError, match=r"ZstdInput is none \(it has no readinto, size\)"):
        stacked(["zstd", "read-ahead"]).input(FaultyInput(b""))
    with pytest.raises(UsageError, match=r"ZstdOutput needs a ForwardOutput below it; bytearray"):
        layer("zstd").output(bytearray())
    with pytest.raises(UsageError, match=r"no stream is called 'gzip'; known are buffer, counting"):
        layer("gzip")


@pytest.mark.slow
def test_type_checkers_refuse_them(tmp_path):
    """What is refused when it is built is refused before, where types are checked."""
    code = tmp_path / "stacks.py"
    code.write_text(
        "from tailrace.storage.streams.base import RandomOutput\n"
        "from tailrace.storage.streams.buffer import BufferRandomOutput, buffered_output\n"
        "from tailrace.storage.streams.compression import ZstdInput, ZstdOutput\n"
        "from tailrace.storage.streams.counting import counted_input\n"
        "from tailrace.storage.streams.file import FileInput\n"
        "from tailrace.storage.streams.memory import MemoryInput, MemoryOutput\n"
        "from tailrace.storage.streams.read_ahead import ReadAhead\n"
        "from tailrace.storage.pipe import StandardInput\n"
        "ReadAhead(counted_input(FileInput('x')))\n"
        "ZstdInput(ReadAhead(FileInput('x')))\n"
        "good: RandomOutput = buffered_output(MemoryOutput())\n"
        "ReadAhead(ZstdInput(FileInput('x')))\n"
        "ReadAhead(StandardInput())\n"
        "BufferRandomOutput(ZstdOutput(MemoryOutput()))\n"
        "bad: RandomOutput = buffered_output(ZstdOutput(MemoryOutput()))\n"
        "ZstdOutput(MemoryInput(b''))\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = {int(line.split(":")[1]) for line in run.stdout.splitlines() if ": error:" in line}
    assert wrong == {12, 13, 14, 15, 16}, run.stdout
