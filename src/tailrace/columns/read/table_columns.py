"""How the columns of tables are decoded: what the kernel is told of them, and where it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.arrays import Nulls, described
from tailrace.columns.calendar import calendar, powers_of_ten
from tailrace.columns.frames import plan as k
from tailrace.columns.read.arena import Layout
from tailrace.columns.read.finish import is_finished
from tailrace.columns.types import Finish
from tailrace.constants import ColumnType
from tailrace.values.charsets import UTF8

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tailrace.columns.types import Plan
    from tailrace.values.schema import Column

Array = np.ndarray[Any, Any]

FIXED: Final = {
    k.D_OP: 1,
    k.D_STAMP: 8,
    k.D_GTID: 4,
    k.D_POSITION: 8,
    k.D_SEQUENCE: 16,
    k.D_SERVER: 8,
}
"""Bytes per row of the change record's own fields."""
_BITMAPS: Final = (k.D_BEFORE_VALID, k.D_AFTER_VALID, k.D_PARTIAL_VALID, k.D_GTID_NULL)
_USUAL_TEXT: Final = 16
"""The assumed bytes of a value of variable length, before any was seen."""


class TableColumns:
    """The columns of all tables with the same; ``wanted`` names those to decode (None: all)."""

    def __init__(
        self,
        columns: Sequence[Column],
        wanted: Collection[str] | None,
        plan: Callable[[Column], Plan],
    ) -> None:
        plans = [plan(column) for column in columns]
        self.names = [column.name for column in columns]
        self.asked = [
            (column, plan)
            for column, plan in zip(columns, plans, strict=True)
            if wanted is None or column.name in wanted
        ]
        self.image = pa.struct([pa.field(column.name, plan.type) for column, plan in self.asked])
        self.no_image = Nulls(self.image)
        self.text = described(columns)
        self.digits = [plan.argument for plan in plans]  # used for temporal columns only
        self.template, self._members = _template(columns, plans, {c.index for c, _ in self.asked})
        sizes = (plan.least + _USUAL_TEXT * (plan.kind == k.STRING) for plan in plans)
        self.row_bytes = float((len(plans) + 7) // 8 + sum(sizes) + 1)
        """Bytes of an image, roughly: what was last seen of any of the tables."""
        self.text_bytes: Mapping[int, float] = {}
        """The same for columns of variable length, by index: bytes per row."""
        self.scratch = np.zeros(len(plans) // 8 + k.PADDING, np.uint8)
        self.path = np.empty(k.PATH_WORDS, np.int64)
        json = [column.index for column in columns if column.type is ColumnType.JSON]
        self.json_columns = np.array(json, np.int64)
        self.strings = [column.index for column, plan in self.asked if plan.kind == k.STRING]
        """The columns whose text is copied."""
        self.made_bytes = sum(
            plan.raw.bit_width // 8 + 0.125 if _is_fixed(plan) else 4.125 + plan.most
            for _, plan in self.asked
        )
        """Bytes per image in a batch, without copied text."""
        self._regions: dict[int, Regions] = {}

    def regions(self, seen: int) -> Regions:
        """Where batches of these operations and images are written; for ``seen`` see S_SEEN."""
        found = self._regions.get(seen)
        if found is None:
            found = self._regions[seen] = Regions(self, seen)
        return found


@dataclass(frozen=True, slots=True)
class ColumnRegions:
    """A column of an image: its regions, and the word that has the address of values elsewhere."""

    column: Column
    plan: Plan
    valid: int
    values: int
    offsets: int | None
    address_at: int
    is_done: bool
    """Whether nothing is left to do after the kernel."""
    is_utf8: bool
    """Whether its bytes are text if they are ASCII."""


@dataclass(frozen=True, slots=True)
class TextRegion:
    """A region of text, and its column's index."""

    region: int
    index: int
    plan: Plan
    is_logged: bool
    """Whether its values are in the log as they are, not as diffs."""


@dataclass(frozen=True, slots=True)
class ImageRegions:
    """One image: its number, the first of its words, and the word with its region of validity."""

    number: int
    words: int
    valid: int
    columns: tuple[ColumnRegions, ...]
    nulls_at: Array
    """The words that tell whether a column has NULLs."""


class Regions:
    """The regions of batches of the same columns and images, and where their addresses go.

    ``words`` are the columns of both images for the kernel, one after the other. The addresses of
    the regions ``words_from`` go to its words ``words_at``, the bytes reserved for texts to
    ``rooms_at``; and those of ``frame_from`` go to the words ``frame_at`` of the kernel's frame.
    ``of`` gives the region of a word of the frame.
    """

    def __init__(self, columns: TableColumns, seen: int) -> None:
        width = len(columns.template)
        self.words: Array = np.concatenate([columns.template, columns.template]).reshape(-1)
        wanted = [image for image, bits in enumerate((6, 3)) if seen & bits]
        made = [(image, column, plan) for image in wanted for column, plan in columns.asked]
        fixed = list(FIXED.items())
        if seen & 8:
            fixed += [(word, (width + 7) // 8) for word in (k.D_BEFORE_PRESENT, k.D_AFTER_PRESENT)]
        plain = [plan.raw.bit_width // 8 for _, _, plan in made if _is_fixed(plan)]
        bitmaps = len(_BITMAPS) + len(made)
        self.layout = Layout(bitmaps, [size for _, size in fixed] + plain, len(made) - len(plain))
        self.of = {word: number for number, word in enumerate(_BITMAPS)}
        self.of |= {word: bitmaps + number for number, (word, _) in enumerate(fixed)}
        self.frame_at = np.array(list(self.of), np.int64)
        self.frame_from = np.array(list(self.of.values()), np.int64)
        self.texts: list[TextRegion] = []
        self.columns_at: dict[int, int] = {}
        """The first word of the column of a text's region."""
        places: list[tuple[int, int]] = []
        rooms: list[int] = []
        found: dict[int, list[ColumnRegions]] = {image: [] for image in wanted}
        next_fixed = bitmaps + len(fixed)
        for number, (image, column, plan) in enumerate(made):
            word = (image * width + column.index) * k.COLUMN_WORDS
            valid = len(_BITMAPS) + number
            offsets = None
            if _is_fixed(plan):
                values = next_fixed
                next_fixed += 1
            else:
                offsets = self.layout.offsets.start + len(self.texts)
                values = self.layout.texts.start + len(self.texts)
                diffs = image == 1 and seen & 16 and column.type is ColumnType.JSON
                self.texts.append(TextRegion(values, column.index, plan, not diffs))
                self.columns_at[values] = word
                places.append((word + k.C_OFFSETS, offsets))
                rooms.append(word + k.C_ROOM)
            places += [(word + k.C_VALUES, values), (word + k.C_VALID, valid)]
            found[image].append(
                ColumnRegions(
                    column,
                    plan,
                    valid,
                    values,
                    offsets,
                    word + k.C_VALUES,
                    is_finished(plan, column) and not pa.types.is_null(plan.type),
                    plan.finish is Finish.CHARSET and _is_utf8(column),
                )
            )
        self.words_at = np.array([at for at, _ in places], np.int64)
        self.words_from = np.array([region for _, region in places], np.int64)
        self.rooms_at = np.array(rooms, np.int64)
        self.images = [
            ImageRegions(
                image,
                image * width * k.COLUMN_WORDS,
                (k.D_BEFORE_VALID, k.D_AFTER_VALID)[image],
                tuple(found[image]),
                np.array([each.address_at - k.C_VALUES + k.C_NULLS for each in found[image]], int),
            )
            if image in found
            else None
            for image in (0, 1)
        ]


def _is_fixed(plan: Plan) -> bool:
    """Whether the kernel writes values of one size."""
    return not (pa.types.is_string(plan.raw) or pa.types.is_binary(plan.raw))


def _is_utf8(column: Column) -> bool:
    return column.collation is None or column.charset in UTF8


def _template(
    columns: Sequence[Column], plans: Sequence[Plan], asked: Collection[int]
) -> tuple[Array, list[Array]]:
    """The words that say how the kernel decodes each column, without the addresses; and the memory
    to which they point.
    """
    template = np.zeros((len(plans), k.COLUMN_WORDS), np.int64)
    names: list[Array] = []
    for index, plan in enumerate(plans):
        words = template[index]
        if index not in asked:
            words[k.C_KIND], words[k.C_ARGUMENT] = plan.skip, plan.skip_argument
            continue
        words[k.C_KIND] = k.COMPRESSED if plan.finish is Finish.DECOMPRESS else plan.kind
        words[k.C_ARGUMENT] = plan.argument
        words[k.C_WIDTH] = plan.raw.bit_width // 8 if _is_fixed(plan) else -1
        members = columns[index].members
        if plan.kind in {k.ENUM_NAME, k.SET_NAMES} and members is not None:
            table, data = (_set_table if plan.kind == k.SET_NAMES else _name_table)(members)
            names += [table, data]
            words[k.C_TABLE] = table.ctypes.data
        elif plan.kind in {k.DECIMAL, k.DECIMAL_TEXT}:
            words[k.C_TABLE] = powers_of_ten().ctypes.data
        elif plan.kind in {k.DATE, k.DATETIME, k.OLD_DATETIME}:
            words[k.C_TABLE] = calendar().ctypes.data
    return template, names


def _name_table(members: Sequence[str]) -> tuple[Array, Array]:
    """ENUM's names for the kernel: address and size of each, and the bytes."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in members]
    data = np.frombuffer(b"".join(encoded) + bytes(k.PADDING), np.uint8)
    sizes = np.array([len(name) for name in encoded], np.int64)
    words = np.empty((len(encoded), 2), np.int64)
    words[:, 0] = data.ctypes.data + np.cumsum(sizes) - sizes
    words[:, 1] = sizes
    return words, data


def _set_table(members: Sequence[str]) -> tuple[Array, Array]:
    """SET's names for the kernel, so that it needs one step for four bits: the bytes that all names
    take, then for each four bits, by their value, address and size of their names with a comma
    after each.
    """
    texts = [
        "".join(
            f"{name}," for bit, name in enumerate(members[first : first + 4]) if bits >> bit & 1
        )
        for first in range(0, len(members), 4)
        for bits in range(16)
    ]
    words, data = _name_table(texts)
    most = words[15::16, 1].sum()
    return np.concatenate([[most], words.reshape(-1)]), data
