"""Avro files of Iceberg's metadata, whose form is worked out once.

pyiceberg derives the schema, its JSON and the writer again for each file, which took a third of a
small commit.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestContent,
    ManifestListWriterV2,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

if TYPE_CHECKING:
    from pyiceberg.avro.writer import Writer
    from pyiceberg.io import OutputFile

CODEC: Final = "deflate"
_SCHEMA_KEY: Final = "avro.schema"
_ENTRY: Final = "manifest_entry"
_MANIFEST: Final = "manifest_file"


@cache
def _form(name: str) -> tuple[Writer, str]:
    """What writes records of a name, and their schema as JSON; files have no partitions."""
    schema = MANIFEST_LIST_FILE_SCHEMAS[2]
    if name == _ENTRY:
        file = data_file_with_partition(partition_type=StructType(), format_version=2)
        schema = manifest_entry_schema_with_data_file(format_version=2, data_file=file)
    avro = AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)
    return construct_writer(schema), json.dumps(avro)


@cache
def _header_writer() -> Writer:
    return construct_writer(META_SCHEMA)


class _AvroFile(AvroOutputFile[Any]):
    def __init__(self, output_file: OutputFile, name: str, metadata: dict[str, str]) -> None:
        self.output_file = output_file
        self.sync_bytes = os.urandom(SYNC_SIZE)
        self.writer, schema = _form(name)
        self.metadata = {**metadata, _SCHEMA_KEY: schema, AVRO_CODEC_KEY: CODEC}

    def _write_header(self) -> None:
        header = AvroFileHeader(MAGIC, self.metadata, self.sync_bytes)
        _header_writer().write(self.encoder, header)


class DataWriter(ManifestWriterV2):
    """Writes a manifest of data files."""

    def new_writer(self) -> AvroOutputFile[Any]:
        """The Avro file."""
        if self._spec.fields:  # of others' files, before the table's partitions were dropped
            return super().new_writer()
        return _AvroFile(self._output_file, _ENTRY, self._meta)


class DeletesWriter(DataWriter):
    """Writes a manifest of delete files, which pyiceberg has no writer for."""

    def content(self) -> ManifestContent:
        """What it lists."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class ListWriter(ManifestListWriterV2):
    """Writes a manifest list."""

    def __enter__(self) -> Self:
        self._writer = _AvroFile(self._output_file, _MANIFEST, self._meta)
        self._writer.__enter__()
        return self
