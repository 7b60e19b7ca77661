"""Optional packages: their extras, their versions, and the command that installs an extra.

All are read from the metadata of the installed package, when something is missing. The command
names the wheel, folder or repository that Tailrace was installed from: it is not on PyPI.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tailrace.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_IMPORTED_AS: Final = {
    "psycopg-binary": "psycopg_binary",
    "pynacl": "nacl",
    "vl-convert-python": "vl_convert",
}
"""Packages that are imported under another name than that of their distribution."""
_REQUIREMENT: Final = re.compile(
    r"([\w.-]+)\s*(?:\[([^\]]*)\])?\s*([^;]*?)\s*(?:;.*\bextra\s*==\s*['\"]([\w.-]+)['\"].*)?",
    re.ASCII,
)
_LIMIT: Final = re.compile(r"(>=|<)\s*([\d.]+)")


@cache
def extras() -> Mapping[str, Mapping[str, str]]:
    """By extra, the packages that it includes, by import name, with their versions (``<2,>=1.6``).

    Included are those of a package's own extras, if that package is installed.
    """
    found: dict[str, dict[str, str]] = {}
    for name, inner, versions, extra in _requirements("tailrace"):
        if extra:
            packages = found.setdefault(extra, {})
            # An extra that includes another one and bounds its package more tightly states both.
            packages[_imported(name)] = _tightest(packages.get(_imported(name), ""), versions)
            for more, _, limit, of in _requirements(name) if inner else ():
                if of in {each.strip() for each in inner.split(",")}:
                    packages.setdefault(_imported(more), limit)
    return found


def _imported(name: str) -> str:
    return _IMPORTED_AS.get(name.lower(), name.lower())


def _requirements(package: str) -> Iterator[tuple[str, str, str, str]]:
    """A package's requirements: name, extras of it, versions, and the extra that includes it."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - slow

    try:
        stated = requires(package) or ()
    except PackageNotFoundError:
        return
    for text in stated:
        parts = _REQUIREMENT.fullmatch(text)
        if parts is not None:
            yield parts[1], parts[2] or "", parts[3], parts[4] or ""


def _tightest(*versions: str) -> str:
    """Several limits as one, in the order of `extras`: ``<2,>=1.6``."""
    limits = {limit for each in versions for limit in _LIMIT.findall(each)}
    below = sorted({limit for sign, limit in limits if sign == "<"}, key=_parts)[:1]
    least = sorted({limit for sign, limit in limits if sign == ">="}, key=_parts)[-1:]
    return ",".join([*(f"<{each}" for each in below), *(f">={each}" for each in least)])


def hint(extra: str) -> str:
    """The command that installs an extra: for where Tailrace was installed from, and into there.

    Where that is not known, it names the extra's packages.
    """
    origin = _origin()
    url = origin.get("url", "")
    path = _local_path(url)
    if "dir_info" in origin and path is not None:
        if (path / "run").is_file() and Path(sys.prefix) == path / ".venv":
            return f"{shlex.quote(str(path / 'run'))} --no-dev --extra {extra} tailrace doctor"
        editable = ("-e",) if origin["dir_info"].get("editable") else ()
        return install(*editable, f"{path}[{extra}]")
    if "vcs_info" in origin:
        of = origin["vcs_info"]
        return install(f"tailrace[{extra}] @ {of['vcs']}+{url}@{of['commit_id']}")
    if path is not None:
        return install(f"{path}[{extra}]")
    if url.startswith("https:"):
        return install(f"tailrace[{extra}] @ {url}")
    return install(*_packages(extra))


def install(*what: str) -> str:
    """The command that installs packages into this environment, which need not have pip."""
    found = shutil.which("pip")
    if find_spec("pip") is None:
        command = f"uv pip install --python {shlex.quote(sys.executable)}"
    elif found is not None and Path(found).parent == Path(sys.executable).parent:
        command = "pip install"
    else:
        command = f"{shlex.quote(sys.executable)} -m pip install"
    return " ".join([command, *map(shlex.quote, what)])


def _origin() -> Mapping[str, Any]:
    """Where the package was installed from (PEP 610); empty where the installer does not say."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - slow

    try:
        text = distribution("tailrace").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    origin: Mapping[str, Any] = json.loads(text) if text else {}
    return origin


def _local_path(url: str) -> Path | None:
    """The folder or file that a URL names, if it is still there."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    return path if parts.scheme == "file" and path.exists() else None


def _packages(extra: str) -> list[str]:
    """An extra's packages, as they are installed: ``pymysql[ed25519,rsa]<1.3,>=1.2.4``."""
    found: dict[str, str] = {}
    for name, inner, versions, of in _requirements("tailrace"):
        if of == extra:
            what = f"{name}[{inner}]" if inner else name
            found[what] = _tightest(found.get(what, ""), versions)
    return [what + versions for what, versions in found.items()]


def missing(extra: str, package: str, what: str) -> MissingExtra:
    """The error for a package that is not installed; ``what`` is the feature that needs it."""
    return MissingExtra(
        f"{what} needs the package {package}, which is not installed: {hint(extra)}", name=package
    )


def extra_of(package: str) -> str | None:
    """The smallest extra that includes a package; None if none does."""
    among = [extra for extra, packages in extras().items() if package in packages]
    return min(among, key=lambda extra: len(extras()[extra]), default=None)


def check_version(extra: str, package: str, what: str) -> None:
    """Raise MissingExtra if a package is not installed, or in a version that the extra excludes."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow

    wanted = extras().get(extra, {}).get(package, "")
    try:
        found = version(package)
    except PackageNotFoundError:
        raise missing(extra, package, what) from None
    if not fits(found, wanted):
        raise MissingExtra(
            f"{what} needs {package}{wanted}, and {found} is installed: {hint(extra)}",
            name=package,
        )


def fits(version: str, wanted: str) -> bool:
    """Whether a version is among the wanted ones (``<2,>=1.6``)."""
    here = _parts(version)
    return all((here >= _parts(limit)) == (sign == ">=") for sign, limit in _LIMIT.findall(wanted))


def _parts(version: str) -> tuple[int, int, int]:
    """A version's first three numbers."""
    numbers = [int(number) for number in re.findall(r"(?:^|\.)(\d+)", version, re.ASCII)]
    major, minor, patch, *_ = (*numbers, 0, 0, 0)
    return major, minor, patch


@contextmanager
def importing(extra: str, what: str) -> Iterator[None]:
    """Imports inside this block need an extra: raises MissingExtra if it is not installed.

    For a package that only another extra includes, the error names that extra. If several of these
    blocks are nested, the outermost raises the error.
    """
    try:
        yield
    except (ModuleNotFoundError, MissingExtra) as error:
        package = (error.name or "").partition(".")[0]
        found = extra if package in extras().get(extra, ()) else extra_of(package)
        if found is None:
            raise
        raise missing(found, package, what) from error
