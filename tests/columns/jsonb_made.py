"""Binary JSON of documents and of SQL's values, as tests/values/test_jsonb shows that MySQL writes it."""

from __future__ import annotations

import json
from typing import Any

from tailrace.values.jsonb import dump_json


def jsonb(value: Any) -> bytes:
    return dump_json(json.dumps(value))


def opaque(field: int, data: bytes) -> bytes:
    size, rest = b"", len(data)
    while rest > 127:
        size, rest = size + bytes([rest & 127 | 128]), rest >> 7
    return bytes([15, field]) + size + bytes([rest]) + data
