"""``tailrace doctor``: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import tailrace
from tailrace.cache import cache_folder, trusted_cache
from tailrace.cli.options import OUTPUT
from tailrace.cli.output import output_to, standard_output
from tailrace.errors import MissingExtra, TailraceError
from tailrace.extras import extras, fits, hint
from tailrace.printable import one_line, printable_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.cli.output import Output


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra: versions by package (None: not installed), packages in a version that does not
    fit with the one that it wants, and what to install if it is not complete.
    """

    installed: bool
    packages: Mapping[str, str | None]
    wrong: Mapping[str, str]
    install: str | None


@dataclass(frozen=True, slots=True)
class Kernels:
    """How many kernels are compiled, and the folder where they are kept (None: nowhere)."""

    compiled: int
    all: int
    folder: str | None


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark would run on, or why there is none."""

    path: str | None
    version: int | None
    problem: str | None


def doctor(
    *,
    as_: Annotated[
        Literal["text", "json"],
        Parameter(
            name="--as",
            metavar="text|json",
            group=OUTPUT,
            help="``text`` (default), or ``json``: one object.",
        ),
    ] = "text",
) -> None:
    """Show what is installed, what is missing, and how to get it."""
    found: dict[str, Any] = {
        "tailrace": {"version": tailrace.__version__, "path": str(Path(tailrace.__file__).parent)},
        "python": {"version": platform.python_version(), "path": sys.executable},
        "platform": platform.platform(),
    }
    of_extras, kernels, java = _extras(), _kernels(), _java()
    out = standard_output()
    if as_ == "json":
        found |= {
            "extras": {name: asdict(each) for name, each in of_extras.items()},
            "kernels": None if kernels is None else asdict(kernels),
            "java": asdict(java),
        }
        out.write(printable_json(json.dumps(found, ensure_ascii=False)) + "\n")
        return
    output = output_to(out)
    for name, value in found.items():
        text = value if isinstance(value, str) else f"{value['version']}, {value['path']}"
        _line(output, name.capitalize(), text)
    _line(output, "Java", java.problem or f"{java.version}, {java.path} (for Spark)")
    _line(output, "Kernels", _of_kernels(kernels))
    output.table(
        "Extras",
        ("extra", "state", "packages"),
        [
            (name, "installed" if each.installed else "missing", _of_packages(each))
            for name, each in of_extras.items()
        ],
    )
    installs = [each.install for each in of_extras.values() if each.install is not None]
    if installs:
        output.line(("To install what is missing:", ""))
    for install in installs:
        output.line((install, "place"))
    output.close()


def _line(output: Output, name: str, text: str) -> None:
    output.line((f"{name:10}", "file"), (text, ""))


def _extras() -> dict[str, Extra]:
    distributions = packages_distributions()
    found: dict[str, Extra] = {}
    for extra, wanted in sorted(extras().items()):
        packages = {
            name: version(distributions[name][0])
            if name in distributions and find_spec(name) is not None
            else None
            for name in sorted(wanted)
        }
        wrong = {
            name: wanted[name]
            for name, here in packages.items()
            if here is not None and not fits(here, wanted[name])
        }
        good = not wrong and None not in packages.values()
        found[extra] = Extra(good, packages, wrong, None if good else hint(extra))
    return found


def _of_packages(extra: Extra) -> str:
    """The packages that are there, or those that are not as they should be."""
    if extra.installed:
        return ", ".join(f"{name} {here}" for name, here in extra.packages.items())
    lacking = [name for name, here in extra.packages.items() if here is None]
    lacking += [
        f"{name} {extra.packages[name]} (needs {limit})" for name, limit in extra.wrong.items()
    ]
    return ", ".join(lacking)


def _kernels() -> Kernels | None:
    try:
        from tailrace.columns import native  # noqa: PLC0415 - it may not be installed
    except (TailraceError, ImportError):
        return None
    folder = trusted_cache()
    return Kernels(
        sum(map(native.is_compiled, native.KERNELS)),
        len(native.KERNELS),
        None if folder is None else str(folder),
    )


def _of_kernels(kernels: Kernels | None) -> str:
    if kernels is None:
        return f"not used: {hint('columns')}"
    if kernels.folder is None:
        return f"compiled by each process: the cache {cache_folder()} cannot be used"
    left = kernels.all - kernels.compiled
    more = f"; {left} more are compiled when they are first used" if left else ""
    return f"{kernels.compiled} compiled, in {kernels.folder}{more}"


def _java() -> Java:
    try:
        from tailrace.spark.runtime.java import find_java  # noqa: PLC0415 - it may not be installed

        path, number = find_java()
    except (MissingExtra, ImportError):
        return Java(None, None, "not checked: the extra spark is missing")
    except TailraceError as error:
        return Java(None, None, one_line(str(error)))
    return Java(str(path), number, None)
