"""The change record as one line of JSON (docs/change-record.md).

Integers, YEAR and BIT are numbers. DECIMAL, dates and times are text as ``SELECT`` prints them.
Binary values are base64. JSON columns are embedded as they are. Floats have the fewest digits that
distinguish them from all other floats of their width. A column that is absent from the image is
left out.

Two fields are present only for what an image cannot express. ``_raw`` has the text of a document
that is JSON's ``null``, which in the image looks like SQL's NULL. ``_diff`` has the changes of a
partial update to a document that is not in the log.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, LogError
from tailrace.position import sequence
from tailrace.rows.floats import float32_text
from tailrace.rows.image import ABSENT
from tailrace.rows.json import load_json
from tailrace.rows.json_diff import JsonDiff, JsonDiffs, Operation
from tailrace.rows.large_json import LARGE, PieceWriter, piece_writer_of, quoted, sliced
from tailrace.rows.schema import Logical
from tailrace.rows.surrogates import Escapes, in_json

if TYPE_CHECKING:
    from tailrace.rows.image import Image
    from tailrace.rows.row import Row
    from tailrace.rows.schema import Column, TableSchema

Writer = Callable[[Any], str]
"""A value that is not NULL, to JSON."""


text_json: Final[Writer] = encode_basestring
"""A str as a JSON string; only characters that must be escaped are."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a change comes from: the fields of its record in addition to the row itself.

    ``ts`` is microseconds UTC. ``file_number`` is the number at the end of the log file's name.
    ``offset`` is the row event's start in the file; for an event inside a transaction payload, it
    is the payload's start.
    """

    file: str
    file_number: int
    offset: int
    ts: int | None
    gtid: str | None
    server_id: int


def change_json(
    row: Row,
    schema: TableSchema,
    origin: Origin,
    number: int | None = None,
    escapes: Escapes | None = None,
) -> str:
    """`change_record` as one string."""
    record = change_record(row, schema, origin, number, escapes)
    return record if isinstance(record, str) else "".join(record)


def change_record(
    row: Row,
    schema: TableSchema,
    origin: Origin,
    number: int | None = None,
    escapes: Escapes | None = None,
) -> str | Iterator[str]:
    """One change record, without a line end; large values are given in pieces.

    ``number`` is the row's number at the origin's offset, if it differs from ``row.number`` (inside
    a transaction payload). ``escapes`` counts records with surrogates. Errors from decoding the
    row's values are raised before the first piece.
    """
    escapes = Escapes() if escapes is None else escapes
    either = row.before if row.after is None else row.after  # both are of one event
    large = either is not None and either.is_large(LARGE)
    try:
        pieces = [*_image(row.before, large), ',"after":', *_image(row.after, large), "}"]
    except LogError as error:
        raise error.at(origin.file, origin.offset) from None
    seq = sequence(origin.file_number, origin.offset, row.number if number is None else number)
    ts = "null" if origin.ts is None else origin.ts
    gtid = "null" if origin.gtid is None else text_json(origin.gtid)
    head = (
        f'{{"_op":"{row.kind}","_db":{text_json(schema.database)},'
        f'"_table":{text_json(schema.table)},"_ts":{ts},"_gtid":{gtid},'
        f'"_file":{text_json(origin.file)},"_pos":{origin.offset},"_seq":"{seq}",'
        f'"_server_id":{origin.server_id},{_beside(row, schema)}"before":'
    )
    if large:
        return escapes.pieces(_joined(head, pieces))
    return escapes("".join([head, *cast("list[str]", pieces)]))


def image_json(image: Image | None) -> str:
    """An image as a JSON object, keys in the table's order; ``null`` for no image."""
    return in_json("".join(_joined("", _image(image, large=False))))


def _joined(first: str, pieces: list[str | Iterator[str]]) -> Iterator[str]:
    """The pieces, with those between large values joined."""
    texts = [first]
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        yield "".join(texts)
        texts.clear()
        yield from piece
    yield "".join(texts)


def _image(image: Image | None, large: bool) -> list[str | Iterator[str]]:
    """The pieces of an image's JSON; with ``large``, each large value is a separate iterator."""
    if image is None:
        return ["null"]
    known = _known(image.schema)
    if large:
        return _braced(_large_image(image, known))
    values = image.as_tuple()
    if known.documents:  # a document that is not in the log has no value
        values = tuple(ABSENT if isinstance(value, JsonDiffs) else value for value in values)
    pieces: list[str | Iterator[str]] = []
    for (name, write), value in zip(known.writers, values, strict=True):
        if value is not ABSENT:
            pieces += (name, "null" if value is None else write(value))
    return _braced(pieces)


def _braced(pieces: list[str | Iterator[str]]) -> list[str | Iterator[str]]:
    if not pieces:
        return ["{}"]
    pieces[0] = f"{{{str(pieces[0])[1:]}"
    pieces.append("}")
    return pieces


def _large_image(image: Image, known: _Known) -> list[str | Iterator[str]]:
    """The members of an image that may have large values; large values are not built as a whole."""
    pieces: list[str | Iterator[str]] = []
    for index, ((name, write), in_pieces) in enumerate(
        zip(known.writers, known.in_pieces, strict=True)
    ):
        view = None if in_pieces is None else image.view(index)
        if in_pieces is not None and view is not None and len(view) > LARGE:
            try:
                pieces += (name, in_pieces(view))
            except LogError:
                image.at(index)  # it raises the error with its position
                raise
            continue
        value = image.at(index)
        if isinstance(value, str) and write is text_json:
            pieces += (name, quoted(sliced(value)))
        elif value is not ABSENT and not isinstance(value, JsonDiffs):
            pieces += (name, "null" if value is None else sliced(write(value)))
    return pieces


