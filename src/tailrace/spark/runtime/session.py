"""A local Spark session that starts fast and keeps quiet; under spark-submit, the one it brings.

Who has a session already passes it to `tailrace.spark.mirror`; this one is for a person at a
terminal, and for tests. That the installed packages fit together is checked before anything runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.cache import own_cache, passing_cache
from tailrace.errors import PipelineError
from tailrace.extras import check_version, missing
from tailrace.printable import first_line
from tailrace.spark.runtime.java import find_java, java_home, place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The environment variable that spark-submit sets for the program that it runs."""
_NEEDED: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""The package that writes a format; the extra of the format's name limits its version."""
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What a user's environment may say of some other Spark, and what would turn a local start away.
_FOREIGN: Final = ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE")
_LOGGING: Final = """\
status = off
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = out
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
"""


def is_submitted() -> bool:
    """Whether spark-submit has started this program, and brought a Spark of its own."""
    return _SUBMITTED in os.environ


def check_installed(format: str) -> None:  # noqa: A002 - what Spark calls it
    """Raise `MissingExtra` if a package is missing, or is of a version that its extra excludes."""
    if format in _NEEDED:
        check_version(format, _NEEDED[format], f"a lake of the format {format}")


def check_spark(what: str, *, java: bool) -> None:
    """Raise `MissingExtra` if PySpark is missing, or is of a version that its extra excludes.

    ``what`` is the task that needs it, for the message. With ``java``, also raise `PipelineError`
    if there is no Java to start a Spark on.
    """
    check_version("spark", "pyspark", what)
    if java and not is_submitted():
        find_java()


def session(
    cores: int | None = None, *, log_level: str = "off", conf: dict[str, str] | None = None
) -> SparkSession:
    """Start Spark in this process on ``cores`` cores (all by default), or give the one that runs.

    ``log_level`` is Log4j's (``off``, ``error``, ``warn``, ...), for Java's side; ``conf`` adds to
    the settings. Under spark-submit it is the session of its Spark, with its settings, and the
    arguments do not count. Raises `PipelineError` where there is no Java, or Spark does not start.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - takes a while; with Spark only
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    if running := SparkSession.getActiveSession():
        return running
    builder = SparkSession.builder.appName("tailrace")
    submitted = is_submitted()
    settings = {} if submitted else _settings(cores, _log_settings(log_level)) | (conf or {})
    for name, value in settings.items():
        builder = builder.config(name, value)
    environment = contextlib.nullcontext() if submitted else _environment()
    with environment, one_at_a_time(settings.get("spark.jars.ivy")):
        try:
            started = builder.getOrCreate()
        except PySparkException as error:
            raise PipelineError(f"Spark did not start: {first_line(error)}") from error
    if submitted and started.version.split(".")[:2] != version("pyspark").split(".")[:2]:
        raise PipelineError(
            f"spark-submit is of Spark {started.version}, and pyspark {version('pyspark')} is "
            "installed beside Tailrace: have the same version of both"
        )
    return started


def _settings(cores: int | None, logging: Path) -> dict[str, str]:
    return {
        "spark.master": f"local[{cores or '*'}]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": (
            f"{_QUICK_JAVA} -Dlog4j2.configurationFile={logging.as_uri()}"
        ),
        # For Python to fetch a result from Java: a busy machine needs more than the usual 15 s.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.python.daemon.module": "tailrace.spark_daemon",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores or os.cpu_count() or 1),
        "spark.sql.warehouse.dir": str(passing_cache("warehouse")),
    }


def _log_settings(level: str) -> Path:
    """A file that tells Log4j the level: it reads its settings before Spark could change them."""
    name, content = f"log4j2-{level}.properties", _LOGGING.format(level=level)
    try:
        return place(own_cache("java") / name, content, 0o600)
    except OSError:  # somebody else's, which may be read
        return place(passing_cache("java") / name, content, 0o600)


@contextlib.contextmanager
def one_at_a_time(packages: str | None) -> Iterator[None]:
    """Two Sparks that fetch packages into one folder spoil them for each other: Ivy has no lock."""
    if packages is None:
        yield
        return
    folder = Path(packages)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """What Spark takes from the environment, while it starts; afterwards it is as it was."""
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise missing("spark", "pyspark", "a Spark session")
    changes = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(package.origin).parent),
        "SPARK_LAUNCHER_OPTS": _QUICK_JAVA,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    before = {name: os.environ.pop(name, None) for name in (*_FOREIGN, *changes)}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in before:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
