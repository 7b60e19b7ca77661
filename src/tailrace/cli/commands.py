"""The commands: where they are, and what their help says besides the options.

The texts are here because the list of commands shows them, and must import no command for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LOOK: Final = "Look into logs"
COPY: Final = "Copy logs"
LAKE: Final = "Load a lake"
SEARCH: Final = "Search"
HELP: Final = "Help"


@dataclass(frozen=True, slots=True)
class Command:
    """One command; ``function`` is its import path.

    ``usage`` is what comes after its name, ``about`` the paragraphs after the summary, ``examples``
    are its arguments, with what the example is for. ``statuses`` are its exit codes and what they
    mean.
    """

    name: str
    function: str
    group: str
    usage: str
    summary: str
    about: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    statuses: tuple[tuple[str, str], ...] = ()

    @property
    def help(self) -> str:
        """Summary and paragraphs, in Markdown."""
        return f"{self.summary}\n\n{self.about}" if self.about else self.summary

    @property
    def epilogue(self) -> str:
        """Examples and exit codes, in Markdown."""
        lines = ["**Examples**", ""] if self.examples else []
        for what, arguments in self.examples:
            lines += [f"    # {what}", f"    tailrace {arguments}"]
        lines += ["", "**Exit codes**", ""] if self.statuses else []
        lines += [f"- {code}: {meaning}" for code, meaning in self.statuses]
        return "\n".join(lines)


_STOPPED: Final = ("130", "Ctrl-C ended it")
_ERROR: Final = ("2", "an error, which is one line on stderr")

COMMANDS: Final = (
    Command(
        "log",
        "tailrace.cli.log.command:log",
        LOOK,
        "[OPTIONS] SOURCE…",
        "Print transactions and rows, as text, JSON or SQL.",
        "As text: transactions with GTID, commit time, statements and rows. As JSON: the committed "
        "rows, a change record per line. As SQL: statements that repeat the changes, or undo them; "
        "feed them to ``mysql --binary-mode`` or ``mariadb --binary-mode``. It ends at the present "
        "end of the logs, unless ``--follow`` is given.",
        (
            ("what happened to one table", "log --tables shop.orders logs"),
            (
                "rows as JSON, from a time on",
                "log --as json --start 2026-01-01T00:00:00 logs",
            ),
            ("undo what came after a position", "log --as undo --start binlog.000004 logs"),
            (
                "what a server does now, until Ctrl-C",
                "log --follow --start now mysql://root@db1/",
            ),
        ),
        (("0", "the logs were read to their end"), _ERROR, _STOPPED),
    ),
    Command(
        "stat",
        "tailrace.cli.stat:stat",
        LOOK,
        "[OPTIONS] SOURCE…",
        "Count rows by table, events by type; show large transactions.",
        "",
        (
            ("as tables", "stat logs"),
            ("of one database, for a program", "stat --as json --tables 'shop.*' logs"),
            ("a page with plots", "stat --html report.html logs"),
        ),
        (("0", "the logs were read to their end"), _ERROR),
    ),
    Command(
        "check",
        "tailrace.cli.check:check",
        LOOK,
        "[OPTIONS] SOURCE…",
        "Check that logs are not damaged.",
        "Everything is read: checksums, events and their order, all rows. A line for each file "
        "says what it holds, or what is wrong with it. (``verify`` is another command: it compares "
        "a lake with its server.)",
        (("a folder of logs", "check logs"), ("a server's logs", "check mysql://root@db1/")),
        (("0", "all files are in order"), ("2", "a file is damaged, or another error")),
    ),
    Command(
        "tap",
        "tailrace.cli.tap:tap",
        LOOK,
        "[OPTIONS] SOURCE…",
        "Tell a program of transactions, statements or rows.",
        "A consumer is a class that derives from an interface of ``tailrace.generators``, and has "
        "methods for the events that it wants. Only what was committed is told, in the order of "
        "the commits. At the end the position is printed: ``--start`` takes it. If the consumer "
        "raises an error, it is before the transaction in which that happened.",
        (
            ("what there is to be told", "tap --tables shop.orders logs"),
            (
                "a consumer of your own, until Ctrl-C",
                "tap --follow --consumer audit:Audit mysql://root@db1/",
            ),
        ),
        (("0", "the logs were read to their end, or SIGTERM ended it"), _ERROR, _STOPPED),
    ),
    Command(
        "receive",
        "tailrace.cli.receive:receive",
        COPY,
        "[OPTIONS] SERVER… --into FOLDER",
        "Copy servers' logs, byte for byte.",
        "The copy has the server's file names and bytes, and an index. You can kill the command at "
        "any time: run again, it continues at the exact byte. It ends at the present end of the "
        "server's log, unless ``--follow`` is given; then Ctrl-C and SIGTERM end it at a "
        "transaction's end, a second one at once. A broken connection is retried for a minute, for "
        "the time of ``?retry=5m``, or with ``--follow`` for ever.",
        (
            ("what there is now", "receive mysql://root@db1/ --into copy"),
            (
                "keep a copy of the last 30 days, until Ctrl-C",
                "receive --follow mysql://root@db1/ --into copy --retain 30d",
            ),
        ),
        (("0", "the copy is complete, or SIGTERM ended it"), _ERROR, _STOPPED),
    ),
    Command(
        "reset",
        "tailrace.cli.reset:reset",
        COPY,
        "[OPTIONS] FOLDER",
        "Remove a copy of a server's logs, or begin a log again.",
        "In the folder of ``receive``, all that was received is removed, and what is known of the "
        "source, as RESET REPLICA does. Any other log must be one that a program wrote with "
        "Tailrace: its files and GTIDs are removed, and it begins again with number 1, as RESET "
        "BINARY LOGS AND GTIDS does. Never use it on the logs of a running server.",
        (("remove a copy", "reset copy --yes"),),
        (("0", "the files were removed"), _ERROR),
    ),
    Command(
        "serve",
        "tailrace.cli.serve:serve",
        COPY,
        "[OPTIONS] SOURCE --listen HOST:PORT --server-id NUMBER",
        "Serve logs to replicas, as a replication source.",
        "Replicas of MySQL and MariaDB attach to it as to a server, by file and position or by "
        "GTID, and so does what reads as they do: ``mysqlbinlog``, ``tailrace``. SOURCE is a "
        "folder of one server's logs, or its URL, and may grow: ``receive --follow`` fills it. "
        "No client can change anything, and none sees another file. It runs until Ctrl-C or "
        "SIGTERM."
        "\n\n"
        "The user's password is read from ``TAILRACE_SERVE_PASSWORD``. Clients of other machines "
        "must use TLS.",
        (
            (
                "to replicas on this machine",
                "serve copy --listen 127.0.0.1:3307 --server-id 99 --user repl",
            ),
            (
                "to others, through TLS",
                (
                    "serve copy --listen '*:3307' --server-id 99 --user repl"
                    " --tls-cert cert.pem --tls-key key.pem"
                ),
            ),
        ),
        (("0", "SIGTERM ended it"), _ERROR, _STOPPED),
    ),
    Command(
        "apply",
        "tailrace.cli.apply:apply",
        COPY,
        "[OPTIONS] SOURCE… --to URL",
        "Carry out the changes of logs in another database.",
        "Rows, statements and definitions are applied in the order of commits, each transaction "
        "once: the server keeps how far it has come in a table of its own, in the same "
        "transaction. You can kill the command at any time: run again, it continues there. It ends "
        "at the present end of the logs, unless ``--follow`` is given; then Ctrl-C and SIGTERM end "
        "it at a transaction's end.",
        (
            ("a folder of logs", "apply logs --to mysql://root@db2/"),
            (
                "what a server does now, until Ctrl-C",
                "apply --follow mysql://root@db1/ --start oldest --to mysql://root@db2/",
            ),
        ),
        (("0", "the logs were applied to their end"), _ERROR, _STOPPED),
    ),
    Command(
        "mirror",
        "tailrace.cli.mirror.command:mirror",
        LAKE,
        "[OPTIONS] SOURCE… --into LAKE",
        "Load logs into Parquet, Delta or Iceberg tables.",
        "For each table the lake has all its changes, and its current rows. Run again, it adds "
        "what is new in the logs. It ends at their present end, unless ``--follow`` is given. "
        "After a restart it resumes where the lake ends. A server's logs are first received into "
        "the lake's folder. A lake's options are fixed when it is created: they need not be given "
        "again."
        "\n\n"
        "If a table fails, it is set aside with the reason, and the others continue.",
        (
            ("a server's tables as they are now", "mirror mysql://root@db1/ --into lake"),
            (
                "keep Delta tables up to date, until Ctrl-C",
                "mirror --follow mysql://root@db1/ --into live --format delta",
            ),
        ),
        (
            ("0", "the lake is up to date"),
            ("1", "a table is set aside, unless ``--no-fail-on-set-aside`` is given"),
            _ERROR,
            _STOPPED,
        ),
    ),
    Command(
        "verify",
        "tailrace.cli.verify:verify",
        LAKE,
        "[OPTIONS] SERVER --into LAKE",
        "Compare a lake's tables with the server's, row by row.",
        "Server and lake are given as they were to ``mirror``. No table is changed; the lake's "
        "folder holds temporary files meanwhile. (To "
        "check that logs are undamaged, there is ``check``.)",
        (
            ("all tables", "verify mysql://root@db1/ --into lake"),
            (
                "one table, once the lake has caught up",
                "verify mysql://root@db1/ --into lake --tables shop.orders --wait 60s",
            ),
        ),
        (
            ("0", "they are equal"),
            ("1", "they differ, or a table is incomplete"),
            ("2", "this could not be determined: the lake is behind, or another error"),
        ),
    ),
    Command(
        "index",
        "tailrace.cli.index:index",
        SEARCH,
        "[OPTIONS] SOURCE --into INDEX",
        "Index the text of tables, and follow their changes.",
        "SOURCE is a log, a server, or a lake that ``tailrace mirror`` has made. A new index of a "
        "server has first the rows that its tables have, then what the log says. "
        "You can kill the command at any time: run again, it continues there, and each change is "
        "indexed once. It ends at the present end of the log, unless ``--follow`` is given; then "
        "Ctrl-C and SIGTERM end it at a transaction's end.",
        (
            ("a folder of logs", "index logs --tables shop.products,shop.reviews --into found"),
            (
                "a server's tables, until Ctrl-C",
                "index --follow mysql://root@db1/ --tables 'shop.*' --into texts",
            ),
        ),
        (("0", "the index is up to date, or SIGTERM ended it"), _ERROR, _STOPPED),
    ),
    Command(
        "search",
        "tailrace.cli.search:search",
        SEARCH,
        "[OPTIONS] INDEX [QUERY]",
        "Search an index that ``index`` built.",
        "The query is in the language of MySQL's boolean searches: ``+must -mustnot begin* "
        '"a phrase" (a group)``. A query that begins with ``-`` comes after ``--``.',
        (
            ("the best ten rows", "search found '+would* +again'"),
            ("all of one table, as JSON", "search found 'again' --table shop.reviews --json"),
            ("a page in the browser, until Ctrl-C", "search found --serve 127.0.0.1:8080"),
        ),
        (
            ("0", "rows were found, or SIGTERM ended the page"),
            ("1", "no row was found"),
            _ERROR,
            _STOPPED,
        ),
    ),
    Command(
        "help",
        "tailrace.cli.help:help_",
        HELP,
        "[COMMAND]",
        "Show this list, or a command's options and examples.",
        "",
        (("the options of log", "help log"),),
    ),
    Command(
        "doctor",
        "tailrace.cli.doctor:doctor",
        HELP,
        "[OPTIONS]",
        "Show what is installed, what is missing, and how to get it.",
        "Python, extras and their packages, the Java that Spark would use, and the compiled "
        "kernels.",
        (("for a bug report", "doctor --as json"),),
        (("0", "always"),),
    ),
    Command(
        "completion",
        "tailrace.cli.completion:completion",
        HELP,
        "SHELL",
        "Print a script that completes commands in your shell.",
        "SHELL is ``bash``, ``zsh`` or ``fish``. Put the line of the example into your shell's "
        "start file: for bash ``~/.bashrc``, for zsh ``~/.zshrc`` (after ``compinit``). For fish, "
        "write the output to ``~/.config/fish/completions/tailrace.fish``.",
        (("bash; zsh likewise", "completion bash > tailrace.bash && source tailrace.bash"),),
    ),
)

EPILOGUE: Final = """\
A SOURCE is a log file, a folder of logs, - (standard input), a URL such as
s3://bucket/logs, or a running server: mysql://user@host:3306/ (or mariadb://).

  tailrace log --tables 'shop.*' /var/lib/mysql
  tailrace mirror --follow mysql://user@host/ --into lake --format delta\
"""
