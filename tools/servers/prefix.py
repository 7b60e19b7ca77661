"""Which servers there are, where they lie and how a program of theirs is run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Flavour = Literal["mysql", "mariadb"]


class ServersUnavailable(RuntimeError):
    """The servers can't be had on this machine; the message says why."""


@dataclass(frozen=True)
class Download:
    """What can be fetched: what it is called here and where it comes from.

    `alone` are packages of which only the files are wanted, not what they depend on.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Release(Download):
    """A database server's release."""

    flavour: Flavour


_MARIADB = {
    "packages": ("mariadb-server-core", "mariadb-client-core"),
    "alone": ("mariadb-server", "mariadb-client"),  # plugins; mariadb-binlog
}

RELEASES: dict[str, Release] = {
    release.name: release
    for release in (
        Release(
            name="mysql-9.7",
            flavour="mysql",
            suite="unstable",
            packages=("mysql-server-core", "mysql-client-core"),
        ),
        Release(name="mariadb-11.8", flavour="mariadb", suite="unstable", **_MARIADB),
        Release(name="mariadb-10.11", flavour="mariadb", suite="bookworm", **_MARIADB),
    )
}
NAMES: tuple[str, ...] = tuple(RELEASES)
"""The database servers."""
ONE_OF_EACH: tuple[str, ...] = ("mysql-9.7", "mariadb-11.8")
"""A server of each flavour, for what goes by the flavour and not by the release."""
TOOLS: dict[str, Download] = {
    "chromium": Download("chromium", "unstable", ("chromium-headless-shell", "fonts-dejavu-core")),
    "go": Download("go", "unstable", ("golang-go",)),
    "python-3.14": Download("python-3.14", "unstable", ("python3.14",)),
}
"""What else tests need: `tools.s3` builds an S3 server with Go; CI runs unit tests on the newest
Python too."""


def root_folder() -> Path:
    """The folder that holds the servers: TAILRACE_SERVERS, or .servers in the repository."""
    if folder := os.environ.get("TAILRACE_SERVERS"):
        return Path(folder).resolve()
    return Path(__file__).resolve().parents[2] / ".servers"


def release(name: str) -> Release:
    """The release of that name."""
    try:
        return RELEASES[name]
    except KeyError:
        raise ValueError(f"no server {name!r}; there are {', '.join(NAMES)}") from None


def download(name: str) -> Download:
    """What is fetched by that name."""
    return TOOLS.get(name) or release(name)


def command(tree: Path, *programs: str) -> list[str]:
    """The argv that runs the first of these programs that the tree has, on its own libraries."""
    for program in programs:
        for folder in ("usr/sbin", "usr/bin"):
            if (file := tree / folder / program).is_file():
                own = loader(tree)
                return [str(own), "--library-path", str(own.parent), str(file)]
    raise FileNotFoundError(f"{tree} has no {' or '.join(programs)}")


def loader(tree: Path) -> Path:
    """The loader of a tree's programs; its libraries lie next to it."""
    return next((tree / "usr/lib").glob("*-linux-gnu*/ld-linux*.so.*"))


@dataclass(frozen=True)
class Prefix:
    """An unpacked server: a file tree with its own C library and loader."""

    release: Release
    path: Path

    @property
    def libraries(self) -> Path:
        """The folder of its shared libraries."""
        return loader(self.path).parent

    @property
    def share(self) -> Path:
        """The folder of error messages, character sets and system tables."""
        folders = (self.path / "usr/share" / name for name in ("mariadb", "mysql"))
        return next(folder for folder in folders if (folder / "charsets/Index.xml").is_file())

    @property
    def plugins(self) -> Path:
        """The folder of its plugins."""
        return self.path / "usr/lib/mysql/plugin"

    def command(self, *programs: str) -> list[str]:
        """The argv that runs the first of these programs that exists, on its own libraries."""
        return command(self.path, *programs)

    def server(self) -> list[str]:
        """The argv prefix of the server, with the options that find its own files."""
        program = "mariadbd" if self.release.flavour == "mariadb" else "mysqld"
        return [
            *self.command(program),
            "--no-defaults",
            f"--basedir={self.path / 'usr'}",
            f"--lc-messages-dir={self.share}",
            f"--character-sets-dir={self.share / 'charsets'}",
            f"--plugin-dir={self.plugins}",
        ]

    def binlog_tool(self) -> list[str]:
        """The argv prefix of mysqlbinlog or mariadb-binlog."""
        program = "mariadb-binlog" if self.release.flavour == "mariadb" else "mysqlbinlog"
        return [
            *self.command(program, "mysqlbinlog"),
            "--no-defaults",
            f"--character-sets-dir={self.share / 'charsets'}",
        ]
