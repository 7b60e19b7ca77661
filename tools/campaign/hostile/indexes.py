"""Mutated files next to a log: its index, ``binlog.~rec~``, ``receiver.json``, drafts and links.

Each is read, appended to, purged and received into, as the folder of a copy that came from others.
"""

from __future__ import annotations

import random
import warnings
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import tailrace
from tailrace.errors import TailraceError
from tailrace.log_name import LogName
from tailrace.storage.memory import memory_folder
from tailrace.storage.purge import purge
from tools.campaign.hostile.cli import said
from tools.campaign.hostile.naming import Names, NamingServer, events_of
from tools.campaign.hostile.scenario import Scenario, flipped, outside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LINES: Final = (
    *("{outside}/authorized_keys", "{outside}/x.000001", "../outside/x.000001", "../outside/"),
    *("../outside/victim/binlog.000001", "{outside}/binlog.000001", "./../outside/x.000001"),
    *(".\\..\\outside\\x.000001", "./receiver.json", "./binlog.index", "./keys", "keys", ".", ".."),
    *("./other.000001", "./binlog.000001/../../outside/x.000001", "\x1b[2J.000001", "./binlog.0"),
    *("./binlog.000001\r", "./binlog.000001\x0b../outside/x.000001", "./binlog.\x00", "binlog"),
    *(
        "x" * 5000,
        "./" + "x" * 251 + ".000001",
        "./binlog." + "9" * 300,
        "\udcff.000001",
        "/" * 999,
    ),
    *("/dev/zero", "/dev/stdin", "/proc/self/mem", "/proc/self/fd/0.000001", "./fifo.000001"),
)
"""Lines of an index, or of a register; ``{outside}`` is a folder that is not ours."""
_STATES: Final = (
    *("", "{}", "[]", "null", "5", '{"version": 2}', "[" * 50_000, '{"version": 1' + " " * 99),
    *('{"version": 1, "uuid": "../x", "encrypted": false, "base": "../outside/x"}',),
    *('{"version": 1, "uuid": "x", "encrypted": false, "base": "/tmp/x"}',),
    *('{"version": 1, "uuid": "x", "encrypted": true}',),
    *('{"version": 1, "uuid": "\'; DROP", "encrypted": false, "server_id": -1}',),
    *('{"version": 1, "uuid": "x", "encrypted": false, "server_id": 99999999999999999999}',),
    *('{"version": 1, "uuid": "x", "encrypted": false, "flavour": "oracle"}',),
    *('{"version": 1, "uuid": "x", "encrypted": false, "mark": {"file": 1}}',),
    *(
        '{"version": 1, "uuid": "x", "encrypted": false, "base": "binlog", "mark": '
        f'{{"file": "binlog.000002", "offset": {offset}, "begun": {begun}, "last": {last}}}}}'
        for offset, begun, last in ((-1, 4, 4), (5, -9, 999), (10**30, 4, 4), (120, 10**30, -1))
    ),
    *('{"version": 1, "uuid": "x", "encrypted": false, "mark": {"file": "a", "offset": NaN}}',),
)
_LINKS: Final = (
    *("binlog.000002", "binlog.000003", "binlog.000003.new", "binlog.index", "binlog.index.new"),
    *("binlog.~rec~", "receiver.json", "receiver.json.new", "receiver.lock", "binlog.000001.idx"),
)
_PIECES: Final = (b"../", b"/", b"\n", b"\0", b"\x1b[2J", b"..", b"\\", b'"')
_FILES: Final = ("binlog.index", "binlog.~rec~", "receiver.json")


def scenarios(size: str, seed: int) -> Iterator[Scenario]:
    """Lines and files that were thought of, and, as drawn by the seed, bytes that were not."""
    for number, file in enumerate(_FILES[:2]):
        for line in _LINES if size == "full" else _LINES[number::2]:
            for where in ("alone", "first", "last") if size == "full" else ("last",):
                yield Scenario(
                    f"{file}, {where}: {line!r:.50}", partial(_lined, file, where, line), seconds=20
                )
    for state in _STATES:
        yield Scenario(f"receiver.json: {state!r:.60}", partial(_stated, state), seconds=20)
    for link in _LINKS:
        yield Scenario(f"a link: {link}", partial(_linked, link), seconds=20)
    yield Scenario("an index of 100 MB", _large, seconds=20)
    for number in range(800 if size == "full" else 12):
        file = _FILES[number % len(_FILES)]
        yield Scenario(
            f"{file}, drawn {number}", partial(_drawn, file, seed * 1_000_003 + number), seconds=20
        )


