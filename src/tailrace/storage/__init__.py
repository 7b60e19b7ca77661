"""Where logs are kept, and how their bytes are read."""

from tailrace.storage.file import LogFile, LogSeries
from tailrace.storage.files import find, find_all
from tailrace.storage.reader import EventReader

__all__ = ["EventReader", "LogFile", "LogSeries", "find", "find_all"]
