"""Where a log comes from, by URL scheme."""

from tailrace.selection import Start
from tailrace.transports.background import END, BackgroundReader
from tailrace.transports.base import Record, Stream, Transport, check_among
from tailrace.transports.registry import Factory, elsewhere, register, schemes, transport_of_parsed
from tailrace.transports.series import SeriesTransport

__all__ = [
    "END",
    "BackgroundReader",
    "Factory",
    "Record",
    "SeriesTransport",
    "Start",
    "Stream",
    "Transport",
    "check_among",
    "elsewhere",
    "register",
    "schemes",
    "transport_of_parsed",
]
