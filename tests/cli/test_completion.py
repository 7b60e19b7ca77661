"""``tailrace completion``: the scripts complete commands, options, values and files."""

import subprocess

from tailrace.cli.commands import COMMANDS
from tests.cases import each_case


@each_case(
    ("words", "found"),
    [
        ("st", ["stat"]),
        ("log --sta", ["--start", "--statements"]),
        ("log --as j", ["json"]),
        ("log bin", ["binlog.000001"]),
        ("log --keyring bin", ["binlog.000001"]),
        ("mirror logs --into bin", ["binlog.000001"]),
        ("mirror --format de", ["delta"]),
        ("completion z", ["zsh"]),
    ],
)
def test_bash(run, tmp_path, words, found):
    (tmp_path / "binlog.000001").touch()
    script = run("completion", "bash").out
    typed = ["tailrace", *words.split(" ")]
    ask = f"\nCOMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}; _tailrace; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    ran = subprocess.run(
        ["bash", "-c", script + ask], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (sorted(ran.stdout.split()), ran.stderr) == (found, "")


@each_case("shell", ["bash", "zsh", "fish"])
def test_each_shells_script_has_all_commands_and_options(run, shell):
    ran = run("completion", shell)
    assert ran.status == 0
    for command in COMMANDS:
        assert command.name in ran.out
    option = "-l until" if shell == "fish" else "--until"
    assert option in ran.out
