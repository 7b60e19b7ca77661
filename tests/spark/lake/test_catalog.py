"""A lake in a catalogue of pyiceberg's configuration."""

import shutil

import pyiceberg.catalog
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from tailrace.errors import UsageError
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.reading import LakeView
from tests.spark.lake.making import batch, reopened
from tests.spark.lake.test_tables import as_rows, expected


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """A catalogue called ``work``; gives a function that sets its warehouse."""

    def configure(warehouse):
        monkeypatch.setenv("PYICEBERG_CATALOG__WORK__TYPE", "sql")
        monkeypatch.setenv("PYICEBERG_CATALOG__WORK__URI", f"sqlite:///{tmp_path}/work.db")
        monkeypatch.setenv("PYICEBERG_CATALOG__WORK__WAREHOUSE", warehouse)
        monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())

    return configure


def test_a_schema_of_a_catalogue(tmp_path, configured):
    warehouse = tmp_path / "warehouse"
    configured(warehouse.as_uri())
    for number in range(2):
        with reopened("work.mirror", "iceberg") as store:
            store.commit(batch(store, number))
    catalog = load_catalog("work")
    names = {each[-1] for each in catalog.list_tables("mirror")}
    assert names == {"shop_orders", "shop_orders_changelog"}
    assert as_rows(catalog.load_table("mirror.shop_orders").scan().to_arrow()) == expected(
        range(20)
    )
    lake = LakeView.open("work.mirror")
    assert lake.manifest.version == 2
    assert lake.manifest.options.format == "iceberg"
    files = lake.current(lake.manifest.tables["shop.orders"])
    assert files
    assert all(file.path.startswith(str(warehouse)) for file in files)


def test_tables_of_an_older_lake_are_not_taken(tmp_path, configured):
    """They have its batches: of the new one's they would have taken none before its number."""
    configured((tmp_path / "warehouse").as_uri())
    for number in range(2):
        with reopened("work.mirror", "iceberg") as store:
            store.commit(batch(store, number))
    shutil.rmtree(tmp_path / "warehouse" / "_tailrace.mirror")
    with open_store("work.mirror", "iceberg") as store:
        store.commit(batch(store, 0))
        assert "is there already" in store.manifest.tables["shop.orders"].set_aside.reason
    assert load_catalog("work").load_table("mirror.shop_orders").scan().to_arrow().num_rows == 20


def test_a_schema_of_a_catalogue_is_a_lake_to_the_index(tmp_path, configured, run):
    """Without ``--shards``, too: this one lacks what an index needs, as its message says."""
    configured((tmp_path / "warehouse").as_uri())
    with reopened("work.mirror", "iceberg") as store:
        store.commit(batch(store, 0))
    assert "a new lake" in run("index", "work.mirror", "--into", tmp_path / "index").err


def test_a_warehouse_that_is_no_folder(configured):
    configured("s3://bucket/warehouse")
    with (
        pytest.raises(UsageError, match="warehouse is a folder"),
        open_store("work.mirror", "iceberg"),
    ):
        pass
