"""TLS towards real servers: verified, refused, client certificates, accounts that ask for it."""

import re
import socket
import ssl

import pytest
from cryptography.hazmat.primitives import serialization

from tailrace.errors import AccessDenied, ConnectionLost, TlsError, UsageError
from tailrace.live.connect import connect
from tailrace.live.tls import Tls, TlsMode
from tailrace.live.url import Source
from tests.live.certificates import Authority
from tests.live.test_connect import PASSWORD, account
from tests.live.test_connect import refused as refused_with
from tools.servers import ONE_OF_EACH


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificates(authority):
    return authority.issue("server", "localhost", "127.0.0.1")


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def tls_server(request, fresh_server, authority, certificates):
    """A server with a certificate of ours for localhost and 127.0.0.1."""
    cert, key = certificates
    server = fresh_server(
        request.param, [f"--ssl-ca={authority.ca}", f"--ssl-cert={cert}", f"--ssl-key={key}"]
    )
    account(server, "plain", "BY %s")
    account(server, "tls", "BY %s REQUIRE SSL")
    account(server, "x509", "BY %s REQUIRE X509")
    return server


def source(server, user="plain", host="127.0.0.1", **options):
    said = "&".join(f"{name.replace('_', '-')}={value}" for name, value in options.items())
    return Source.parse(f"mysql://{user}@{host}:{server.port}/?{said}", password=PASSWORD)


def cipher(given):
    """The connection's cipher as the server has it; empty without TLS."""
    with connect(given, given.hosts[0]) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        return cursor.fetchone()[1]


def refused(given):
    return refused_with(given, TlsError)


# --- defaults, no server -------------------------------------------------------------------------


def test_by_default_hosts_elsewhere_are_verified():
    tls = Tls()
    assert tls.mode_for(local=False) is TlsMode.VERIFY_IDENTITY
    assert tls.mode_for(local=True) is TlsMode.PREFERRED
    assert Tls(ca="/ca.pem").mode_for(local=True) is TlsMode.VERIFY_CA
    assert Tls(ca="/ca.pem").mode_for(local=False) is TlsMode.VERIFY_IDENTITY
    assert Tls(mode=TlsMode.REQUIRED).mode_for(local=False) is TlsMode.REQUIRED


def test_what_is_wrong_with_files(authority, tmp_path):
    nothing, none = tmp_path / "nothing.pem", tmp_path / "none.pem"
    nothing.write_text("x")
    cert, key = authority.issue("one")
    other, _ = authority.issue("other")
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        serialization.load_pem_private_key(key.read_bytes(), None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
    )
    for given, says in (
        ({"ca": none}, "ssl-"),
        ({"ca": nothing}, "ssl-"),
        ({"capath": none}, "ssl-"),
        ({"cert": nothing}, "ssl-"),
        ({"cert": cert, "key": none}, "ssl-"),
        ({"cert": other, "key": key}, f"ssl-key {key}: the key of another certificate"),
        (
            {"cert": cert},
            f"ssl-cert {cert}: it has no private key: give the key's file with ssl-key",
        ),
        ({"cert": cert, "key": cert}, f"ssl-key {cert}: not a private key in PEM form"),
        ({"cert": cert, "key": locked}, f"ssl-key {locked}: the key has a passphrase"),
        ({"cert": cert, "key": tmp_path}, f"ssl-key {tmp_path}: Is a directory"),
        ({"cert": key, "key": key}, f"ssl-cert {key}: not a certificate in PEM form"),
        ({"cert": none, "key": key}, f"ssl-cert {none}: No such file"),
    ):
        tls = Tls(**{name: str(path) for name, path in given.items()})
        with pytest.raises(UsageError, match=f"^{re.escape(says)}"):
            tls.context(TlsMode.VERIFY_CA)
    empty = Tls(capath=str(tmp_path)).context(TlsMode.VERIFY_CA)
    assert (empty.verify_mode, empty.get_ca_certs()) == (ssl.CERT_REQUIRED, [])


# --- real servers --------------------------------------------------------------------------------


def test_modes_without_verification(tls_server):
    assert cipher(source(tls_server))
    assert cipher(source(tls_server, ssl_mode="REQUIRED"))
    assert not cipher(source(tls_server, ssl_mode="DISABLED"))


def test_the_authority_and_the_name_are_verified(tls_server, authority):
    assert cipher(source(tls_server, ssl_mode="VERIFY_CA", ssl_ca=authority.ca))
    assert cipher(source(tls_server, ssl_ca=authority.ca))
    for host in ("127.0.0.1", "localhost"):
        given = source(tls_server, host=host, ssl_mode="VERIFY_IDENTITY", ssl_ca=authority.ca)
        assert cipher(given)


def test_another_authority_is_refused(tls_server, tmp_path):
    other = Authority(tmp_path, "other")
    for mode in ("VERIFY_CA", "VERIFY_IDENTITY"):
        error = refused(source(tls_server, ssl_mode=mode, ssl_ca=other.ca))
        assert f"no authority in {other.ca} signed it" in str(error)
        assert "ssl-mode=REQUIRED" in str(error)


def test_the_systems_authorities_do_not_know_it(tls_server):
    error = refused(source(tls_server, ssl_mode="VERIFY_IDENTITY"))
    assert "ssl-ca=FILE" in str(error)


