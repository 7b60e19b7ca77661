"""Servers that many tests share: behind each test they are what they were before it.

Databases, accounts, plugins, global variables and the state of `Server.connection` are put back, so
that no test can forget to. What cannot be put back fails the test and names it: logs that were
purged or reset, another GTID mode, a restart, a replication channel. Such tests need a server of
their own (`fresh_server`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from pymysql.constants import COMMAND
from pymysql.err import Error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.servers import Server

_FOLLOW: Final = {"gtid_executed", "gtid_binlog_pos", "gtid_binlog_state", "gtid_current_pos"}
"""Variables that follow from the transactions of the log."""
_STAY: Final = ("gtid_mode",)
"""Variables whose change stays in the log: transactions without GTIDs."""


@dataclass(frozen=True)
class State:
    """What a server has outside its tables, and how far its log goes."""

    process: int | None
    variables: dict[str, str]
    accounts: dict[tuple[str, str], tuple[Any, ...]]
    databases: frozenset[str]
    plugins: frozenset[str]
    channels: tuple[Any, ...]
    prepared: tuple[Any, ...]
    first_log: tuple[str, bytes]
    """Its name and the time in its format description."""
    end: tuple[str, int]


class Shared:
    """A server that tests share, and what it was like when it started."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._connection = server.connect()
        self._known: tuple[int, State] | None = None
        self._query("SET SESSION lock_wait_timeout = 10")  # of a test's open transaction
        before = self._statements()
        self._counted = self._statements() - before  # MySQL 9.7 counts the asking, too
        self.at_start = self.state()

    def close(self) -> None:
        self._connection.close()

    def state(self) -> State:
        """What it is like; asked for anew when anybody said anything to it since the last time."""
        now = self._statements()
        if self._known is not None and self._known[0] + self._counted == now:
            state = self._known[1]
        else:
            state = self._state()
            now = self._statements()
        self._known = now, state
        return state

    def put_back(self, before: State) -> list[str]:
        """Make it as it was; gives what could not be put back."""
        self.server.disconnect()
        if self.server.pid != before.process:
            return ["it was stopped or restarted"]
        now = self.state()
        if now == before:
            return []
        found = list(_for_good(before, now))
        for sql, arguments in _remedies(before, now):
            with suppress(Error):  # what stays is found below
                self._query(sql, arguments)
        left = self.state()
        for each in fields(State):
            name, was, has = each.name, getattr(before, each.name), getattr(left, each.name)
            if name in ("first_log", "end") or was == has:
                continue
            if isinstance(was, dict):
                keys = [key for key in was | has if was.get(key) != has.get(key)]
                found += [f"{name}: {key} was {was.get(key)}, is {has.get(key)}" for key in keys]
            else:
                found.append(f"{name}: were {was}, are {has}")
        if found:  # said once, not behind every test that follows
            self.at_start = replace(left, accounts=before.accounts, databases=before.databases)
        return found

    def _statements(self) -> int:
        """How many statements clients have sent."""
        self._connection._execute_command(COMMAND.COM_STATISTICS, b"")
        text = bytes(self._connection._read_packet()._data).decode()  # type: ignore[attr-defined]
        return int(text.partition("Questions: ")[2].split()[0])

    def _query(self, sql: str, arguments: Any = None) -> tuple[Any, ...]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return tuple(cursor.fetchall())

    def _state(self) -> State:
        logs = self.server.binlogs()
        channels = (
            "SHOW REPLICA STATUS" if self.server.flavour == "mysql" else "SHOW ALL SLAVES STATUS"
        )
        variables = dict(self._query("SHOW GLOBAL VARIABLES"))
        return State(
            self.server.pid,
            {name: value for name, value in variables.items() if name not in _FOLLOW},
            {(row[1], row[0]): row for row in self._query("SELECT * FROM mysql.user")},
            frozenset(name for (name,) in self._query("SHOW DATABASES")),
            frozenset(row[0] for row in self._query("SHOW PLUGINS")),
            self._query(channels),
            self._query("XA RECOVER"),
            (logs[0].name, logs[0].read_bytes()[4:8]),
            (logs[-1].name, logs[-1].stat().st_size),
        )


def _for_good(before: State, now: State) -> Iterator[str]:
    if now.first_log[0] != before.first_log[0]:
        yield "its logs were purged"
    elif now.first_log != before.first_log or now.end < before.end:
        yield "its logs were reset"
    for name in _STAY:
        if now.variables.get(name) != before.variables.get(name):
            yield f"{name} was changed, and transactions of that mode stay in its logs"


def _remedies(before: State, now: State) -> Iterator[tuple[str, Any]]:
    for name in now.databases - before.databases:
        yield f"DROP DATABASE `{name.replace('`', '``')}`", None
    for account in now.accounts.keys() - before.accounts.keys():
        yield "DROP USER %s@%s", account
    for name in now.plugins - before.plugins:
        yield f"UNINSTALL PLUGIN {name}", None
    for name, value in now.variables.items():
        was = before.variables.get(name, value)
        if was != value:
            yield (
                f"SET GLOBAL {name} = {was if was.isdigit() else '%s'}",
                (None if was.isdigit() else (was,)),
            )
