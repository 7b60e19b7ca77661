"""Materialised events: as bytes, as streams, and back (MWL#120, "Materialisation")."""

from tailrace.generators.materialise.filter import Action, Filter, injected
from tailrace.generators.materialise.frames import NativeReader, UndeclaredEvent
from tailrace.generators.materialise.native import NativeFormat
from tailrace.generators.materialise.records import Record, register_record
from tailrace.generators.materialise.stream import (
    MaterialisedStream,
    Materialiser,
    de_materialise,
)
from tailrace.generators.materialise.writer import NativeWriter

__all__ = [
    "Action",
    "Filter",
    "MaterialisedStream",
    "Materialiser",
    "NativeFormat",
    "NativeReader",
    "NativeWriter",
    "Record",
    "UndeclaredEvent",
    "de_materialise",
    "injected",
    "register_record",
]
