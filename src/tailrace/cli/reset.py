"""``tailrace reset``: removes a copy of a server's logs, or begins a log again."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tailrace.cli.options import READING, FileName, KeyringFile, Plugins
from tailrace.cli.output import output_to, standard_output
from tailrace.errors import StorageError, UsageError


def reset(
    folder: Annotated[
        FileName,
        Parameter(name="folder", help="The folder of the logs, or an object store's."),
    ],
    /,
    *,
    yes: Annotated[
        bool,
        Parameter(
            name="--yes",
            group=READING,
            negative=(),
            help="Remove the files. Without it, the command only says which they are.",
        ),
    ] = False,
    keyring: KeyringFile = None,
    plugin: Plugins = (),
) -> int:
    """Remove all logs of a folder: of a receiver's copy also what it knows of its source; a log
    that Tailrace wrote begins again with number 1. A server's own log is rejected, and any log
    that is in use.
    """
    from tailrace import append  # noqa: PLC0415 - slow, for this command only
    from tailrace.observers import find  # noqa: PLC0415 - as above
    from tailrace.replication import receiver  # noqa: PLC0415 - as above
    from tailrace.replication.copy.folder import open_folder  # noqa: PLC0415 - as above
    from tailrace.replication.state import STATE_NAME  # noqa: PLC0415 - as above
    from tailrace.writing.recover import scan  # noqa: PLC0415 - as above

    observers = find(plugin)
    opened = open_folder(folder, keyring=keyring)
    logs, is_copy = opened.logs(), STATE_NAME in opened.names()
    if not logs and not is_copy:
        raise UsageError(f"{folder}: no log is in this folder")
    if not is_copy and scan(opened, logs[-1]).in_use:
        raise StorageError(
            f"{opened.path(logs[-1])}: the log is marked as in use, so it is not removed: close its"
            " writer; if that was killed, tailrace.append(...).close() repairs the log first"
        )
    if not yes:
        raise UsageError(
            f"{folder}: {len(logs)} log files would be removed ({logs[0]} to {logs[-1]}); repeat"
            " the command with --yes"
            if logs
            else f"{folder}: the state of a copy would be removed; repeat the command with --yes"
        )
    if is_copy:
        gone, text = receiver.reset(folder, observers=observers), "the next receive begins a copy"
    else:
        with append(folder, keyring=keyring, observers=observers, recovered=lambda _: None) as log:
            gone = log.reset()
            text = f"the log begins again with {log.position.file}"
    output = output_to(standard_output())
    output.line((f"{folder}: {len(gone)} log files removed; {text}", ""))
    output.close()
    return 0
