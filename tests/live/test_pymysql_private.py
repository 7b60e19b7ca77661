"""What of PyMySQL's inside is overridden, called or relied on: told when it changes.

A failure here is no fault yet. Read what changed in PyMySQL, see that `tailrace.live.connect`,
``login``, ``hold`` and ``net`` are still right about it, and write the new digest down.
"""

import ast
import hashlib
import inspect
from pathlib import Path

from pymysql import _auth, connections, protocol

import tailrace

CODE = {
    "Connection.__init__": "1183553d14636108",
    "Connection._create_ssl_ctx": "03fb3c944adac2ba",
    "Connection.close": "4c6144c21f9cadf7",
    "Connection._force_close": "0ad9bf02d8a88d73",
    "Connection._read_ok_packet": "09cfef7de98ababa",
    "Connection.query": "d90c65098b908f16",
    "Connection.next_result": "125872099ab2d52d",
    "Connection.set_character_set": "6cc6ecccda42b969",
    "Connection.autocommit": "d1cf405e6a708089",
    "Connection.connect": "4e8ee8fd5c82ab5f",
    "Connection.write_packet": "2f370b2cc09cd5c3",
    "Connection._read_packet": "befc04efe3c01b84",
    "Connection._read_bytes": "5f0addfbcfbed358",
    "Connection._write_bytes": "2daf1e2f4b586ab6",
    "Connection._read_query_result": "0158eebefe7697b6",
    "Connection._execute_command": "1a7dc00135503901",
    "Connection._request_authentication": "4cd9c67e6fb91057",
    "Connection._process_auth": "3613e1b952982c02",
    "Connection._get_auth_plugin_handler": "a54c1c877c7fb75a",
    "Connection._get_server_information": "c648de0e290e35e8",
    "MySQLResult": "cd72165269ce5172",
    "MysqlPacket": "0bba6239c312d6d1",
    "FieldDescriptorPacket": "f6e5e23946fd11f7",
    "scramble_native_password": "1a1b0bc253ceac67",
    "ed25519_password": "95014453470a89c6",
    "scramble_caching_sha2": "00de1690644f3df3",
}
"""What is overridden or called, or calls what is: the first digits of its source's SHA-256."""
STATE = {
    "_closed": "close",
    "_connect_attrs": "_request_authentication",
    "_current_timeout": "_read_packet",
    "_next_seq_id": "_read_packet",
    "_read_timeout": "_read_packet",
    "_result": "_execute_command",
    "_rfile": "_read_bytes",
    "_sock": "_write_bytes",
    "_write_timeout": "_write_bytes",
}
"""Attributes that are read or set, and a method that does so, too."""


def source_of(name):
    place = next(
        each for each in (connections, protocol, _auth) if hasattr(each, name.partition(".")[0])
    )
    found = place
    for part in name.split("."):
        found = getattr(found, part)
    return inspect.getsource(found)


def test_code():
    found = {name: hashlib.sha256(source_of(name).encode()).hexdigest()[:16] for name in CODE}
    assert found == CODE


def test_state():
    for name, method in STATE.items():
        assert f"self.{name}" in source_of(f"Connection.{method}")


def test_nothing_else_is_used():
    """Each private name in our code that PyMySQL's connections have stands above."""
    theirs = set(dir(connections.Connection)) | {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(connections)))
        if isinstance(node, ast.Attribute)
    }
    known = STATE.keys() | {name.partition(".")[2] for name in CODE}
    used = {}
    for path in sorted(Path(tailrace.__file__).parent.rglob("*.py")):
        text = path.read_text("utf-8")
        if "tailrace.live.driver" not in text and "ServerConnection" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            name = getattr(node, "attr", getattr(node, "name", None)) or ""
            if name.startswith("_") and not name.startswith("__") and name in theirs - known:
                used[name] = path.name
    assert not used
