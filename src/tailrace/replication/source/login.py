"""A client's login at a source, without a socket: payloads in, payloads out.

::

    greeting ─▶ ANSWER ──(TLS request)──▶ TLS ──(handshake done)──▶ ANSWER
                  │
                  ├──(another method)──▶ SWITCHED ─┐
                  └──(answer)──────────────────────┴─▶ VERIFYING ─▶ IN or OUT

Every malformed or unexpected packet leads to OUT, with the error to send.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from tailrace.errors import MalformedPacket
from tailrace.wire.authentication import CachingSha2Password, StoredPassword
from tailrace.wire.handshake import (
    AuthSwitch,
    Capability,
    Handshake,
    HandshakeResponse,
    OkPacket,
    TlsRequest,
    is_tls_request,
)
from tailrace.wire.packets import ErrorPacket

if TYPE_CHECKING:
    from tailrace.replication.source.users import Users
    from tailrace.wire.authentication import Verification

CAPABILITIES: Final = (
    Capability.LONG_PASSWORD
    | Capability.CONNECT_WITH_DB
    | Capability.PROTOCOL_41
    | Capability.TRANSACTIONS
    | Capability.SECURE_CONNECTION
    | Capability.PLUGIN_AUTH
    | Capability.CONNECT_ATTRS
    | Capability.PLUGIN_AUTH_LENENC
)
"""What a source offers, besides TLS."""
_NATIVE: Final = "mysql_native_password"


class State(Enum):
    """Where a login is; `Login.receive` may be called in those before IN."""

    ANSWER = auto()
    """The client's answer to the greeting comes next."""
    TLS = auto()
    """TLS has to be started; then `Login.secured` is called."""
    SWITCHED = auto()
    """The client's answer by the account's own method comes next."""
    VERIFYING = auto()
    """A further answer of the method comes next."""
    IN = auto()
    """The client has logged in."""
    OUT = auto()
    """It has not: `Login.denied` tells whether the password was wrong."""


class Login:
    """One login. ``must_encrypt``: the client has to use TLS."""

    def __init__(
        self,
        users: Users,
        version: str,
        thread_id: int,
        host: str,
        *,
        offers_tls: bool,
        must_encrypt: bool,
    ) -> None:
        self.state = State.ANSWER
        self.user = ""
        self.denied = False
        self._users = users
        self._host = host
        self._must_encrypt = must_encrypt
        self._offered = CAPABILITIES | (Capability.SSL if offers_tls else 0)
        self._secure = False
        self._first = users.first_plugin
        if self._first not in (_NATIVE, CachingSha2Password.plugin):
            self._first = _NATIVE  # a greeting's nonce has 20 bytes
        self._nonce = StoredPassword.nonce()
        self.greeting = Handshake(
            version, thread_id, self._nonce, self._offered, self._first
        ).encode()
        self._verification: Verification | None = None

    def secured(self) -> None:
        """TLS was started."""
        self._secure = True
        self.state = State.ANSWER

    def receive(self, payload: bytes) -> list[bytes]:
        """What to send after a payload of the client; `state` says how it continues."""
        try:
            if self.state is State.ANSWER:
                return self._answer(payload)
            return self._verify(payload)
        except MalformedPacket:
            return self._out(1043, "08S01", "Bad handshake")

    def _answer(self, payload: bytes) -> list[bytes]:
        if is_tls_request(payload) and self._offered & Capability.SSL and not self._secure:
            TlsRequest.decode(payload)
            self.state = State.TLS
            return []
        response = HandshakeResponse.decode(payload, self._offered)
        self.user = response.user
        if self._must_encrypt and not self._secure:
            return self._out(
                3159,
                "HY000",
                "Connections using insecure transport are prohibited: use TLS"
                if self._offered & Capability.SSL
                else "Connections using insecure transport are prohibited, and no TLS is offered",
            )
        account = self._users.find(response.user)
        if account.plugin == self._first == (response.plugin or _NATIVE):
            self._start(account, self._nonce)
            return self._verify(response.answer)
        nonce = account.nonce()
        self._start(account, nonce)
        self.state = State.SWITCHED
        if not response.capabilities & Capability.PLUGIN_AUTH:
            return self._out(1251, "08004", "Client does not support authentication protocol")
        return [AuthSwitch(account.plugin, nonce + account.nonce_end).encode()]

    def _start(self, account: StoredPassword, nonce: bytes) -> None:
        self._verification = account.verify(nonce, secure=self._secure)
        next(self._verification)

    def _verify(self, answer: bytes) -> list[bytes]:
        if self._verification is None:
            raise MalformedPacket("an answer to no question")
        try:
            asked = self._verification.send(answer)
        except StopIteration as end:
            before = end.value
        else:
            self.state = State.VERIFYING
            return [asked] if asked is not None else []
        if before is None:
            self.denied = True
            using = "YES" if answer else "NO"
            return self._out(
                1045,
                "28000",
                f"Access denied for user '{self.user}'@'{self._host}' (using password: {using})",
            )
        self.state = State.IN
        return [*([before] if before else []), OkPacket().encode()]

    def _out(self, code: int, state: str, message: str) -> list[bytes]:
        self.state = State.OUT
        return [ErrorPacket(code, state, message).encode()]
