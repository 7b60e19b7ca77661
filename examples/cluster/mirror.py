# ruff: noqa: INP001 - a script
"""`tailrace` as a Spark application: what follows the script's name is the command line.

spark-submit … mirror.py mirror /logs --into /shared/lake --format delta
"""

from pyspark.sql import SparkSession

from tailrace.cli import main

if __name__ == "__main__":
    try:
        main()
    finally:
        if spark := SparkSession.getActiveSession():
            spark.stop()
