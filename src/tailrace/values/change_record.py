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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from tailrace.constants import ColumnType
from tailrace.errors import LogError
from tailrace.position import sequence
from tailrace.values.charsets import PIECE, can_be_cut, pieces_of
from tailrace.values.family import text_json
from tailrace.values.image import ABSENT
from tailrace.values.json import JSON_SPACE
from tailrace.values.json_diff import JsonDiff, JsonDiffs, Operation
from tailrace.values.jsonb import load_json
from tailrace.values.registry import json_writer_of
from tailrace.values.schema import BLOB_TYPES, Logical
from tailrace.values.surrogates import Escapes, in_json

if TYPE_CHECKING:
    from tailrace.values.family import JsonWriter
    from tailrace.values.image import Image
    from tailrace.values.row import Row
    from tailrace.values.schema import Column, TableSchema


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
    large = either is not None and either.is_large(_LARGE)
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
        f'"_server_id":{origin.server_id},{_raw_and_diff(row, schema)}"before":'
    )
    if large:
        return escapes.pieces(_joined(head, pieces))
    return escapes("".join([head, *cast("list[str]", pieces)]))


def image_json(image: Image | None) -> str:
    """An image as a JSON object, keys in the table's order; ``null`` for no image."""
    return in_json("".join(cast("list[str]", _image(image, large=False))))


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
        if in_pieces is not None and view is not None and len(view) > _LARGE:
            try:
                pieces += (name, in_pieces(view))
            except LogError:
                image.at(index)  # it raises the error with its position
                raise
            continue
        value = image.at(index)
        if isinstance(value, str) and write is text_json:
            pieces += (name, _quoted(_sliced(value)))
        elif value is not ABSENT and not isinstance(value, JsonDiffs):
            pieces += (name, "null" if value is None else _sliced(write(value)))
    return pieces


def _raw_and_diff(row: Row, schema: TableSchema) -> str:
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
    writers: list[tuple[str, JsonWriter]]
    in_pieces: list[_PieceWriter | None]
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
    writers = [(f",{text_json(column.name)}:", json_writer_of(column)) for column in schema.columns]
    in_pieces = [_piece_writer_of(column) for column in schema.columns]
    documents = [column for column in schema.columns if is_document(column)]
    known = _kept[id(schema)] = _Known(schema, writers, in_pieces, documents)
    return known


def is_document(column: Column) -> bool:
    """Whether a column's values are embedded as JSON in the record."""
    return column.logical is Logical.JSON or column.type is ColumnType.JSON


_LARGE: Final = 4 << 20
"""Values of at least this many bytes are written in pieces."""
_PieceWriter = Callable[[memoryview], Iterator[str]]
"""Converts a value's bytes to JSON in pieces. Raises EventDecodeError before the first piece."""


def _piece_writer_of(column: Column) -> _PieceWriter | None:
    """The writer for large values of a column in pieces; None if they are written as a whole."""
    if column.type not in BLOB_TYPES or column.type is ColumnType.BLOB_COMPRESSED:
        return None
    if column.logical is Logical.BINARY:
        return _base64
    if column.logical is Logical.TEXT:
        return _text_writer(column.charset)
    return None


def _base64(data: memoryview) -> Iterator[str]:
    yield '"'
    for at in range(0, len(data), PIECE):
        yield base64.b64encode(data[at : at + PIECE]).decode("ascii")
    yield '"'


def _text_writer(charset: str) -> _PieceWriter | None:
    if not can_be_cut(charset):
        return None
    pieces = pieces_of(charset)

    def write(data: memoryview) -> Iterator[str]:
        for _piece in pieces(data):
            pass
        return _quoted(text for _, text in pieces(data))

    return write


def _quoted(texts: Iterator[str]) -> Iterator[str]:
    """A JSON string from several texts, in pieces."""
    yield '"'
    for text in texts:
        yield encode_basestring(text)[1:-1]
    yield '"'


def _sliced(text: str) -> Iterator[str]:
    """A text in pieces."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))
