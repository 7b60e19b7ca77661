"""What does not fit together is said in one line."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from tailrace.errors import PipelineError
from tailrace.spark import fit, mirror


@pytest.mark.parametrize("name", ["parquet", "delta", "iceberg"])
def test_what_is_installed_fits(name):
    fit.check(name, java=True)


@pytest.mark.parametrize(
    ("package", "found", "fits"),
    [
        ("deltalake", "0.25.5", False),
        ("deltalake", "1.0.0", True),
        ("deltalake", "2.0.0rc1", False),
        ("pyspark", "3.5.6", False),
        ("pyspark", "4.2.0.dev1", True),
        ("pyspark", "5.0.0", False),
    ],
)
def test_versions(package, found, fits, monkeypatch):
    versions = {"pyspark": "4.1.4", "deltalake": "1.6.6"} | {package: found}
    monkeypatch.setattr(fit, "version", versions.__getitem__)
    if fits:
        fit.check("delta")
    else:
        with pytest.raises(PipelineError, match=rf"needs {package} from .* and {found} is"):
            fit.check("delta")


def test_what_is_missing_is_said_before_anything_runs(tmp_path, monkeypatch):
    def version(package):
        if package == "pyiceberg":
            raise PackageNotFoundError
        return "4.1.4"

    monkeypatch.setattr(fit, "version", version)
    with pytest.raises(PipelineError, match="pip install 'pyiceberg>="):
        mirror("mysql://root@127.0.0.1:1", tmp_path / "lake", format="iceberg", follow=True)
    assert not (tmp_path / "lake").exists()
