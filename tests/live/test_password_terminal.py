"""Commands ask for a password only where the account has one, and never from the background."""

import os
import sys
from pathlib import Path

import pytest

from tailrace.errors import AccessDenied
from tailrace.live.prompt import with_password_asked
from tailrace.live.url import Source
from tests.terminal import Terminal

SECRET = "g3heim.n1cht.zeigen"


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    for name in ("TAILRACE_PASSWORD", "MYSQL_PWD"):
        monkeypatch.delenv(name, raising=False)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with Terminal(tmp_path, {**os.environ, "PATH": path, "HOME": str(tmp_path)}) as opened:
        yield opened


def test_commands_in_a_terminal(flavour_server, terminal, tmp_path):
    limit = ""
    if flavour_server.flavour == "mysql":  # each of two commands may try once without a password
        limit = " FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED"
    flavour_server.execute(f"CREATE USER asked@'%' IDENTIFIED BY '{SECRET}'{limit}")
    flavour_server.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO asked@'%'")
    place = f"127.0.0.1:{flavour_server.port}/?start=now"
    stat = f"tailrace stat mysql://%s@{place}"
    # In the background: an account without a password is read, one with a password an error.
    assert terminal.run(f"{stat % 'root'} >root.txt & wait $!; echo $?") == "0\n"
    assert terminal.run(f"{stat % 'asked'} 2>error & wait $! || echo $?") == "2\n"
    error = (tmp_path / "error").read_text()
    assert "error 1045" in error
    assert "a background process cannot ask for it" in error
    assert "set TAILRACE_PASSWORD" in error
    # In the foreground it is asked once, for several connections.
    prompt = f"Password of mysql://asked@127.0.0.1:{flavour_server.port}: "
    shown = terminal.run(stat % "asked", prompt=prompt, answer=SECRET)
    assert "FORMAT_DESCRIPTION" in shown
    assert SECRET not in shown


@pytest.mark.parametrize("isatty", [True, False])
def test_a_password_that_is_found_is_not_tried(monkeypatch, isatty):
    monkeypatch.setattr("sys.stdin.isatty", lambda: isatty, raising=False)
    monkeypatch.setattr("tailrace.live.prompt.connected", None)
    given = Source.parse("mysql://u:p@h")
    assert with_password_asked(given) is given
    monkeypatch.setenv("TAILRACE_PASSWORD", "found")
    plain = Source.parse("mysql://u@h")
    assert with_password_asked(plain) is plain


def test_only_a_denied_password_is_asked_for(monkeypatch, mysql97):
    """Not that of a locked account or of a server that is away, and none where nobody can type."""
    asked = []
    monkeypatch.setattr("tailrace.live.prompt.ask_password", asked.append)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("tailrace.live.prompt.in_background", lambda: False)
    mysql97.execute("CREATE USER locked@'%' ACCOUNT LOCK")
    place = f"127.0.0.1:{mysql97.port}/?defaults_file="
    with pytest.raises(AccessDenied, match="locked"):
        with_password_asked(Source.parse(f"mysql://locked@{place}"))
    assert not asked
    away = Source.parse("mysql://u@127.0.0.1:1/?defaults_file=")  # nobody is there to let it in
    assert with_password_asked(away) is away
    monkeypatch.setattr("tailrace.live.prompt.in_background", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    denied = Source.parse(f"mysql://nobody@{place}")
    assert with_password_asked(denied) is denied
    assert not asked
