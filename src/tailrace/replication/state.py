"""A receiver's saved state: the identity of the source, and the receiver's own.

It is a small file in the copy's folder, ``receiver.json``. It holds no secret. The position at
which the copy resumes is not in it: the log files themselves have it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Final, Self
from uuid import uuid4

from tailrace.constants import COPY_STATE, Flavour
from tailrace.errors import StorageError
from tailrace.log_name import LogName
from tailrace.replication.copy.scan import Mark

if TYPE_CHECKING:
    from tailrace.storage.store import WritableStore

STATE_NAME: Final = COPY_STATE
_VERSION: Final = 1
_LARGEST: Final = 1 << 20
_OPTIONAL: Final = frozenset({"source_uuid", "source_id", "flavour", "base", "server_id", "mark"})


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """``source_uuid`` and ``source_id`` are the source's own, None as long as they are unknown.

    ``uuid`` and ``server_id`` identify the receiver to the source. ``base`` is the log's name
    (``binlog``), ``encrypted`` says whether the copy is encrypted, ``mark`` is the position from
    which it has to be scanned.
    """

    uuid: str = field(default_factory=lambda: str(uuid4()))
    server_id: int | None = None
    source_uuid: str | None = None
    source_id: int | None = None
    flavour: str | None = None
    base: str | None = None
    encrypted: bool = False
    mark: Mark | None = None

    @classmethod
    def load(cls, folder: WritableStore) -> Self | None:
        """Load the folder's file; None if there is none. Raises StorageError."""
        if STATE_NAME not in folder.names():
            return None
        path = folder.path(STATE_NAME)
        raw = folder.read(STATE_NAME, 0, _LARGEST)
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            raise StorageError(f"{path}: it is not JSON; {_WAY_OUT}") from None
        if not isinstance(found, dict) or found.pop("version", None) != _VERSION:
            raise StorageError(f"{path}: no receiver's state of version {_VERSION}; {_WAY_OUT}")
        for each in fields(cls):
            kinds = _KINDS[each.name]
            value = found.get(each.name)
            if not isinstance(value, kinds) and not (value is None and each.name in _OPTIONAL):
                raise StorageError(f"{path}: {each.name} is {value!r}; {_WAY_OUT}")
        if found.get("flavour") not in {None, *Flavour}:
            raise StorageError(f"{path}: flavour is {found['flavour']!r}; {_WAY_OUT}")
        base = found.get("base")
        if base is not None and LogName.parse(f"{base}.000001") is None:
            raise StorageError(f"{path}: base is {base!r}, no log's base name; {_WAY_OUT}")
        given = {each.name: found[each.name] for each in fields(cls) if each.name in found}
        if given.get("mark") is not None:
            mark = given["mark"]
            if {name: type(value) for name, value in mark.items()} != _MARK:
                raise StorageError(f"{path}: mark is {mark!r}; {_WAY_OUT}")
            given["mark"] = Mark(**mark)
        return cls(**given)

    def save(self, folder: WritableStore) -> None:
        """Write the file atomically. Raises StorageError."""
        text = json.dumps({"version": _VERSION, **asdict(self)}, indent=1)
        folder.replace(STATE_NAME, f"{text}\n".encode())


_KINDS: Final[dict[str, type]] = {
    "uuid": str,
    "server_id": int,
    "source_uuid": str,
    "source_id": int,
    "flavour": str,
    "base": str,
    "encrypted": bool,
    "mark": dict,
}
_MARK: Final = {"file": str, "offset": int, "begun": int, "last": int}
_WAY_OUT: Final = (
    "restore the file that was there, or remove it: then the copy resumes if its source's"
    " format description is that of its last file"
)
