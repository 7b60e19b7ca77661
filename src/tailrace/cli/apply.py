"""``tailrace apply``: changes of logs carried out in another server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Group, Parameter

from tailrace.cli.options import (  # cyclopts reads them
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
from tailrace.cli.output import output_to, say, standard_output
from tailrace.cli.signals import on_signals
from tailrace.cli.sources import with_servers
from tailrace.live.scheme import names_server
from tailrace.printable import counted

if TYPE_CHECKING:
    from tailrace.generators import EventStream

_APPLY: Final = Group("Apply", sort_key=0)


def apply(
    *sources: Sources,
    to: Annotated[
        str,
        Parameter(
            name="--to",
            metavar="URL",
            group=_APPLY,
            help="Where the changes go: ``mysql://user@host:3306/`` (or ``mariadb://``), or "
            "``postgresql+psycopg://user@host/db``, ``sqlite:///file``.",
        ),
    ],
    channel: Annotated[
        str,
        Parameter(
            name="--channel",
            metavar="NAME",
            group=_APPLY,
            help="The name under which the server keeps how far it has come; sources that are "
            "applied to one server have different ones.",
        ),
    ] = "default",
    table: Annotated[
        str,
        Parameter(
            name="--table",
            metavar="DATABASE.NAME",
            group=_APPLY,
            help="The table in which it keeps that; it is created.",
        ),
    ] = "tailrace.applied",
    conflicts: Annotated[
        Literal["stop", "skip", "overwrite"],
        Parameter(
            name="--conflicts",
            metavar="stop|skip|overwrite",
            group=_APPLY,
            help="What to do where a row has a key that is there, or is not there: ``stop`` "
            "(default), ``skip`` the change, or ``overwrite`` what is there.",
        ),
    ] = "stop",
    workers: Annotated[
        int,
        Parameter(
            name="--workers",
            metavar="N",
            group=_APPLY,
            help="Transactions that a server executes at a time, where the log says that they do "
            "not depend on each other (default 1, 32 at most).",
        ),
    ] = 1,
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
    """Carry out the changes of logs in another server.

    Ctrl-C and SIGTERM end it after a transaction, once all that was read is applied; a second
    signal ends it at once.
    """
    from tailrace.applier.applier import apply as run  # noqa: PLC0415 - with PyMySQL
    from tailrace.live.url import Source as Url  # noqa: PLC0415 - as above

    def started(stream: EventStream) -> None:
        streams.append(stream)
        say(f"applying to {Url.parse(to).name if names_server(to) else to.partition(':')[0]}")
        if ending.numbers:
            stream.stop()

    def stop() -> None:
        for stream in streams:
            stream.stop()

    streams: list[EventStream] = []
    with on_signals(stop) as ending:
        done = run(
            with_servers(sources, follow=follow, skip_torn_tail=skip_torn_tail),
            to,
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
            channel=channel,
            table=table,
            conflicts=conflicts,
            workers=workers,
            on_start=started,
        )
    earlier = f", {done.skipped:,} were applied earlier" if done.skipped else ""
    output = output_to(standard_output())
    transactions = counted(done.transactions, "transaction")
    output.line((f"{transactions} applied{earlier}; up to {done.position}", ""))
    output.close()
    return ending.status