@pytest.fixture(scope="module")
def elsewhere(fresh_server, authority):
    """A server whose certificate is made out to db.example.com."""
    cert, key = authority.issue("elsewhere", "db.example.com", "192.0.2.1")
    server = fresh_server(
        "mariadb-11.8", [f"--ssl-ca={authority.ca}", f"--ssl-cert={cert}", f"--ssl-key={key}"]
    )
    account(server, "plain", "BY %s")
    return server


def test_another_hosts_certificate_is_refused(elsewhere, authority):
    for host in ("127.0.0.1", "localhost"):
        given = source(elsewhere, host=host, ssl_mode="VERIFY_IDENTITY", ssl_ca=authority.ca)
        assert "not issued for this host" in str(refused(given))
    assert cipher(source(elsewhere, ssl_mode="VERIFY_CA", ssl_ca=authority.ca))


def test_a_host_elsewhere_is_verified_without_being_asked(elsewhere, authority, monkeypatch):
    """As far as the URL goes, that is: the name leads here."""
    found = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _, *rest, **more: found("127.0.0.1", *rest, **more)
    )
    assert cipher(source(elsewhere, host="db.example.com", ssl_ca=authority.ca))
    assert "ssl-ca=FILE" in str(refused(source(elsewhere, host="db.example.com")))
    other = source(elsewhere, host="db2.example.com", ssl_ca=authority.ca)
    assert "not issued for this host" in str(refused(other))
    assert cipher(source(elsewhere, host="db2.example.com", ssl_mode="REQUIRED"))


def test_an_expired_certificate_is_refused(fresh_server, authority):
    cert, key = authority.issue("expired", "127.0.0.1", days=-1)
    server = fresh_server(
        "mysql-9.7", [f"--ssl-ca={authority.ca}", f"--ssl-cert={cert}", f"--ssl-key={key}"]
    )
    account(server, "plain", "BY %s")
    error = refused(source(server, ssl_mode="VERIFY_CA", ssl_ca=authority.ca))
    assert "expired" in str(error)


def test_mysqls_own_certificates(mysql97):
    """It makes an authority for itself; its certificate names no host."""
    own = mysql97.data / "ca.pem"
    root = f"mysql://root@127.0.0.1:{mysql97.port}/?ssl-ca={own}"
    assert cipher(Source.parse(root))
    assert "not issued for this host" in str(
        refused(Source.parse(f"{root}&ssl-mode=VERIFY_IDENTITY"))
    )
    assert "ssl-mode=VERIFY_CA" in str(
        refused(Source.parse(f"mysql://root@127.0.0.1:{mysql97.port}/?ssl-mode=VERIFY_CA"))
    )


def test_versions(tls_server):
    def version(given):
        with connect(given, given.hosts[0]) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_version'")
            return cursor.fetchone()[1]

    for wanted in ("TLSv1.2", "TLSv1.3"):
        assert version(source(tls_server, tls_version=wanted)) == wanted
    assert version(source(tls_server, tls_version="TLSv1.2,TLSv1.3")) == "TLSv1.3"


def test_no_version_in_common(fresh_server):
    server = fresh_server("mysql-9.7", ["--tls-version=TLSv1.3"])
    error = refused(Source.parse(f"mysql://root@127.0.0.1:{server.port}/?tls-version=TLSv1.2"))
    assert "tls-version" in str(error)


def test_accounts_that_ask_for_tls(tls_server):
    assert cipher(source(tls_server, "tls"))
    given = source(tls_server, "tls", ssl_mode="DISABLED")
    with pytest.raises(AccessDenied, match="whether it requires TLS"):
        connect(given, given.hosts[0])


def test_client_certificates(tls_server, authority, tmp_path):
    cert, key = authority.issue("client")
    assert cipher(source(tls_server, "x509", ssl_cert=cert, ssl_key=key))
    given = source(tls_server, "x509")
    with pytest.raises(AccessDenied):
        connect(given, given.hosts[0])
    cert, key = Authority(tmp_path, "stranger").issue("client")
    given = source(tls_server, "x509", ssl_cert=cert, ssl_key=key)
    with pytest.raises((AccessDenied, TlsError, ConnectionLost)) as caught:
        connect(given, given.hosts[0])
    if isinstance(caught.value, ConnectionLost):  # MariaDB says nothing
        assert "ssl-cert" in str(caught.value)


def logins(log):
    """The general log's lines of logins as plain."""
    return [line for line in log.read_text().splitlines() if "Connect\tplain@" in line]


def test_a_server_without_tls_gets_no_password(fresh_server):
    """MariaDB 10.11 has no TLS of its own."""
    server = fresh_server("mariadb-10.11", ["--general-log=1", "--general-log-file=general.log"])
    account(server, "plain", "BY %s")
    for mode in ("REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"):
        error = refused(source(server, ssl_mode=mode))
        assert "offers no TLS" in str(error)
    log = server.data / "general.log"
    assert not logins(log)
    assert not cipher(source(server))
    assert logins(log)


def test_a_server_that_takes_no_connection_without(mysql97):
    server = mysql97
    account(server, "plain", "BY %s")
    server.execute("SET GLOBAL require_secure_transport = ON")
    assert cipher(source(server))  # from now on the server has the password in its cache
    assert "ssl-mode=REQUIRED" in str(refused(source(server, ssl_mode="DISABLED")))
    server.execute("SET GLOBAL require_secure_transport = OFF")
