"""Which tables have all their rows in the lake.

A table is complete where a statement that was read says that it was without rows: CREATE TABLE, or
TRUNCATE TABLE later (`tailrace.schema.catalogue.Catalogue`). All else cannot be determined from a
log: such a table may have rows that are older, and is *incomplete*. It is marked so as it comes
into the lake, until it is recreated or emptied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.spark.manifest.manifest import INCOMPLETE, Status
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.state.current.timeline import lives
from tailrace.spark.state.source_changes import table_changes
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.manifest.manifest import Manifest
    from tailrace.spark.state.source_changes import SourceTable

_NEEDS: Final = "a CREATE TABLE or TRUNCATE TABLE of it in the log"


def statuses(
    manifest: Manifest,
    taken: Mapping[str, Taken],
    fresh: Mapping[str, SourceTable],
) -> dict[str, Status | None]:
    """What a batch makes of tables: that they are incomplete, or with None that they are no more.

    ``fresh`` are the tables with changes, those that got names from others, and those that are set
    aside, by the lake's key. What the lake had as complete stays so.
    """
    whole = {source: each.whole for source, each in taken.items() if each.splits}
    emptied = {source: _emptied(each) for source, each in taken.items()}
    exchanged = {  # they are set aside for that
        source: {change.table for change in table_changes(each.splits) if change.exchanged}
        for source, each in taken.items()
    }
    gone = {source: _gone(each) for source, each in taken.items()}
    found: dict[str, Status | None] = {}
    for key, (source, name) in fresh.items():
        known = manifest.tables.get(key)
        if source not in whole or not (known is None or known.dropped):
            continue
        moved = name in exchanged[source]
        # only a history may be left of it, which is whole
        is_over = name in emptied[source] and name in gone[source]
        if not (moved or is_over) and TableName.parse(name) not in whole[source]:
            found[key] = _incomplete(manifest, taken, source)
    for key, known in with_status(manifest.tables):
        if known.source not in whole or known.full_name not in whole[known.source]:
            continue
        if known.status(INCOMPLETE) is not None and str(known.full_name) in emptied[known.source]:
            found[key] = None
    return found


def _emptied(taken: Taken) -> set[str]:
    """The tables that statements created or emptied, also under their later names."""
    found: set[str] = set()
    for change in table_changes(taken.splits):
        if change.kind in {"create", "truncate"}:
            found.add(change.table)
        elif change.kind == "rename" and change.table in found and change.renamed is not None:
            found.add(change.renamed)
    return found


def _gone(taken: Taken) -> set[str]:
    """The tables that statements made, renamed or dropped, and that are no more."""
    found = lives((), (), table_changes(taken.splits), lambda _: True)
    return {name for name, life in found.items() if life.dropped}


def _incomplete(manifest: Manifest, taken: Mapping[str, Taken], source: str) -> Status:
    state = manifest.sources.get(source)
    if state is None:
        since = str(taken[source].begin)
    else:
        since = f"{next(iter(state.files), state.file)}:4"
    return Status(
        INCOMPLETE,
        f"its CREATE TABLE is not in the log from {since} on, so rows from before are missing",
        since,
        _NEEDS,
    )
