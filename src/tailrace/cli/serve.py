"""``tailrace serve``: a replication source for replicas of MySQL and MariaDB."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Group, Parameter

from tailrace.cli.options import (  # noqa: TC001 - cyclopts reads them
    FileName,
    KeyringFile,
    Layers,
    Plugins,
)
from tailrace.cli.output import log_said, say
from tailrace.cli.signals import on_signals
from tailrace.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.replication.source.series import ServedLogs

_SERVE: Final = Group("Serve", sort_key=0)
_LOOK_SECONDS: Final = 0.5


def serve(
    source: Annotated[
        FileName,
        Parameter(
            name="source",
            help="The logs: a folder, an index file, or a URL such as ``s3://bucket/logs``.",
        ),
    ],
    /,
    *,
    listen: Annotated[
        str,
        Parameter(
            name="--listen",
            metavar="HOST:PORT",
            group=_SERVE,
            help="Where to listen; ``*:3306`` is port 3306 on all addresses, port 0 a free one.",
        ),
    ],
    server_id: Annotated[
        int,
        Parameter(
            name="--server-id",
            metavar="NUMBER",
            group=_SERVE,
            help="The source's server id, which no replica may have.",
        ),
    ],
    user: Annotated[
        str | None,
        Parameter(
            name="--user",
            metavar="NAME",
            group=_SERVE,
            help="The user as which clients log in; the password is read from "
            "``TAILRACE_SERVE_PASSWORD``.",
        ),
    ] = None,
    users: Annotated[
        FileName | None,
        Parameter(
            name="--users",
            metavar="FILE",
            group=_SERVE,
            help="A file of users instead: on each line a name, a method "
            "(``caching_sha2_password``, ``mysql_native_password``, ``ed25519``) and the stored "
            "password, as in ``mysql.user``; hexadecimal after ``0x``.",
        ),
    ] = None,
    tls_cert: Annotated[
        FileName | None,
        Parameter(
            name="--tls-cert",
            metavar="FILE",
            group=_SERVE,
            help="The certificate for TLS, in PEM form, with those of its authorities.",
        ),
    ] = None,
    tls_key: Annotated[
        FileName | None,
        Parameter(
            name="--tls-key",
            metavar="FILE",
            group=_SERVE,
            help="The certificate's private key, in PEM form.",
        ),
    ] = None,
    allow_plain: Annotated[
        bool,
        Parameter(
            name="--allow-plain",
            group=_SERVE,
            negative=(),
            help="Let clients of other machines log in without TLS: others on the network can then "
            "read the logs.",
        ),
    ] = False,
    server_version: Annotated[
        str | None,
        Parameter(
            name="--server-version",
            metavar="TEXT",
            group=_SERVE,
            help="The version that the source says it has; by default that of the server that "
            "wrote the newest log.",
        ),
    ] = None,
    server_uuid: Annotated[
        str | None,
        Parameter(
            name="--server-uuid",
            metavar="UUID",
            group=_SERVE,
            help="The source's UUID; by default one that is made of its server id.",
        ),
    ] = None,
    gtid_mode: Annotated[
        Literal["on", "off"] | None,
        Parameter(
            name="--gtid-mode",
            metavar="on|off",
            group=_SERVE,
            help="The GTID mode that a source of MySQL says it has: ``on`` for logs that hold no "
            "transaction yet, and will have GTIDs; by default whether the logs have GTIDs.",
        ),
    ] = None,
    wait: Annotated[
        bool,
        Parameter(
            name="--wait",
            group=_SERVE,
            negative=(),
            help="Wait for the first log, as in a folder that a receiver is about to fill.",
        ),
    ] = False,
    plugin: Plugins = (),
    keyring: KeyringFile = None,
    layers: Layers = (),
) -> int:
    """Serve logs to replicas, as a replication source."""
    from tailrace.observers import find  # noqa: PLC0415 - only where it is needed
    from tailrace.replication.source import series  # noqa: PLC0415 - as above
    from tailrace.replication.source import server as source_server  # noqa: PLC0415 - as above
    from tailrace.storage.keyring import open as open_keyring  # noqa: PLC0415 - as above

    if source.lower().startswith(("mysql:", "mariadb:")):
        raise UsageError(
            "a server is not served: `tailrace receive --follow` copies its logs into a folder,"
            " which is"
        )
    keys = None if keyring is None else open_keyring(keyring)  # not there yet: no wait for it
    stop = Event()
    given = find(plugin)
    with log_said(say), on_signals(stop.set, second="stop") as ending:
        logs = _opened(
            partial(series.ServedLogs, source, keyring=keys, layers=layers or None),
            stop if wait else None,
        )
        if logs is None:
            return ending.status
        with source_server.serve(
            logs,
            server_id=server_id,
            listen=listen,
            user=user,
            users=users,
            tls_cert=tls_cert,
            tls_key=tls_key,
            allow_plain=allow_plain,
            server_version=server_version,
            server_uuid=server_uuid,
            gtid_mode=None if gtid_mode is None else gtid_mode == "on",
            observers=given,
        ) as server:
            say(
                f"serving {source} at {listen.rpartition(':')[0]}:{server.port} as {server.flavour}"
                f" {server.version}, server id {server_id}"
            )
            while not stop.wait(_LOOK_SECONDS):
                pass
    return ending.status


def _opened(open_logs: Callable[[], ServedLogs], stop: Event | None) -> ServedLogs | None:
    """The logs; with ``stop``, as soon as there is one with a whole event, or None after it.

    Says why it waits.
    """
    said = ""
    while stop is None or not stop.is_set():
        try:
            return open_logs()
        except StorageError as error:
            if stop is None:
                raise
            if str(error) != said:
                said = str(error)
                say(f"waiting for the first log: {said}")
            stop.wait(_LOOK_SECONDS)
    return None
