"""Option files are read as the servers' own `my_print_defaults` reads them."""

import random
import subprocess

import pytest

from tailrace.errors import UsageError
from tailrace.live.options_file import GROUPS, read_options
from tests.cases import each_case
from tests.live.test_url import write_options
from tools.servers import NAMES, available, prefix

WRITTEN = r"""
# a comment
; another
   [client]
password = "a#b\"c\s\\x\q"  # behind it a comment
user='x y'
host=h # c
port=3307#x
ssl_ca = /a b/c
nothing
no_value # but a comment
empty=
empty2=""
quote="
half='a
spaces=a  b
both = 'a' # 'b'
mixed="a'b"c'
escapes=\n\t\r\b\s\"\'\\\z\
equals=a=b
utf=pässwörd
[mysqld]
user=no
[tailrace] # ours
heartbeat=3
[client]
password=second #
	indented	=	5
[client-server]
tls-version=TLSv1.3
"""


def tool_says(name, path):
    """The options as the tool prints them, underscores in names aside."""
    if reason := available(name):
        pytest.skip(f"needs {name}: {reason}")
    shown = ["--show"] if name.startswith("mysql") else []
    argv = [*prefix(name).command("my_print_defaults"), f"--defaults-file={path}", *shown, *GROUPS]
    done = subprocess.run(argv, capture_output=True, check=True)
    return done.stdout.decode().removesuffix(" ").removesuffix("\n").split("\n")


def ours(path):
    said = [
        f"--{name}" if value is None else f"--{name}={value}"
        for _, name, value in read_options(path)
    ]
    return "\n".join(said).split("\n")


def dashed(lines):
    """Names with dashes, as `read_options` gives them."""
    out = []
    for line in lines:
        name, equals, value = line.partition("=")
        out.append(f"{name.replace('_', '-')}{equals}{value}")
    return out


@each_case("name", NAMES)
def test_as_the_tool_reads_it(name, tmp_path):
    chance = random.Random(name)
    values = "[client]\n"
    for number in range(400):
        value = "".join(chance.choice("ab#'\"\\ =;[]nts\t") for _ in range(chance.randrange(12)))
        values += f"o{number}{chance.choice(('=', ' = ', '= '))}{value}\n"
    for text in (values, WRITTEN):
        path = write_options(tmp_path / "my.cnf", text)
        assert dashed(tool_says(name, str(path))) == dashed(ours(path))
    assert "--password=second" in ours(path)


@each_case("name", NAMES)
def test_included_files(name, tmp_path):
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "b.cnf").write_text("[client]\nport=2\n")
    (folder / "a.cnf").write_text("[client]\nport=1\n[tailrace]\nheartbeat=9\n")
    (folder / "c.txt").write_text("[client]\nport=3\n")
    one = tmp_path / "one.cnf"
    one.write_text("[client]\nuser=included\n")
    path = tmp_path / "my.cnf"
    path.write_text(f"[client]\nuser=first\n!include {one}\n!includedir {folder}\n")
    for each in tmp_path.rglob("*.cnf"):
        each.chmod(0o600)
    assert sorted(ours(path)) == sorted(dashed(tool_says(name, str(path))))
    assert ours(path)[:2] == ["--user=first", "--user=included"]


def test_files_that_include_each_other_end(tmp_path):
    path = tmp_path / "my.cnf"
    write_options(path, f"!include {path}\n")
    with pytest.raises(UsageError, match="include each other"):
        read_options(path)


@each_case("text", ["password=s3cret\n", "[client\npassword=s3cret\n", "[client]\n!s3cret\n"])
def test_what_is_no_option_file(tmp_path, text):
    path = write_options(tmp_path / "my.cnf", text)
    with pytest.raises(UsageError, match="line ") as caught:
        read_options(path)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_all_may_write_is_not_believed(tmp_path):
    path = tmp_path / "my.cnf"
    path.write_text("[client]\nhost=evil\n")
    path.chmod(0o666)
    with pytest.raises(UsageError, match="chmod o-w"):
        read_options(path)
