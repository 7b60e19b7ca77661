"""Connections to real servers: ways of authentication, and typed errors where there is none."""

import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pymysql import _auth

import tailrace
from tailrace.errors import AccessDenied, ConnectionLost, ProtocolError, TlsError, UsageError
from tailrace.extras import hint
from tailrace.live.connect import connect
from tailrace.live.net import NetService
from tailrace.live.transport import ServerTransport
from tailrace.live.url import Source
from tests.cases import each_case
from tests.live.certificates import Authority
from tools.campaign.hostile.fake import FakeServer

PASSWORD = "s3cret-Wörd'\"\\ €"


@pytest.fixture(autouse=True)
def _no_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))


def account(server, name, how, password=PASSWORD):
    """An account; ``how`` stands behind IDENTIFIED, %s in it is the password."""
    server.execute(f"DROP USER IF EXISTS {name}@'127.0.0.1'")
    server.execute(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED {how}", (password,))


def source(server, user="root", **options):
    said = "&".join(f"{name.replace('_', '-')}={value}" for name, value in options.items())
    return Source.parse(f"mysql://{user}@127.0.0.1:{server.port}/?{said}")


def who(given):
    with connect(given, given.hosts[0]) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        return cursor.fetchone()[0]


def refused(given, kind=AccessDenied):
    with pytest.raises(kind) as caught:
        connect(given, given.hosts[0])
    error = caught.value
    for shown in (str(error), repr(error), str(error.__cause__), repr(error.__cause__)):
        assert "s3cret" not in shown
    assert "mysql://" in str(error)
    return error


# --- ways in -------------------------------------------------------------------------------------


def test_a_socket(server):
    given = Source.parse(f"mysql://root@/?socket={server.folder / 'socket'}")
    assert who(given) == "root@localhost"


@each_case("mode", ["DISABLED", "REQUIRED"])
def test_mysqls_ways(mysql97, mode):
    """Each from scratch: with no TLS the password goes encrypted by the server's public key."""
    options = {"ssl_mode": mode}
    if mode == "DISABLED":
        options["server_public_key_path"] = public_key_of(mysql97)
    for plugin in ("caching_sha2_password", "sha256_password"):
        account(mysql97, "auth", f"WITH {plugin} BY %s")
        given = source(mysql97, "auth", **options).with_password(PASSWORD)
        assert who(given) == "auth@127.0.0.1"
        assert who(given) == "auth@127.0.0.1"  # from the server's cache
        refused(given.with_password("s3cret-another"))
        refused(source(mysql97, "auth", **options))
    account(mysql97, "auth", "WITH caching_sha2_password BY %s", "")
    assert who(source(mysql97, "auth", **options)) == "auth@127.0.0.1"


@each_case("plugin", ["caching_sha2_password", "sha256_password"])
def test_a_socket_takes_a_password_in_full(mysql97, plugin):
    mysql97.execute("DROP USER IF EXISTS auth@localhost")
    mysql97.execute(f"CREATE USER auth@localhost IDENTIFIED WITH {plugin} BY %s", (PASSWORD,))
    path = mysql97.folder / "socket"
    url = f"mysql://auth@/?socket={path}&ssl-mode=DISABLED"
    if plugin == "sha256_password":  # not this one: MySQL's client asks for the key there, too
        refused(Source.parse(url).with_password(PASSWORD))
        url += f"&server-public-key-path={public_key_of(mysql97)}"
    given = Source.parse(url).with_password(PASSWORD)
    assert who(given) == "auth@localhost"
    refused(given.with_password("s3cret-another"))


def test_without_tls_only_what_the_server_has_in_its_cache(mysql97):
    """caching_sha2_password's proof goes to anybody; the password in full to nobody."""
    account(mysql97, "auth", "WITH caching_sha2_password BY %s")
    bare = source(mysql97, "auth", ssl_mode="DISABLED").with_password(PASSWORD)
    error = refused(bare)
    assert "server-public-key-path" in str(error)
    assert "ssl-mode=REQUIRED" in str(error)
    assert who(source(mysql97, "auth", ssl_mode="REQUIRED").with_password(PASSWORD))
    assert who(bare) == "auth@127.0.0.1"
    account(mysql97, "auth", "WITH sha256_password BY %s")
    assert "the password was not sent" in str(refused(bare))


def public_key_of(server):
    """The public key that a server made for itself: what its client takes for the same option."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@datadir, @@caching_sha2_password_public_key_path")
        return Path(*cursor.fetchone())


@each_case(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"", "no public key in PEM form"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "no public key"),
        ("an authority's certificate", "no public key in PEM form"),
        ("a key of another kind", "not an RSA key"),
    ],
)
def test_a_public_key_that_is_none(tmp_path, content, told):
    path = tmp_path / "key.pem"
    if content == "an authority's certificate":
        path = Authority(tmp_path).ca
    elif content == "a key of another kind":
        key = ec.generate_private_key(ec.SECP256R1()).public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        path.write_bytes(key.public_bytes(serialization.Encoding.PEM, form))
    elif content is not None:
        path.write_bytes(content)
    given = Source.parse(f"mysql://u:s3cret@127.0.0.1:1/?server-public-key-path={path}")
    with pytest.raises(UsageError, match=told):
        connect(given, given.hosts[0])


def test_mariadbs_way(mariadb118):
    server = mariadb118
    account(server, "auth", "BY %s")
    given = source(server, "auth").with_password(PASSWORD)
    assert who(given) == "auth@127.0.0.1"
    error = refused(given.with_password("s3cret-another"))
    assert (error.code, error.sqlstate) == (1045, "28000")
    assert "TAILRACE_PASSWORD" in str(error)
    refused(source(server, "auth"))


@pytest.fixture
def with_ed25519(mariadb118):
    mariadb118.execute("INSTALL SONAME 'auth_ed25519'")
    return mariadb118


def test_ed25519(with_ed25519):
    """MariaDB's own way, by PyMySQL and PyNaCl: the password itself is never sent."""
    server = with_ed25519
    account(server, "auth", "VIA ed25519 USING PASSWORD(%s)")
    for options in ({"ssl_mode": "DISABLED"}, {}, {"compress": "zlib"}):
        given = source(server, "auth", **options).with_password(PASSWORD)
        assert who(given) == "auth@127.0.0.1"
        refused(given.with_password("s3cret-another"))
        refused(source(server, "auth", **options))
    server.execute("GRANT REPLICATION SLAVE ON *.* TO auth@'127.0.0.1'")
    log = tailrace.open(ServerTransport(given))
    assert next(iter(log)).name == "FORMAT_DESCRIPTION"
    log.close()


def test_ed25519_without_its_package(with_ed25519, monkeypatch):
    monkeypatch.setitem(sys.modules, "nacl", None)
    monkeypatch.setattr(_auth, "_nacl_bindings", False)
    account(with_ed25519, "auth", "VIA ed25519 USING PASSWORD(%s)")
    error = refused(source(with_ed25519, "auth").with_password(PASSWORD))
    assert "'pynacl' package is required" in str(error)
    assert str(error).endswith(hint("live"))


def test_another_connection_of_the_same_kind_has_the_same_errors(mariadb118, monkeypatch):
    """The one that KILL needs: its login fails where the first one's did not."""
    monkeypatch.setitem(sys.modules, "nacl", None)
    monkeypatch.setattr(_auth, "_nacl_bindings", False)
    account(mariadb118, "auth", "BY %s")
    mariadb118.execute("INSTALL SONAME 'auth_ed25519'")
    given = source(mariadb118, "auth").with_password(PASSWORD)
    with connect(given, given.hosts[0]) as connection:
        service = NetService(connection, connection.name)
        account(mariadb118, "auth", "VIA ed25519 USING PASSWORD(%s)")
        with pytest.raises(AccessDenied, match=r"mysql://.* needs a package .*pynacl"):
            service.kill()


def test_a_way_that_is_not_known(mariadb118):
    mariadb118.execute("INSTALL SONAME 'auth_parsec'")
    account(mariadb118, "auth", "VIA parsec USING PASSWORD(%s)")
    error = refused(source(mariadb118, "auth").with_password(PASSWORD))
    assert "parsec" in str(error)


# --- what a connection is ------------------------------------------------------------------------


def test_the_session(server):
    given = source(server)
    with connect(given, given.hosts[0]) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@autocommit, @@character_set_client, @@character_set_results")
        assert cursor.fetchone() == (1, "utf8mb4", "utf8mb4")


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_what_the_server_is_told_of_us(fresh_server, name):
    server = fresh_server(name, ["--performance-schema=ON"])
    given = source(server)
    with connect(given, given.hosts[0]) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT attr_name, attr_value FROM performance_schema.session_connect_attrs"
            " WHERE processlist_id = CONNECTION_ID()"
        )
        said = dict(cursor.fetchall())
    assert said["_client_role"] == "binary_log_listener"
    assert said["program_name"] == "tailrace"


