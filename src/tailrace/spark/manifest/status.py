"""What keeps a lake's table from being its source's, as the lake's manifest has it.

A table is *set aside* where something went wrong with it alone: what is kept of it stands still,
and the other tables continue. It is *incomplete* where it may have rows from before the log that
was read. docs/design/lake.md says how a table becomes either, and how it is taken up again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection

SET_ASIDE: Final = "set_aside"
INCOMPLETE: Final = "incomplete"
KINDS: Final = (SET_ASIDE, INCOMPLETE)

Kind = Literal["set_aside", "incomplete"]


@dataclass(frozen=True)
class Status:
    """Why a table is not right, since where in its source's log, and what it needs to be so.

    ``since`` is a position (``binlog.000003:1234``): up to there a table that is set aside has all
    of the log; empty where that is nothing. ``needs`` says what to do. Of a table that is set aside
    ``parts`` are those of what is kept that stand still, each with its own ``since``; ``origins``
    are the tables, set aside before, whose rows it took over by RENAME TABLE; ``batch`` is the one
    that its parts in the lake have not all taken yet, 0 where there is none. ``unnamed`` says that
    its server is to be asked for its columns (`tailrace.spark.mirror.unnamed`), and ``ended`` that
    a statement ended its state, and another one brings it back.
    """

    kind: str
    reason: str
    since: str
    needs: str = ""
    parts: dict[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    batch: int = 0
    unnamed: bool = False
    ended: bool = False

    def reads(self, keep: Collection[str]) -> bool:
        """Whether the rows of a table that is set aside are read still, of which a lake has
        ``keep``: for its changelog, where that continues.
        """
        return "changelog" in keep and "changelog" not in self.parts
