"""The settings with which a Spark reads and writes lakes of Delta and Iceberg by their own jars.

Neither the mirror nor `verify` needs them: their tasks write the formats themselves. They are for
users who read the lake in Spark.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from tailrace.cache import own_cache
from tailrace.errors import PipelineError
from tailrace.extras import install
from tailrace.printable import short_repr
from tailrace.spark.lake.iceberg.paths import location
from tailrace.spark.manifest.on_disk import lake_path

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES: Final = {
    "delta": {
        "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    "iceberg": {
        "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,"
        "org.xerial:sqlite-jdbc:3.46.1.3"
    },
}
"""By format and version of PySpark, from the oldest: those that the formats' extras allow."""
_SPARKS_OWN: Final = ",".join(
    f"{group}:*"
    for group in (
        *("com.fasterxml.jackson.core", "com.github.luben", "org.apache.hadoop"),
        *("org.apache.logging.log4j", "org.apache.parquet", "org.locationtech.jts"),
        *("org.slf4j", "org.xerial.snappy"),
    )
)
"""What Delta asks for, and Spark has, whose classes come first: five sixths of what is fetched."""
CATALOG: Final = "lake"
"""The name that an Iceberg lake has in Spark's SQL."""


def settings(format: str, lake: str | Path | None = None) -> dict[str, str]:  # noqa: A002 - Spark's word
    """Settings for a session's begin, with the packages that fit the PySpark that is installed.

    ``format`` is ``delta`` or ``iceberg``; Delta's tables are ``delta.`LAKE/SCHEMA.TABLE```, and
    those of the Iceberg lake in the folder ``lake`` ``lake.SCHEMA.TABLE``. Spark fetches the
    packages at its first start into our cache. Raises `PipelineError` where none is known to fit.

        spark = tailrace.spark.session(conf=tailrace.spark.settings("iceberg", "lake"))
        spark.table("lake.shop.orders").show()
    """
    pyspark = ".".join(version("pyspark").split(".")[:2])
    if (packages := _PACKAGES.get(format, {}).get(pyspark)) is None:
        raise _unsuitable(format, pyspark)
    common = {
        "spark.jars.packages": packages,
        "spark.jars.excludes": _SPARKS_OWN,
        "spark.jars.ivy": str(own_cache("ivy")),
    }
    if format == "delta":
        return common | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    if lake is None:
        raise PipelineError("an Iceberg lake's folder has its catalogue: say which folder it is")
    catalog = f"spark.sql.catalog.{CATALOG}"
    folder = lake_path(lake).resolve()
    return common | {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.warehouse": location(folder),
        f"{catalog}.jdbc.schema-version": "V1",
    }


def _unsuitable(format: str, pyspark: str) -> PipelineError:  # noqa: A002 - as above
    """The error for a PySpark that a format has no package for: it names the version to install."""
    if (packages := _PACKAGES.get(format)) is None:
        return PipelineError(f"format is {' or '.join(_PACKAGES)}, and not {short_repr(format)}")
    return PipelineError(
        f"Spark reads {format} with PySpark {' or '.join(packages)}, and {pyspark} is installed:"
        f" {install(f'pyspark=={[*packages][-1]}.*')}"
    )
