"""Replication observers: what plugins are notified of, and the delegates that notify them
(WL#4398).
"""

from tailrace.observers.delegate import INTERFACE_VERSION, Delegate, Observer
from tailrace.observers.log_storage import (
    LogStorageDelegate,
    LogStorageFlag,
    LogStorageIo,
    LogStorageObserver,
)
from tailrace.observers.plugins import add, find
from tailrace.observers.relay_io import (
    ConnectionService,
    RelayFlag,
    RelayIo,
    RelayIoDelegate,
    RelayIoObserver,
)
from tailrace.observers.transaction import (
    TransactionDelegate,
    TransactionFlag,
    TransactionIo,
    TransactionObserver,
)
from tailrace.observers.transmit import (
    Packets,
    ReplicaService,
    TransmitDelegate,
    TransmitIo,
    TransmitObserver,
)
from tailrace.observers.variables import UserVariables

__all__ = [
    "INTERFACE_VERSION",
    "ConnectionService",
    "Delegate",
    "LogStorageDelegate",
    "LogStorageFlag",
    "LogStorageIo",
    "LogStorageObserver",
    "Observer",
    "Packets",
    "RelayFlag",
    "RelayIo",
    "RelayIoDelegate",
    "RelayIoObserver",
    "ReplicaService",
    "TransactionDelegate",
    "TransactionFlag",
    "TransactionIo",
    "TransactionObserver",
    "TransmitDelegate",
    "TransmitIo",
    "TransmitObserver",
    "UserVariables",
    "add",
    "find",
]