# --- no connection -------------------------------------------------------------------------------


@each_case(
    ("where", "kind", "said"),
    [
        ("127.0.0.1:1", ConnectionLost, "refused"),
        ("nix.invalid", ConnectionLost, "nix.invalid"),
        (f"{'x' * 70}.de", UsageError, "xxx"),
        ("/?socket=/no/such", ConnectionLost, "/no/such"),
    ],
)
def test_nobody_there(where, kind, said):
    assert said in str(refused(Source.parse(f"mysql://u:s3cret@{where}"), kind))


def test_a_host_that_may_not(server):
    """An account for another machine only."""
    server.execute("CREATE USER elsewhere@'192.0.2.1' IDENTIFIED BY 's3cret'")
    refused(source(server, "elsewhere").with_password("s3cret"))


def test_a_locked_account(server):
    account(server, "locked", "BY %s")
    server.execute("ALTER USER locked@'127.0.0.1' ACCOUNT LOCK")
    error = refused(source(server, "locked").with_password(PASSWORD))
    assert "ACCOUNT UNLOCK" in str(error)


def test_too_many_connections_are_worth_a_retry(server):
    account(server, "few", "BY %s")
    server.execute("ALTER USER few@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1")
    given = source(server, "few").with_password(PASSWORD)
    with connect(given, given.hosts[0]):
        error = refused(given, ConnectionLost)
    assert "1226" in str(error)