@cache
def logs() -> dict[str, bytes]:
    """Two files of one log, and the index, of a server that is still writing the second."""
    with tailrace.create("memory:indexes/binlog.000001", flavour="mysql", server_id=77) as log:
        table = tailrace.Table.parse("CREATE TABLE shop.t (id INT PRIMARY KEY)", flavour="mysql")
        for number in range(4):
            with log.transaction() as transaction:
                transaction.insert(table, [(number,)])
            if number == 1:
                log.rotate()
    folder = memory_folder("indexes")
    return {name: folder.read(name, 0, folder.size(name)) for name in folder.names()}


_STATE: Final = (
    b'{"version": 1, "uuid": "6f0c0b1e-0000-4000-8000-000000000001", "server_id": 4242,'
    b' "source_uuid": "11111111-2222-3333-4444-555555555555", "source_id": 77, "flavour": "mysql",'
    b' "base": "binlog", "encrypted": false, "mark": null}\n'
)


def _copy(folder: Path) -> Path:
    """A copy of the log, as a receiver left it, and files of others in its folder."""
    copy = folder / "copy"
    copy.mkdir()
    for name, content in logs().items():
        (copy / name).write_bytes(content)
    (copy / "receiver.json").write_bytes(_STATE)
    for name in ("keys", "other.000001"):
        (copy / name).write_text("not yours")
    return copy


def _lined(file: str, where: str, line: str, folder: Path) -> None:
    copy = _copy(folder)
    names = ["./binlog.000001", "./binlog.000002"]
    if "~rec~" in file:
        names = ["./binlog.000000"]
    hostile = line.replace("{outside}", str(outside(folder)))
    lines = {"alone": [hostile], "first": [hostile, *names], "last": [*names, hostile]}[where]
    text = "".join(f"{each}\n" for each in lines)
    (copy / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    _use(copy)


def _stated(state: str, folder: Path) -> None:
    copy = _copy(folder)
    (copy / "receiver.json").write_text(state)
    _use(copy)


def _linked(link: str, folder: Path) -> None:
    copy = _copy(folder)
    (copy / link).unlink(missing_ok=True)
    (copy / link).symlink_to(outside(folder) / "binlog.000001")
    _use(copy)
    (copy / link).unlink(missing_ok=True)
    (copy / link).symlink_to(outside(folder) / "not there")
    _use(copy)


def _large(folder: Path) -> None:
    copy = _copy(folder)
    (copy / "binlog.index").write_bytes(b"./binlog.000001\n" * (100 << 16))
    _use(copy)


def _drawn(file: str, seed: int, folder: Path) -> None:
    copy = _copy(folder)
    path = copy / file
    content = path.read_bytes() if path.exists() else b"./binlog.000000\n./binlog.000001\n"
    path.write_bytes(flipped(content, random.Random(seed), _PIECES))
    _use(copy)


def _use(copy: Path) -> None:
    """All that is done with such a folder; each may be rejected, by one error of the tree."""
    mine = {path: path.read_bytes() for path in (copy / "keys", copy / "other.000001")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for use in (_read, _purge, _append, _receive):
            with suppress(TailraceError):
                use(copy)
    for path, content in mine.items():
        assert path.read_bytes() == content, f"{path.name} was touched"
    for path in copy.iterdir():
        known = path in mine or path.name in {*_FILES, "receiver.lock"} or LogName.parse(path.name)
        assert known or path.name in _LINKS, f"{path.name!r} was made"


def _read(copy: Path) -> None:
    said("log", copy)
    said("stat", copy / "binlog.index")


def _receive(copy: Path) -> None:
    events = events_of(logs()["binlog.000001"])
    with NamingServer(events, Names(listed=b"binlog.000002")) as server:
        said("receive", server.address, "--into", copy, "--retain", "1kB")


def _purge(copy: Path) -> None:
    purge(copy, to="binlog.000002")


def _append(copy: Path) -> None:
    table = tailrace.Table.parse("CREATE TABLE shop.t (id INT PRIMARY KEY)", flavour="mysql")
    with tailrace.append(copy / "binlog.index") as log, log.transaction() as transaction:
        transaction.insert(table, [(99,)])
