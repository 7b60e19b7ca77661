"""Encrypted logs of MySQL and MariaDB, read and written, as streams on other streams."""

from tailrace.storage.encryption.folder import EncryptedFolder, opened
from tailrace.storage.encryption.mariadb.format import Mode
from tailrace.storage.encryption.mariadb.streams import (
    mariadb_input,
    mariadb_output,
    mariadb_reopened,
)
from tailrace.storage.encryption.mysql import mysql_input, mysql_output, mysql_reopened
from tailrace.storage.encryption.temporary import temporary

__all__ = [
    "EncryptedFolder",
    "Mode",
    "mariadb_input",
    "mariadb_output",
    "mariadb_reopened",
    "mysql_input",
    "mysql_output",
    "mysql_reopened",
    "opened",
    "temporary",
]
