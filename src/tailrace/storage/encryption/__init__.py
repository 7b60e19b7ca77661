"""Encrypted logs of MySQL and MariaDB, read and written, as streams on other streams."""

from tailrace.storage.encryption.detect import opened
from tailrace.storage.encryption.folder import EncryptedFolder
from tailrace.storage.encryption.mariadb.event import Mode
from tailrace.storage.encryption.mariadb.input import mariadb_input
from tailrace.storage.encryption.mariadb.output import mariadb_output, mariadb_reopened
from tailrace.storage.encryption.mysql.streams import mysql_input, mysql_output, mysql_reopened
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
