"""Plugins: observers that other packages install, found by name, and what kinds they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import UsageError
from tailrace.observers.delegate import Delegate, Observer, name_of
from tailrace.observers.log_storage import LogStorageDelegate, LogStorageObserver
from tailrace.observers.relay_io import RelayIoDelegate, RelayIoObserver
from tailrace.observers.transaction import TransactionDelegate, TransactionObserver
from tailrace.observers.transmit import TransmitDelegate, TransmitObserver
from tailrace.plugin import plugin

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUP: Final = "tailrace.observers"
"""Entry points of this group: the name is the plugin's, the object is a factory without
arguments."""

KINDS: Final[dict[type[Observer], str]] = {
    TransactionObserver: "transaction",
    LogStorageObserver: "log storage",
    TransmitObserver: "transmit",
    RelayIoObserver: "relay I/O",
}
"""The kinds of observers, and what errors call them."""

AnyDelegate = TransactionDelegate | LogStorageDelegate | TransmitDelegate | RelayIoDelegate


def find(names: Iterable[str]) -> list[Observer]:
    """Make the plugins with these names, in this order.

    Raises UsageError for a name that no installed package offers, and for an object that is no
    observer of any kind.
    """
    found = []
    for name in names:
        observer = plugin(GROUP, name, "observer")()
        if not (isinstance(observer, Observer) and isinstance(observer, tuple(KINDS))):
            raise UsageError(f"{name} is a {type(observer).__name__}, not an observer of any kind")
        found.append(observer)
    return found


def add(observers: Iterable[Observer], *delegates: AnyDelegate, to: str) -> None:
    """Add each observer, in order, to the delegates of all kinds that it is of.

    Raises UsageError for one that is of none of these kinds: it would never be called. ``to`` says
    in the error what calls them: ``receive``.
    """
    for observer in observers:
        fitting: list[Delegate[Any]] = [
            each for each in delegates if isinstance(observer, each.kind)
        ]
        if not fitting:
            own = [text for kind, text in KINDS.items() if isinstance(observer, kind)]
            called = " and ".join(KINDS[each.kind] for each in delegates)
            raise UsageError(
                f"{name_of(observer)} is "
                + (f"a {' and '.join(own)} observer" if own else "no observer of any kind")
                + f": {to} calls {called} observers only"
            )
        for delegate in fitting:
            delegate.add(observer)
