"""The source of the campaign of mutated logins, in a process of its own.

It prints its port, and for each line that it reads, how many clients it has.
"""

from __future__ import annotations

import logging
import sys

import tailrace
from tailrace.replication.source.listener import Limits


def main(logs: str, users: str, seconds: str, cert: str = "", key: str = "") -> None:
    """Serve until standard input ends."""
    logging.disable()  # a line for each
    limits = Limits(failures=1 << 60, seconds=float(seconds))
    with tailrace.serve(
        logs, server_id=99, users=users, tls_cert=cert or None, tls_key=key or None, limits=limits
    ) as server:
        print(server.port, flush=True)
        for _ in sys.stdin:
            print(len(server.sessions) + server.pending_logins, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
