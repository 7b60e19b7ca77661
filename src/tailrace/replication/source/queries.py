"""The statements that a source answers: those of replicas and tools. All others are errors.

They were taken from the general logs of MySQL 9.7, MariaDB 10.11 and 11.8 with replicas of each,
``mysqlbinlog``, ``mariadb-binlog``, ``mysql`` and ``mariadb``, PyMySQL, mysql-replication and our
own client attached (``tests/replication/source/test_asked.py``; facts sheet 6):

====================================================  =============================================
statement                                             answer
====================================================  =============================================
``SELECT`` of variables, literals and the functions   a row
of `_FUNCTIONS`
``SET`` of ``@name``                                  kept, as `ReplicaConnection.variables`
``SET`` of a session's settings (`_SETTINGS`)         OK, and nothing else
``SHOW [GLOBAL] VARIABLES``, ``STATUS``               those that the source has
``SHOW BINARY LOGS``                                  the files that are served
``SHOW BINARY LOG STATUS``, ``SHOW MASTER STATUS``    where the last whole transaction ends
``SHOW REPLICAS``, ``SHOW SLAVE HOSTS``               the replicas that are attached
``SHOW WARNINGS``, ``SHOW ERRORS``                    no row
``KILL``, ``KILL QUERY``                              ends a connection of the same user, its dump
====================================================  =============================================
"""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from tailrace.constants import Flavour
from tailrace.errors import SchemaError, ServerError, UsageError
from tailrace.replication.source.refusals import refused
from tailrace.schema.tokens import Kind, SqlToken, tokenize
from tailrace.wire.handshake import OkPacket
from tailrace.wire.results import ResultSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tailrace.observers.variables import UserVariables
    from tailrace.position import Position
    from tailrace.wire.commands import RegisterReplica

Value = bool | int | float | Decimal | str | None
"""A variable's value; a bool is shown as ON or OFF, and selected as 1 or 0."""

_SETTINGS: Final = frozenset(
    {
        *("autocommit", "character_set_client", "character_set_connection"),
        *("character_set_results", "collation_connection", "group_concat_max_len"),
        *("interactive_timeout", "lock_wait_timeout", "max_execution_time", "net_read_timeout"),
        *("net_write_timeout", "sql_log_bin", "sql_mode", "time_zone", "transaction_isolation"),
        *("tx_isolation", "wait_timeout"),
    }
)
"""Session settings that mean nothing here, and so may be set."""


class Source(Protocol):
    """What can be asked about a source. All raise StorageError, LogError."""

    @property
    def flavour(self) -> Flavour:
        """Whose logs are served."""

    def variables(self) -> Mapping[str, Callable[[], Value]]:
        """The system variables, by name in lower case."""

    def status(self) -> Mapping[str, Value]:
        """The status variables, with their names as they are shown."""

    def binary_logs(self) -> Sequence[tuple[str, int]]:
        """The files that are served, with their sizes in bytes, oldest first."""

    def position(self) -> Position:
        """Where the last whole transaction ends."""

    def gtids_at(self, file: str, offset: int) -> str | None:
        """The GTIDs before a position, as text; None if it is not there."""

    def replicas(self) -> Sequence[tuple[RegisterReplica, str]]:
        """The attached replicas, with their UUIDs (empty if they have none)."""

    def kill(self, thread_id: int, user: str, *, only_statement: bool) -> bool:
        """End a connection of this user, or its dump only; False if there is none."""


class Client(Protocol):
    """Who asks."""

    variables: UserVariables
    user: str
    host: str
    thread_id: int


def answer(sql: str, source: Source, client: Client) -> ResultSet | OkPacket:
    """The answer to a statement. Raises ServerError, to be sent as it is."""
    try:
        tokens = tokenize(sql, source.flavour)
    except SchemaError as error:
        raise refused(1064, "42000", f"You have an error in your SQL syntax: {error}") from error
    return _Statement(sql, tokens, source, client).run()


