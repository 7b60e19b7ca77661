"""Where the files of a table in a version to be are now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class TableFiles:
    """A table's files in a version to be: file name to where the file is now.

    ``extra`` has the contents of small files, by their path in the table's folder.
    """

    changelog: dict[str, Path] = field(default_factory=dict)
    current: dict[str, Path] = field(default_factory=dict)
    history: dict[str, Path] = field(default_factory=dict)
    extra: dict[str, bytes] = field(default_factory=dict)

    def copy(self) -> TableFiles:
        """The same, to which files may be added."""
        return TableFiles(*(dict(each) for each in vars(self).values()))

    def check(self) -> None:
        """Raises `PipelineError` where a file is not there."""
        for files in (self.changelog, self.current, self.history):
            for path in files.values():
                if not path.is_file():
                    raise PipelineError(f"its file {path} is gone: restore it")

    def drop_missing(self) -> None:
        """Leave out the files that are not there."""
        for files in (self.changelog, self.current, self.history):
            for name in [name for name, path in files.items() if not path.is_file()]:
                del files[name]
