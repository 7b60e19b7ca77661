"""``tailrace tap``: tells a consumer of the changes in logs."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter

from tailrace.cli.options import (
    Exclude,
    Follow,
    KeyringFile,
    Layers,
    LowerCaseNames,
    SchemaFile,
    SkipChecksums,
    SkipTornTail,
    Sources,
    Start,
    Tables,
    Until,
    patterns,
)
from tailrace.cli.output import log_said, output_to, say, standard_output
from tailrace.cli.signals import until_stopped
from tailrace.cli.sources import with_servers
from tailrace.errors import TailraceError, UsageError
from tailrace.generators import Consumer, EventStream, RowConsumer
from tailrace.observers.delegate import failed

if TYPE_CHECKING:
    from tailrace.cli.output import Output
    from tailrace.generators import Generator, Registration, ReplicationEvent

_CONSUME: Final = Group("Consume", sort_key=0)


def tap(
    *sources: Sources,
    consumer: Annotated[
        str | None,
        Parameter(
            name="--consumer",
            metavar="PACKAGE:CLASS",
            group=_CONSUME,
            help="The consumer, a class that is made without arguments. Packages are looked for "
            "in the current folder, too. It registers with the uppermost generator whose interface "
            "it derives from. If it has a method ``close``, that is called at the end. Without "
            "this option, events are printed.",
        ),
    ] = None,
    generator: Annotated[
        tuple[str, ...],
        Parameter(
            name="--generator",
            metavar="NAME",
            group=_CONSUME,
            negative=(),
            help="A generator of another package, to be on top of the others.",
        ),
    ] = (),
    tables: Tables = (),
    exclude: Exclude = (),
    start: Start = None,
    until: Until = None,
    follow: Follow = False,
    schema: SchemaFile = None,
    lower_case_table_names: LowerCaseNames = None,
    keyring: KeyringFile = None,
    layers: Layers = (),
    skip_checksums: SkipChecksums = False,
    skip_torn_tail: SkipTornTail = False,
) -> int:
    """Tell a consumer of the transactions, statements and rows in logs."""
    out = standard_output()
    made = _Printer(output_to(out)) if consumer is None else made_consumer(consumer)
    stream = EventStream(
        with_servers(sources, follow=follow, skip_torn_tail=skip_torn_tail),
        start=start,
        until=until,
        follow=follow,
        tables=patterns(tables) or None,
        exclude=patterns(exclude) or None,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers or None,
        verify_checksums=not skip_checksums,
        also=generator,
    )
    with stream, log_said(say):
        register(stream, made)
        try:
            with until_stopped(stream) as ending:
                stream.run()
        finally:
            try:
                _close(made)
            finally:
                told = stream.stack.counts["transaction"].taken
                if told and stream.position.file:
                    at = f"; GTIDs {stream.gtids}" if stream.gtids is not None else ""
                    say(f"told of what is before {stream.position}{at}")
    return ending.status


def _close(consumer: Consumer) -> None:
    close = getattr(consumer, "close", None)
    try:
        if callable(close):
            close()
    except TailraceError:
        raise
    except Exception as error:
        if isinstance(error, BrokenPipeError) and isinstance(consumer, _Printer):
            raise  # nobody reads standard output any more
        raise failed(consumer, "close", error) from error


def made_consumer(name: str) -> Consumer:
    """A consumer, by the import path of its class. Raises UsageError."""
    module, colon, attribute = name.partition(":")
    if not module or not colon or not attribute:
        raise UsageError(f"--consumer is PACKAGE:CLASS, as audit:Audit, and not {name!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for each in attribute.split("."):
            found = getattr(found, each)
    except Exception as error:
        raise UsageError(f"--consumer {name}: {_text(error)}") from error
    if not (isinstance(found, type) and issubclass(found, Consumer)):
        raise UsageError(
            f"--consumer {name}: it derives from none of the consumers' interfaces, as"
            " tailrace.generators.RowConsumer"
        )
    try:
        made: Consumer = found()
    except Exception as error:
        raise UsageError(
            f"--consumer {name}: it cannot be made without arguments: {_text(error)}"
        ) from error
    return made


def _text(error: Exception) -> str:
    own = isinstance(error, (ImportError, AttributeError, TypeError))
    return str(error) if own else f"{type(error).__name__}: {error}"


def register(stream: EventStream, consumer: Consumer) -> Registration:
    """Register a consumer with the uppermost generator whose interface it derives from."""
    generators: list[Generator] = list(stream.stack)
    for each in reversed(generators):
        if isinstance(consumer, each.interface):
            return each.register(consumer)
    raise UsageError(
        f"{type(consumer).__name__} derives from no interface of a generator here"
        f" ({', '.join(each.name for each in generators)}): --generator NAME adds one"
    )


class _Printer(RowConsumer):
    """Prints each event, with the accessors that its source can tell."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def event(self, event: ReplicationEvent) -> None:
        """Print a line."""
        told = [
            f"{name}={value!r}"
            for name, value in event.values().items()
            if value not in (None, ()) and name not in {"position", "modified_tables"}
        ]
        at = "" if event.position is None else f"{event.position} "
        self._output.line((at, "place"), (event.name, "file"), (f" {' '.join(told)}", ""))

    def trx_commit(self, event: ReplicationEvent) -> None:
        """Print it, and what was not written out yet."""
        self.event(event)
        self._output.close()

    def close(self) -> None:
        """Write out the rest."""
        self._output.close()
