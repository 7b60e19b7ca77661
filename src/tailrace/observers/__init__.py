"""Replication observers: what plugins are notified of, and the delegates that notify them
(WL#4398).
"""

from tailrace.observers.delegate import Delegate, RelayIoDelegate
from tailrace.observers.relay_io import ConnectionService, RelayFlag, RelayIo, RelayIoObserver, find

__all__ = [
    "ConnectionService",
    "Delegate",
    "RelayFlag",
    "RelayIo",
    "RelayIoDelegate",
    "RelayIoObserver",
    "find",
]
