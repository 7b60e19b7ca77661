"""`python -m tools.servers fetch [NAME...]` fetches; `... run NAME [OPTION...]` runs one."""

from __future__ import annotations

import sys

from tools.servers import NAMES, Server, ServersUnavailable, fetch


def main(arguments: list[str]) -> int:
    """Run the command; gives the exit status."""
    match arguments:
        case ["fetch", *names]:
            for name in names or NAMES:
                print(fetch(name))
        case ["run", name, *options] if name in NAMES:
            with Server(name, options) as server:
                print(f"{name} {server.version} on {server.host}:{server.port}, user {server.user}")
                print(f"data in {server.data}; Enter or end of input stops it", flush=True)
                sys.stdin.readline()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ServersUnavailable as error:
        sys.exit(f"servers: {error}")
