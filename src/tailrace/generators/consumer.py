"""Consumers, and their registrations (MWL#120, "Event consumer callbacks")."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

if TYPE_CHECKING:
    from tailrace.generators.event import ReplicationEvent
    from tailrace.generators.generator import Generator

OnError = Literal["stop", "drop"]
"""What an error of a consumer does: it ends the stream, or the consumer's registration."""


class Consumer:
    """The base of consumers. A consumer derives from the interface of one generator.

    It overrides the methods of the events that it wants: only these are called. An event goes to
    the most specific of them, else to `event`. What the methods return is ignored; they raise.
    """

    _is_interface: ClassVar[bool] = True

    def __new__(cls, *_given: Any, **_named: Any) -> Any:
        """Raises TypeError for an interface, which is no consumer by itself."""
        if cls._is_interface:
            raise TypeError(f"{cls.__name__} is an interface: make a class that derives from it")
        return super().__new__(cls)

    def __init_subclass__(cls, *, interface: bool = False, **kwargs: Any) -> None:
        """``interface`` is True for the interface of a generator."""
        super().__init_subclass__(**kwargs)
        cls._is_interface = interface

    @classmethod
    def overrides(cls, name: str) -> bool:
        """Whether the class has a method of its own, not only that of an interface."""
        for kind in cls.__mro__:
            if name in vars(kind):
                return not vars(kind).get("_is_interface", False)
        return False

    def event(self, event: ReplicationEvent, /) -> object:
        """Any event for which the consumer has no method of its own."""


@dataclass(eq=False, slots=True)
class Registration:
    """A consumer that is registered with a generator; `Generator.register` makes it."""

    consumer: Consumer
    generator: Generator
    on_error: OnError
    active: bool = True
    """Whether the consumer is still told of events."""
    error: Exception | None = None
    """The error for which it was dropped."""
    rollbacks: InitVar[bool] = True
    wants_rollbacks: bool = field(init=False)
    """Whether it is told what was rolled back: its consumer has the method ``trx_rollback``, and
    was registered with ``rollbacks``.
    """

    def __post_init__(self, rollbacks: bool) -> None:
        self.wants_rollbacks = rollbacks and self.consumer.overrides("trx_rollback")

    def method_for(self, kind: type[ReplicationEvent]) -> Any:
        """The consumer's most specific method for a kind of events; None if it has none, and if
        events of that kind come from a generator above.
        """
        interface, consumer = self.generator.interface, self.consumer
        names = [
            name
            for base in kind.__mro__
            if (name := vars(base).get("name", "")) and hasattr(interface, name)
        ]
        if names and not kind.is_batch:
            names.append("event")
        found = next((name for name in names if consumer.overrides(name)), None)
        return None if found is None else getattr(consumer, found)

    def cancel(self) -> None:
        """End the registration. From a callback too: the consumer is told of nothing more, but for
        the event that another thread is telling it of meanwhile.

        Raises UsageError if it has ended already.
        """
        self.generator.stack.deregister(self)


def name_of(consumer: object) -> str:
    """A consumer in errors: its class."""
    kind: Final = type(consumer)
    return f"{kind.__module__}.{kind.__qualname__}"
