"""What Tailrace, by each of its ways, and mysqlbinlog say of a log's rows."""

from __future__ import annotations

import io
import re
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

from tailrace.cli import app
from tailrace.columns import changes
from tools.campaign import selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from tailrace.storage import LogSeries
    from tools.campaign.replay import Texts
    from tools.campaign.selected import Declared, Writer

Change = tuple[str, str, "Texts | None", "Texts | None"]
"""Table (``database.table``), operation, and the images as SELECT's texts."""
Columns = dict[str, dict[str, "Declared"]]
"""By table and column name."""

_COUNTED = re.compile(
    rb"^### (INSERT INTO|UPDATE|DELETE FROM) (`(?:[^`]|``)*`\.`(?:[^`]|``)*`)", re.MULTILINE
)
_OPERATIONS = {b"INSERT INTO": "insert", b"UPDATE": "update", b"DELETE FROM": "delete"}


def json_lines(series: LogSeries, schema: Path | None) -> Iterator[str]:
    """What ``tailrace log --as json`` prints, the command run in this process."""
    arguments = ["log", *(file.path for file in series.files), "--as", "json"]
    if schema is not None:
        arguments += ["--schema", str(schema)]
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        app(arguments, print_error=False, exit_on_error=False, result_action="return_value")
    yield from out.getvalue().split("\n")[:-1]


def json_changes(lines: Iterable[str], columns: Columns) -> Iterator[Change]:
    """Change records as lines of JSON, to texts."""
    images = _JsonImages(columns)
    for line in lines:
        record = selected.parse(line)
        table = f"{record['_db']}.{record['_table']}"
        raw = record.get("_raw", {})
        before, after = (images.texts(table, record, raw, image) for image in ("before", "after"))
        yield table, record["_op"], before, after


class _JsonImages:
    """Images as JSON objects, to texts."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._writers: dict[tuple[str, str], Writer] = {}

    def texts(
        self, table: str, images: dict[str, Any], raw: dict[str, str], which: str
    ) -> Texts | None:
        """An image's texts, by column; a document that is JSON's null stands in ``raw``."""
        image = images[which]
        if image is None:
            return None
        return {
            name: None
            if value is None and f"{which}.{name}" not in raw
            else self._writer(table, name)(value)
            for name, value in image.items()
        }

    def _writer(self, table: str, name: str) -> Writer:
        writer = self._writers.get((table, name))
        if writer is None:
            declared = self._columns.get(table, {}).get(name)
            writer = str if declared is None else selected.from_json(declared)
            self._writers[table, name] = writer
        return writer


def document_changes(batches: Iterable[pa.RecordBatch], columns: Columns) -> Iterator[Change]:
    """Record batches whose images are JSON documents, to texts, in the order of ``_seq``."""
    found: list[tuple[int, Change]] = []
    images = _JsonImages(columns)
    for batch in batches:
        for record in batch.to_pylist():
            table = f"{record['_db']}.{record['_table']}"
            parsed = {
                image: None if record[image] is None else selected.parse(record[image])
                for image in ("before", "after")
            }
            raw = dict(record["_raw"] or ())
            before, after = (images.texts(table, parsed, raw, image) for image in parsed)
            found.append((int(record["_seq"]), (table, record["_op"], before, after)))
    return _in_order(found)


def _in_order(found: list[tuple[int, Change]]) -> Iterator[Change]:
    found.sort(key=lambda each: each[0])
    if len({number for number, _ in found}) != len(found):
        raise AssertionError("two changes have the same _seq")
    return (change for _, change in found)


def arrow_changes(series: LogSeries, schema: Path | None, columns: Columns) -> Iterator[Change]:
    """`tailrace.changes`, to texts, in the order of ``_seq``."""
    return typed_changes(changes(series, schema=schema), columns)


def typed_changes(batches: Iterable[pa.RecordBatch], columns: Columns) -> Iterator[Change]:
    """Record batches with typed columns in their images, to texts, in the order of ``_seq``."""
    found: list[tuple[int, Change]] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        plain = {
            name: batch.column(name).to_pylist()
            for name in ("_op", "_db", "_table", "_seq", "_present", "_raw")
        }
        table = f"{plain['_db'][0]}.{plain['_table'][0]}"
        names = [field.name for field in batch.schema.field("after").type]
        declared = [columns.get(table, {}).get(name) for name in names]
        writers = [str if each is None else selected.from_arrow(each) for each in declared]
        images = [
            (
                image,
                batch.column(image).is_valid().to_pylist(),
                [
                    [None if value is None else write(value) for value in child.to_pylist()]
                    for child, write in zip(batch.column(image).flatten(), writers, strict=True)
                ],
            )
            for image in ("before", "after")
        ]
        for row in range(batch.num_rows):
            raw = dict(plain["_raw"][row] or ())
            present = plain["_present"][row]
            texts = [
                _image(names, image, valid[row], [v[row] for v in values], present, raw)
                for image, valid, values in images
            ]
            change = (table, plain["_op"][row], texts[0], texts[1])
            found.append((int(plain["_seq"][row]), change))
    return _in_order(found)


def _image(
    names: list[str],
    image: str,
    valid: bool,
    values: list[str | None],
    present: dict[str, bytes] | None,
    raw: dict[str, str],
) -> Texts | None:
    if not valid:
        return None
    bits = -1 if present is None else int.from_bytes(present[image], "little")
    return {
        name: raw.get(f"{image}.{name}", value)
        for index, (name, value) in enumerate(zip(names, values, strict=True))
        if bits >> index & 1
    }


def counted(output: bytes) -> Counter[tuple[str, str]]:
    """How many rows of each table and operation ``mysqlbinlog -v`` shows."""
    counts: Counter[tuple[str, str]] = Counter()
    for verb, name in _COUNTED.findall(output):
        database, _, table = name.decode().strip("`").partition("`.`")
        counts[f"{database}.{table}".replace("``", "`"), _OPERATIONS[verb]] += 1
    return counts