# --- what is no server ---------------------------------------------------------------------------


@each_case(
    "greeting",
    [
        b"SSH-2.0-OpenSSH_9.2p1\r\n" * 9,
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        b"\x05\x00\x00\x00hello",
        b"\x00\x00\x00\x00",
        b"\x07\x00\x00\x00\x0ax.y\x00\x01\x02",
    ],
)
def test_what_is_no_server(greeting):
    with FakeServer({"greeting": lambda talk: (talk.raw(greeting), talk.wait())}) as server:
        assert "no MySQL or MariaDB" in str(refused(Source.parse(server.url()), ProtocolError))


@each_case("plugin", [b"mysql_clear_password", b"dialog", b"mysql_old_password"])
def test_no_password_goes_in_clear(plugin):
    """Where one in the middle takes TLS away and asks for the password."""
    switch = b"\xfe" + plugin + b"\0" + b"x" * 20 + b"\0"
    with FakeServer({"login": lambda talk: (talk.send(switch), talk.wait())}) as server:
        told = "mysql_old_password" if plugin == b"mysql_old_password" else "in clear"
        assert told in str(refused(Source.parse(server.url())))
        strict = Source.parse(server.url("ssl-mode=REQUIRED"))
        assert "offers no TLS" in str(refused(strict, TlsError))
    assert b"s3cret" not in server.heard
