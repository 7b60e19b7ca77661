"""Fetches servers out of a Debian archive into a folder: no root, nothing installed.

apt runs with lists, cache, state and sources of its own. The archive's address and the keys that
vouch for it are those of the machine's own apt sources; packages are verified as apt always does.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.servers.prefix import (
    Download,
    Prefix,
    ServersUnavailable,
    download,
    release,
    root_folder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUITES = re.compile(
    r"(oldoldstable|oldstable|stable|testing|unstable|sid|bullseye|bookworm|trixie|forky|duke)$"
)
_UNWANTED = re.compile(r"perl|libperl")  # scripts' interpreter; no server needs it
_USR_MERGED = ("bin", "lib", "lib64", "sbin")
_NO_WEAK_DEPENDENCIES = (
    *("--no-recommends", "--no-suggests", "--no-enhances"),
    *("--no-conflicts", "--no-breaks", "--no-replaces"),
)


def fetch(name: str) -> Path:
    """The folder of that server, downloaded and unpacked where it is not there yet."""
    wanted = download(name)
    target = root_folder() / name
    if target.is_dir():
        return target
    _check_machine()
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent / f".{name}.lock"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=target.parent) as work:
                _fetch_into(wanted, Path(work))
                (Path(work) / "prefix").rename(target)
    return target


def prefix(name: str) -> Prefix:
    """The unpacked server of that name, fetched first where it is not there yet."""
    return Prefix(release(name), fetch(name))


def binlog_tool(name: str) -> list[str]:
    """The argv prefix that runs that server's own mysqlbinlog (options and files follow)."""
    return prefix(name).binlog_tool()


def available(name: str) -> str | None:
    """None where the server is there or could be fetched just now, else the reason."""
    try:
        fetch(name)
    except ServersUnavailable as error:
        return str(error)
    return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold that lock file while the block runs; other processes wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_machine() -> None:
    missing = [
        tool for tool in ("apt-get", "apt-cache", "dpkg-deb", "tar") if not shutil.which(tool)
    ]
    if missing:
        raise ServersUnavailable(f"this machine has no {', '.join(missing)} to fetch servers with")


def _say(text: str) -> None:
    print(f"servers: {text}", file=sys.stderr, flush=True)


# --- the machine's own sources -------------------------------------------------------------------


def _debian_source() -> tuple[str, str]:
    """The address and the keyring of the Debian archive that the machine itself uses."""
    folder = Path("/etc/apt")
    lists = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list"))]
    for path in lists:
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if found := _one_line_source(line):
                    return found
    for path in sorted(folder.glob("sources.list.d/*.sources")):
        text = path.read_text(encoding="utf-8", errors="replace")
        for stanza in re.split(r"\n\s*\n", text):
            if found := _stanza_source(stanza):
                return found
    raise ServersUnavailable("this machine's apt sources name no Debian archive to fetch from")


def _one_line_source(line: str) -> tuple[str, str] | None:
    """`deb [options] address suite component...`"""
    match = re.match(r"deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s+(.+)", line.strip())
    if not match or not _SUITES.match(match[3]) or "main" not in match[4].split("#")[0].split():
        return None
    signed = re.search(r"signed-by=(\S+)", match[1] or "", re.IGNORECASE)
    return match[2], signed[1] if signed else ""


def _stanza_source(stanza: str) -> tuple[str, str] | None:
    """A deb822 paragraph; a continued line (a key in place) is left to the default keyring."""
    pairs = re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE)
    fields = {key.lower(): value.split() for key, value in pairs}
    good = (
        "deb" in fields.get("types", [])
        and fields.get("uris")
        and "main" in fields.get("components", [])
        and any(_SUITES.match(suite) for suite in fields.get("suites", []))
        and fields.get("enabled", ["yes"])[0].lower() not in {"no", "false", "0"}
    )
    return (fields["uris"][0], " ".join(fields.get("signed-by", []))) if good else None


