"""The examples for Declarative Pipelines and for a cluster do what their pages say."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)

from tailrace.spark.runtime.java import java_home
from tests.spark.following import read
from tests.spark.replay import differences
from tests.spark.streaming import run_all

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHOP = EXAMPLES / "shop"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""As our own session has it: half the processor's time in a process that soon ends."""
EXPECTED = json.loads((SHOP / "expected.json").read_text())["mysql"]["tables"]


class Graph(GraphElementRegistry):
    """What ``spark-pipelines`` sends to its server: the flows of the definitions, by name."""

    def __init__(self):
        self.flows = {}
        self.outputs = []

    def register_output(self, output):
        self.outputs.append(output.name)

    def register_flow(self, flow):
        self.flows[flow.name] = flow.func

    def register_sql(self, sql_text, file_path):
        raise AssertionError(f"no SQL: {file_path}: {sql_text}")


def test_a_declarative_pipeline(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_LOG", str(SHOP / "mysql"))
    graph = Graph()
    with graph_element_registration_context(graph):
        runpy.run_path(str(EXAMPLES / "pipelines" / "transformations" / "shop.py"))
    assert graph.outputs == ["order_changes", "order_counts"]
    changes = graph.flows["order_changes"]()
    assert changes.isStreaming
    writer = changes.writeStream.format("memory").queryName("order_changes")
    run_all(writer, tmp_path / "checkpoint")
    last = spark.sql("SELECT id, max_by(status, _seq) status FROM order_changes GROUP BY id")
    table = EXPECTED["shop.orders"]
    place = table["columns"].index("status")
    wanted = sorted((int(row[0]), row[place]) for row in table["rows"])
    assert sorted((row["id"], row["status"]) for row in last.collect()) == wanted
    counts = {
        (row["_op"], row["status"]): row["count"] for row in graph.flows["order_counts"]().collect()
    }
    assert counts["insert", "new"] == len(wanted)
    assert sum(counts.values()) == spark.table("order_changes").count()


@pytest.mark.slow
def test_a_cluster_in_miniature(lake):
    """Master, two workers and their executors are processes of their own."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    done = subprocess.run(
        [
            Path(sys.executable).with_name("spark-submit"),
            *("--master", "local-cluster[2,1,1024]"),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
            *("--driver-java-options", QUICK),
            *("--conf", f"spark.executor.extraJavaOptions={QUICK}"),
            EXAMPLES / "cluster" / "mirror.py",
            *("mirror", SHOP / "mysql", "--into", lake),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "changes from 728.6 kB of logs" in done.stdout
    assert "Finished task" in done.stderr
    assert "Granted executor ID" in done.stderr
    for name, table in EXPECTED.items():
        assert differences(read(lake, name), table) == []
