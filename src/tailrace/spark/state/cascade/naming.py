"""Tables whose rows foreign keys change below the log, so that a lake may miss those changes.

InnoDB carries out ``ON DELETE CASCADE``, ``SET NULL`` and ``ON UPDATE CASCADE`` itself. MariaDB,
and MySQL before 9.6, log the change of the referenced table alone (docs/surprises.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace.schema.foreign_keys import logs_cascades
from tailrace.spark.state.cascade.keys import links_of
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tailrace.schema.foreign_keys import ForeignKey
    from tailrace.spark.input.cursor import SourceCursor
    from tailrace.spark.input.server_facts import AskedServers
    from tailrace.spark.manifest.lake_options import LakeOptions

    Keys = Mapping[TableName, Iterable[ForeignKey]]
    Texts = dict[str, tuple[str, ...]]

CHANGED_BELOW: Final = "foreign keys change its rows, and the log has nothing of it"
"""What is said of such a table, before the keys."""
_MOST_NAMES: Final = 5
"""Tables that the line names; the report has all."""


@dataclass
class Cascades:
    """Says which tables of a lake have foreign keys that cascade below the log.

    ``servers`` are asked for them; the statements in each log tell of those
    that it adds, and of files' keys they alone do. ``notice`` gets one line for all
    the keys that a look newly finds. Where the mirror carries keys out, only those that it cannot
    carry out are named. ``known`` has the keys of each such table, as SQL, by the table's name in
    the lake.
    """

    servers: AskedServers
    options: LakeOptions
    notice: Callable[[str], None]
    known: Texts = field(default_factory=dict)
    _added: set[str] = field(default_factory=set)
    """The servers whose keys are known: their facts stay as they are."""

    def look(self, cursors: Iterable[SourceCursor]) -> None:
        """Look at what is known by now, and tell what is new."""
        before, applies = set(self.known), self.options.cascades == "apply"
        for cursor in cursors:
            facts = self.servers.facts(cursor.name)
            unlogged: Keys = {}
            if facts is None:
                if logs_cascades(cursor.planner.server_version):
                    continue
            elif facts.cascades is None:
                continue
            elif cursor.name not in self._added:
                self._added.add(cursor.name)
                unlogged = facts.cascades
            found = self._rest(cursor, unlogged) if applies else self._all(cursor, unlogged)
            self.known |= {
                self.options.key(cursor.name, name): said for name, said in found.items()
            }
        if new := sorted(set(self.known) - before):
            more = f" and {len(new) - _MOST_NAMES} more" if len(new) > _MOST_NAMES else ""
            how = " (ON DELETE CASCADE, SET NULL, ON UPDATE CASCADE) and the log has nothing of it"
            if applies:
                how = ", which the log does not have, and cannot be carried out"
            first = f" ({new[0]}: {self.known[new[0]][0]})" if applies else ""
            self.notice(
                f"{', '.join(new[:_MOST_NAMES])}{more}: foreign keys change rows there{how}: the "
                f"lake keeps these rows as they were, and verify finds them{first}"
            )

    def _all(self, cursor: SourceCursor, unlogged: Keys) -> Texts:
        """The keys of a source's tables that cascade; ``unlogged`` are its server's."""
        told = cursor.planner.catalogue.states()
        every = [*unlogged.items(), *((one.definition.full_name, one.foreign_keys) for one in told)]
        return {
            str(name): said
            for name, keys in every
            if (said := tuple(str(key) for key in keys if key.cascades))
            and self.options.tables(*name)
        }

    def _rest(self, cursor: SourceCursor, unlogged: Keys) -> Texts:
        """Those that the mirror cannot carry out."""
        catalogue, wanted = cursor.planner.catalogue, self.options.tables
        links = links_of(
            catalogue.cascading(),
            lambda name: wanted(*TableName.parse(name)),
            dict(self.options.keys),
        )
        found = dict(links.left)
        names = {each.definition.full_name for each in catalogue.contents().tables}
        for name, keys in unlogged.items():
            if name not in names and wanted(*name):
                why = f"the log that is read does not have the CREATE TABLE of {name}"
                found[str(name)] = tuple(f"{key}: {why}" for key in keys)
        return found
