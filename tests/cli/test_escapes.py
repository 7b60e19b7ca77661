"""Nothing that a log or a server says acts on a terminal: every way out of the commands, by bytes."""

import io
import json
import logging
import re
import socket
import sys
import threading

import pytest
from rich.console import Console

from tailrace.cli.log.text import TextView
from tailrace.cli.mirror.progress import display as mirror_display
from tailrace.cli.mirror.progress import progress_shown
from tailrace.cli.output import cut_to_width, output_to, say, warnings_said
from tailrace.cli.receive import display as receive_display
from tailrace.log.reader import Reader
from tailrace.printable import printable, printable_json
from tailrace.replication.progress import Progress
from tailrace.spark.input.lag import SourceMoment
from tailrace.spark.mirror.report import Moment
from tailrace.storage import find
from tests.cases import each_case

ODD = "\x1b]0;t\x07\x1b[31m\x7f\x9b2J\u202e\u2028[red]x"
"""A window's title, a colour, DEL, C1's CSI, a change of direction, a line separator, markup."""
NAME = f"e{ODD}"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self):
        return True

    @property
    def plain(self):
        """What was written, without rich's own colours and movements."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", self.getvalue())


def harmless(text):
    bad = {character for character in text if not character.isprintable()} - {"\n"}
    return not bad


@pytest.fixture(scope="module", params=["mysql97", "mariadb118"])
def logs(request):
    """A log in which all that can hold a text holds a bad one."""
    server = request.getfixturevalue(request.param)
    server.rotate()
    column = f"c{ODD}"
    with server.connect(autocommit=True, charset="utf8mb4") as connection, connection.cursor() as c:
        c.execute(f"CREATE DATABASE `{NAME}`")
        c.execute(f"CREATE TABLE `{NAME}`.`{NAME}` (id INT PRIMARY KEY, `{column}` VARCHAR(99), j JSON, e ENUM('{ODD}')) COMMENT '{ODD}'")  # fmt: skip
        document = json.dumps({ODD: ODD}, ensure_ascii=True)
        insert = f"INSERT INTO `{NAME}`.`{NAME}` VALUES (%s, %s, %s, 1) /* {ODD} */"
        c.execute(insert, (1, ODD, document))
        c.execute(f"UPDATE `{NAME}`.`{NAME}` SET `{column}` = CONCAT(`{column}`, %s)", (ODD,))
        c.execute(f"DELETE FROM `{NAME}`.`{NAME}`")
        c.execute("SET SESSION binlog_format = STATEMENT")
        c.execute(f"USE `{NAME}`")
        c.execute(f"SET @`{ODD}` = '{ODD}'")
        c.execute(f"INSERT INTO `{NAME}` VALUES (2, @`{ODD}`, NULL, 1) /* {ODD} */")
        c.execute(f"DROP DATABASE `{NAME}`")
    return server.rotate()


WAYS = [
    ("log",),
    ("log", "--as", "json", "--statements", "skip"),
    ("log", "--as", "json", "--events"),
    ("check",),
    ("log", "--tables", "e*x.*"),
    ("stat",),
    ("stat", "--as", "json"),
]


@each_case("way", WAYS)
def test_output(run, logs, way):
    command, *options = way
    ran = run(command, *options, logs)
    assert ran.status == 0, ran.err
    assert harmless(ran.out)
    assert harmless(ran.err)
    if "json" in way:
        records = list(map(json.loads, ran.lines))
        if way == WAYS[1]:
            assert [r["_op"] for r in records] == ["insert", "update", "delete"]
            assert {r["_table"] for r in records} == {NAME}
            after = records[1]["after"]
            assert after[f"c{ODD}"] == ODD + ODD
            assert after["j"] == {ODD: ODD}, "the same JSON"
    elif way != ("check",):
        assert "\\x1b[31m\\x7f\\x9b2J\\u202e\\u2028[red]x" in ran.out


@each_case("how", ["json", "undo", "raw"])
def test_errors(run, logs, tmp_path, how):
    into = ("--into", tmp_path / "a\x1bb.000001") if how == "raw" else ()
    ran = run("log", "--as", how, *into, "--tables", "e*x.*", logs)
    assert ran.status == 2
    assert harmless(ran.err)
    assert all(line.startswith("tailrace: ") for line in ran.err.splitlines())
    if how != "raw":
        assert "\\x1b" in ran.err
        assert "\\u202e" in ran.err
    ran = run("log", f"{tmp_path}/no\x1b[2J\udc9b")
    assert ran.status == 2
    assert "no\\x1b[2J\\udc9b" in ran.err
    assert harmless(ran.err)


def test_sql_is_exact(run, logs):
    """A script is not for a terminal: statements stand in it as they were logged."""
    ran = run("log", "--as", "sql", "--statements", "skip", logs)
    assert ran.status == 0, ran.err
    assert f"CREATE TABLE `{NAME}`.`{NAME}`" in ran.out
    assert f"COMMENT '{ODD}'" in ran.out


def test_colours(logs, monkeypatch):
    """On a terminal rich's colours are all that comes, and it takes no markup from names."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    output = output_to(stream)
    (series,) = find(logs)
    TextView(output).show(Reader(series))
    output.table(ODD, [f"h{ODD}"], [[ODD], ["[/] :smile:"]])
    text = _STYLE.sub("", stream.getvalue())
    assert text != stream.getvalue(), "there are colours"
    assert harmless(text)
    assert "[red]x" in text
    assert "[/] :smile:" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_progress(monkeypatch, terminal):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "400")
    with progress_shown() as tell:
        tell(ODD, 0, 1)
    with mirror_display(ODD) as shown:
        source = SourceMoment(ODD, ODD, 1, 1.0, ODD, held=ODD)
        shown.moment(Moment(1, None, (source,), 1.0, 1.0))
        shown.progress(ODD, 0, 1)
        shown.line(ODD)
    with receive_display([ODD], 1.0) as shown:
        shown.report(0, Progress(ODD, None, None, 0, 0.0, 0.0, None, None))
        shown.line(ODD)
        logging.getLogger("tailrace.receiver").warning("%s", ODD)
    say(ODD)
    with warnings_said():
        logging.getLogger("tailrace.live").warning("%s", ODD)
        logging.getLogger("others").warning("%s", ODD)
    text = stream.plain if terminal else stream.getvalue()
    assert harmless(text)
    assert text.count("[red]x") >= 7


