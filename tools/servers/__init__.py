"""Real MySQL and MariaDB servers for tests, recordings and benchmarks, without installation."""

from tools.servers.fetch import available, binlog_tool, fetch, prefix
from tools.servers.prefix import (
    NAMES,
    ONE_OF_EACH,
    Flavour,
    Prefix,
    Release,
    ServersUnavailable,
    root_folder,
)
from tools.servers.server import (
    Options,
    Server,
    ServerStartError,
    dies_with_parent,
    free_port,
)

__all__ = [
    "NAMES",
    "ONE_OF_EACH",
    "Flavour",
    "Options",
    "Prefix",
    "Release",
    "Server",
    "ServerStartError",
    "ServersUnavailable",
    "available",
    "binlog_tool",
    "dies_with_parent",
    "fetch",
    "free_port",
    "prefix",
    "root_folder",
]