def _beside(row: Row, schema: TableSchema) -> str:
    """``_raw`` and ``_diff``, each followed by a comma, where the record has them."""
    documents = _known(schema).documents
    if not documents:
        return ""
    nulls: list[str] = []
    diffs: list[str] = []
    for name, image in (("before", row.before), ("after", row.after)):
        if image is None:
            continue
        for column in documents:
            value = image.at(column.index)
            if isinstance(value, JsonDiffs):
                each = ",".join(map(_diff, value))
                diffs.append(f"{text_json(f'{name}.{column.name}')}:[{each}]")
            elif isinstance(value, str) and value.strip(JSON_SPACE) == "null":
                nulls.append(f'{text_json(f"{name}.{column.name}")}:"null"')
    parts = zip(("_raw", "_diff"), (nulls, diffs), strict=True)
    return "".join(f'"{field}":{{{",".join(each)}}},' for field, each in parts if each)


def _diff(diff: JsonDiff) -> str:
    head = f'{{"op":"{diff.operation.name.lower()}","path":{text_json(diff.path)}'
    if diff.operation is Operation.REMOVE:
        return f"{head}}}"
    return f'{head},"value":{load_json(diff.value)}}}'


class _Known(NamedTuple):
    """Computed once for a schema: each column's key after a comma, and its writer."""

    schema: TableSchema
    writers: list[tuple[str, Writer]]
    in_pieces: list[PieceWriter | None]
    documents: list[Column]


_MAX_KEPT: Final = 1024
_kept: Final[dict[int, _Known]] = {}


def _known(schema: TableSchema) -> _Known:
    """Cached by the schema's identity."""
    known = _kept.get(id(schema))
    if known is not None and known.schema is schema:
        return known
    if len(_kept) >= _MAX_KEPT:
        _kept.clear()
    writers = [(f",{text_json(column.name)}:", writer_of(column)) for column in schema.columns]
    in_pieces = [piece_writer_of(column) for column in schema.columns]
    documents = [column for column in schema.columns if is_document(column)]
    known = _kept[id(schema)] = _Known(schema, writers, in_pieces, documents)
    return known


JSON_SPACE: Final = " \t\n\r"
"""The whitespace that may surround a document."""


def is_document(column: Column) -> bool:
    """Whether a column's values are embedded as JSON in the record."""
    return column.logical is Logical.JSON or column.type is ColumnType.JSON


def writer_of(column: Column) -> Writer:
    """The writer of a column's values, as its loader returns them."""
    type_, logical = column.type, column.logical
    if type_ in _BY_TYPE:
        return _BY_TYPE[type_]
    if logical is not Logical.PLAIN:
        return _BY_LOGICAL[logical]
    if type_ in {ColumnType.ENUM, ColumnType.SET} and column.members is not None:
        return text_json
    return str


def _float32(value: float) -> str:
    if not isfinite(value):
        raise _not_finite(value)
    return float32_text(value)


def _float64(value: float) -> str:
    if not isfinite(value):
        raise _not_finite(value)
    return repr(value)


def _not_finite(value: float) -> EventDecodeError:
    return EventDecodeError(f"{value} cannot be written as JSON, nor stored by a server")


def _decimal(value: Any) -> str:
    return f'"{value:f}"'


def _plain_text(value: str) -> str:
    """Text in which no character needs to be escaped."""
    return f'"{value}"'


def _binary(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode("ascii")}"'


def _vector(value: tuple[float, ...]) -> str:
    return f"[{','.join(map(_float32, value))}]"


_LINE_ENDS: Final = re.compile(r"[\r\n]")


def _refuse(name: str) -> None:
    raise ValueError(name)


def declared_json(value: str) -> str:
    """A MariaDB document as JSON. It is text from a user and is kept as it is.

    Text that is not valid JSON becomes a string. Line breaks in JSON can only be between values;
    they become spaces, as a record is one line.
    """
    try:
        json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return in_json(text_json(value))
    return in_json(_LINE_ENDS.sub(" ", value))


_BY_TYPE: Final[dict[ColumnType, Writer]] = {
    ColumnType.FLOAT: _float32,
    ColumnType.DOUBLE: _float64,
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.JSON: str,
    **dict.fromkeys(
        (
            ColumnType.DATE,
            ColumnType.NEWDATE,
            ColumnType.TIME,
            ColumnType.TIME2,
            ColumnType.DATETIME,
            ColumnType.DATETIME2,
            ColumnType.TIMESTAMP,
            ColumnType.TIMESTAMP2,
        ),
        _plain_text,
    ),
}
_BY_LOGICAL: Final[dict[Logical, Writer]] = {
    Logical.TEXT: text_json,
    Logical.BINARY: _binary,
    Logical.GEOMETRY: _binary,
    Logical.JSON: declared_json,
    Logical.VECTOR: _vector,
    Logical.UUID: _plain_text,
    Logical.INET4: _plain_text,
    Logical.INET6: _plain_text,
}