def _keyrings(signed_by: str) -> list[str]:
    """The keyrings that may vouch: the source's own, then all of Debian's on the machine."""
    own = [path for path in signed_by.split(",") if path.startswith("/") and Path(path).is_file()]
    debians = sorted(Path("/usr/share/keyrings").glob("debian-archive-*.[gp][pg]*"))
    return own + [
        str(path) for path in debians if str(path) not in own and "removed" not in str(path)
    ]


# --- apt of our own ------------------------------------------------------------------------------


class _Apt:
    """apt on a folder of its own."""

    def __init__(self, work: Path, suite: str) -> None:
        for folder in ("lists/partial", "cache/archives/partial", "archives"):
            (work / folder).mkdir(parents=True)
        (work / "status").touch()
        address, signed_by = _debian_source()
        keyrings = _keyrings(signed_by)
        signed = f"signed-by={','.join(keyrings)} " if keyrings else ""
        (work / "sources.list").write_text(
            f"deb [{signed}targets=Packages] {address} {suite} main\n", encoding="utf-8"
        )
        self._work = work
        settings = {
            "Dir::Etc::sourcelist": work / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State": work,
            "Dir::State::Lists": work / "lists",
            "Dir::State::status": work / "status",
            "Dir::Cache": work / "cache",
            "Debug::NoLocking": "1",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "APT::Update::Error-Mode": "any",
            "APT::Sandbox::User": "root",
        }
        self._options = [
            part for key, value in settings.items() for part in ("-o", f"{key}={value}")
        ]

    def __call__(self, program: str, *arguments: str) -> str:
        """Run apt-get or apt-cache and give what it prints."""
        done = subprocess.run(
            [program, *self._options, *arguments],
            cwd=self._work / "archives",
            env=os.environ | {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:"))]
            reason = "; ".join(lines) or done.stderr.strip() or f"exit status {done.returncode}"
            raise ServersUnavailable(f"{program} {arguments[0]} failed: {reason[:1000]}")
        return done.stdout


def _fetch_into(wanted: Download, work: Path) -> None:
    """Download the packages below `work` and unpack them into `work/prefix`."""
    _say(f"fetching {wanted.name} (Debian {wanted.suite}) ...")
    apt = _Apt(work, wanted.suite)
    apt("apt-get", "update")
    depends = apt("apt-cache", "depends", "--recurse", *_NO_WEAK_DEPENDENCIES, *wanted.packages)
    names = {line for line in depends.splitlines() if re.match(r"[a-z0-9]", line)}
    names = {name for name in names if not _UNWANTED.match(name)} | set(wanted.alone)
    _say(f"downloading {len(names)} packages for {wanted.name} ...")
    apt("apt-get", "download", *sorted(names))
    archives = sorted((work / "archives").glob("*.deb"))
    size = sum(archive.stat().st_size for archive in archives)
    _say(f"unpacking {wanted.name} ({size / 1e6:.0f} MB) ...")
    prefix = work / "prefix"
    for name in _USR_MERGED:
        (prefix / "usr" / name).mkdir(parents=True)
        (prefix / name).symlink_to(f"usr/{name}")
    for archive in archives:
        _unpack(archive, prefix)
    for folder in ("doc", "man", "info", "locale", "lintian"):
        shutil.rmtree(prefix / "usr/share" / folder, ignore_errors=True)
    _say(f"{wanted.name} is ready")


def _unpack(archive: Path, prefix: Path) -> None:
    """As `dpkg -x`, but /lib and the like stay the links that they are on a merged system."""
    packed = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    options = ["--keep-directory-symlink", "--no-same-owner", "--warning=no-timestamp"]
    with subprocess.Popen(packed, stdout=subprocess.PIPE) as source:
        subprocess.run(["tar", "-x", *options, "-C", str(prefix)], stdin=source.stdout, check=True)
    if source.returncode:
        raise ServersUnavailable(f"dpkg-deb could not read {archive.name}")
