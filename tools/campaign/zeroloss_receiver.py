"""A receiver that has a power cut with its kill: python -m tools.campaign.zeroloss_receiver ….

`tailrace receive` with these arguments, but what is written to a file and not yet synced stays in
this process: killed, it leaves what a machine without power would leave, whose disk wrote nothing
back of its own accord.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tailrace.cli import main
from tailrace.storage.streams.file import FileOutput

if TYPE_CHECKING:
    from collections.abc import Callable
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

    def _behind(self, method: Callable[..., None]) -> Callable[..., None]:
        def put_and_do(output: FileOutput, *given: Any) -> None:
            if data := self._held.pop(output, None):
                output.size -= len(data)
                self._write(output, data)
            method(output, *given)

        return put_and_do


if __name__ == "__main__":
    LazyDisk().install()
    sys.argv[1:] = ["receive", *sys.argv[1:]]
    main()
