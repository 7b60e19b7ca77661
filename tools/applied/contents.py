"""Whether two servers hold the same tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.dumps import dump_table, quoted, tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from tools.servers import Server


def differences(
    one: Server,
    other: Server,
    *databases: str,
    besides: Collection[str] = (),
    checksums: bool = True,
) -> list[str]:
    """What differs in these databases: a line for each table, none where all is equal.

    Tables are told by name, columns and types, then by ``CHECKSUM TABLE`` (both servers must be of
    one version: it depends on how rows are stored) and by all that SELECT gives.
    ``besides`` are tables of the first that the other need not have. MariaDB's CHECKSUM TABLE of a
    table with generated columns is left out: it differs between a server and its replica. So are
    all without ``checksums``: of JSON it depends on how a document's numbers are stored.
    """
    names = [name for name in tables(one, *databases) if name[1] not in besides]
    if names != tables(other, *databases):
        return [f"tables {names} against {tables(other, *databases)}"]
    found = []
    for database, table in names:
        place = f"{quoted(database)}.{quoted(table)}"
        sums = [checksums and _checksum(server, database, table) for server in (one, other)]
        left, right = (_dump(server, database, table) for server in (one, other))
        if left != right or sums[0] != sums[1]:
            found.append(f"{place}: checksums {sums[0]}, {sums[1]}; {_first(left, right)}")
    return found


def _dump(server: Server, database: str, table: str) -> dict[str, Any]:
    """All that SELECT gives; rows in an order of their bytes: to some collations '' is ' '."""
    dump = dump_table(server, database, table)
    rows = sorted(dump["rows"], key=lambda row: [(value is None, value or "") for value in row])
    return {"columns": dump["columns"], "types": dump["types"], "count": len(rows), "rows": rows}


def _checksum(server: Server, database: str, table: str) -> int:
    """CHECKSUM TABLE, or 0 where that says nothing."""
    if server.flavour == "mariadb" and server.query(
        "SELECT 1 FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " AND extra LIKE '%%GENERATED%%'",
        (database, table),
    ):
        return 0
    return int(server.query(f"CHECKSUM TABLE {quoted(database)}.{quoted(table)}")[0][1])


def same_tables(one: Server, other: Server, *databases: str, checksums: bool = True) -> None:
    """Raise AssertionError with the first `differences`, if there are any."""
    if found := differences(one, other, *databases, checksums=checksums):
        raise AssertionError("\n".join(found[:5]))


def _first(left: dict[str, Any], right: dict[str, Any]) -> str:
    """Where two dumps first differ."""
    for key in ("columns", "types", "count"):
        if left[key] != right[key]:
            return f"{key} {left[key]!r} against {right[key]!r}"
    for number, (one, other) in enumerate(zip(left["rows"], right["rows"], strict=True)):
        for name, a, b in zip(left["columns"], one, other, strict=True):
            if a != b:
                return f"row {number} column {name}: {str(a)[:200]!r} against {str(b)[:200]!r}"
    return "the rows look the same in SELECT"