def test_a_line_of_a_live_display_has_the_width_of_the_terminal():
    """A line that wraps would stay there: the display moves up by the lines that it knows."""
    lines = Console(width=20).render_lines(cut_to_width("0123456789 123456789 12", "short"))
    text = ["".join(part.text for part in line).rstrip() for line in lines]
    assert text == ["0123456789 12345678…", "short"]


class Broken(io.StringIO):
    """A stderr whose reader has gone."""

    def write(self, _text):
        raise BrokenPipeError


def test_a_warning_that_nobody_reads(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Broken())
    with warnings_said():
        logging.getLogger("others").warning("a warning")
    monkeypatch.setenv("TERM", "xterm-256color")
    with receive_display(["x"], 1.0):
        logging.getLogger("tailrace.receiver").warning("a warning")


def test_what_a_server_says(run, tmp_path):
    """The text of a server's error, before it has said who it is."""
    said = b"\xff\x10\x04" + f"#08004no {ODD}\r\nmore".encode()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:  # a command may connect more than once
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(len(said).to_bytes(3, "little") + b"\0" + said)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        for command in (("log",), ("receive", "--into", tmp_path / "copy")):
            ran = run(*command, f"mysql://u:p@127.0.0.1:{port}/?retry=0&ssl_mode=disabled")
            assert ran.status == 2
            assert "\\x1b[31m" in ran.err
            assert harmless(ran.out)
            assert harmless(ran.err)
            assert ran.err.count("\n") == 1


@each_case(
    ("given", "shown"),
    [
        ("größe 数 😀 e\u0301", "größe 数 😀 e\u0301"),
        (
            "\x00\x1b\x7f\x80\x9f\u200b\u2066\u2028",
            "\\x00\\x1b\\x7f\\x80\\x9f\\u200b\\u2066\\u2028",
        ),
        ("\n\t\r", "\\n\\t\\r"),
        ("\ud800 \udfff", "\\ud800 \\udfff"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_printable(given, shown):
    assert printable(given) == shown
    assert printable(shown) == shown
    line = json.dumps([given], ensure_ascii=False)
    assert json.loads(printable_json(line)) == [given]
    assert printable_json(line).isprintable()
    assert json.loads(printable_json('{\t"a":\r\n1}')) == {"a": 1}