class _Statement:
    """A statement's tokens, and a place in them."""

    def __init__(
        self, sql: str, tokens: Sequence[SqlToken], source: Source, client: Client
    ) -> None:
        self._sql = sql
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._source = source
        self._client = client

    def run(self) -> ResultSet | OkPacket:
        if self._take("SELECT"):
            return self._select()
        if self._take("SET"):
            return self._set()
        if self._take("SHOW"):
            return self._show()
        if self._take("KILL"):
            return self._kill()
        raise self._unsupported()

    # --- tokens ----------------------------------------------------------------------------------

    @property
    def _next(self) -> SqlToken:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _take(self, *keys: str) -> bool:
        """Skip these words or marks if they come next."""
        found = [each.key for each in self._tokens[self._at : self._at + len(keys)]]
        if found != list(keys):
            return False
        self._at += len(keys)
        return True

    def _kind(self, *kinds: Kind) -> str | None:
        """The value of the next token if it is of one of these kinds; it is skipped."""
        token = self._next
        if token.kind not in kinds:
            return None
        self._at += 1
        return token.value

    def _string(self) -> str:
        """The next token, which has to be a string; it may be empty."""
        text = self._kind(Kind.STRING)
        return self._reject() if text is None else text

    def _end(self) -> None:
        self._take(";")
        if self._next.kind is not Kind.END:
            raise self._unsupported()

    def _reject(self) -> NoReturn:
        raise self._unsupported()

    def _unsupported(self) -> ServerError:
        shown = " ".join(self._sql.split())
        shown = shown if len(shown) <= 80 else f"{shown[:80]}..."
        return refused(
            1235, "42000", f"This is a source of binary logs: it does not support '{shown}'"
        )

    # --- SELECT ----------------------------------------------------------------------------------

    def _select(self) -> ResultSet:
        names, values = [], []
        while True:
            start = self._next.start
            values.append(self._expression())
            name = self._sql[start : self._next.start].strip().removesuffix(";").strip()
            if self._take("AS"):
                name = self._kind(Kind.WORD, Kind.NAME, Kind.STRING) or self._reject()
            names.append(name)
            if not self._take(","):
                break
        self._take("FROM", "DUAL")
        if self._take("LIMIT") and self._kind(Kind.NUMBER) is None:
            raise self._unsupported()
        self._end()
        return ResultSet.of(
            names, [[int(each) if isinstance(each, bool) else each for each in values]]
        )

    def _expression(self) -> Value:
        token = self._next
        self._at += 1
        if token.kind is Kind.STRING:
            return token.value
        if token.kind is Kind.NUMBER:
            return _number(token.value)
        if token.kind is Kind.VARIABLE:
            return self._variable(token.value)
        if token.key == "-" and (number := self._kind(Kind.NUMBER)) is not None:
            return _number(f"-{number}")
        if token.kind is Kind.WORD:
            if self._take("("):
                return self._function(token.key)
            if token.key in _WORDS:
                return _WORDS[token.key]
        self._at -= 1
        raise self._unsupported()

    def _variable(self, text: str) -> Value:
        if not text.startswith("@@"):
            mine = text[1:] or self._kind(Kind.NAME, Kind.STRING) or self._reject()
            known = self._client.variables
            value = known[mine] if mine in known else None  # noqa: SIM401 - it is no mapping
            return value.decode(errors="replace") if isinstance(value, bytes) else value
        scope, dot, name = text[2:].lower().rpartition(".")
        if dot and scope not in ("global", "session", "local"):
            raise self._unsupported()
        if not name:
            name = (self._kind(Kind.NAME) or "").lower()
        found = self._source.variables().get(name)
        if found is None:
            raise refused(1193, "HY000", f"Unknown system variable '{name[:64]}'")
        return found()

    def _function(self, name: str) -> Value:
        if name not in _FUNCTIONS and name != _GTID_POS:
            raise self._unsupported()
        arguments: list[Value] = []
        while not self._take(")"):
            if len(arguments) == 2 or self._depth == _DEEPEST:
                raise self._unsupported()
            self._depth += 1
            arguments.append(self._expression())
            self._depth -= 1
            if not self._take(",") and self._next.key != ")":
                raise self._unsupported()
        if name == "UNIX_TIMESTAMP" and arguments:
            return Decimal(f"{time.time():.6f}")
        if name != _GTID_POS:
            return _FUNCTIONS[name](self._source, self._client)
        file, offset = arguments if len(arguments) == 2 else (None, None)
        if not isinstance(file, str) or not isinstance(offset, int):
            raise self._unsupported()
        return self._source.gtids_at(file, offset)

    # --- SET -------------------------------------------------------------------------------------

    def _set(self) -> OkPacket:
        values: dict[str, Value] = {}
        while True:
            if self._take("NAMES") or self._take("CHARACTER", "SET"):
                if self._kind(Kind.WORD, Kind.STRING) is None:
                    raise self._unsupported()
                if self._take("COLLATE") and self._kind(Kind.WORD, Kind.STRING) is None:
                    raise self._unsupported()
            else:
                self._assignment(values)
            if not self._take(","):
                break
        self._end()
        try:
            self._client.variables.update(values)
        except UsageError as error:
            raise refused(1041, "HY000", str(error)) from error
        return OkPacket()

    def _assignment(self, values: dict[str, Value]) -> None:
        if self._take("GLOBAL") or self._next.value.lower().startswith("@@global."):
            raise refused(1227, "42000", "Access denied: a source's settings are its options")
        if self._take("SESSION") or self._take("LOCAL"):
            pass
        target = self._kind(Kind.VARIABLE, Kind.WORD) or self._reject()
        mine = target.startswith("@") and not target.startswith("@@")
        name = target.lstrip("@")
        if mine and not name:
            name = self._kind(Kind.NAME, Kind.STRING) or self._reject()
        self._take(":")
        if not self._take("="):
            raise self._unsupported()
        if mine:
            value = self._expression()
            values[name] = int(value) if isinstance(value, bool) else value
            return
        name = name.lower().removeprefix("session.").removeprefix("local.")
        if name not in _SETTINGS:
            raise refused(1193, "HY000", f"Unknown system variable '{name[:64]}'")
        if self._kind(Kind.WORD) is None:
            self._expression()

    # --- SHOW ------------------------------------------------------------------------------------

    def _show(self) -> ResultSet:
        source = self._source
        mysql = source.flavour is Flavour.MYSQL
        _ = self._take("GLOBAL") or self._take("SESSION")
        if self._take("VARIABLES"):
            known = source.variables()
            matches = self._names()
            found = [(name, _shown(known[name]())) for name in sorted(known) if matches(name)]
            return ResultSet.of(["Variable_name", "Value"], found)
        if self._take("STATUS"):
            status = source.status()
            matches = self._names()
            found = [(name, _shown(status[name])) for name in sorted(status) if matches(name)]
            return ResultSet.of(["Variable_name", "Value"], found)
        if self._take("BINARY", "LOGS") or self._take("MASTER", "LOGS"):
            self._end()
            files = source.binary_logs()
            if mysql:
                return ResultSet.of(
                    ["Log_name", "File_size", "Encrypted"], [(*file, "No") for file in files]
                )
            return ResultSet.of(["Log_name", "File_size"], files)
        if any(
            self._take(*words)
            for words in (("BINARY", "LOG", "STATUS"), ("MASTER", "STATUS"), ("BINLOG", "STATUS"))
        ):
            self._end()
            end = source.position()
            names = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"]
            row = (end.file, end.offset, "", "")
            if mysql:
                gtids = _shown(source.variables()["gtid_executed"]())
                return ResultSet.of([*names, "Executed_Gtid_Set"], [(*row, gtids)])
            return ResultSet.of(names, [row])
        if self._take("REPLICAS") or self._take("SLAVE", "HOSTS") or self._take("REPLICA", "HOSTS"):
            self._end()
            return self._replicas(mysql=mysql)
        if self._take("WARNINGS") or self._take("ERRORS"):
            self._end()
            return ResultSet.of(["Level", "Code", "Message"], [])
        raise self._unsupported()

    def _replicas(self, *, mysql: bool) -> ResultSet:
        mine = self._source.variables()["server_id"]()
        own = mine if isinstance(mine, int) else 0
        rows = [
            (each.server_id, each.host, each.port, own, uuid)
            for each, uuid in self._source.replicas()
        ]
        if mysql:
            names = ["Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"]
            return ResultSet.of(names, rows)
        return ResultSet.of(["Server_id", "Host", "Port", "Master_id"], [row[:4] for row in rows])

    def _names(self) -> Callable[[str], bool]:
        """The condition of SHOW VARIABLES, on names without regard to case."""
        if self._take("LIKE"):
            matches = _like(self._string())
            self._end()
            return matches
        if self._take("WHERE"):
            if not self._take("VARIABLE_NAME"):
                raise self._unsupported()
            wanted = set()
            if self._take("="):
                wanted.add(self._string().lower())
            elif self._take("IN", "("):
                while not self._take(")"):
                    wanted.add(self._string().lower())
                    self._take(",")
            else:
                raise self._unsupported()
            self._end()
            return lambda name: name.lower() in wanted
        self._end()
        return lambda _: True

    # --- KILL ------------------------------------------------------------------------------------

    def _kill(self) -> OkPacket:
        only_statement = self._take("QUERY")
        if not only_statement:
            self._take("CONNECTION")
        number = self._kind(Kind.NUMBER) or self._reject()
        self._end()
        if not number.isdigit() or not self._source.kill(
            int(number), self._client.user, only_statement=only_statement
        ):
            raise refused(1094, "HY000", f"Unknown thread id: {number[:20]}")
        return OkPacket()


