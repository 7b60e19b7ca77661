"""Servers that encrypt their logs, their keys in a folder of the caller's."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.servers import datadir
from tools.servers.prefix import Prefix
from tools.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KEYS = (
    "# comment\n"
    "1;770A8A65DA156D24EE2A093277530142770A8A65DA156D24EE2A093277530142\n"
    "2;F5502320F8429037B8DAEF761B189D12\n"
)
GTIDS = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}


@dataclass(frozen=True)
class _OwnProgram(Prefix):
    """A prefix whose mysqld and plugins lie in a folder of ours: manifest and component
    configuration stand beside them, and the shared prefix is not written to."""

    own: Path | None = None

    @property
    def plugins(self) -> Path:
        assert self.own is not None
        return self.own / "plugin"

    def command(self, *programs: str) -> list[str]:
        argv = super().command(*programs)
        if programs != ("mysqld",):
            return argv
        assert self.own is not None
        return [*argv[:-1], str(self.own / "bin/mysqld")]


def mysql_with_keyring(
    folder: Path, options: Mapping[str, object] | None = None, *, server_id: int = 1
) -> Server:
    """A MySQL server with component_keyring_file (data in ``folder/keyring``) that encrypts."""
    given = {"binlog_encryption": "ON", **GTIDS, **(options or {})}
    server = Server("mysql-9.7", given, server_id=server_id, folder=folder / "server")  # type: ignore[arg-type]
    prefix = server.prefix
    datadir.make(prefix, folder / "server/data")
    own = folder / "program"
    (own / "bin").mkdir(parents=True)
    (own / "plugin").mkdir()
    program = prefix.path / "usr/sbin/mysqld"
    try:
        os.link(program, own / "bin/mysqld")
    except OSError:
        shutil.copy(program, own / "bin/mysqld")
    for library in prefix.plugins.iterdir():
        (own / "plugin" / library.name).symlink_to(library)
    (own / "bin/mysqld.my").write_text('{"components": "file://component_keyring_file"}')
    configuration = {"path": str(folder / "keyring"), "read_only": False}
    (own / "plugin/component_keyring_file.cnf").write_text(json.dumps(configuration))
    server.prefix = _OwnProgram(prefix.release, prefix.path, own)
    server.start()
    return server


def mariadb_with_keys(
    name: str,
    folder: Path,
    cipher: str = "aes_cbc",
    options: Sequence[str] = (),
    *,
    server_id: int = 1,
) -> Server:
    """A MariaDB server with file_key_management (keys in ``folder/keys``) that encrypts."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "keys"
    if not path.exists():
        path.write_text(KEYS)
    server = Server(
        name,
        [
            "--plugin-load-add=file_key_management",
            "--plugin-maturity=unknown",
            f"--file-key-management-filename={path}",
            f"--file-key-management-encryption-algorithm={cipher}",
            "--encrypt-binlog=ON",
            *options,
        ],
        server_id=server_id,
        folder=folder / "server",
    )
    server.start()
    return server
