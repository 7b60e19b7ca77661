"""``tailrace index``: the text of tables in a full-text index."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Group, Parameter

from tailrace.cli.options import (  # cyclopts reads them
    READING,
    Exclude,
    FileName,
    Follow,
    KeyringFile,
    Layers,
    LowerCaseNames,
    SchemaFile,
    SkipChecksums,
    Sources,
    Tables,
    Until,
    patterns,
)
from tailrace.cli.output import cut_to_width, live_on_stderr, output_to, say, standard_output
from tailrace.cli.signals import on_signals
from tailrace.cli.sources import with_servers
from tailrace.errors import MissingExtra, UsageError
from tailrace.extras import importing
from tailrace.live.scheme import names_server
from tailrace.printable import counted
from tailrace.storage.objects.url import names_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.log.rows import Items
    from tailrace.search import Indexed

_INDEX: Final = Group("Index", sort_key=0)
_LINE_SECONDS: Final = 10.0
"""Seconds between lines of progress without a terminal."""


def index(
    source: Sources,
    /,
    *,
    into: Annotated[
        FileName,
        Parameter(
            name="--into",
            metavar="INDEX",
            group=_INDEX,
            help="The index: a folder, new or existing; with ``--shards`` also a URL in an object "
            "store. Its tables and the four options below are fixed when it is made.",
        ),
    ],
    language: Annotated[
        str | None,
        Parameter(
            name="--language",
            metavar="NAME",
            group=_INDEX,
            help="Find a word in all its forms in this language, such as ``english``.",
        ),
    ] = None,
    shortest: Annotated[
        int,
        Parameter(
            name="--shortest",
            metavar="N",
            group=_INDEX,
            help="Characters of the shortest word that is found (default 3).",
        ),
    ] = 3,
    longest: Annotated[
        int,
        Parameter(
            name="--longest",
            metavar="N",
            group=_INDEX,
            help="Characters of the longest word that is found (default 84).",
        ),
    ] = 84,
    stop_words: Annotated[
        str | None,
        Parameter(
            name="--stop-words",
            metavar="WORDS",
            group=_INDEX,
            help="Words that are not found, with commas; empty for none. The default is MySQL's "
            "list.",
        ),
    ] = None,
    shards: Annotated[
        int | None,
        Parameter(
            name="--shards",
            metavar="N",
            group=_INDEX,
            help="Make the index on Spark, in N shards, each by a task (extra ``spark``).",
        ),
    ] = None,
    work: Annotated[
        str | None,
        Parameter(
            name="--work",
            metavar="DIR",
            group=_INDEX,
            help="With ``--shards``: a folder that driver and tasks share, for a copy of the log "
            "(default: in the index, or a temporary one).",
        ),
    ] = None,
    tables: Tables = (),
    exclude: Exclude = (),
    until: Until = None,
    follow: Follow = False,
    statements: Annotated[
        Literal["error", "skip"],
        Parameter(
            name="--statements",
            metavar="error|skip",
            group=READING,
            help="What to do about changes that were logged as statements, whose rows the log does "
            "not have: ``error`` (default) or ``skip``.",
        ),
    ] = "error",
    schema: SchemaFile = None,
    lower_case_table_names: LowerCaseNames = None,
    keyring: KeyringFile = None,
    layers: Layers = (),
    skip_checksums: SkipChecksums = False,
) -> int:
    """Index the text of tables, and follow their changes."""
    with importing("search", "an index"):
        from tailrace.search.analysis import STOP_WORDS, Analyser  # noqa: PLC0415 - takes a while
        from tailrace.search.feed import index as run  # noqa: PLC0415 - as above

    if shards is None and work is not None:
        raise UsageError("--work is for an index on Spark: give --shards N")
    if not into:
        raise UsageError("--into is empty: give a folder")
    given = None if stop_words is None else {each.strip() for each in stop_words.split(",")}
    words = STOP_WORDS if given is None else frozenset(given - {""})
    chosen = Analyser(language, shortest, longest, words)
    if shards is not None or _is_lake(str(source)):
        if until is not None or layers:
            raise UsageError("--until and --layers are not for a lake or an index on Spark")
        return _on_spark(
            str(source),
            into,
            shards=1 if shards is None else shards,
            work=work,
            tables=patterns(tables) or None,
            exclude=patterns(exclude) or None,
            follow=follow,
            schema=schema,
            lower_case_table_names=lower_case_table_names,
            keyring=keyring,
            verify_checksums=not skip_checksums,
            statements=statements,
            analyser=chosen,
        )
    reading: list[Items] = []

    def started(items: Items) -> None:
        reading.append(items)
        if follow:
            say(f"following the log into {into}")
        if ending.numbers:
            items.stop()

    def stop() -> None:
        for each in reading:
            each.stop()

    with _shown() as show, on_signals(stop) as ending:
        (log,) = with_servers([str(source)], follow=follow)
        done = run(
            log,
            into,
            tables=patterns(tables) or None,
            exclude=patterns(exclude) or None,
            until=until,
            follow=follow,
            schema=schema,
            lower_case_table_names=lower_case_table_names,
            keyring=keyring,
            layers=layers or None,
            verify_checksums=not skip_checksums,
            statements=statements,
            analyser=chosen,
            on_start=started,
            on_progress=lambda so_far: show(_progress(so_far)),
        )
    _print(done)
    return ending.status


def _is_lake(source: str) -> bool:
    """Whether it is one; Spark's packages are not imported for what cannot be."""
    path = Path(source)
    if names_server(source) or names_object(source):
        return False
    if path.exists() and not (path / "_tailrace").exists():
        return False
    try:
        from tailrace.spark.lake.reading import LakeView  # noqa: PLC0415 - takes a while
    except MissingExtra:
        if path.exists():
            raise
        return False
    return LakeView.is_there(source)


def _on_spark(source: str, into: str, **options: Any) -> int:
    """The index in shards."""
    from tailrace.spark.search import index as run  # noqa: PLC0415 - takes a while

    stop = threading.Event()
    with _shown() as show, on_signals(stop.set) as ending:
        done = run(
            source,
            into,
            stop=stop,
            on_progress=lambda so_far: show(_progress(so_far)),
            **options,
        )
    _print(done)
    return ending.status


def _print(done: Indexed) -> None:
    output = output_to(standard_output())
    output.line((_progress(done), ""))
    output.close()
    if done.skipped:
        say(
            f"{counted(done.skipped, 'change')} that were logged as statements were skipped: the"
            " index lacks what they changed; set binlog_format=ROW on the source, and build the"
            " index again"
        )


@contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """The progress as one line on a terminal, else as lines; both on stderr."""
    if sys.stderr.isatty():
        with live_on_stderr() as live:
            yield lambda text: live.update(cut_to_width(text))
        return
    told = time.monotonic()

    def show(text: str) -> None:
        nonlocal told
        if time.monotonic() - told >= _LINE_SECONDS:
            told = time.monotonic()
            say(text)

    yield show


def _progress(done: Indexed) -> str:
    return (
        f"{counted(done.rows, 'row')} indexed in {counted(done.transactions, 'transaction')}; "
        f"up to {done.position}"
    )