_WORDS: Final[dict[str, Value]] = {
    "NULL": None,
    "TRUE": True,
    "FALSE": False,
    "ON": "ON",
    "OFF": "OFF",
}

_DEEPEST: Final = 2
"""How deep calls of functions may be in each other: UNIX_TIMESTAMP(NOW(6))."""
_GTID_POS: Final = "BINLOG_GTID_POS"
_FUNCTIONS: Final[dict[str, Callable[[Source, Client], Value]]] = {
    "CONNECTION_ID": lambda _, client: client.thread_id,
    "CURRENT_USER": lambda _, client: f"{client.user}@%",
    "DATABASE": lambda *_: None,
    "NOW": lambda *_: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
    "SCHEMA": lambda *_: None,
    "UNIX_TIMESTAMP": lambda *_: int(time.time()),
    "USER": lambda _, client: f"{client.user}@{client.host}",
    "VERSION": lambda source, _: source.variables()["version"](),
}


_LONGEST_INTEGER: Final = 20
"""Characters; longer integers are decimals, as for servers."""


def _number(text: str) -> Value:
    if text.lstrip("-").isdigit() and len(text) <= _LONGEST_INTEGER:
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


def _shown(value: Value) -> str | None:
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return None if value is None else str(value)


def _like(pattern: str) -> Callable[[str], bool]:
    """LIKE without regard to case. A regular expression would try again for each ``%``."""
    parts: list[str | None] = []  # None for `_`, "" for `%`
    letters = iter(pattern.lower())
    for letter in letters:
        if letter == "\\":
            parts.append(next(letters, letter))
        elif letter != "%":
            parts.append(None if letter == "_" else letter)
        elif not parts or parts[-1] != "":
            parts.append("")

    def matches(name: str) -> bool:
        name = name.lower()
        at = part = 0
        again: tuple[int, int] | None = None  # the last `%`: what comes after it, and from where
        while at < len(name):
            if part < len(parts) and parts[part] == "":
                part += 1
                again = part, at
            elif part < len(parts) and parts[part] in (None, name[at]):
                part, at = part + 1, at + 1
            elif again is not None:  # only the last `%` can have to take one letter more
                again = again[0], again[1] + 1
                part, at = again
            else:
                return False
        return parts[part : part + 2] in ([], [""])

    return matches
