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
        case ["run", _, *options] if any(each.startswith("--port") for each in options):
            print("leave --port out: a free port is chosen and printed", file=sys.stderr)
            return 2
        case ["run", name, *options] if name in NAMES:
            with Server(name, options) as server:
                print(f"{name} {server.version} on {server.host}:{server.port}, user {server.user}")
                print(f"connect: mysql -h {server.host} -P {server.port} -u {server.user}")
                print(f"data in {server.data}; Enter, Ctrl-C or end of input stops the server and")
                print("deletes the data", flush=True)
                sys.stdin.readline()
        case _:
            print(f"{__doc__}\nNames: {', '.join(NAMES)}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except ServersUnavailable as error:
        sys.exit(f"servers: {error}")
