"""The parts of PyMySQL in use: imported in one place, with a helpful error if it is missing."""

from tailrace.extras import importing

with importing("live", "reading a server"):
    from pymysql import err
    from pymysql.connections import Connection
    from pymysql.constants import CLIENT, CR, ER
    from pymysql.cursors import Cursor, SSCursor
    from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

__all__ = [
    "CLIENT",
    "CR",
    "ER",
    "Connection",
    "Cursor",
    "FieldDescriptorPacket",
    "MysqlPacket",
    "SSCursor",
    "err",
]
