"""Where logs are kept, and how their bytes are read and written: WL#10956's names, and what is
below them. `docs/guide/streams.md` has an example of each.
"""

from tailrace.storage.binlog_cache import BinlogCache
from tailrace.storage.binlog_file import BinlogFile
from tailrace.storage.encryption import EncryptedFolder
from tailrace.storage.event_streams import EventData, Events
from tailrace.storage.file import LogFile, LogSeries
from tailrace.storage.files import find, find_all
from tailrace.storage.local import LocalFolder, LocalStore
from tailrace.storage.memory import MemoryFolder, memory_folder
from tailrace.storage.pipe import StandardInput
from tailrace.storage.reader import EventReader
from tailrace.storage.store import Store, WritableStore
from tailrace.storage.streams.base import (
    ForwardOutput,
    InputFile,
    InputStream,
    OutputStream,
    RandomInput,
    RandomOutput,
    SeekableInput,
)
from tailrace.storage.streams.file import FileInput, FileOutput
from tailrace.storage.streams.layer import Layer, layer, stacked
from tailrace.storage.streams.memory import MemoryInput, MemoryOutput

__all__ = [
    "BinlogCache",
    "BinlogFile",
    "EncryptedFolder",
    "EventData",
    "EventReader",
    "Events",
    "FileInput",
    "FileOutput",
    "ForwardOutput",
    "InputFile",
    "InputStream",
    "Layer",
    "LocalFolder",
    "LocalStore",
    "LogFile",
    "LogSeries",
    "MemoryFolder",
    "MemoryInput",
    "MemoryOutput",
    "OutputStream",
    "RandomInput",
    "RandomOutput",
    "SeekableInput",
    "StandardInput",
    "Store",
    "WritableStore",
    "find",
    "find_all",
    "layer",
    "memory_folder",
    "stacked",
]
