"""A receiver that has a power cut with its kill: python -m tools.campaign.zeroloss_receiver ….

`tailrace receive` with these arguments, but what is written to a file and not yet synced stays in
this process: killed, it leaves what a machine without power would leave, whose disk wrote nothing
back of its own accord.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace import cli
from tailrace.replication.copy.folder import CopyFolder
from tailrace.storage.streams.file import FileOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tailrace.storage.streams.base import Data


class LazyDisk:
    """Takes the place of `FileOutput`'s methods in this process."""

    def __init__(self) -> None:
        self._held: dict[FileOutput, bytearray] = {}
        self._write: Callable[[FileOutput, Data], None] = FileOutput.write

    def install(self) -> None:
        """From now on. What is not the end of a file is written with all that lies before it."""

        def hold(output: FileOutput, data: Data) -> None:
            self._held.setdefault(output, bytearray()).extend(data)
            output.size += len(data)

        FileOutput.write = hold  # type: ignore[method-assign]
        for name in ("update", "truncate", "sync", "close"):
            setattr(FileOutput, name, self._behind(getattr(FileOutput, name)))
        stored = CopyFolder.read

        def read(folder: CopyFolder, name: str, offset: int, count: int) -> bytes:
            found = stored(folder, name, offset, count)
            for output, data in self._held.items():
                if Path(output.path).name == name:  # it is plain: its offsets are the log's
                    begin = offset + len(found) - (output.size - len(data))
                    found += data[begin : begin + count - len(found)]
            return found

        CopyFolder.read = read  # type: ignore[method-assign,assignment]

    def _behind(self, method: Callable[..., None]) -> Callable[..., None]:
        def put_and_do(output: FileOutput, *given: Any) -> None:
            if data := self._held.pop(output, None):
                output.size -= len(data)
                self._write(output, data)
            method(output, *given)

        return put_and_do


def main(arguments: Sequence[str]) -> None:
    """Run the receiver."""
    LazyDisk().install()
    sys.argv[1:] = ["receive", *arguments]
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1:])
