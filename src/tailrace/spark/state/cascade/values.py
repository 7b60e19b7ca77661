"""When the value of a foreign key is that of the row it refers to, as the server compares them.

Numbers and bytes are compared as they are. Text is compared by its collation, and what a collation
holds equal is known here for printable ASCII alone, of the collations whose rules for it were
measured on the servers (tests/spark/cascade/test_values.py); of binary collations for all text.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.spark.state.failure import RejectedError
from tailrace.values.charsets import collation_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_BINARY: Final = frozenset(
    f"{charset}_{kind}"
    for charset in ("utf8mb4", "utf8mb3", "latin1", "ascii")
    for kind in ("bin", "nopad_bin")
) | {"utf8mb4_0900_bin"}
_FOLDING: Final = frozenset(
    {
        *(f"{charset}_general_ci" for charset in ("utf8mb4", "utf8mb3", "latin1", "ascii")),
        *(f"{charset}_unicode_ci" for charset in ("utf8mb4", "utf8mb3")),
        *(f"{charset}_unicode_520_ci" for charset in ("utf8mb4", "utf8mb3")),
        *(
            f"{charset}_uca1400_{kind}_ci"
            for charset in ("utf8mb4", "utf8mb3")
            for kind in ("ai", "as", "nopad_ai", "nopad_as")
        ),
        *("latin1_swedish_ci", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_ci"),
    }
)
_SENSITIVE: Final = frozenset(
    {"utf8mb4_0900_as_cs", "utf8mb4_uca1400_as_cs", "utf8mb4_uca1400_nopad_as_cs"}
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How values of a column are compared.

    ``folds``: capital letters are equal to small ones. ``pads``: spaces at the end do not count.
    ``ascii``: so much is known of printable ASCII alone.
    """

    folds: bool = False
    pads: bool = False
    ascii: bool = False

    def of(self, value: Any) -> Any:
        """What all values that are equal to this one have in common. Raises `RejectedError`."""
        if self.ascii and not (value.isascii() and value.isprintable()):
            raise _unclear([value])
        if self.pads:
            value = value.rstrip(" ")
        return value.lower() if self.folds else value

    def of_all(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """The same in bulk."""
        if self.ascii:
            odd = pc.match_substring_regex(values, "[^ -~]")
            if pc.any(odd).as_py():
                raise _unclear(values.filter(odd).slice(0, 1).to_pylist())
        if self.pads:
            values = pc.utf8_rtrim(values, characters=" ")
        return pc.ascii_lower(values) if self.folds else values


EXACT: Final = Comparison()


def _unclear(values: Sequence[object]) -> RejectedError:
    return RejectedError(
        f"a foreign key that cascades has the value {values[0]!r}: whether it is equal to another "
        "is known of printable ASCII alone under the column's collation"
    )


@cache
def comparison_by(collation: int) -> Comparison | None:
    """How text of a collation is compared; None where that is not known."""
    found = set()
    for flavour in Flavour:
        with suppress(SchemaError):
            found.add(_of_name(collation_name(collation, flavour)))
    return found.pop() if len(found) == 1 else None


def _of_name(name: str) -> Comparison | None:
    pads = "nopad" not in name and "_0900_" not in name
    if name in _BINARY:
        return Comparison(pads=pads)
    if name in _SENSITIVE:
        return Comparison(pads=pads, ascii=True)
    return Comparison(folds=True, pads=pads, ascii=True) if name in _FOLDING else None
