"""Three ways by which real servers take log files: tool and client, relay log, a source's index."""

from tools.applied.contents import differences, same_tables
from tools.applied.relay import as_relay_log
from tools.applied.serve import address, follow, insert_files, leave, replicate
from tools.applied.status import ApplyFailed
from tools.applied.target import forget, gtid_mode
from tools.applied.tool import by_tool

__all__ = [
    "ApplyFailed",
    "address",
    "as_relay_log",
    "by_tool",
    "differences",
    "follow",
    "forget",
    "gtid_mode",
    "insert_files",
    "leave",
    "replicate",
    "same_tables",
]
