"""Servers of MySQL and MariaDB as targets."""
