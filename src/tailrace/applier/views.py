"""Views of a source as those of PostgreSQL or SQLite: by sqlglot, where both mean the same.

sqlglot knows the grammars, not what the servers do: texts compare without regard to case in one of
them, numbers are texts in another. So each part of a view is among those whose meaning is the same,
or it is rejected by its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.errors import SchemaError
from tailrace.extras import importing
from tailrace.schema.tokens import Kind, NotUnderstoodError, SqlMode, TokenCursor, tokenize
from tailrace.table_name import TableName

with importing("apply", "translating views"):
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.schema.session import StatementSession

Name = tuple[str, str]
"""Database and name."""
_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_AFTER_DEFINER: Final = frozenset(
    {"SQL", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "AGGREGATE", "EVENT", "PACKAGE"}
)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_CLAUSES: Final = frozenset({"expressions", "from_", "joins", "where", "group"})


@dataclass(frozen=True, slots=True)
class WrittenView:
    """A statement about a view: created, replaced (``replaces``) or, without ``query``, dropped.

    ``lenient`` is IF NOT EXISTS or IF EXISTS.
    """

    names: tuple[Name, ...]
    columns: tuple[str, ...] = ()
    query: str = ""
    replaces: bool = False
    lenient: bool = False


def parse_view(sql: str, database: str, session: StatementSession) -> WrittenView | None:
    """What a statement says of a view; None if it is about something else.

    Raises SchemaError if it is not understood.
    """
    try:
        return _parse(sql, database, session)
    except NotUnderstoodError as error:
        raise SchemaError(error.message) from None


def _parse(sql: str, database: str, session: StatementSession) -> WrittenView | None:
    tokens = tokenize(sql, session.flavour, session.sql_mode)
    cursor = TokenCursor(tokens, lowers_names=session.lowers_names)

    def name() -> Name:
        found = cursor.qualified()
        return found[0] or database, found[1]

    if cursor.accept("DROP", "VIEW"):
        lenient = cursor.accept("IF", "EXISTS")
        names = [name()]
        while cursor.accept(","):
            names.append(name())
        return WrittenView(tuple(names), lenient=lenient)
    replaces = bool(cursor.accept("ALTER"))
    if not replaces and not cursor.accept("CREATE"):
        return None
    replaces = cursor.accept("OR", "REPLACE") or replaces
    while cursor.token.key != "VIEW":
        if cursor.accept("ALGORITHM", "=") or cursor.accept("SQL", "SECURITY"):
            cursor.next()
        elif cursor.accept("DEFINER", "="):
            while cursor.token.key not in _AFTER_DEFINER and cursor.token.kind is not Kind.END:
                cursor.next()
        else:
            return None
    cursor.next()
    lenient = cursor.accept("IF", "NOT", "EXISTS")
    view = WrittenView((name(),), replaces=replaces, lenient=lenient)
    columns = []
    if cursor.accept("("):
        columns.append(cursor.name())
        while cursor.accept(","):
            columns.append(cursor.name())
        cursor.expect(")")
    cursor.expect("AS")
    start = cursor.token.start
    if "/*" in sql[start:]:
        cursor.fail("a view with a comment")
    if session.sql_mode & (SqlMode.ANSI_QUOTES | SqlMode.ORACLE | SqlMode.NO_BACKSLASH_ESCAPES):
        cursor.fail("a view in an sql_mode with another grammar")
    end = len(sql)
    while cursor.token.kind is not Kind.END:
        if cursor.sees("WITH") and cursor.ahead().key in {"CHECK", "CASCADED", "LOCAL"}:
            end = cursor.token.start
        cursor.next()
    return replace(view, columns=tuple(columns), query=sql[start:end])


def translated(
    view: WrittenView,
    database: str,
    columns_of: Callable[[Name], Mapping[str, tuple[str, str]] | None],
    *,
    is_sqlite: bool,
) -> tuple[str, tuple[Name, ...]]:
    """A view's query in the target's SQL, and the tables that it reads.

    ``columns_of`` gives the columns of a table by their folded names: as they are called, and their
    types; None if they are unknown. Raises SchemaError with the part that has another meaning.
    """
    try:
        query = parse_one(view.query, read="mysql")
    except SqlglotError as error:
        raise SchemaError(f"a view: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(query, exp.Select):
        raise SchemaError(f"a view that is no plain SELECT ({query.key.upper()})")
    made = _Query(query, database, columns_of, is_sqlite=is_sqlite)
    return made.translate(view.columns), tuple(dict.fromkeys(made.tables))


class _Query:
    """One SELECT."""

    def __init__(
        self,
        query: exp.Select,
        database: str,
        columns_of: Callable[[Name], Mapping[str, tuple[str, str]] | None],
        *,
        is_sqlite: bool,
    ) -> None:
        self.query = query
        self.database = database
        self.columns_of = columns_of
        self.is_sqlite = is_sqlite
        self.tables: list[Name] = []
        self.known: dict[str, Mapping[str, tuple[str, str]]] = {}

    def translate(self, names: tuple[str, ...]) -> str:
        query = self.query
        for clause, given in query.args.items():
            if given and clause not in _CLAUSES:
                raise SchemaError(f"a view with {clause.upper()}")
        source = query.args.get("from_")
        if source is None:
            raise SchemaError("a view without a table")
        self._enter(source.this)
        joins = query.args.get("joins") or []
        for join in joins:
            other = {key for key, given in join.args.items() if given} - {"this", "on", "side"}
            if other - {"kind"} or join.side not in {"", "LEFT"}:
                raise SchemaError(f"a view with {join.sql('mysql')}")
            if join.kind not in {"", "INNER", "CROSS"}:
                raise SchemaError(f"a view with {join.sql('mysql')}")
            self._enter(join.this)
        for join in joins:
            if join.args.get("on") is not None:
                self._condition(join.args["on"])
            elif join.side:
                raise SchemaError(f"a view with {join.sql('mysql')}")
            else:
                join.set("kind", "CROSS")
        if query.args.get("where") is not None:
            self._condition(query.args["where"].this)
        grouped = self._groups()
        shown = query.expressions
        if names and len(names) != len(shown):
            raise SchemaError("a view whose names are not as many as its columns")
        query.set(
            "expressions",
            [
                self._shown(each, names[number] if names else "", grouped)
                for number, each in enumerate(shown)
            ],
        )
        return query.sql("sqlite" if self.is_sqlite else "postgres")

    def _enter(self, table: exp.Expr) -> None:
        given = {key for key, value in table.args.items() if value}
        if not isinstance(table, exp.Table) or given - {"this", "db", "alias"}:
            raise SchemaError(f"a view of {table.sql('mysql')}")
        found = table.db or self.database, table.name
        columns = self.columns_of(found)
        if columns is None:
            raise SchemaError(f"a view of {TableName(*found)}, whose columns are unknown")
        alias = table.alias_or_name
        if alias.casefold() in self.known:
            raise SchemaError(f"a view with two tables {alias}")
        self.known[alias.casefold()] = columns
        self.tables.append(found)
        name = f"{found[0]}.{found[1]}" if self.is_sqlite else found[1]
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("db", None if self.is_sqlite else exp.to_identifier(found[0], quoted=True))
        folded = exp.to_identifier(alias.casefold(), quoted=True)
        table.set("alias", exp.TableAlias(this=folded))

    def _groups(self) -> frozenset[str] | None:
        group = self.query.args.get("group")
        if group is None:
            return None
        if {key for key, given in group.args.items() if given} - {"expressions"}:
            raise SchemaError(f"a view with {group.sql('mysql')}")
        for each in group.expressions:
            self._number(each, what="GROUP BY")
        return frozenset(each.sql() for each in group.expressions)

    def _column(self, column: exp.Expr) -> str:
        """The type of a column, which then has its own name and its table's."""
        given = {key for key, value in column.args.items() if value}
        if not isinstance(column, exp.Column) or given - {"this", "table"}:
            raise SchemaError(f"a view with {column.sql('mysql')}")
        if isinstance(column.this, exp.Star):
            raise SchemaError("a view with *")
        folded = column.name.casefold()
        among = [column.table.casefold()] if column.table else list(self.known)
        found = [each for each in among if folded in self.known.get(each, ())]
        if len(found) != 1:
            raise SchemaError(f"a view with the unknown column {column.sql('mysql')}")
        name, kind = self.known[found[0]][folded]
        column.set("this", exp.to_identifier(name, quoted=True))
        column.set("table", exp.to_identifier(found[0], quoted=True))
        return kind

    def _number(self, value: exp.Expr, what: str) -> None:
        """A value that is compared is a whole number: all others compare by rules of their own."""
        whole = value.this if isinstance(value, exp.Neg) else value
        if isinstance(whole, exp.Literal) and not whole.is_string and whole.name.isdecimal():
            return
        text = value.sql("mysql")
        kind = self._column(value)
        base = kind.partition("(")[0].split(" ")[0]
        unsigned = base == "bigint" and kind.endswith(" unsigned")
        if base not in _INTEGERS or (unsigned and self.is_sqlite):
            raise SchemaError(f"a view with {what} {text}, which is {kind}")

    def _condition(self, found: exp.Expr) -> None:
        text = found.sql("mysql")
        if isinstance(found, (exp.And, exp.Or)):
            self._condition(found.left)
            self._condition(found.right)
        elif isinstance(found, (exp.Not, exp.Paren)):
            self._condition(found.this)
        elif isinstance(found, exp.Is) and isinstance(found.expression, exp.Null):
            self._column(found.this)
        elif isinstance(found, _COMPARISONS):
            self._number(found.this, f"the condition {text}:")
            self._number(found.expression, f"the condition {text}:")
        elif isinstance(found, exp.In) and found.expressions and not found.args.get("query"):
            for each in (found.this, *found.expressions):
                self._number(each, f"the condition {text}:")
        elif isinstance(found, exp.Between) and not found.args.get("symmetric"):
            for each in (found.this, found.args["low"], found.args["high"]):
                self._number(each, f"the condition {text}:")
        else:
            raise SchemaError(f"a view with the condition {text}")

    def _shown(self, found: exp.Expr, name: str, grouped: frozenset[str] | None) -> exp.Expr:
        value = found.this if isinstance(found, exp.Alias) else found
        name = name or found.alias_or_name
        text = value.sql("mysql")
        if isinstance(value, (exp.Count, exp.Min, exp.Max)):
            inner = value.this
            if isinstance(inner, exp.Star) and isinstance(value, exp.Count):
                pass
            elif isinstance(value, exp.Count):
                self._column(inner)
            else:
                self._number(inner, text)
            if value.expressions:
                raise SchemaError(f"a view with {text}")
            name = name or text
        elif self._is_grouped(grouped):
            self._column(value)
            if value.sql() not in (grouped or ()):
                raise SchemaError(f"a view with {text}, which is not in GROUP BY")
        else:
            self._column(value)
        if name in {"", "*"}:
            raise SchemaError(f"a view with {text} without a name")
        return exp.alias_(value, name, quoted=True)

    def _is_grouped(self, grouped: frozenset[str] | None) -> bool:
        return grouped is not None or any(
            isinstance(each.unalias(), (exp.Count, exp.Min, exp.Max))
            for each in self.query.expressions
        )
