"""TLS with a server, with the option names of the ``mysql`` client."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError

if TYPE_CHECKING:
    import os


class TlsMode(StrEnum):
    """``ssl-mode``: what is required of TLS, the least first."""

    DISABLED = "DISABLED"
    PREFERRED = "PREFERRED"
    REQUIRED = "REQUIRED"
    VERIFY_CA = "VERIFY_CA"
    VERIFY_IDENTITY = "VERIFY_IDENTITY"

    @property
    def verifies(self) -> bool:
        """Whether the server's certificate is verified."""
        return self in {TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY}


_VERSIONS: Final = {
    "TLSV1.2": ssl.TLSVersion.TLSv1_2,
    "TLSV1.3": ssl.TLSVersion.TLSv1_3,
}
_TRUE: Final = frozenset({"1", "on", "true", "yes"})
_FALSE: Final = frozenset({"0", "off", "false", "no"})


@dataclass(frozen=True, slots=True)
class Tls:
    """The settings of TLS. ``mode`` None is the default of each host, see `mode_for`.

    ``ca`` and ``capath`` are the file and the folder of the trusted authorities (none: those of the
    system). ``cert`` and ``key`` are our own certificate, for accounts that require one.
    """

    mode: TlsMode | None = None
    ca: str | None = None
    capath: str | None = None
    cert: str | None = None
    key: str | None = None
    versions: tuple[str, ...] = ()

    def mode_for(self, *, local: bool) -> TlsMode:
        """The mode towards a host that is, or is not, this machine.

        By default the certificate and the host's name are verified. For the loopback and sockets,
        TLS is used if the server offers it, and the certificate is verified if a CA is given.
        """
        if self.mode is not None:
            return self.mode
        if not local:
            return TlsMode.VERIFY_IDENTITY
        return TlsMode.VERIFY_CA if self.ca or self.capath else TlsMode.PREFERRED

    def context(self, mode: TlsMode) -> ssl.SSLContext | None:
        """The context of a connection in this mode; None if it uses no TLS.

        Raises UsageError for files that are missing or invalid.
        """
        if mode is TlsMode.DISABLED:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = mode is TlsMode.VERIFY_IDENTITY
        context.verify_mode = ssl.CERT_REQUIRED if mode.verifies else ssl.CERT_NONE
        # The certificates that servers create for themselves lack fields that RFC 5280 requires.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if mode.verifies:
            self._believe(context)
        if self.cert:
            load_certificate(context, self.cert, self.key)
        if self.versions:
            known = [_VERSIONS[version] for version in self.versions]
            context.minimum_version, context.maximum_version = min(known), max(known)
        return context

    def _believe(self, context: ssl.SSLContext) -> None:
        if not (self.ca or self.capath):
            context.load_default_certs()
            return
        _require("ssl-ca", self.ca)
        _require("ssl-capath", self.capath)
        try:
            context.load_verify_locations(self.ca, self.capath)
        except OSError as error:
            raise UsageError(
                f"ssl-ca {self.ca or self.capath}: it holds no certificates in PEM form"
            ) from error


def load_certificate(
    context: ssl.SSLContext,
    cert: str | os.PathLike[str],
    key: str | os.PathLike[str] | None,
    *,
    prefix: str = "ssl-",
) -> None:
    """Load our own certificate and its key; without ``key`` both are in one file.

    Raises UsageError, which says what is wrong, by the option's name (``ssl-cert``, ``ssl-key``).
    """
    try:
        context.load_cert_chain(cert, key, password=_no_passphrase)
    except OSError as error:
        raise UsageError(_unusable(cert, key, prefix, error)) from error


def _unusable(
    cert: str | os.PathLike[str], key: str | os.PathLike[str] | None, prefix: str, error: OSError
) -> str:
    """What is wrong with a certificate and its key that were rejected with this error."""
    raw = {}
    for part, path in (("cert", cert), ("key", key)):
        try:
            raw[part] = b"" if path is None else Path(path).read_bytes()
        except OSError as unread:
            return f"{prefix}{part} {path}: {unread.strerror}"
    if b"CERTIFICATE-----" not in raw["cert"]:
        return f"{prefix}cert {cert}: not a certificate in PEM form"
    part = "cert" if key is None else "key"
    place = f"{prefix}{part} {key or cert}"
    if b"PRIVATE KEY-----" not in raw[part]:
        if key is None:
            return f"{place}: it has no private key: give the key's file with {prefix}key"
        return f"{place}: not a private key in PEM form"
    if b"ENCRYPTED" in raw[part]:
        return (
            f"{place}: the key has a passphrase: give one without"
            " (openssl pkey -in KEY -out NEW_KEY writes it)"
        )
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    if reason == "KEY_VALUES_MISMATCH":
        return f"{place}: the key of another certificate"
    said = (reason or "OpenSSL rejects them").replace("_", " ").lower()
    return f"{prefix}cert {cert} and its key cannot be used: {said}"


def _no_passphrase() -> str:
    """The passphrase callback for OpenSSL, so that it does not ask at the terminal."""
    return ""


def _require(option: str, path: str | None) -> None:
    if path is None:
        return
    try:
        if Path(path).is_file():
            with Path(path).open("rb"):
                return
        if Path(path).is_dir() and option == "ssl-capath":
            return
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be read: {error.strerror}") from error
    raise UsageError(f"{option} {path}: there is no such {_kind(option)}")


def _kind(option: str) -> str:
    return "folder" if option == "ssl-capath" else "file"


def mode_named(text: str) -> TlsMode:
    """The mode of that name, in any case. Raises UsageError."""
    try:
        return TlsMode(text.strip().upper().replace("-", "_"))
    except ValueError:
        known = ", ".join(TlsMode)
        raise UsageError(f"ssl-mode is one of {known}, not {text[:40]!r}") from None


def mode_of_switch(name: str, value: str) -> TlsMode | None:
    """The mode of an option file's older switch: ``ssl``, ``skip-ssl``, ``ssl-verify-server-cert``.

    None where it leaves the mode to the default. Raises UsageError.
    """
    text = value.strip().lower()
    if text not in _TRUE | _FALSE:
        raise UsageError(f"{name} is ON or OFF, not {value[:40]!r}")
    on = text in _TRUE
    if name == "ssl-verify-server-cert":
        return TlsMode.VERIFY_IDENTITY if on else TlsMode.REQUIRED
    if on == (name == "skip-ssl"):
        return TlsMode.DISABLED
    return None


def versions_named(text: str) -> tuple[str, ...]:
    """The versions in ``TLSv1.2,TLSv1.3``. Raises UsageError."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names or any(name.upper() not in _VERSIONS for name in names):
        raise UsageError(f"tls-version is TLSv1.2, TLSv1.3 or both with a comma, not {text[:40]!r}")
    return tuple(name.upper() for name in names)
