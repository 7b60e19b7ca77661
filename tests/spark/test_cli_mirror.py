"""``tailrace mirror``: what it prints, and how it fails."""

import re
from pathlib import Path

from tailrace.cli.mirror.command import mirror

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop"


def test_summary(spark, tmp_path, capsys):
    assert mirror(str(SHOP / "mysql"), into=tmp_path / "lake", tables=("shop.reviews,orders",)) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith(f"{tmp_path / 'lake'}: 1,352 changes from 728.6 kB of logs, ")
    assert lines[1].split() == ["table", "inserts", "updates", "deletes", "rows", "size", "s"]
    assert lines[2].split()[:4] == ["shop.orders", "560", "537", "560"]
    assert lines[3].split()[:4] == ["shop.reviews", "230", "25", "205"]
    assert "tailrace: reading logs: " in err
    assert re.findall("^tailrace: (.*): column names from the CREATE TABLE", err, re.MULTILINE) == [
        "2 tables (shop.orders, shop.reviews)"
    ]
    mirror(str(SHOP / "mysql"), into=tmp_path / "lake", tables=("shop.reviews", "orders"))
    out, _ = capsys.readouterr()
    assert "nothing new" in out.splitlines()[0]
    assert out.splitlines()[2].split()[:2] == ["shop.orders", "560"]
